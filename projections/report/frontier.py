"""The frontier of quality over cost, and the area under it. Integers in, integers out, rounded once.

AIQ, the average improvement in quality of RouterBench (arXiv 2403.12031): the area under the non-decreasing upper hull
of what a router reaches, over the range of cost of the single candidates, divided by that range.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

Place = tuple[int, int]  # cost, score


def upper_hull(points: Iterable[Place]) -> list[Place]:
    """Return the points of the non-decreasing upper hull, from the cheapest on."""
    best: dict[int, int] = {}
    for cost, score in points:
        best[cost] = max(score, best.get(cost, score))
    hull: list[Place] = []
    for point in sorted(best.items()):
        if hull and point[1] <= hull[-1][1]:
            continue
        while len(hull) > 1 and _below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _below(left: Place, middle: Place, right: Place) -> bool:
    """Tell whether the middle point isn't above the line from left to right."""
    return (middle[1] - left[1]) * (right[0] - left[0]) <= (right[1] - left[1]) * (middle[0] - left[0])


def at(hull: Sequence[Place], cost: int) -> Fraction | None:
    """Return the score that a hull reaches at a cost; None below its cheapest point."""
    if not hull or cost < hull[0][0]:
        return None
    for (left, low), (right, high) in itertools.pairwise(hull):
        if left <= cost <= right:
            return low + Fraction((high - low) * (cost - left), right - left)
    return Fraction(hull[-1][1])


def improvement(points: Iterable[Place], least: int, most: int) -> int | None:
    """Return the AIQ of what these points reach between two costs, in their unit; None without a range or a point.

    Below its cheapest point a router reaches nothing; callers add what a constant choice of the cheapest reaches.
    """
    hull = upper_hull(points)
    if most <= least or not hull:
        return None
    twice = Fraction(2 * hull[-1][1] * max(most - max(hull[-1][0], least), 0))  # level beyond the last point
    for (left, low), (right, high) in itertools.pairwise(hull):
        first, last = max(left, least), min(right, most)
        if (first, last) == (left, right):
            twice += (low + high) * (right - left)
        elif first < last:
            slope = Fraction(high - low, right - left)
            twice += (2 * low + slope * (first + last - 2 * left)) * (last - first)
    area = twice / (most - least)
    return (area.numerator + area.denominator) // (2 * area.denominator)
