"""Routes: many requests at once go where each goes alone, and the gate holds for all of them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from projections.policy import (
    Clusters,
    Method,
    Neighbours,
    Overall,
    Policy,
    Price,
    Tolerance,
    at_target,
    course,
    decide,
    frozen,
    routes,
)
from tests.projections.policy.rows import policy, row, vector

ROWS = [
    row(
        f"{place:03d}",
        (100, place % 9, 0) if place % 2 else (place % 9, 100, 0),
        (800_000 if place % 2 else 100_000, 700_000, 900_000),
    )
    for place in range(40)
]
REQUESTS = np.array([(90, 0, 0), (0, 90, 0), (50, 50, 0)], dtype=np.int8)


def made(method: Method, **given: object) -> Policy:
    return msgspec.structs.replace(policy(ROWS, (1, 10, 100), method=method), leaning=1_000, **given)


@pytest.mark.parametrize("method", [Overall(), Neighbours(neighbours=5, shrink=1), Clusters(clusters=2, shrink=5)])
@pytest.mark.parametrize("dial", [Tolerance(millionths=0), Price(nano_usd=10**9), Price(nano_usd=0)])
@pytest.mark.parametrize("kept", [False, True])
def test_requests_together_go_where_each_goes_alone(method: Method, dial: Tolerance | Price, *, kept: bool) -> None:
    one = made(method, dial=dial, kept=kept)
    alone = [decide(one, request) for request in REQUESTS]
    assert routes(one, REQUESTS) == [(decision.alias, decision.reason) for decision in alone]


def test_a_policy_that_doesnt_pay_keeps_the_incumbent_unless_a_request_brings_its_own_dial() -> None:
    one = made(Neighbours(neighbours=5, shrink=1), kept=True)
    decision = decide(one, REQUESTS[0])
    assert (decision.alias, decision.reason) == ("b", "routing-did-not-pay")
    own = decide(one, REQUESTS[0], Tolerance(millionths=0))
    assert (own.alias, own.reason) == ("a", "cheapest-not-worse")
    assert decide(one, REQUESTS[1]).reason == "no-cheaper-candidate-is-as-good"


def test_each_dial_gives_its_reasons() -> None:
    one = made(Neighbours(neighbours=5, shrink=0))
    assert decide(one, REQUESTS[0], Price(nano_usd=10**9)).reason == "worth-more"
    assert decide(one, REQUESTS[1], Price(nano_usd=10**9)).alias == "c"
    alone = policy(ROWS, (1, 0, 100), method=Neighbours(neighbours=5, shrink=0))
    assert decide(alone, REQUESTS[1], Price(nano_usd=0)).reason == "nothing-is-worth-more"


def test_a_decision_says_what_it_predicts_and_what_it_costs() -> None:
    one = made(Neighbours(neighbours=5, shrink=0))
    seen = {candidate.alias: candidate for candidate in decide(one, REQUESTS[0]).candidates}
    assert (seen["a"].score, seen["a"].incumbent, seen["a"].cost) == (800_000, 700_000, 1)
    assert [candidate.alias for candidate in decide(one, REQUESTS[0]).candidates] == ["a", "b", "c"]


def test_the_nearest_tasks_are_named_nearest_first() -> None:
    one = policy([row("x", (1, 0), (1, 1)), row("y", (3, 0), (1, 1)), row("z", (2, 0), (1, 1))], (1, 10))
    near = decide(one, vector(2, 0)).neighbours
    assert [(neighbour.task, neighbour.similarity) for neighbour in near] == [("y", 6), ("z", 4), ("x", 2)]


def test_the_course_has_every_setting_of_the_curve_and_goes_with_the_dial() -> None:
    one = frozen(policy(ROWS, (1, 10, 100)))
    found = course(one, REQUESTS)
    assert len(found) == len(one.curve)
    assert found["a unit of score is worth 0 nano-dollars"] == ["a", "a", "a"]
    assert found["tolerance 500000 millionths"] == ["a", "b", "a"] or found["tolerance 500000 millionths"][0] == "a"


def test_a_frozen_policy_doesnt_depend_on_the_order_of_its_rows() -> None:
    assert (
        frozen(policy(ROWS, (1, 10, 100))).id
        == frozen(msgspec.structs.replace(policy(ROWS, (1, 10, 100)), rows=tuple(ROWS[::-1]))).id
    )


def test_three_candidates_are_weighed_with_what_prices_say_only_where_a_price_decides() -> None:
    rows = [row(f"{place:03d}", (100, 0), (500_000, 480_000, 700_000)) for place in range(20)]
    one = policy(rows, (1, 10, 100), incumbent="c")
    assert one.evidence.expected.tolist()[1] > 0
    assert decide(one, vector(1, 0), Price(nano_usd=500)).alias == "b"
    tolerant = {one.alias: one.score for one in decide(one, vector(1, 0)).candidates}
    assert tolerant == {"a": 500_000, "b": 480_000, "c": 700_000}


def test_a_policy_on_scores_of_great_rubrics_has_a_name() -> None:
    rows = [
        row(f"{place:03d}", (100, 0) if place % 2 else (0, 100), (10**12 * (place % 2), 0, -(10**12)))
        for place in range(40)
    ]
    one = frozen(policy(rows, (10**15, 10**15 + 1, 2 * 10**15)))
    assert one.id.startswith("policy-")
    assert decide(one, vector(100, 0)).alias == "a"


def test_a_policy_that_loses_on_left_out_tasks_is_kept_when_it_is_frozen() -> None:
    unlike = [
        row(
            f"{place:03d}", (place * 53 % 100, place * 31 % 97, place * 17 % 89), (0 if place % 2 else 900_000, 450_000)
        )
        for place in range(60)
    ]
    unlike += [
        row(f"x{place:03d}", (place * 59 % 100, place * 37 % 97, place * 19 % 89), (300_000, 450_000))
        for place in range(20)
    ]
    price = frozen(policy(unlike, (10, 10), dial=Price(nano_usd=10**12)))
    assert price.operating is not None
    assert price.kept == (price.operating.score <= price.operating.incumbent)
    unpriced = frozen(policy(unlike, (None, 10)))
    assert not unpriced.kept
    nothing = frozen(policy([], (1, 10)))
    assert nothing.kept


def test_rows_are_put_in_order_of_task_whatever_their_lineages() -> None:
    rows = [row("b", (1, 0), (1, 1), "x1"), row("a", (1, 0), (1, 1), "y9"), row("c", (1, 0), (1, 1), "a5")]
    assert [one.task for one in frozen(policy(rows, (1, 10))).rows] == ["a", "b", "c"]


def test_a_policy_that_meets_a_target_routes_even_if_its_first_dial_didnt_pay() -> None:
    one = msgspec.structs.replace(frozen(policy(ROWS, (1, 10, 100))), kept=True)
    met = at_target(one, one.curve[0])
    assert (met.kept, met.dial, met.operating) == (False, one.curve[0].dial, one.curve[0])
    assert routes(met, REQUESTS)[0][0] == "a"
