"""``exp gateway usage``: what was used, by day, key and model."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result


class Day(click.ParamType[int]):
    """A day in UTC, counted from 1970 in the program."""

    name = "YYYY-MM-DD"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of the day; a usage error for what is none."""
        from ledger.allowances import day_number  # noqa: PLC0415 - loaded to read or show

        if isinstance(value, int):
            return value
        try:
            return day_number(str(value))
        except ValueError:
            self.fail(f"{value!r} is no day such as 2026-11-30", param, ctx)


@click.command(short_help="Show what was used, by day, key and model.")
@click.option("--from", "first", type=Day(), default=None, help="The first day (UTC); all that is recorded without it.")
@click.option("--to", "last", type=Day(), default=None, help="The last day (UTC).")
@click.option("--key", "name", default=None, metavar="NAME", help="Of one client.")
@root_option
@json_option
def command(first: int | None, last: int | None, name: str | None, root: Path, *, as_json: bool) -> None:
    """Show what clients used of models, day by day, and what it cost; with --json in integer nano-dollars.

    It is read from sums that are kept, however long the journal is. Requests recorded before days were have none.
    """
    from commands.gateway.usage import Asked, document, listed  # noqa: PLC0415 - as above
    from commands.opening import now_us, read_journal  # noqa: PLC0415 - as above
    from commands.render.json_text import json_text  # noqa: PLC0415 - as above
    from ledger import money  # noqa: PLC0415 - as above
    from ledger.allowances import day_name  # noqa: PLC0415 - as above
    from ledger.consumption import total  # noqa: PLC0415 - as above
    from ledger.families import serving  # noqa: PLC0415 - as above

    now, wanted = now_us(), Asked(first, last, name)
    with read_journal(root, serving.FAMILY) as journal:
        state: serving.Serving = journal.state(serving.FAMILY)
        if name is not None:
            serving.check_known(name, state, now)
    if as_json:
        click.echo(json_text(document(state, wanted, now), indent=2))
        return
    result, rows = Result(as_json), listed(state, wanted)
    for row in rows:
        used = row.used
        result.item(
            "used",
            {
                "day": "before" if row.day is None else day_name(row.day),
                "key": row.identity,
                "model": row.alias,
                "requests": used.requests,
                "answered": used.answered,
                "tokens": f"{used.input_tokens}+{used.output_tokens}",
                "cost": money.usd(used.cost, 9),
                "ambiguous": money.usd(used.ambiguous, 9),
                "unpriced": used.unpriced,
            },
        )
    every = total(rows)
    result.line("requests", every.requests)
    result.line("cost", money.usd(every.cost, 9))
    result.finish()
