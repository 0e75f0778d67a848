from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.families.judging import SCALE
from projections.calibration.agreement import Confusion, confusion, gwet, kappa, matthews

HALF = SCALE // 2
scores = st.sampled_from((0, HALF, SCALE))
pairs_of_scores = st.lists(st.tuples(scores, scores), max_size=30)


def counts(pass_pass: int, pass_fail: int, fail_pass: int, fail_fail: int) -> Confusion:
    return Confusion(pass_pass=pass_pass, pass_fail=pass_fail, fail_pass=fail_pass, fail_fail=fail_fail)


def pairs_of(table: Confusion) -> list[tuple[int, int]]:
    return (
        [(SCALE, SCALE)] * table.pass_pass
        + [(SCALE, 0)] * table.pass_fail
        + [(0, SCALE)] * table.fail_pass
        + [(0, 0)] * table.fail_fail
    )


@pytest.mark.parametrize(
    ("table", "cohen", "correlation", "first_order"),
    [
        # Cohen's coefficient of 20, 5, 10, 15 is a textbook's 0.4.
        (counts(20, 5, 10, 15), 400_000, 408_248, 405_941),
        (counts(10, 0, 0, 10), SCALE, SCALE, SCALE),
        (counts(0, 10, 10, 0), -SCALE, -SCALE, -SCALE),
        (counts(45, 15, 25, 15), 130_435, 133_631, 266_055),
    ],
)
def test_coefficients_are_those_of_the_definitions(
    table: Confusion, cohen: int, correlation: int, first_order: int
) -> None:
    assert kappa(pairs_of(table)).value == cohen
    assert matthews(table).value == correlation
    assert gwet(table).value == first_order


def test_a_paradox_of_kappa_is_told_apart_by_the_first_order_coefficient() -> None:
    skewed = counts(118, 5, 2, 0)
    cohen, first_order = kappa(pairs_of(skewed)).value, gwet(skewed).value
    assert cohen is not None
    assert first_order is not None
    assert cohen < 0
    assert first_order > 900_000


def test_quadratic_weights_count_how_far_apart_two_scores_are() -> None:
    near = kappa([(0, 0), (SCALE, HALF), (SCALE, SCALE), (0, 0)]).value
    far = kappa([(0, 0), (SCALE, 0), (SCALE, SCALE), (0, 0)]).value
    assert near == 857_143
    assert far is not None
    assert far < (near or 0)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (counts(0, 0, 3, 2), "no label passes"),
        (counts(3, 2, 0, 0), "no label fails"),
        (counts(0, 3, 0, 2), "no judge passes"),
        (counts(3, 0, 2, 0), "no judge fails"),
    ],
)
def test_a_correlation_without_both_sides_is_undefined_with_its_reason(table: Confusion, reason: str) -> None:
    assert matthews(table).value is None
    assert matthews(table).undefined == reason


def test_nothing_counted_defines_no_coefficient() -> None:
    nothing = counts(0, 0, 0, 0)
    assert kappa([]).undefined == gwet(nothing).undefined == "nothing was counted"
    assert kappa([(HALF, HALF)] * 4).undefined == "labels and judge gave one and the same score throughout"


@given(pairs_of_scores)
def test_coefficients_lie_within_their_range_and_are_alike_from_both_sides(pairs: list[tuple[int, int]]) -> None:
    table = confusion(pairs, HALF)
    turned = confusion([(judge, label) for label, judge in pairs], HALF)
    for one, other in (
        (kappa(pairs), kappa([(judge, label) for label, judge in pairs])),
        (matthews(table), matthews(turned)),
        (gwet(table), gwet(turned)),
    ):
        assert one.value == other.value
        assert (one.value is None) == bool(one.undefined)
        assert one.value is None or -SCALE <= one.value <= SCALE


@given(st.tuples(*[st.integers(1, 50)] * 4))
def test_the_correlation_squared_is_the_exact_one_to_a_millionth(cells: tuple[int, int, int, int]) -> None:
    table = counts(*cells)
    value = matthews(table).value
    a, b, c, d = table.margins
    square = Fraction((cells[0] * cells[3] - cells[1] * cells[2]) ** 2, a * b * c * d)
    assert value is not None
    low, high = Fraction(2 * abs(value) - 1, 2 * SCALE), Fraction(2 * abs(value) + 1, 2 * SCALE)
    assert low <= 0 or low**2 <= square
    assert square <= high**2
