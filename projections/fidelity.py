"""Fidelity: how near answers for an environment come to what was recorded, beside answers that need no model.

Two measures, both on integers: the share of answers that are equal, and the overlap of words, which is twice the words
that both have over all the words of both. Two texts without a word overlap wholly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from ledger.event import Fact

VERSION = "fidelity@1"
SCALE = 1_000_000

Pair = tuple[str, str]  # what was recorded, and what was answered


class Nearness(Fact):
    """How many answers were compared, how many are equal, and their mean overlap in millionths; None of nothing."""

    counted: int
    equal: int
    overlap: int | None


def overlap(one: str, other: str) -> Fraction:
    """Return the overlap of the words of two texts, from 0 to 1."""
    left, right = Counter(one.split()), Counter(other.split())
    whole = left.total() + right.total()
    return Fraction(2 * (left & right).total(), whole) if whole else Fraction(1)


def nearness(pairs: Sequence[Pair]) -> Nearness:
    """Return how near answers come to what was recorded; the mean is rounded once, a half to even."""
    total = sum((overlap(recorded, answered) for recorded, answered in pairs), Fraction(0))
    return Nearness(
        counted=len(pairs),
        equal=sum(recorded == answered for recorded, answered in pairs),
        overlap=round(total / len(pairs) * SCALE) if pairs else None,
    )
