"""Limits: how what a key may do is given on a command line, and shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from commands.cli.options import LARGEST, Count, usd

if TYPE_CHECKING:
    from ledger.allowances import Account, Limits

F = TypeVar("F", bound=Callable[..., Any])
NO_LIMIT: Final = "none"
ALL_MODELS: Final = "all"


class OrNone(click.ParamType[Any]):
    """A value, or ``none`` for no limit."""

    def __init__(self, value: click.ParamType[Any], metavar: str) -> None:
        self.name = f"{metavar}|{NO_LIMIT}"
        self._value = value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return how the value is written."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Return the value, or the word for no limit."""
        return NO_LIMIT if value == NO_LIMIT else self._value.convert(value, param, ctx)


_RATE = OrNone(Count(1, LARGEST), "N")
_BUDGET = OrNone(usd, "USD")


def limit_options(function: F) -> F:
    """Pass ``models``, ``requests_per_minute``, ``tokens_per_minute``, ``budget_per_day``, ``budget_per_month``."""
    for name, kind, words in reversed(
        (
            ("--requests-per-minute", _RATE, "Requests in a minute (UTC)."),
            (
                "--tokens-per-minute",
                _RATE,
                "Tokens in a minute (UTC): the most a request may take, set right after it.",
            ),
            ("--budget-per-day", _BUDGET, "Dollars in a day (UTC); worst cases are reserved, so it is never exceeded."),
            ("--budget-per-month", _BUDGET, "Dollars in a month (UTC), as above."),
        )
    ):
        function = click.option(name, type=kind, default=None, help=words)(function)
    words = f"A model or project that may be asked for, repeatable; `{ALL_MODELS}` for all."
    return click.option("--model", "models", multiple=True, metavar="NAME", help=words)(function)


def changed(limits: Limits, models: tuple[str, ...], **given: Any) -> Limits:  # noqa: ANN401 - what the options above gave
    """Return limits with what was given on the command line in place of what was."""
    from msgspec import structs  # noqa: PLC0415 - only where there are limits to change

    news = {name: None if value == NO_LIMIT else value for name, value in given.items() if value is not None}
    if models:
        news["aliases"] = None if ALL_MODELS in models else tuple(dict.fromkeys(models))
    return structs.replace(limits, **news)


def shown(account: Account, now: int) -> dict[str, str | int | None]:
    """Return an account as the fields of a row: each limit with what is taken of it now."""
    from ledger.allowances import DAY, MINUTE, month_of  # noqa: PLC0415 - as above
    from ledger.money import usd as dollars  # noqa: PLC0415 - as above

    limits, day = account.limits, now // DAY
    today, month = account.day.at(day), account.month.at(month_of(day))
    requests, tokens = account.requests.at(now // MINUTE), account.tokens.at(now // MINUTE)

    def money(limit: int | None) -> str:
        return NO_LIMIT if limit is None else dollars(limit, 9)

    return {
        "models": ALL_MODELS if limits.aliases is None else ",".join(limits.aliases),
        "requests_per_minute": limits.requests_per_minute or NO_LIMIT,
        "requests_this_minute": requests.taken,
        "tokens_per_minute": limits.tokens_per_minute or NO_LIMIT,
        "tokens_this_minute": tokens.taken + tokens.reserved,
        "budget_per_day": money(limits.budget_per_day),
        "spent_today": dollars(today.taken, 9),
        "budget_per_month": money(limits.budget_per_month),
        "spent_this_month": dollars(month.taken, 9),
        "reserved": dollars(month.reserved, 9),
    }
