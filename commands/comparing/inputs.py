"""Inputs: all that somebody decided or recorded for a result, as one JSON value; nothing that follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from commands.replaying.calibrations import TRACE, labels_before
from commands.replaying.endpoints import base_url_of
from commands.replaying.imports import imports_of, sources_of
from ledger import canonical
from ledger.differences import ABSENT, Difference, differences
from ledger.families import traces
from ledger.families.budget import BudgetSet
from ledger.families.judging import LabelRecorded, Setup
from ledger.families.providers import PRICES
from ledger.families.traces import InputExcluded

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from commands.readings import Build
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal
    from ledger.recorded import Recorded

Json = dict[str, Any]


def of_run(journal: Journal, plan: Plan, started: Recorded) -> Json:
    """Return what an optimization started from."""
    inputs = plan.started.inputs
    judge = plan.scene.judge
    return {
        "budget": budget_before(journal, started.seq),
        "build": of_build(journal, plan.build) | {"embedder": model(plan.embedder)},
        "candidates": {one.alias: model(one, priced=True) for one in plan.endpoints},
        "incumbent": inputs.incumbent,
        "judge": model(judge.endpoint) | {"rubric": plain(judge.setup.rubric)},
        "labels": labels(journal, plan.build, judge.setup, started.seq),
        "maximum_model_calls": inputs.maximum_model_calls,
        "samples": sorted({part.cell.sample for part in plan.parts}),
        "price_of_quality": inputs.price,
        "target_cost": inputs.target_cost,
        "target_quality": inputs.target_quality,
        "tolerance": inputs.tolerance,
        "versions": list(inputs.versions),
        "world_model": model(plan.scene.world_model),
    }


def of_build(journal: Journal, build: Build) -> Json:
    """Return what a build was made of; traces are there by digest."""
    fit, held_out = build.manifest.wanted
    return {
        "excluded": _excluded(journal, build),
        "fit_tasks": fit,
        "held_out_tasks": held_out,
        "rule": build.manifest.rule.partition(";")[0],
        "traces": members(build),
    }


def members(build: Build) -> dict[str, str]:
    """Return the digest of each trace by its label; where a label is there twice, the digest sets it apart."""
    found: dict[str, str] = {}
    for member in build.manifest.members:
        found[member.label if member.label not in found else f"{member.label} {member.trace}"] = member.trace
    return found


def _excluded(journal: Journal, build: Build) -> Json:
    found: Json = {}
    for source in sources_of(imports_of(journal, build.completed), build.completed.source):
        for record in journal.events(InputExcluded, stream=f"export:{source}"):
            event = record.event
            if isinstance(event, InputExcluded):
                detail = None if event.detail is None else journal.blob(event.detail.blob).decode(errors="replace")
                found.setdefault(event.place, {})[event.reason] = {"count": event.count, "detail": detail}
    return found


def budget_before(journal: Journal, seq: int) -> int | None:
    """Return the ceiling that was in force at a position; None for the default."""
    set_ = [record.event for record in journal.events(BudgetSet) if record.seq < seq]
    return set_[-1].ceiling if set_ and isinstance(set_[-1], BudgetSet) else None


def labels(journal: Journal, build: Build, setup: Setup, seq: int) -> Json:
    """Return a person's labels that were in force at a position, by the label of their trace."""
    names = {member.trace: member.label for member in build.manifest.members}
    found: Json = {}
    for (subject, axis), record in labels_before(journal, build.project, setup.id, seq).items():
        event = record.event
        if isinstance(event, LabelRecorded):
            trace = subject.removeprefix(TRACE)
            why = None if event.rationale is None else journal.blob(event.rationale.blob).decode(errors="replace")
            found.setdefault(names.get(trace, trace), {})[axis] = {"score": event.score, "rationale": why}
    return found


def model(endpoint: Endpoint, *, priced: bool = False) -> Json:
    """Return what decides a model's answers and, for a candidate, its prices."""
    able = plain(endpoint.capabilities)
    if not priced:
        able = {name: value for name, value in able.items() if name not in PRICES}
    return {
        "base_url": base_url_of(endpoint),
        "capabilities": able,
        "model": endpoint.model.model,
        "provider": endpoint.connection.provider,
        "served_model_id": endpoint.model.served_model_id,
    }


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a fact as plain JSON."""
    return msgspec.json.decode(canonical.encode(value))


def compared(one: Json, other: Json, journals: tuple[Journal, Journal]) -> Iterator[Difference]:
    """Yield where two inputs differ; a trace that differs is looked into, one that only one side has says its task."""
    for found in differences(one, other):
        if not found.pointer.rpartition("/")[0].endswith("/traces"):
            yield found
            continue
        left, right = (
            value if value is ABSENT else _trace(journal, str(value))
            for journal, value in zip(journals, found[1:], strict=True)
        )
        if isinstance(left, dict) and isinstance(right, dict):
            yield from _inside(found.pointer, left, right)
        else:
            yield Difference(
                found.pointer, *(side["task"] if isinstance(side, dict) else side for side in (left, right))
            )


def _inside(pointer: str, left: Json, right: Json) -> Iterator[Difference]:
    """Yield where two traces differ; what they were read from differs with them, and is named if nothing else is."""
    sources = left.pop("source"), right.pop("source")
    inside = list(differences(left, right, pointer))
    yield from inside or [Difference(f"{pointer}/source", *sources)]


def _trace(journal: Journal, digest: str) -> Json:
    shown: Json = plain(traces.decoded(journal.blob(digest)))
    return shown
