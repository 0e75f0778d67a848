"""Scoreboard: each candidate's mean score and cost over the cells that count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ledger.event import Fact
from ledger.families.cells import Outcome
from ledger.money import NanoUSD
from projections.exact import mean

VERSION = "scoreboard@1"


class Standing(Fact):
    """A candidate's row. ``mean`` is in millionths, None when no cell counts; ``cost`` is None when it is unknown."""

    alias: str
    counted: int
    excluded: int
    reasons: dict[str, int]
    mean: int | None
    cost: NanoUSD | None
    constant: bool


def scoreboard(outcomes: Iterable[Outcome], aliases: Sequence[str]) -> tuple[Standing, ...]:
    """Fold cells to one row a candidate. A cell without a score lowers ``counted``, never the mean.

    The cost is that of the candidate's own tokens in all of its cells, counted or not.
    """
    rows: dict[str, list[Outcome]] = {alias: [] for alias in aliases}
    for outcome in outcomes:
        rows[outcome.alias].append(outcome)
    return tuple(_standing(alias, cells) for alias, cells in rows.items())


def _standing(alias: str, cells: Sequence[Outcome]) -> Standing:
    scores = [cell.score for cell in cells if cell.score is not None]
    reasons = Counter(cell.reason for cell in cells if cell.reason is not None)
    costs = [cell.cost for cell in cells if cell.cost is not None]
    return Standing(
        alias=alias,
        counted=len(scores),
        excluded=len(cells) - len(scores),
        reasons={reason: reasons[reason] for reason in sorted(reasons)},
        mean=mean(sum(scores), len(scores)),
        cost=sum(costs) if len(costs) == len(cells) else None,
        constant=len(scores) > 1 and len(set(scores)) == 1,
    )
