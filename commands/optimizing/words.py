"""An optimization's result in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ledger.families import judging

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from ledger.families.cells import Outcome
    from ledger.journal import Journal
    from ledger.money import NanoUSD
    from projections.report import Line, Routed

NOT_MEASURED = "not-measured"
UNKNOWN = "unknown"


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
    }


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
