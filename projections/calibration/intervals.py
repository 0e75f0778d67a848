"""Intervals that few observations allow: exact ones of shares, and Student's of means. Integers in, integers out.

A share has its Clopper-Pearson interval (Biometrika 26, 1934), computed on integers and rounded outwards once, to
millionths. A mean has Student's, with tabulated quantiles and an integer root, rounded outwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb, isqrt

from ledger.event import Fact
from ledger.families.judging import SCALE, Scaled

TAIL = (1, 40)  # 2.5% on each side
# Student's 97.5% quantile in millionths by degrees of freedom; between two rows, the one of fewer degrees is taken.
_STUDENT = {
    **dict(
        enumerate(
            (
                *(12_706_205, 4_302_653, 3_182_447, 2_776_446, 2_570_582, 2_446_912, 2_364_625, 2_306_005, 2_262_158),
                *(2_228_139, 2_200_986, 2_178_813, 2_160_369, 2_144_787, 2_131_450, 2_119_906, 2_109_816, 2_100_923),
                *(2_093_025, 2_085_964, 2_079_614, 2_073_874, 2_068_658, 2_063_899, 2_059_539, 2_055_530, 2_051_831),
                *(2_048_408, 2_045_230, 2_042_273),
            ),
            1,
        )
    ),
    40: 2_021_076,
    60: 2_000_298,
    120: 1_979_931,
}


class Share(Fact):
    """``count`` of ``of``, and its exact 95% interval, in millionths."""

    count: int
    of: int
    low: Scaled
    high: Scaled


class Interval(Fact):
    """A 95% interval in the unit of what it is of; ``undefined`` says why there is none."""

    low: int | None = None
    high: int | None = None
    undefined: str = ""


def share(count: int, of: int) -> Share | None:
    """Return a share with its exact 95% interval; None when it is of nothing."""
    if not of:
        return None
    # Below the low end, so many or more are too improbable; above the high end, so few or fewer.
    low = 0 if count == 0 else _last(lambda p: _rare(_tail(range(count, of + 1), of, p), of))
    high = SCALE if count == of else SCALE - _last(lambda p: _rare(_tail(range(count + 1), of, SCALE - p), of))
    return Share(count=count, of=of, low=low, high=high)


def mean_interval(numbers: Sequence[int]) -> Interval:
    """Return Student's 95% interval of the mean of these numbers, in their unit, rounded outwards."""
    count, total = len(numbers), sum(numbers)
    if count < 2:  # noqa: PLR2004 - one number has no spread
        return Interval(undefined="fewer than two were counted")
    spread = count * sum(number * number for number in numbers) - total * total
    if not spread:
        return Interval(undefined="all are equal, so nothing is known of their spread")
    quantile = _STUDENT[max(degrees for degrees in _STUDENT if degrees < count)]
    half = isqrt(quantile**2 * spread // (count**2 * (count - 1) * SCALE**2)) + 1
    return Interval(low=total // count - half, high=-(-total // count) + half)


def _tail(counts: range, of: int, millionths: int) -> int:
    """Return the probability of these counts at a rate, times a million to the power ``of``: an integer."""
    other = SCALE - millionths
    return sum(comb(of, count) * millionths**count * other ** (of - count) for count in counts)


def _rare(tail: int, of: int) -> bool:
    rare: bool = tail * TAIL[1] <= TAIL[0] * SCALE**of
    return rare


def _last(holds: Callable[[int], bool]) -> int:
    """Return the greatest rate in millionths at which it holds; it holds at 0 and stops holding once."""
    least, most = 0, SCALE
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if holds(middle) else (least, middle - 1)
    return least
