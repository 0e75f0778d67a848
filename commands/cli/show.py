"""``exp show``: an event with its contents, what led to it and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.cli.options import json_option, root_option

if TYPE_CHECKING:
    from commands.naming import Named
    from ledger.journal import Journal

LISTED = 20


@click.command(short_help="Show an event with its causes and effects.")
@click.argument("id_", metavar="ID")
@root_option
@json_option
def command(id_: str, root: Path, *, as_json: bool) -> None:
    """Show the event that ID means: its facts, the contents it names, its causes, and what refers to it.

    For a content: its beginning, and the events that name it. Any unique beginning of an id will do.
    """
    from commands.naming import located  # noqa: PLC0415 - loaded when the command runs
    from commands.render.json_text import json_text  # noqa: PLC0415 - as above

    with located(root, id_) as (journal, named):
        shown = _content(journal, named) if named.record is None else _event(journal, named)
    if as_json:
        click.echo(json_text(shown, indent=2))
    else:
        _print(shown)


def _event(journal: Journal, named: Named) -> dict[str, Any]:
    from commands.explaining.effects import causes, effects  # noqa: PLC0415 - only for events
    from commands.explaining.telling import contents, envelope  # noqa: PLC0415 - as above

    record = named.record
    if record is None:
        raise AssertionError(named)
    return {
        **envelope(record),
        "contents": contents(journal, record),
        "causes": _rows(causes(journal, record)),
        "effects": _rows(effects(journal, record)),
    }


def _content(journal: Journal, named: Named) -> dict[str, Any]:
    from commands.explaining.telling import content  # noqa: PLC0415 - only for contents

    digest = named.content or named.name
    records = [record for seq in journal.referring(digest) if (record := journal.at(seq)) is not None]
    return {**content(journal, digest), "named_by": _rows(records)}


def _rows(records: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any number of records
    from commands.explaining.telling import line  # noqa: PLC0415 - loaded when there is something to tell
    from ledger import digests  # noqa: PLC0415 - as above

    return [
        {"seq": one.seq, "id": digests.named(one.id), "kind": one.kind, "line": line(one).strip()} for one in records
    ]


def _print(shown: dict[str, Any]) -> None:
    from commands.render.json_text import json_text  # noqa: PLC0415 - loaded when the command runs
    from commands.render.plain import one_line, printable  # noqa: PLC0415 - as above

    lists = ("contents", "causes", "effects", "named_by")
    for name, value in shown.items():
        if name == "body":
            click.echo(f"body:\n{printable(json_text(value, indent=2))}")
        elif name not in lists:
            click.echo(f"{name}: {'none' if value is None else one_line(str(value))}")
    for name in lists:
        rows = shown.get(name, [])
        for row in rows[:LISTED]:
            click.echo(f"{name}: {row['line'] if 'line' in row else one_line(_said(row))}")
        if len(rows) > LISTED:
            click.echo(f"{name}: and {len(rows) - LISTED} more")


def _said(content: dict[str, Any]) -> str:
    held = content["excerpt"] if content["excerpt"] is not None else "no text"
    if content["state"] != "held":
        by = f" by event {content['erased_by']}" if content["erased_by"] is not None else ""
        held = f"not reproducible: erased{by}" if by else content["state"]
    return f"{content['at']} {content['digest']} {held}"
