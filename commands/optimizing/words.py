"""An optimization's result in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isqrt
from typing import TYPE_CHECKING

from ledger.families import judging
from projections.policy.methods import in_words as method

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from ledger.families.cells import Outcome
    from ledger.journal import Journal
    from ledger.money import NanoUSD
    from projections.policy import Policy
    from projections.report import Difference, Line, Report, Routed, Spread

__all__ = [
    "NOT_MEASURED",
    "UNKNOWN",
    "difference",
    "dollars",
    "exclusion",
    "expectations",
    "labels",
    "line",
    "method",
    "routes",
    "score",
    "signed",
    "spread",
]

NOT_MEASURED = "not-measured"
UNKNOWN = "unknown"
FEW = 200


def score(millionths: int | None) -> str:
    """Return a score as a decimal with six places."""
    return NOT_MEASURED if millionths is None else f"{millionths // 1_000_000}.{millionths % 1_000_000:06d}"


def dollars(nano: NanoUSD | None) -> str:
    """Return an amount as a plain decimal."""
    return UNKNOWN if nano is None else f"{nano // 1_000_000_000}.{nano % 1_000_000_000:09d}"


def line(one: Line) -> dict[str, str | int]:
    """Return a line of a report."""
    return {
        "name": one.name,
        "counted": one.counted,
        "excluded": one.excluded,
        "mean": score(one.mean),
        "low": score(one.low),
        "high": score(one.high),
        "cost_usd": dollars(one.cost),
        "passed": one.passed,
        "calls": one.calls,
    }


def signed(millionths: int | None) -> str:
    """Return a difference as a decimal with its sign."""
    if millionths is None:
        return NOT_MEASURED
    return f"{'-' if millionths < 0 else '+'}{score(abs(millionths))}"


def difference(one: Difference) -> dict[str, str | int]:
    """Return how two ways differ, and whether so many tasks show that they do."""
    if one.undefined:
        return {"name": one.name, "value": "undefined", "why": one.undefined}
    return {
        "name": one.name,
        "value": signed(one.value),
        "low": signed(one.low),
        "high": signed(one.high),
        "shown": "yes" if one.shown else "no",
    }


def spread(one: Spread) -> dict[str, str | int]:
    """Return how much a candidate's scores vary, and how many more tasks an interval of a tenth needs."""
    return {
        "alias": one.alias,
        "tasks": one.tasks,
        "samples": one.samples,
        "within": score(one.within),
        "between": score(one.between),
        "pass_all": " ".join(score(share) for share in one.pass_all) or NOT_MEASURED,
        "more_tasks": NOT_MEASURED if one.more_tasks is None else one.more_tasks,
    }


def expectations(report: Report, policy: Policy) -> Iterator[str]:
    """Say what so many tasks can and can't show."""
    yield f"fitted on {report.fit_tasks} tasks, measured on {report.tasks} tasks of {report.lineages} lineages"
    if policy.kept:
        yield "routing did not pay on left-out fit tasks, so the incumbent keeps every request"
    gain = report.difference("perf-gain")
    if gain.low is not None and gain.high is not None and gain.low < gain.high and not gain.shown:
        width = (gain.high - gain.low + 1) // 2
        yield (
            f"no difference in quality between routed and incumbent is shown: it could be seen from about "
            f"{score(width)} on, and {signed(gain.value)} was measured"
        )
    if report.fit_tasks < FEW:
        yield (
            f"with {report.fit_tasks} fit tasks a candidate's mean is off by up to about "
            f"{score(_off(report.fit_tasks))} by chance; expect routing to gain little until there are hundreds"
        )


def _off(tasks: int) -> int:
    """Return 1.96 standard errors of a share of a half, in millionths."""
    return isqrt(1_959_964**2 // (4 * max(tasks, 1)))


def routes(routed: Sequence[Routed]) -> list[tuple[str, int]]:
    """Return how many held-out tasks go to each candidate."""
    return sorted(Counter(one.alias for one in routed).items())


def exclusion(outcome: Outcome) -> dict[str, str | int]:
    """Return an excluded cell."""
    return {
        "alias": outcome.alias,
        "task": outcome.task,
        "part": outcome.part,
        "reason": str(outcome.reason),
        "problem": outcome.problem,
    }


def labels(journal: Journal, plan: Plan) -> Iterator[str]:
    """Say when nobody labelled what this judge judges, and when all labels are the same."""
    state: judging.Judging = journal.state(judging.FAMILY)
    setup = plan.scene.judge.setup
    for axis in setup.rubric.names:
        scores = [
            label.score
            for (project, named, _, of), label in state.labels.items()
            if (project, named, of) == (plan.request.project, setup.id, axis)
        ]
        if not scores:
            yield (
                f"no labels: nobody's labels for {axis} were compared with this judge, so its scores are taken at its "
                "word; `exp config judge calibrate` compares them"
            )
        if len(scores) > 1 and len(set(scores)) == 1:
            yield (
                f"constant labels: all {len(scores)} labels for {axis} are {judging.in_words(scores[0])}, "
                "so the calibration says nothing about how well the judge tells good from bad"
            )
