from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import allowances
from ledger.allowances import (
    DAY,
    MINUTE,
    OVERALL,
    Account,
    BudgetSpent,
    Limits,
    PriceUnknown,
    RateExceeded,
    Wanted,
    Window,
    check,
    check_more,
    day_name,
    day_number,
    month_of,
    stamp,
)

NOON = 20_787 * DAY + DAY // 2  # 2026-11-30


def wanted(when: int = NOON, tokens: int = 10, worst: int | None = 100) -> Wanted:
    return Wanted("team-a", "plain", when, tokens, worst)


def took(account: Account, when: int = NOON, tokens: int = 10, worst: int = 100) -> Account:
    account.reserve(when, tokens, worst)
    return account


def test_days_and_months_are_those_of_the_calendar_in_utc() -> None:
    assert day_name(20_787) == "2026-11-30"
    assert day_number("2026-11-30") == 20_787
    assert month_of(day_number("2026-11-30")) + 1 == month_of(day_number("2026-12-01"))
    assert month_of(day_number("2026-12-31")) + 1 == month_of(day_number("2027-01-01"))
    assert month_of(day_number("2024-02-29")) == month_of(day_number("2024-02-01"))
    assert stamp(NOON) == "2026-11-30T12:00:00Z"
    with pytest.raises(ValueError, match="x"):
        day_number("x")


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        (Limits(), True),
        (Limits(requests_per_minute=2), True),
        (Limits(requests_per_minute=1), False),
        (Limits(tokens_per_minute=20), True),
        (Limits(tokens_per_minute=19), False),
        (Limits(budget_per_day=200), True),
        (Limits(budget_per_day=199), False),
        (Limits(budget_per_month=200), True),
        (Limits(budget_per_month=199), False),
    ],
)
def test_a_limit_holds_to_the_last_unit(limits: Limits, fits: bool) -> None:  # noqa: FBT001 - a case's fact
    account = took(Account(limits=limits))
    if fits:
        check(account, wanted(), "team-a")
    else:
        with pytest.raises((RateExceeded, BudgetSpent)):
            check(account, wanted(), "team-a")


