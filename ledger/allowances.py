"""Allowances: the requests and tokens a minute, and the money a day and a month, that one key or all keys may take.

The worst is taken before a call and set right after it. A window is a minute, a day or a month in UTC, told from the
time that events say; that time never goes back, so what comes from a slower clock counts in the window of the newest.
What a request took counts in the windows in which it was accepted, however long it goes on.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Literal

import msgspec

from ledger import money
from ledger.errors import Refusal
from ledger.event import Fact
from ledger.money import NanoUSD

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
EPOCH = date(1970, 1, 1).toordinal()
MONTHS = 12
OVERALL = ""
Unit = Literal["requests", "tokens"]
Span = Literal["day", "month"]


class Limits(Fact):
    """What a key may do; None where there is no limit."""

    aliases: tuple[str, ...] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_per_day: NanoUSD | None = None
    budget_per_month: NanoUSD | None = None


FREE = Limits()


def _exact(amount: NanoUSD) -> str:
    """Return an amount to the nano-dollar, but for the zeros beyond the cents."""
    whole, _, part = money.usd(amount, 9).partition(".")
    return f"{whole}.{part[:2]}{part[2:].rstrip('0')}"


def _who(identity: str) -> str:
    return f"the key {identity}" if identity else "all keys together"


class RateExceeded(Refusal, name="gateway-rate-exceeded", exit_code=118):
    """This minute's requests or tokens are used up. ``alone`` is a request that fits into no minute."""

    def __init__(self, identity: str, unit: Unit, limit: int, resets: int, *, alone: bool) -> None:
        self.resets = resets
        self.alone = alone
        what = f"{_who(identity)} may take {limit} {unit} a minute"
        remedy = "ask for fewer output tokens" if alone else f"try again after {stamp(resets)}"
        super().__init__(f"{what}, and this request is more than that", where="the gateway", remedy=remedy)


class BudgetSpent(Refusal, name="gateway-budget-spent", exit_code=119):
    """The worst case of a request doesn't fit under a budget. ``waiting``: it might, once others are settled."""

    def __init__(  # noqa: PLR0913 - the facts of a window, and what was wanted of it
        self, identity: str, span: Span, budget: NanoUSD, window: Window, resets: int, *, worst: NanoUSD, waiting: bool
    ) -> None:
        self.resets = resets
        self.waiting = waiting
        in_flight = f", {_exact(window.reserved)} reserved for requests in flight" if window.reserved else ""
        back = f"the budget is whole again at {stamp(resets)}"
        never = f"that is more than the whole budget: ask for fewer output tokens, or raise it; {back}"
        super().__init__(
            f"{_who(identity)} may spend {_exact(budget)} a {span}: {_exact(window.taken)} spent{in_flight}, and this"
            f" request may cost {_exact(worst)}",
            where="the gateway",
            remedy=never if worst > budget else back,
        )


class PriceUnknown(Refusal, name="gateway-price-unknown", exit_code=120):
    """Nobody knows what a request may cost, and its key, or all of them, have a budget."""

    def __init__(self, identity: str, alias: str) -> None:
        super().__init__(
            f"{_who(identity)} have a budget, and what a request to {alias} costs isn't known",
            where="the gateway",
            remedy=f"configure the prices and the output limit of {alias}, or say max_completion_tokens",
        )


class Window(msgspec.Struct, array_like=True):
    """What was taken in one period, and what is reserved in it for what goes on."""

    period: int = 0
    taken: int = 0
    reserved: int = 0

    def at(self, period: int) -> Window:
        """Return the window as it is in a period: an empty one when that is another."""
        return self if self.period == period else Window(period)

    def reserve(self, period: int, amount: int) -> None:
        """Begin another period where this is over, and reserve."""
        if self.period != period:
            self.period, self.taken, self.reserved = period, 0, 0
        self.reserved += amount

    def settle(self, period: int, reserved: int, taken: int) -> None:
        """Replace what was reserved in a period by what was taken; nothing when that period is over."""
        if self.period == period:
            self.reserved -= reserved
            self.taken += taken


