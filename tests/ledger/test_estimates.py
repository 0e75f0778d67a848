from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import estimates
from ledger.estimates import (
    Estimate,
    Part,
    PlanAboveCeiling,
    PlanNeedsYes,
    Rollouts,
    actual_cost,
    candidate_part,
    decide_plan,
    embedding_part,
    judge_part,
    world_model_part,
    worst_case,
)
from ledger.families.calls import PriceUnknown
from ledger.families.providers import Capabilities, Connection, Endpoint, Model
from ledger.money import NANO, nano_usd
from ledger.prompt import Usage

FREE = Capabilities(supports_completions=True, maximum_output_tokens=16_000, input_price=0, output_price=0)
LUNA = Capabilities(
    supports_completions=True,
    maximum_output_tokens=32_000,
    input_price=nano_usd("0.2"),
    output_price=nano_usd("1.2"),
    cached_input_price=nano_usd("0.02"),
    cache_write_price=nano_usd("0.25"),
)


def endpoint(able: Capabilities, alias: str = "m") -> Endpoint:
    return Endpoint(
        model=Model(alias=alias, connection="c", model="x", capabilities=able),
        connection=Connection(name="c", provider="openai"),
    )


def test_the_acceptance_command_plans_at_about_fifty_dollars_and_below_sixty() -> None:
    rollouts = Rollouts(cells=70, turns=10, prompt_bytes=3_000, example_bytes=32_000)
    plan = Estimate(
        (
            candidate_part(endpoint(FREE, "dsflash"), rollouts),
            candidate_part(endpoint(FREE, "dsflash0731"), rollouts),
            candidate_part(endpoint(LUNA, "luna"), rollouts),
            world_model_part(endpoint(FREE, "dsflash"), Rollouts(210, 10, 3_000, 32_000)),
            judge_part(endpoint(LUNA, "luna"), 210, 2_000),
        )
    )
    assert plan.total is not None
    assert 48 * NANO < plan.total < 58 * NANO
    with pytest.raises(PlanNeedsYes):
        decide_plan(plan, 60 * NANO, yes=False, flag="--maximum-provider-cost-usd")
    decide_plan(plan, 60 * NANO, yes=True, flag="--maximum-provider-cost-usd")
    with pytest.raises(PlanAboveCeiling) as refused:
        decide_plan(plan, 40 * NANO, yes=True, flag="--maximum-provider-cost-usd", budget=45 * NANO)
    assert "--maximum-provider-cost-usd 5" in refused.value.remedy
    assert "exp config budget 5" in refused.value.remedy


def test_a_plan_within_half_of_its_ceiling_proceeds() -> None:
    plan = Estimate((Part("x", 1, 1, 1, 50), Part("y", 1, 1, 1, 0)))
    decide_plan(plan, 100, yes=False, flag="--f")
    decide_plan(Estimate(()), 0, yes=False, flag="--f")
    with pytest.raises(PlanNeedsYes):
        decide_plan(plan, 99, yes=False, flag="--f")
    with pytest.raises(PlanAboveCeiling):
        decide_plan(plan, 49, yes=True, flag="--f")
    decide_plan(plan, 50, yes=True, flag="--f")
    assert plan.calls == 2


def test_a_plan_with_an_unknown_price_is_refused_by_name() -> None:
    unpriced = Capabilities(supports_completions=True, input_price=1)
    plan = Estimate((judge_part(endpoint(unpriced, "judy"), 1, 0),))
    assert plan.total is None
    with pytest.raises(PriceUnknown) as refused:
        decide_plan(plan, NANO, yes=True, flag="--f")
    assert "judy" in refused.value.what
    assert "unknown price" in str(plan.parts[0])


def test_a_worst_case_takes_the_dearest_input_price_and_the_whole_output() -> None:
    assert worst_case(endpoint(LUNA), 1_000_000, 1_000_000) == nano_usd("1.45")
    assert worst_case(endpoint(Capabilities(input_price=1_000_000)), 7, 0) == 7
    assert worst_case(endpoint(Capabilities(output_price=1)), 7, 1) is None


def test_what_was_counted_is_what_is_paid() -> None:
    usage = Usage(
        input_tokens=1_000_000, output_tokens=500_000, cached_input_tokens=400_000, cache_write_tokens=100_000
    )
    assert actual_cost(LUNA, usage) == nano_usd("0.1") + nano_usd("0.008") + nano_usd("0.025") + nano_usd("0.6")


@pytest.mark.parametrize(
    ("able", "usage", "cost"),
    [
        (LUNA, Usage(), None),
        (LUNA, Usage(input_tokens=5), None),
        (LUNA, Usage(output_tokens=5), None),
        (FREE, Usage(), 0),
        (Capabilities(supports_completions=True), Usage(1, 1), None),
        (Capabilities(supports_completions=True, input_price=NANO), Usage(1, 1), None),
        (Capabilities(supports_embeddings=True, input_price=0), Usage(), 0),
        (Capabilities(supports_embeddings=True, input_price=NANO), Usage(input_tokens=3), 3_000),
    ],
)
def test_a_cost_that_nobody_knows_is_unknown_and_never_zero(able: Capabilities, usage: Usage, cost: int | None) -> None:
    assert actual_cost(able, usage) == cost


COUNTS = st.integers(0, 10**6)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_call_within_its_limits_never_costs_more_than_its_worst_case(
    read: int, written: int, cached: int, stored: int
) -> None:
    usage = Usage(read, written, cached, stored)
    worst = worst_case(endpoint(LUNA), read, written)
    actual = actual_cost(LUNA, usage)
    assert worst is not None
    assert actual is not None
    assert actual <= worst + 3  # each of up to four amounts is rounded up once


def test_embeddings_are_planned_by_their_bytes() -> None:
    part = embedding_part(endpoint(Capabilities(supports_embeddings=True, input_price=NANO), "embed"), ["ab", "é"])
    assert (part.calls, part.input_tokens, part.output_tokens, part.nano) == (2, 4, 0, 4_000)


def test_an_estimate_grows_with_every_turn() -> None:
    parts = [candidate_part(endpoint(LUNA), Rollouts(1, turns, 100)) for turns in (1, 2, 3)]
    assert [part.input_tokens for part in parts] == [200, 400 + 32_000, 600 + 96_000]
    assert estimates.sent_limit(endpoint(FREE), 8_000) == 8_000


@pytest.mark.parametrize("worst", [2**53, 2**53 - 1, 10**30])
def test_an_amount_that_no_budget_can_be_set_to_is_not_recommended(worst: int) -> None:
    remedy = PlanAboveCeiling(worst, 10, "--cost", 10).remedy
    assert remedy.startswith("make the worst case smaller")
    assert "exp config budget" not in remedy
