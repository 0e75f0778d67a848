"""Options that mean the same in every command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ledger.money import NanoUSD

DEFAULT_ROOT = Path(".exp")
LARGEST: NanoUSD = 2**53 - 1
_DOLLARS = re.compile(r"\$?([0-9]+)(?:\.([0-9]+))?")
_PLACES = 9
_SHARE_PLACES = 6
_ONE = 1_000_000

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

F = TypeVar("F", bound=Callable[..., Any])


class Usd(click.ParamType[NanoUSD]):
    """An amount in dollars on the command line, exact nano-dollars in the program."""

    name = "usd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NanoUSD:  # noqa: ANN401 - click's signature
        """Return nano-dollars; a usage error for what is no amount, negative, too large or too fine."""
        if isinstance(value, int):
            return value
        written = _DOLLARS.fullmatch(str(value))
        if written is None:
            self.fail(f"{value!r} is no amount in dollars: plain digits such as 25 or 0.50, no exponent", param, ctx)
        whole, fraction = written[1].lstrip("0"), (written[2] or "").rstrip("0")
        if len(fraction) > _PLACES:
            self.fail(f"{value!r} is finer than a nano-dollar", param, ctx)
        if len(whole) > len(str(LARGEST)) or (amount := int(f"{whole}{fraction:0<9}")) > LARGEST:
            self.fail(f"{value!r} is more than can be recorded exactly", param, ctx)
        return amount


usd = Usd()


class Share(click.ParamType[int]):
    """A number from 0 to 1 on the command line, exact millionths in the program."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 - click's signature
        """Return millionths; a usage error for what is no such number, or finer."""
        if isinstance(value, int):
            return value
        written = _DOLLARS.fullmatch(str(value))
        if written is None or str(value).startswith("$"):
            self.fail(f"{value!r} is no number from 0 to 1 in plain digits, such as 0.05", param, ctx)
        fraction = (written[2] or "").rstrip("0")
        if len(fraction) > _SHARE_PLACES:
            self.fail(f"{value!r} is finer than a millionth", param, ctx)
        whole = written[1].lstrip("0")
        if len(whole) > 1 or (millionths := int(f"{whole or 0}{fraction:0<6}")) > _ONE:
            self.fail(f"{value!r} is more than 1", param, ctx)
        return millionths


share = Share()


class Count(click.IntRange):
    """A whole number within bounds, in plain digits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 - click's signature
        """Return the number; a usage error for what is out of bounds or written otherwise."""
        if isinstance(value, str) and not (value.isascii() and value.removeprefix("-").isdigit()):
            self.fail(f"{value!r} is not a whole number in plain digits", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number


class Project(click.ParamType[str]):
    """The name of a project: one that no shell, path or address needs to quote."""

    name = "project"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 - click's signature
        """Return the name; a usage error for any other text."""
        name = str(value)
        if not _PROJECT.fullmatch(name):
            self.fail("letters, digits, `.`, `_` and `-`, at most 64, not starting with a mark", param, ctx)
        return name


project_name = Project()


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
