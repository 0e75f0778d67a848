"""``exp gateway key issue``: make a key for a client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from commands.cli.options import json_option, project_name, root_option
from commands.limits import limit_options
from commands.render.result import Result

output_option = click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the key into this new file, readable by its owner only, and don't print it.",
)


def hand_over(result: Result, key: str, output: Path | None) -> None:
    """Say the key, this once; or where it is."""
    if output is None:
        result.line("key", key)
        result.text("it is shown this once: the journal knows only its digest")
    else:
        result.line("key file", str(output.absolute()))


@click.command(short_help="Make a key for a client.")
@click.argument("name", type=project_name)
@limit_options
@output_option
@root_option
@json_option
def command(name: str, output: Path | None, root: Path, *, as_json: bool, **limits: Any) -> None:  # noqa: ANN401 - the limits' options
    """Make a key for the client NAME and say it, this once.

    Only its digest is recorded. Requests, budgets and idempotency keys belong to NAME, whichever key is shown for it.
    A gateway that runs knows the key at once.
    """
    from commands.gateway.keys import digest_of, new_key, write_key  # noqa: PLC0415 - loaded when a key is made
    from commands.limits import changed  # noqa: PLC0415 - as above
    from commands.opening import open_journal  # noqa: PLC0415 - as above
    from ledger.allowances import FREE  # noqa: PLC0415 - as above
    from ledger.event import Step  # noqa: PLC0415 - as above
    from ledger.families import serving  # noqa: PLC0415 - as above

    result = Result(as_json)
    key = new_key()
    wanted = serving.IssueGatewayKey(identity=name, digest=digest_of(key), limits=changed(FREE, **limits))
    with open_journal(root, "gateway key issue", serving.FAMILY, create=True) as journal:
        serving.check_name(name, journal.state(serving.FAMILY))
        if output is not None:
            write_key(output, key)
        journal.submit(Step(serving.FAMILY, wanted)).result()
    result.line("name", name)
    hand_over(result, key, output)
    result.finish()
