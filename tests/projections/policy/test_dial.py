"""The dial: what a candidate must be worth, decided in integers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.policy import Price, Tolerance
from projections.policy.dial import SCALE, Field, in_words
from tests.projections.policy.rows import candidates

COSTS = st.one_of(st.none(), st.integers(0, 10**15))
DISTANCES = st.integers(-(10**12), 10**12)


def field(*costs: int | None, incumbent: int = 1, cells: int = 1) -> Field:
    return Field(candidates(*costs, cells=cells), incumbent)


@given(st.tuples(COSTS, COSTS, COSTS), st.tuples(DISTANCES, DISTANCES), st.integers(0, 10**15), st.integers(1, 7))
def test_a_price_takes_the_greatest_worth_in_fractions(
    costs: tuple[int | None, ...], apart: tuple[int, int], price: int, cells: int
) -> None:
    distances = (apart[0], 0, apart[1])
    (chosen,) = field(*costs, cells=cells).places(Price(nano_usd=price), [distances], (True,) * 3)
    worth = {}
    for place, cost in enumerate(costs):
        if cost is not None and costs[1] is not None:
            worth[place] = Fraction(price * distances[place], SCALE) - Fraction(cost - costs[1], cells)
    most = max(worth.values(), default=Fraction(0))
    assert chosen == 1 if most <= 0 else worth[chosen] == most
    if 1 in worth and most > 0:
        assert chosen != 1


def test_at_a_price_of_nothing_the_cheapest_gets_all_and_at_a_great_one_the_best() -> None:
    three = field(1, 10, 100)
    assert three.places(Price(nano_usd=0), [(-900_000, 0, 900_000)], (True,) * 3) == [0]
    assert three.places(Price(nano_usd=10**15), [(-900_000, 0, 1)], (True,) * 3) == [2]


def test_at_equal_worth_the_incumbent_keeps_the_request_and_then_the_cheaper_one_gets_it() -> None:
    assert field(10, 10).places(Price(nano_usd=5), [(0, 0)], (True, True)) == [1]
    # Worth 20 each: 10 cheaper and 10 better, or 20 cheaper.
    equal = field(0, 20, 10)
    assert equal.places(Price(nano_usd=SCALE), [(0, 0, 10)], (True,) * 3) == [0]


@pytest.mark.parametrize(("tolerance", "chosen"), [(0, 1), (99_999, 1), (100_000, 0), (10**12, 0)])
def test_a_tolerance_is_met_to_the_millionth(tolerance: int, chosen: int) -> None:
    assert field(1, 10).places(Tolerance(millionths=tolerance), [(-100_000, 0)], (True, True)) == [chosen]


def test_zero_cost_is_a_cost_and_the_cheapest() -> None:
    free = field(0, 10, 5)
    assert free.order == (0, 2, 1)
    chosen, verdicts = free.choose(Tolerance(millionths=0), (0, 0, 0), (True,) * 3)
    assert (chosen, verdicts) == (0, {0: "not-worse", 2: "not-cheaper", 1: "incumbent"})


def test_one_candidate_keeps_everything() -> None:
    alone = Field(candidates(5), 0)
    for dial in (Tolerance(millionths=10**6), Price(nano_usd=10**15)):
        assert alone.choose(dial, (0,), (True,)) == (0, {0: "incumbent"})


def test_a_candidate_without_evidence_or_cost_gets_nothing_at_any_price() -> None:
    assert field(1, 10).places(Price(nano_usd=0), [(0, 0)], (False, True)) == [1]
    assert field(None, 10).places(Price(nano_usd=10**15), [(10**6, 0)], (True, True)) == [1]
    assert field(1, None).places(Price(nano_usd=0), [(0, 0)], (True, True)) == [1]
    assert field(None, 10).choose(Price(nano_usd=1), (1, 0), (True, True))[1][0] == "unpriced"
    assert field(1, 10).choose(Price(nano_usd=1), (1, 0), (False, True))[1][0] == "no-evidence"


def test_verdicts_say_which_one_is_worth_more_and_which_is_worse() -> None:
    _, verdicts = field(1, 10, 100).choose(Price(nano_usd=10**9), (-900_000, 0, 900_000), (True,) * 3)
    assert verdicts == {0: "worse", 1: "incumbent", 2: "worth-more"}
    _, verdicts = field(1, 10, 100).choose(Tolerance(millionths=0), (-1, 0, 9), (True,) * 3)
    assert verdicts == {0: "worse", 1: "incumbent", 2: "not-cheaper"}


def test_equal_costs_go_by_incumbent_and_then_by_name() -> None:
    assert field(10, 10, 10, incumbent=2).order == (2, 0, 1)
    assert field(None, 10, 10, incumbent=2).order == (2, 1, 0)


@given(st.tuples(*[st.integers(0, 10**6)] * 3), st.tuples(DISTANCES, DISTANCES))
def test_just_above_a_breakpoint_the_dearer_of_two_is_worth_more(
    costs: tuple[int, int, int], apart: tuple[int, int]
) -> None:
    distances = (apart[0], 0, apart[1])
    three = field(*costs)
    found = three.breakpoints(distances, (True,) * 3)
    assert found == sorted(set(found))
    for price in found:
        turns = [
            (price - 1) * (distances[two] - distances[one]) <= (costs[two] - costs[one]) * SCALE
            and price * (distances[two] - distances[one]) > (costs[two] - costs[one]) * SCALE
            for one in range(3)
            for two in range(3)
            if costs[two] > costs[one] and distances[two] > distances[one]
        ]
        assert any(turns)


def test_breakpoints_leave_out_what_is_unknown_or_beyond_the_range() -> None:
    assert field(1, 10).breakpoints((-1_000_000, 0), (False, True)) == []
    assert field(1, 10).breakpoints((-1_000_000, 0), (True, True)) == [10]
    assert field(0, 2 * 10**15).breakpoints((-1_000_000, 0), (True, True)) == []


def test_dials_are_told_apart_in_words() -> None:
    assert in_words(Tolerance(millionths=5)) == "tolerance 5 millionths"
    assert in_words(Price(nano_usd=5)) == "a unit of score is worth 5 nano-dollars"
