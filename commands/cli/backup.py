"""``exp backup``: a verified copy of the journal."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result


@click.command(short_help="Copy the journal, verified, while it is in use.")
@click.argument("output", metavar="OUT", type=click.Path(path_type=Path))
@root_option
@json_option
def command(output: Path, root: Path, *, as_json: bool) -> None:
    """Copy the journal to the file OUT, which must not be there yet, and verify the copy in full.

    The file is private, holds nothing of contents that were erased, and has its name only once it is whole and well.
    To restore it, make an empty folder and copy the file to `ledger.db` in it. Gateway keys are not in a journal:
    copy the key files yourself.
    """
    from commands.backing_up import back_up  # noqa: PLC0415 - SQLite is loaded by the commands that need it
    from ledger.root_name import is_there  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - as above

    is_there(root, NAME)  # refuses a name that none can have
    made = back_up(root / NAME, output)
    result = Result(as_json)
    result.line("backup", str(output))
    result.line("bytes", made.size)
    result.line("journal", f"{made.events} {made.head}")
    result.line("checkpoint", made.checkpoint.splitlines()[-1])
    result.finish()
