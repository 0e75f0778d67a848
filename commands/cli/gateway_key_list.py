"""``exp gateway key list``: whose keys there are, and what each may and did take."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option
from commands.limits import shown
from commands.render.result import Result


@click.command(short_help="List the clients' keys and limits.")
@root_option
@json_option
def command(root: Path, *, as_json: bool) -> None:
    """List the clients: whether a key of theirs is valid, their limits, and what they took of them."""
    from commands.opening import now_us, read_journal  # noqa: PLC0415 - loaded to list
    from ledger.allowances import stamp  # noqa: PLC0415 - as above
    from ledger.families import serving  # noqa: PLC0415 - as above

    result = Result(as_json)
    now = now_us()
    with read_journal(root, serving.FAMILY) as journal:
        state: serving.Serving = journal.state(serving.FAMILY)
        issued = [(one.event, one.at) for one in journal.events(serving.GatewayKeyIssued)]
    newest = {event.identity: at for event, at in issued if isinstance(event, serving.GatewayKeyIssued)}
    for name in sorted(newest):
        mine = [digest for digest, identity in state.keys.items() if identity == name]
        result.item(
            "key",
            {
                "name": name,
                "issued": stamp(newest[name]),
                "valid": sum(state.valid(digest, now) for digest in mine),
                "of": len(mine),
                **shown(state.account(name), now),
            },
        )
    if not newest:
        result.text("no key was issued")
    result.finish()
