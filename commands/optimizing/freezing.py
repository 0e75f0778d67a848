"""Freezing: from closed cells to scoreboard, policy and report. First runs and replays come through here alike."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from commands.optimizing.planning import Plan
from commands.optimizing.refusals import IncumbentUncovered, TargetUnmet
from ledger import canonical, digests
from ledger.event import Blobs
from ledger.families.cells import Outcome
from ledger.families.policies import FreezePolicy, Inputs, PolicyFrozen, ReportPublished
from projections import features, policy, report, scoreboard
from projections.exact import mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ledger.money import NanoUSD

JSON = "application/json"


class Frozen(NamedTuple):
    """All that an optimization results in."""

    standings: tuple[scoreboard.Standing, ...]
    policy: policy.Policy
    report: report.Report


def freeze(plan: Plan, outcomes: Sequence[Outcome], stand_ins: Collection[str]) -> Frozen:
    """Return the result of closed cells; IncumbentUncovered when there is nothing to compare with."""
    request = plan.request
    fit = [outcome for outcome in outcomes if outcome.part == "fit"]
    _refuse_uncovered(plan, fit)
    frozen = turned(_evidence(plan, fit), request.turned.target_quality, request.turned.target_cost)
    held = [task for task in plan.build.tasks if task.part == "held-out"]
    vectors = features.task_features([task.text for task in held], plan.build.tools)
    names = [task.id for task in held]
    return measured(frozen, request.candidates, names, vectors, outcomes, tuple(_stand_ins(stand_ins)))


def turned(base: policy.Policy, quality: int | None, cost: NanoUSD | None) -> policy.Policy:
    """Return the frozen policy with its dial: the one that was given, or the one that meets a target on fit tasks."""
    frozen = policy.frozen(base)
    if quality is None and cost is None:
        return frozen
    met = policy.meeting(frozen.curve, quality=quality, cost=cost)
    if met is None:
        raise TargetUnmet(frozen.curve, quality, cost)
    return policy.at_target(frozen, met)


def measured(
    frozen: policy.Policy,
    candidates: tuple[str, ...],
    names: Sequence[str],
    vectors: NDArray[np.int8],
    outcomes: Sequence[Outcome],
    more: tuple[str, ...] = (),
) -> Frozen:
    """Return a frozen policy with its report on held-out tasks of these names and features."""
    course = policy.course(frozen, vectors)
    basis = report.Basis(
        policy=frozen.id,
        incumbent=frozen.incumbent,
        candidates=candidates,
        uncovered=frozen.uncovered,
        degenerate=(*frozen.notes, *more),
        fit_tasks=len(frozen.rows),
        course={dial: dict(zip(names, aliases, strict=True)) for dial, aliases in course.items()},
    )
    routes = dict(zip(names, policy.routes(frozen, vectors), strict=True))
    return Frozen(scoreboard.scoreboard(outcomes, candidates), frozen, report.report(basis, outcomes, routes))


def freezing(plan: Plan, frozen: Frozen, blobs: Blobs) -> FreezePolicy:
    """Return the command that publishes a result."""
    common = {"project": plan.request.project, "run": plan.run, "policy": frozen.policy.id}
    return FreezePolicy(
        policy=PolicyFrozen(**common, content=blobs.put(policy.encode(frozen.policy), JSON)),
        report=ReportPublished(
            **common, report=frozen.report.id, content=blobs.put(canonical.encode(frozen.report), JSON)
        ),
    )


def _refuse_uncovered(plan: Plan, fit: Sequence[Outcome]) -> None:
    own = [outcome for outcome in fit if outcome.alias == plan.request.incumbent]
    if any(outcome.score is not None for outcome in own):
        return
    reasons: dict[str, int] = {}
    for outcome in own:
        reasons[str(outcome.reason)] = reasons.get(str(outcome.reason), 0) + 1
    raise IncumbentUncovered(plan.request.incumbent, len(own), reasons)


def _evidence(plan: Plan, fit: Sequence[Outcome]) -> policy.Policy:
    """Return a policy that has yet to learn how bold to be for each candidate."""
    request = plan.request
    tasks = [task for task in plan.build.tasks if task.part == "fit"]
    vectors = features.task_features([task.text for task in tasks], plan.build.tools)
    by_place: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in fit:
        by_place.setdefault((outcome.task, outcome.alias), []).append(outcome)
    candidates = tuple(
        _candidate(endpoint.alias, endpoint.digest, [one for one in fit if one.alias == endpoint.alias])
        for endpoint in plan.endpoints
    )
    rows = tuple(
        policy.Row(
            task=task.id,
            lineage=task.lineage,
            vector=policy.packed(vector),
            scores=tuple(_score(by_place[task.id, alias]) for alias in request.candidates),
            evidence=tuple(_seen(by_place[task.id, alias]) for alias in request.candidates),
        )
        for task, vector in zip(tasks, vectors, strict=True)
    )
    return policy.Policy(
        version=policy.VERSION,
        features=features.VERSION,
        project=request.project,
        build=plan.build.id,
        setup=plan.scene.judge.setup.id,
        incumbent=request.incumbent,
        dial=_dial(plan.started.inputs),
        candidates=candidates,
        rows=rows,
        notes=tuple(notes_on(request.incumbent, candidates, fit)),
    )


def _dial(inputs: Inputs) -> policy.Dial:
    if inputs.price is not None:
        return policy.Price(nano_usd=inputs.price)
    return policy.Tolerance(millionths=inputs.tolerance)


def _score(samples: Sequence[Outcome]) -> int | None:
    scores = [outcome.score for outcome in samples if outcome.score is not None]
    return mean(sum(scores), len(scores))


def _seen(samples: Sequence[Outcome]) -> str:
    """Return the digest of what was seen; of several samples one for all."""
    seen = [outcome.evidence for outcome in samples]
    return seen[0] if len(seen) == 1 else digests.content_digest(canonical.encode(seen))


def _candidate(alias: str, endpoint: str, fit: Sequence[Outcome]) -> policy.Candidate:
    counted = [outcome for outcome in fit if outcome.score is not None]
    costs = [outcome.cost for outcome in counted if outcome.cost is not None]
    return policy.Candidate(
        alias=alias,
        endpoint=endpoint,
        cost=sum(costs) if len(costs) == len(counted) else None,
        cells=len(counted),
    )


def notes_on(incumbent: str, candidates: Sequence[policy.Candidate], fit: Sequence[Outcome]) -> Iterator[str]:
    """Say what makes the fit evidence say less than it seems to."""
    scores = {outcome.score for outcome in fit if outcome.score is not None}
    if len(scores) == 1:
        yield "constant scores: every fit cell that counts has the same score, so only cost tells candidates apart"
    own = next(one for one in candidates if one.alias == incumbent)
    others = [one for one in candidates if one.alias != incumbent and one.cost is not None and one.cells]
    if own.cost is None or not any((one.cost or 0) * own.cells < own.cost * one.cells for one in others):
        yield "no cheaper candidate: none is known to cost less than the incumbent, so every request stays with it"
    for one in candidates:
        if not one.cells:
            yield f"no evidence: candidate {one.alias} has no fit cell that counts, so no request goes to it"
        elif one.cost is None:
            yield f"unpriced: what candidate {one.alias} cost is unknown, so it never counts as cheaper"


def _stand_ins(fingerprints: Collection[str]) -> Iterator[str]:
    """Say that answers didn't come from models."""
    for fingerprint in sorted(fingerprints):
        yield f"stand-in: answers came from {fingerprint}, which is no model, so scores say nothing about real ones"
