"""Options that mean the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ledger.money import NanoUSD, nano_usd

DEFAULT_ROOT = Path(".exp")
LARGEST: NanoUSD = 2**53 - 1

F = TypeVar("F", bound=Callable[..., Any])


class Usd(click.ParamType[NanoUSD]):
    """An amount in dollars on the command line, exact nano-dollars in the program."""

    name = "usd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NanoUSD:  # noqa: ANN401 - click's signature
        """Return nano-dollars; a usage error for what is no amount, negative, too large or too fine."""
        if isinstance(value, int):
            return value
        try:
            amount = nano_usd(str(value).removeprefix("$"))
        except ValueError:
            self.fail(f"{value!r} is no amount in dollars", param, ctx)
        if amount < 0:
            self.fail(f"{value!r} is negative", param, ctx)
        if amount > LARGEST:
            self.fail(f"{value!r} is more than can be recorded exactly", param, ctx)
        return amount


usd = Usd()


def rooted_at(default: Path) -> Callable[[F], F]:
    """Pass ``root``, the directory that holds the ledger."""
    return click.option(
        "--root",
        type=click.Path(file_okay=False, path_type=Path),
        default=default,
        show_default=True,
        help="Directory of the ledger, its views and its keys.",
    )


root_option = rooted_at(DEFAULT_ROOT)


def json_option(function: F) -> F:
    """Pass ``as_json``: the result as one JSON object."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")(function)


def non_interactive_option(function: F) -> F:
    """Pass ``non_interactive``: nothing is ever asked for on the terminal."""
    return click.option("--non-interactive", is_flag=True, help="Never prompt; fail and name what is missing.")(
        function
    )


def yes_option(function: F) -> F:
    """Pass ``yes``: the plan's cost is agreed to."""
    option = click.option("--yes", is_flag=True, help="Agree to a plan that may cost more than half of its ceiling.")
    return option(function)