class Account(msgspec.Struct):
    """One key's limits, or those of all keys together, and what is taken of them."""

    limits: Limits = FREE
    requests: Window = msgspec.field(default_factory=Window)
    tokens: Window = msgspec.field(default_factory=Window)
    day: Window = msgspec.field(default_factory=Window)
    month: Window = msgspec.field(default_factory=Window)

    def reserve(self, when: int, tokens: int, worst: NanoUSD) -> None:
        """Take a request, and reserve its worst."""
        minute, day = when // MINUTE, when // DAY
        self.requests.reserve(minute, 0)
        self.requests.taken += 1
        self.tokens.reserve(minute, tokens)
        self.day.reserve(day, worst)
        self.month.reserve(month_of(day), worst)

    def settle_tokens(self, when: int, reserved: int, taken: int) -> None:
        """Set right the tokens of a request that was accepted then."""
        self.tokens.settle(when // MINUTE, reserved, taken)

    def settle(self, when: int, reserved: NanoUSD, taken: NanoUSD) -> None:
        """Set right the money of a request that was accepted then."""
        day = when // DAY
        self.day.settle(day, reserved, taken)
        self.month.settle(month_of(day), reserved, taken)


class Wanted(msgspec.Struct, frozen=True):
    """What a request would take, by whom, when. ``worst`` is None where nobody knows."""

    identity: str
    alias: str
    when: int
    tokens: int
    worst: NanoUSD | None


_months: dict[int, int] = {}


def month_of(day: int) -> int:
    """Return the number of the month that a day (since 1970) is in."""
    month = _months.get(day)
    if month is None:
        told = date.fromordinal(EPOCH + day)
        month = _months[day] = told.year * MONTHS + told.month - 1
    return month


def day_name(day: int) -> str:
    """Return a day (since 1970) as 2026-11-30."""
    return date.fromordinal(EPOCH + day).isoformat()


def day_number(name: str) -> int:
    """Return the day (since 1970) that a name means; ValueError when it is none."""
    return date.fromisoformat(name).toordinal() - EPOCH


def stamp(when: int) -> str:
    """Return a moment (microseconds since 1970) in UTC, to the second."""
    return datetime.fromtimestamp(when // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _next_month(day: int) -> int:
    year, month = divmod(month_of(day) + 1, MONTHS)
    return (date(year, month + 1, 1).toordinal() - EPOCH) * DAY


def check(account: Account, wanted: Wanted, identity: str) -> None:
    """Refuse what doesn't fit into an account: of the key ``identity``, or of all."""
    limits = account.limits
    minute = wanted.when // MINUTE
    _check_rate(account.requests.at(minute), 1, limits.requests_per_minute, "requests", identity)
    _check_rate(account.tokens.at(minute), wanted.tokens, limits.tokens_per_minute, "tokens", identity)
    check_money(account, wanted, identity)


def check_money(account: Account, wanted: Wanted, identity: str) -> None:
    """Refuse what doesn't fit under an account's budgets."""
    limits, day = account.limits, wanted.when // DAY
    if limits.budget_per_day is None and limits.budget_per_month is None:
        return
    if wanted.worst is None:
        raise PriceUnknown(identity, wanted.alias)
    _check_budget(account.day.at(day), wanted.worst, (limits.budget_per_day, "day", (day + 1) * DAY), identity)
    month = account.month.at(month_of(day))
    _check_budget(month, wanted.worst, (limits.budget_per_month, "month", _next_month(day)), identity)


def check_more(account: Account, wanted: Wanted, now: int, identity: str) -> None:
    """Refuse what a request that goes on would take on top. What it took counts in a day that must still be."""
    limits = account.limits
    day, today = wanted.when // DAY, now // DAY
    over_day = limits.budget_per_day is not None and day != today
    over_month = limits.budget_per_month is not None and month_of(day) != month_of(today)
    if over_day or over_month:
        raise BudgetSpent(
            identity,
            "day" if over_day else "month",
            (limits.budget_per_day if over_day else limits.budget_per_month) or 0,
            Window(),
            now,
            worst=0,
            waiting=False,
        )
    check_money(account, wanted, identity)


def _check_rate(window: Window, amount: int, limit: int | None, unit: Unit, identity: str) -> None:
    if limit is not None and window.taken + window.reserved + amount > limit:
        raise RateExceeded(identity, unit, limit, (window.period + 1) * MINUTE, alone=amount > limit)


def _check_budget(window: Window, worst: NanoUSD, under: tuple[NanoUSD | None, Span, int], identity: str) -> None:
    budget, span, resets = under
    if budget is not None and window.taken + window.reserved + worst > budget:
        raise BudgetSpent(identity, span, budget, window, resets, worst=worst, waiting=window.taken + worst <= budget)
