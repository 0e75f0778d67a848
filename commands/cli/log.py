"""``exp log``: the events, one a line, as they are read."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.cli.options import root_option
from commands.render.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands.explaining.choosing import Choice
    from ledger.journal import Journal
    from ledger.recorded import Recorded

POLL_SECONDS = 0.1


class Moment(click.ParamType[int]):
    """A time on the command line, microseconds since 1970 in the program."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401 - click's signature
        """Return the time; a usage error for what isn't written as ISO 8601."""
        from commands.explaining.telling import microseconds  # noqa: PLC0415 - loaded when a time is given

        if isinstance(value, int):
            return value
        try:
            return microseconds(datetime.fromisoformat(str(value)))
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time: write 2026-01-31 or 2026-01-31T15:00:00, UTC unless it says so", param, ctx
            )


@click.command(short_help="List events, one a line.")
@root_option
@click.option("--stream", help="Only events of this stream; with a * at its end, of all that begin so.")
@click.option("--kind", "kinds", multiple=True, help="Only events of this kind, with or without @VERSION. Repeatable.")
@click.option("--since", type=Moment(), help="Only events recorded at this time (ISO 8601) or later.")
@click.option("--run", help="Only what belongs to this run, by any unique beginning of its id.")
@click.option("--follow", is_flag=True, help="Go on with what is recorded from now on, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def command(  # noqa: PLR0913 - one argument an option
    root: Path,
    stream: str | None,
    kinds: tuple[str, ...],
    since: int | None,
    run: str | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Print events in the order they were committed: number, id, time, kind, stream, and a few facts."""
    from commands.explaining.choosing import chosen  # noqa: PLC0415 - loaded when the command runs
    from commands.explaining.telling import envelope, line  # noqa: PLC0415 - as above
    from commands.opening import read_journal  # noqa: PLC0415 - as above

    with read_journal(root) as journal:
        choice = chosen(journal, kinds, stream=stream, since=since, run=run)
        for record in _records(journal, choice, follow=follow):
            click.echo(json_text(envelope(record)) if as_json else line(record))


def _records(journal: Journal, choice: Choice, *, follow: bool) -> Iterator[Recorded]:
    """Yield what was chosen; with ``follow`` also what comes, for ever."""
    reached = 0
    while True:
        change, last = journal.change(), journal.position()[0]
        yield from choice.records(journal, after=reached)
        reached = last
        if not follow:
            return
        while journal.change() == change:
            time.sleep(POLL_SECONDS)
        journal.refresh()
