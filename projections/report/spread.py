"""Spread: how much a candidate's scores vary within a task and between tasks, and what more of them would show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import comb, isqrt

from ledger.event import Fact

SCALE = 1_000_000
_QUANTILE = Fraction(1_959_964, SCALE)
WIDTH = 100_000  # of the interval that more cells are counted for


class Spread(Fact):
    """A candidate's samples. Standard deviations are in millionths; None is not measured.

    ``pass_all`` has, for k = 1, 2, ..., the share of tasks that k samples would all pass, in millionths. ``more_tasks``
    is how many more tasks an interval of a tenth of a score needs, at the spread that was seen.
    """

    alias: str
    tasks: int
    samples: int
    within: int | None
    between: int | None
    pass_all: tuple[int, ...]
    more_tasks: int | None


def spread(alias: str, scores: Mapping[str, Sequence[int]], passing: int) -> Spread:
    """Return the spread of scores by task; those from ``passing`` upwards are passes.

    Variances are those of a one-way analysis of variance with unequal groups; between tasks it is never negative.
    """
    groups = [tuple(own) for own in scores.values() if own]
    total = sum(map(len, groups))
    within = _within(groups, total)
    seen = _variance([Fraction(sum(own), len(own)) for own in groups])
    between = None if seen is None else seen if within is None else max(seen - within * _inverse(groups), Fraction(0))
    fewest = min(map(len, groups), default=0)
    return Spread(
        alias=alias,
        tasks=len(groups),
        samples=total,
        within=None if within is None else _root(within),
        between=None if between is None or within is None else _root(between),
        pass_all=tuple(_pass_all(groups, passing, k) for k in range(1, fewest + 1)),
        more_tasks=None if seen is None else max(_needed(seen) - len(groups), 0),
    )


def _within(groups: Sequence[Sequence[int]], total: int) -> Fraction | None:
    if total <= len(groups):
        return None
    squares = [(Fraction(sum(own), len(own)) - one) ** 2 for own in groups for one in own]
    return sum(squares, Fraction(0)) / (total - len(groups))


def _inverse(groups: Sequence[Sequence[int]]) -> Fraction:
    """Return the mean share that a task's mean has of the variance within."""
    return Fraction(sum((Fraction(1, len(own)) for own in groups), Fraction(0))) / len(groups)


def _variance(numbers: Sequence[Fraction]) -> Fraction | None:
    if len(numbers) < 2:  # noqa: PLR2004 - one number has no spread
        return None
    mean = sum(numbers, Fraction(0)) / len(numbers)
    return sum(((one - mean) ** 2 for one in numbers), Fraction(0)) / (len(numbers) - 1)


def _needed(variance: Fraction) -> int:
    """Return how many tasks an interval of the width wanted needs."""
    need = variance * (2 * _QUANTILE / WIDTH) ** 2
    return -(-need.numerator // need.denominator)


def _pass_all(groups: Sequence[Sequence[int]], passing: int, k: int) -> int:
    """Return the share of tasks that k of their samples all pass, estimated without bias from n samples."""
    shares = [Fraction(comb(sum(one >= passing for one in own), k), comb(len(own), k)) for own in groups]
    return round(sum(shares, Fraction(0)) / len(shares) * SCALE)


def _root(variance: Fraction) -> int:
    return (isqrt(4 * variance.numerator // variance.denominator) + 1) // 2
