"""``exp gateway key revoke``: take a client's keys back."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result


@click.command(short_help="Take a client's keys back.")
@click.argument("name")
@root_option
@json_option
def command(name: str, root: Path, *, as_json: bool) -> None:
    """Take back every key of the client NAME: from now on it gets 401, also from gateways that run."""
    from commands.opening import now_us, open_journal  # noqa: PLC0415 - loaded when a key is taken back
    from ledger.event import Step  # noqa: PLC0415 - as above
    from ledger.families import serving  # noqa: PLC0415 - as above

    result = Result(as_json)
    with open_journal(root, "gateway key revoke", serving.FAMILY) as journal:
        wanted = serving.RevokeGatewayKey(identity=name, when=now_us())
        recorded = journal.submit(Step(serving.FAMILY, wanted)).result()
    result.line("name", name)
    result.line("keys taken back", len(recorded))
    result.finish()
