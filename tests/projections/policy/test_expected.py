"""Expected: a line through means over the logarithm of prices, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import log2

from hypothesis import given
from hypothesis import strategies as st

from projections.policy.expected import STRENGTH, logarithm, shifts


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**15).filter(bool))
def test_a_logarithm_is_right_to_a_few_parts_in_65536(number: Fraction) -> None:
    assert abs(logarithm(number) - 65_536 * log2(number)) < 2


@given(st.integers(-40, 60))
def test_powers_of_two_are_exact(power: int) -> None:
    assert logarithm(Fraction(2) ** power) == power << 16


def test_two_candidates_are_their_own_line() -> None:
    assert shifts((-700, 0), (10, 10), (Fraction(1), Fraction(5)), 1) == (0, 0)


def test_candidates_on_a_line_stay_there() -> None:
    assert shifts((-200, -100, 0), (1, 1, 1), (Fraction(1), Fraction(2), Fraction(4)), 2) == (0, 0, 0)


def test_a_candidate_off_the_line_is_drawn_to_it_as_strongly_as_so_many_tasks() -> None:
    # Means -200, -250 and 0 (the incumbent's): the line says -250, -150 and -50.
    drawn = shifts((-20_000, -25_000, 0), (100,) * 3, (Fraction(1), Fraction(2), Fraction(4)), 2)
    share = Fraction(STRENGTH, 100 + STRENGTH)
    assert drawn == (round(share * (-50 + 50)), round(share * (100 + 50)), 0)


def test_many_tasks_outweigh_prices() -> None:
    few, many = (
        shifts((-200 * n, -250 * n, 0), (n,) * 3, (Fraction(1), Fraction(2), Fraction(4)), 2)[1] for n in (50, 100_000)
    )
    assert few == 120
    assert many == 0


def test_what_costs_nothing_or_an_unknown_amount_or_wasnt_tried_is_on_no_line() -> None:
    prices = (Fraction(0), Fraction(1), Fraction(2), Fraction(4), None)
    drawn = shifts((10**6, -200, -250, 0, 10**6), (1,) * 5, prices, 3)
    assert (drawn[0], drawn[3], drawn[4]) == (0, 0, 0)
    assert drawn[2] > 0
    assert shifts((0, -250, 0), (0, 1, 1), (Fraction(1), Fraction(2), Fraction(4)), 2) == (0, 0, 0)
    assert shifts((-200, -250, 0), (1,) * 3, (Fraction(1), Fraction(2), Fraction(0)), 2) == (0, 0, 0)


def test_equal_prices_make_no_line() -> None:
    assert shifts((-200, -250, 0), (1,) * 3, (Fraction(3),) * 3, 2) == (0, 0, 0)
