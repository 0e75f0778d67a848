"""Two calibrations: judge, rubric and labels, what the judge said of the same traces, and how they agree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from commands.comparing import inputs
from commands.comparing.sections import Row, Section, rows, shortened, words
from commands.perform.credentials import redactor_for
from commands.perform.replaying import Replaying
from commands.replaying.calibrations import Recomputed, labels_before, recomputed, recorded_setup
from commands.replaying.runs import PlanIncomplete
from ledger.differences import differences
from ledger.families import providers

if TYPE_CHECKING:
    from commands.comparing.sides import Side
    from ledger.families.judging import CalibrationPublished, LabelRecorded


def compare_calibrations(one: Side, other: Side) -> list[Section]:
    """Return the sections in which two calibrations are compared."""
    made = [_made(side) for side in (one, other)]
    started_from = [_inputs(side, again) for side, again in zip((one, other), made, strict=True)]
    axes = [{axis.axis: inputs.plain(axis) for axis in again.calibration.axes} for again in made]
    names = [{"calibration": again.calibration.id, "setup": again.bench.judge.setup.id} for again in made]
    return [
        Section("inputs", "Inputs that differ", rows(differences(started_from[0], started_from[1]))),
        Section("answers", "Judgments that differ of the same trace", list(_judgments(*made))),
        Section("agreement", "How judge and labels agree", rows(differences(axes[0], axes[1]))),
        Section("names", "Names that differ", rows(differences(names[0], names[1])), said=True),
    ]


def _made(side: Side) -> Recomputed:
    record = side.unit.record
    known = cast("CalibrationPublished", record.event)
    setup = recorded_setup(side.journal, known.project, known.setup)
    if setup is None:
        raise PlanIncomplete(known.calibration, f"the judge setup {known.setup}")
    perform = Replaying(side.journal, redactor_for(side.journal.state(providers.FAMILY)))
    return asyncio.run(recomputed(side.journal, side.endpoints, perform, record, setup))


def _inputs(side: Side, made: Recomputed) -> dict[str, Any]:
    bench, journal = made.bench, side.journal
    keys = {item.subject: item.key for item in bench.sampled}
    labels: dict[str, Any] = {}
    in_force = labels_before(journal, bench.project, bench.judge.setup.id, side.unit.record.seq)
    for (subject, axis), record in in_force.items():
        label = cast("LabelRecorded", record.event)
        why = None if label.rationale is None else journal.blob(label.rationale.blob).decode(errors="replace")
        if subject in keys:
            labels.setdefault(keys[subject], {})[axis] = {"score": label.score, "rationale": why}
    return {
        "judge": inputs.model(bench.judge.endpoint) | {"rubric": inputs.plain(bench.judge.setup.rubric)},
        "labels": labels,
        "traces": {item.key: item.subject for item in bench.sampled},
    }


def _judgments(one: Recomputed, other: Recomputed) -> Iterator[Row]:
    left, right = _said(one), _said(other)
    for key in left:
        if key in right:
            for found in differences(left[key], right[key]):
                shown = shortened(words(found.left), words(found.right))
                yield {"trace": key, "pointer": found.pointer, "a": shown[0], "b": shown[1]}


def _said(made: Recomputed) -> Mapping[str, Any]:
    proposals = made.bench.proposals
    return {
        item.key: {
            "problem": proposals[item.subject].problem,
            "scores": {said.axis: inputs.plain(said) for said in proposals[item.subject].scores or ()},
        }
        for item in made.bench.sampled
    }
