"""What serving decides about keys and limits, and the sums that it keeps of who used what when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import consumption
from ledger.allowances import DAY, FREE, MINUTE, OVERALL, BudgetSpent, Limits, PriceUnknown, RateExceeded
from ledger.consumption import Used
from ledger.families.serving import (
    AcceptRequest,
    AttemptFailed,
    Counted,
    EndRequest,
    GatewayKeyRevoked,
    GatewayKeyUnknown,
    IssueGatewayKey,
    ModelNotAllowed,
    RequestAbandoned,
    RequestAnswered,
    RequestFailed,
    RequestLost,
    RequestRerouted,
    RetryDispatch,
    RevokeGatewayKey,
    RotateGatewayKey,
    SetGatewayLimits,
)
from tests.ledger.families.test_serving import Book, accept

NOON = 20_787 * DAY + DAY // 2
KEY = "b3:key"


def asking(request: str = "r-1", when: int = NOON, worst: int | None = 100, **more: Any) -> AcceptRequest:
    plain = accept(request, worst=worst)
    accepted = msgspec.structs.replace(plain.accepted, identity="team-a", when=when, tokens=10, **more)
    return msgspec.structs.replace(plain, accepted=accepted, shown=KEY)


def answered(request: str = "r-1", cost: int | None = 30, tokens: int | None = 4) -> EndRequest:
    return EndRequest(
        ending=RequestAnswered(
            request=request,
            response=None,
            usage=Counted(input_tokens=tokens, output_tokens=1, cached_input_tokens=2, reasoning_tokens=1),
            cost=cost,
            served_model="m",
            as_pinned=True,
            redacted=False,
            latency_us=1,
            first_byte_us=1,
        )
    )


def failing(cost: int | None = None, request: str = "r-1", dispatch: int = 0) -> AttemptFailed:
    return AttemptFailed(request=request, dispatch=dispatch, reason="x", worst_case=100, alias="plain", cost=cost)


def rerouted(worst: int | None, alias: str = "other") -> RequestRerouted:
    return RequestRerouted(
        request="r-1", dispatch=1, alias=alias, reason="failover", api="a", base_url="b", sent="", worst_case=worst
    )


def book(limits: Limits = FREE) -> Book:
    new = Book()
    new.do(IssueGatewayKey(identity="team-a", digest=KEY, limits=limits))
    return new


def test_a_request_that_was_under_way_when_its_key_was_revoked_is_refused() -> None:
    keys = book()
    keys.do(RevokeGatewayKey(identity="team-a", when=NOON - 1))
    with pytest.raises(GatewayKeyRevoked):
        keys.do(asking())


def test_a_rotated_key_ends_at_its_time_whatever_a_clock_that_is_behind_says() -> None:
    keys = book()
    keys.do(RotateGatewayKey(identity="team-a", digest="b3:new", when=NOON - 9, until=NOON))
    assert keys.do(asking("r-1", NOON - 1))
    with pytest.raises(GatewayKeyRevoked):
        keys.do(asking("r-2", NOON))
    new = msgspec.structs.replace(asking("r-3", NOON + 5), shown="b3:new")
    assert keys.do(new)
    with pytest.raises(GatewayKeyRevoked):
        keys.do(asking("r-4", NOON - 1))


def test_the_gateways_own_key_is_not_issued_again_once_it_was_revoked() -> None:
    keys = Book()
    assert keys.do(IssueGatewayKey(identity="own", digest="b3:own"))
    assert not keys.do(IssueGatewayKey(identity="own", digest="b3:own"))
    keys.do(RevokeGatewayKey(identity="own", when=1))
    with pytest.raises(GatewayKeyRevoked):
        keys.do(IssueGatewayKey(identity="own", digest="b3:own"))
    with pytest.raises(GatewayKeyUnknown):
        keys.do(RevokeGatewayKey(identity="own", when=2))


def test_a_model_is_checked_again_where_the_request_is_accepted() -> None:
    keys = book(Limits(aliases=("other",)))
    with pytest.raises(ModelNotAllowed):
        keys.do(asking())
    assert keys.do(asking(model="other"))


def test_the_same_limits_twice_are_one_event_and_none_for_a_key_without() -> None:
    keys = book()
    assert len(keys.events) == 1
    limits = Limits(budget_per_day=5)
    assert keys.do(SetGatewayLimits(identity=OVERALL, limits=limits))
    assert not keys.do(SetGatewayLimits(identity=OVERALL, limits=limits))
    with pytest.raises(GatewayKeyUnknown):
        keys.do(SetGatewayLimits(identity="nobody", limits=limits))


@pytest.mark.parametrize("whose", ["team-a", OVERALL])
def test_a_budget_of_a_key_and_one_of_all_are_held_alike(whose: str) -> None:
    keys = book()
    keys.do(SetGatewayLimits(identity=whose, limits=Limits(budget_per_day=199)))
    keys.do(asking("r-1"))
    with pytest.raises(BudgetSpent):
        keys.do(asking("r-2"))
    keys.do(answered("r-1"))
    assert keys.do(asking("r-2"))
    with pytest.raises(PriceUnknown):
        keys.do(asking("r-3", worst=None))


def test_a_clock_that_is_behind_gets_no_earlier_day() -> None:
    keys = book(Limits(budget_per_day=100))
    keys.do(asking("r-1"))
    with pytest.raises(BudgetSpent):
        keys.do(asking("r-2", NOON - 3 * DAY))
    with pytest.raises(BudgetSpent):
        keys.do(asking("r-2", 0))
    assert keys.do(asking("r-2", NOON + DAY))


def test_what_a_clock_that_is_behind_says_counts_in_the_newest_day() -> None:
    keys = book()
    keys.do(asking("r-1", NOON + DAY))
    keys.do(asking("r-2", NOON))
    day = keys.state.account("team-a").day
    assert (day.period, day.reserved) == (NOON // DAY + 1, 200)
    assert list(keys.state.usage) == [NOON // DAY + 1]


def test_a_retry_and_another_model_must_fit_as_well() -> None:
    keys = book(Limits(budget_per_day=250))
    keys.do(asking())
    assert keys.do(RetryDispatch(failed=failing(cost=None), when=NOON))
    with pytest.raises(BudgetSpent):
        keys.do(RetryDispatch(failed=failing(cost=None, dispatch=1), when=NOON))
    assert keys.do(RetryDispatch(failed=failing(cost=50, dispatch=1), when=NOON))
    with pytest.raises(BudgetSpent):
        keys.do(RetryDispatch(failed=failing(cost=0, dispatch=2), rerouted=rerouted(101), when=NOON))
    with pytest.raises(PriceUnknown):
        keys.do(RetryDispatch(failed=failing(cost=0, dispatch=2), rerouted=rerouted(None), when=NOON))
    assert keys.do(RetryDispatch(failed=failing(cost=0, dispatch=2), rerouted=rerouted(60), when=NOON))
    day = keys.state.account("team-a").day
    assert (day.taken, day.reserved) == (150, 60)
    keys.do(answered())
    assert (day.taken, day.reserved) == (180, 0)


def test_a_retry_of_yesterdays_request_is_not_made_under_a_budget() -> None:
    keys = book(Limits(budget_per_day=10**6))
    keys.do(asking())
    with pytest.raises(BudgetSpent):
        keys.do(RetryDispatch(failed=failing(), when=NOON + DAY))
    free = book()
    free.do(asking())
    assert free.do(RetryDispatch(failed=failing(), when=NOON + DAY))


@pytest.mark.parametrize(
    ("ending", "tokens", "spent"),
    [
        (answered().ending, 5, 30),
        (answered(cost=None).ending, 5, 100),
        (RequestFailed(request="r-1", status=502, code="c", error=None, cost=0), 0, 0),
        (RequestFailed(request="r-1", status=502, code="c", error=None, cost=None), 10, 100),
        (RequestAbandoned(request="r-1", reason="stopped"), 10, 100),
        (RequestLost(request="r-1", process="p"), 10, 100),
    ],
)
def test_every_ending_gives_back_what_was_not_taken(ending: Any, tokens: int, spent: int) -> None:
    keys = book()
    keys.do(asking())
    keys.do(EndRequest(ending=ending))
    for account in (keys.state.account("team-a"), keys.state.account(OVERALL)):
        assert (account.tokens.taken, account.tokens.reserved) == (tokens, 0)
        assert (account.day.taken, account.day.reserved) == (spent, 0)
        assert (account.month.taken, account.month.reserved) == (spent, 0)
        assert account.requests.taken == 1


def test_requests_a_minute_are_of_the_minute() -> None:
    keys = book(Limits(requests_per_minute=1))
    keys.do(asking("r-1"))
    with pytest.raises(RateExceeded):
        keys.do(asking("r-2", NOON + MINUTE - 1))
    assert keys.do(asking("r-2", NOON + MINUTE))


def test_what_was_used_is_kept_by_day_key_and_model() -> None:
    keys = book()
    keys.do(asking("r-1"))
    keys.do(RetryDispatch(failed=failing(cost=None), rerouted=rerouted(100)))
    keys.do(asking("r-2", NOON + DAY))
    keys.do(answered("r-1"))
    keys.do(EndRequest(ending=RequestLost(request="r-2", process="p")))
    keys.do(asking("r-3", NOON + DAY))
    keys.do(EndRequest(ending=RequestAbandoned(request="r-3", reason="stopped", cost=7)))
    later, plain, other = consumption.rows(keys.state.usage, None, None)[:1] + sorted(
        consumption.rows(keys.state.usage, None, NOON // DAY), key=lambda row: row.alias, reverse=True
    )
    assert (later.day, later.identity, later.alias) == (NOON // DAY + 1, "team-a", "plain")
    assert later.used == Used(requests=2, abandoned=1, lost=1, ambiguous=100, cost=7)
    assert plain.used == Used(ambiguous=100)
    assert other.used == Used(
        requests=1,
        answered=1,
        input_tokens=4,
        output_tokens=1,
        cached_input_tokens=2,
        reasoning_tokens=1,
        cost=30,
    )
    assert consumption.total([later, plain, other]).ambiguous == 200
    assert consumption.rows(keys.state.usage, NOON // DAY + 2, None) == []


def test_what_was_recorded_before_days_were_counts_without_one_and_in_no_window() -> None:
    keys = book(Limits(requests_per_minute=1))
    keys.do(asking("r-1", 0))
    keys.do(answered())
    (row,) = consumption.rows(keys.state.usage, None, None)
    assert (row.day, row.used.answered) == (None, 1)
    assert keys.state.account("team-a").requests.taken == 0


@given(st.lists(st.tuples(st.sampled_from("ral"), st.integers(0, DAY), st.integers(0, 100)), max_size=40))
def test_no_more_than_the_budget_is_ever_spent_and_reserved_on_a_day(steps: list[tuple[str, int, int]]) -> None:
    keys, now, number, open_ = book(Limits(budget_per_day=250)), NOON, 0, list[str]()
    committed: dict[int, int] = {}
    days: dict[str, int] = {}
    for step, pause, cost in steps:
        now += pause
        number += 1
        name = f"r-{number}"
        try:
            if step == "r":
                keys.do(asking(name, now))
                open_.append(name)
                days[name] = now // DAY
                committed[now // DAY] = committed.get(now // DAY, 0) + 100
            elif open_ and step == "a":
                done = open_.pop(0)
                keys.do(answered(done, cost))
                committed[days[done]] -= 100 - cost
            elif open_:
                holder = keys.state.open[open_[0]]
                keys.do(RetryDispatch(failed=failing(request=open_[0], dispatch=holder.dispatches - 1), when=now))
                committed[days[open_[0]]] += 100
        except BudgetSpent:
            continue
        assert max(committed.values(), default=0) <= 250
