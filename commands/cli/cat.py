"""``exp cat``: the exact bytes of an event or a content."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import click

from commands.cli.options import json_option, root_option


@click.command(short_help="Print the exact bytes of an event or a content.")
@click.argument("id_", metavar="ID")
@root_option
@json_option
def command(id_: str, root: Path, *, as_json: bool) -> None:
    """Print the exact bytes that ID is the digest of: an event's number or id, or a content's digest.

    Any unique beginning of an id will do. On a terminal whatever would act on it is left out; in a pipe or a file
    every byte is there.
    """
    from commands.naming import located  # noqa: PLC0415 - loaded when the command runs

    with located(root, id_) as (journal, named):
        name = named.content or named.name
        data = journal.blob(named.content) if named.content else named.record.bytes if named.record else b""
    if as_json:
        _print_json(name, data)
    elif sys.stdout.isatty():
        from commands.render.plain import printable  # noqa: PLC0415 - only where somebody looks

        click.echo(printable(data.decode(errors="replace")), nl=False)
    else:
        click.echo(data, nl=False)


def _print_json(name: str, data: bytes) -> None:
    from commands.render.json_text import json_text  # noqa: PLC0415 - only here

    try:
        said = {"id": name, "size": len(data), "text": data.decode(), "base64": None}
    except UnicodeDecodeError:
        said = {"id": name, "size": len(data), "text": None, "base64": base64.b64encode(data).decode()}
    click.echo(json_text(said, indent=2))