@pytest.mark.parametrize(
    ("limits", "later", "resets"),
    [
        (Limits(requests_per_minute=1), MINUTE, "2026-11-30T12:01:00Z"),
        (Limits(tokens_per_minute=10), MINUTE, "2026-11-30T12:01:00Z"),
        (Limits(budget_per_day=100), DAY // 2, "2026-12-01T00:00:00Z"),
        (Limits(budget_per_month=100), DAY // 2, "2026-12-01T00:00:00Z"),
    ],
)
def test_a_window_that_is_over_leaves_nothing_behind_and_its_end_is_told(
    limits: Limits, later: int, resets: str
) -> None:
    account = took(Account(limits=limits))
    with pytest.raises((RateExceeded, BudgetSpent)) as refused:
        check(account, wanted(NOON + later - 1), "team-a")
    assert stamp(refused.value.resets) == resets  # type: ignore[attr-defined]  # both have it
    check(account, wanted(NOON + later), "team-a")


def test_a_month_is_longer_than_its_day() -> None:
    account = took(Account(limits=Limits(budget_per_month=100)), NOON - 10 * DAY)
    with pytest.raises(BudgetSpent):
        check(account, wanted(), "team-a")
    assert account.day.at(NOON // DAY).reserved == 0


def test_what_is_reserved_for_others_may_come_back_and_what_is_spent_does_not() -> None:
    account = took(Account(limits=Limits(budget_per_day=150)))
    with pytest.raises(BudgetSpent) as refused:
        check(account, wanted(), "team-a")
    assert refused.value.waiting
    account.settle(NOON, 50, 60)  # of two: what is spent leaves no room, whatever comes back
    with pytest.raises(BudgetSpent) as refused:
        check(account, wanted(), "team-a")
    assert not refused.value.waiting
    account.settle(NOON, 50, 40)
    with pytest.raises(BudgetSpent) as refused:
        check(account, wanted(), "team-a")
    assert not refused.value.waiting


def test_a_request_that_fits_into_no_minute_is_told_so() -> None:
    with pytest.raises(RateExceeded) as refused:
        check(Account(limits=Limits(tokens_per_minute=9)), wanted(), "team-a")
    assert refused.value.alone
    with pytest.raises(RateExceeded) as refused:
        check(took(Account(limits=Limits(tokens_per_minute=19))), wanted(), "team-a")
    assert not refused.value.alone


def test_an_unknown_price_is_refused_under_a_budget_only() -> None:
    check(Account(limits=Limits(requests_per_minute=1)), wanted(worst=None), "team-a")
    for limits in (Limits(budget_per_day=10**9), Limits(budget_per_month=10**9)):
        with pytest.raises(PriceUnknown):
            check(Account(limits=limits), wanted(worst=None), OVERALL)


def test_what_is_settled_late_counts_in_its_own_window_or_in_none() -> None:
    account = took(Account())
    took(account, NOON + DAY)
    account.settle(NOON, 100, 70)
    assert (account.day.taken, account.day.reserved) == (0, 100)
    assert (account.month.taken, account.month.reserved) == (0, 100)  # the next day is in the next month
    account.settle(NOON + DAY, 100, 70)
    assert (account.day.taken, account.day.reserved, account.month.taken) == (70, 0, 70)


@pytest.mark.parametrize("limits", [Limits(budget_per_day=10**9), Limits(budget_per_month=10**9)])
def test_a_request_takes_no_more_once_its_window_is_over(limits: Limits) -> None:
    account = took(Account(limits=limits))
    check_more(account, wanted(), NOON + DAY // 2 - 1, "team-a")
    with pytest.raises(BudgetSpent):
        check_more(account, wanted(), NOON + DAY // 2, "team-a")
    check_more(took(Account()), wanted(), NOON + 40 * DAY, "team-a")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "settle"]),
        st.integers(0, 3 * DAY),
        st.integers(0, 60),
        st.integers(0, 100),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_order_of_requests_and_settlements_exceeds_a_budget(steps: list[tuple[str, int, int, int]]) -> None:
    limits = Limits(budget_per_day=100, budget_per_month=150, tokens_per_minute=100)
    account, going_on, now = Account(limits=limits), list[Wanted](), NOON - DAY
    days: dict[int, int] = {}
    months: dict[int, int] = {}
    for step, pause, worst, part in steps:
        now += pause
        if step == "ask":
            new = wanted(now, worst, worst)
            try:
                check(account, new, "team-a")
            except (BudgetSpent, RateExceeded):
                continue
            account.reserve(now, worst, worst)
            going_on.append(new)
            change, at = worst, now
        elif going_on:
            old = going_on.pop(0)
            taken = (old.worst or 0) * part // 100
            account.settle(old.when, old.worst or 0, taken)
            account.settle_tokens(old.when, old.tokens, old.tokens * part // 100)
            change, at = taken - (old.worst or 0), old.when
        else:
            continue
        days[at // DAY] = days.get(at // DAY, 0) + change
        months[month_of(at // DAY)] = months.get(month_of(at // DAY), 0) + change
        assert max(days.values()) <= 100
        assert max(months.values()) <= 150
        today = account.day.at(now // DAY)
        assert today.taken + today.reserved == days.get(now // DAY, 0)


def test_an_empty_window_is_of_the_period_that_is_asked_for() -> None:
    window = Window(3, taken=5, reserved=2)
    assert window.at(3) is window
    assert window.at(4) == Window(4)


def test_stamps_are_what_the_calendar_says() -> None:
    told = datetime.fromtimestamp(NOON / 1_000_000, UTC)
    assert stamp(NOON + 999_999) == told.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_request_beyond_the_whole_budget_is_told_so_to_the_nano_dollar() -> None:
    alone = allowances.BudgetSpent("alice", "day", 50_000, allowances.Window(), 0, worst=188_000, waiting=False)
    assert "$0.00005 a day: $0.00 spent, and this request may cost $0.000188" in alone.what
    assert "more than the whole budget" in alone.remedy
    later = allowances.BudgetSpent(
        "alice", "day", 500_000, allowances.Window(1, 400_000), 0, worst=188_000, waiting=False
    )
    assert later.remedy.startswith("the budget is whole again")
