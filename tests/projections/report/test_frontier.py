"""The frontier and the area under it, by hand and by fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.report.frontier import at, improvement, upper_hull

POINTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1_000)), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("points", "hull"),
    [
        ([], []),
        ([(1, 5)], [(1, 5)]),
        ([(1, 5), (1, 7)], [(1, 7)]),
        ([(1, 5), (2, 5)], [(1, 5)]),
        ([(1, 5), (2, 4)], [(1, 5)]),
        ([(0, 0), (1, 1), (2, 2)], [(0, 0), (2, 2)]),
        ([(0, 0), (1, 2), (2, 3)], [(0, 0), (1, 2), (2, 3)]),
        ([(0, 0), (1, 1), (2, 4)], [(0, 0), (2, 4)]),
        ([(2, 4), (0, 0), (1, 3)], [(0, 0), (1, 3), (2, 4)]),
    ],
)
def test_the_hull_by_hand(points: list[tuple[int, int]], hull: list[tuple[int, int]]) -> None:
    assert upper_hull(points) == hull


@given(POINTS)
def test_a_hull_is_above_every_point_and_only_goes_up_ever_less(points: list[tuple[int, int]]) -> None:
    hull = upper_hull(points)
    for cost, score in points:
        reached = at(hull, cost)
        assert reached is not None
        assert reached >= score
    slopes = [Fraction(b[1] - a[1], b[0] - a[0]) for a, b in itertools.pairwise(hull)]
    assert all(slope > 0 for slope in slopes)
    assert slopes == sorted(set(slopes), reverse=True)


@pytest.mark.parametrize(
    ("points", "least", "most", "area"),
    [
        ([(0, 400), (10, 800)], 0, 10, 600),
        ([(0, 400)], 0, 10, 400),
        ([(0, 400), (5, 800)], 0, 10, 700),
        ([(5, 800)], 0, 10, 400),  # below its cheapest point it reaches nothing
        ([(0, 0), (20, 800)], 5, 15, 400),
        ([(0, 0), (20, 800)], 0, 10, 200),
        ([(0, 400), (10, 800)], 10, 10, None),
        ([], 0, 10, None),
        ([(0, 1), (2, 2)], 0, 2, 2),  # 1.5, rounded once
    ],
)
def test_the_area_by_hand(points: list[tuple[int, int]], least: int, most: int, area: int | None) -> None:
    assert improvement(points, least, most) == area


@given(POINTS, POINTS)
def test_more_points_never_reach_less(points: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    one, other = improvement(points, 0, 50), improvement([*points, *more], 0, 50)
    assert one is not None
    assert other is not None
    assert other >= one


def test_a_hull_reaches_nothing_below_its_cheapest_point_and_is_level_beyond_its_last() -> None:
    hull = [(2, 10), (4, 20)]
    assert [at(hull, cost) for cost in (1, 2, 3, 4, 9)] == [None, 10, 15, 20, 20]
    assert at([], 5) is None


@pytest.mark.parametrize(
    ("points", "least", "most", "area"),
    [
        ([(10, 0), (30, 800)], 15, 25, 400),  # from 200 to 600
        ([(10, 100), (30, 900)], 15, 20, 400),  # from 300 to 500
        ([(0, 100), (2, 700)], 5, 15, 700),  # level from before the range on
    ],
)
def test_a_range_that_cuts_the_hull_by_hand(points: list[tuple[int, int]], least: int, most: int, area: int) -> None:
    assert improvement(points, least, most) == area
