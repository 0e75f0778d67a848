"""``exp gateway limits``: read or set what a client, or all of them together, may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from commands.cli.options import json_option, root_option
from commands.limits import limit_options
from commands.render.result import Result


@click.command(short_help="Read or set what clients may take.")
@click.argument("name", required=False)
@limit_options
@root_option
@json_option
def command(name: str | None, root: Path, *, as_json: bool, models: tuple[str, ...], **limits: Any) -> None:  # noqa: ANN401 - the limits' options
    """Set the limits that are given for the client NAME, or for all clients together, and show those in force.

    Limits that aren't given stay as they are. A gateway that runs goes by them at once.
    """
    from commands.limits import changed, shown  # noqa: PLC0415 - loaded to read or set
    from commands.opening import now_us, open_journal  # noqa: PLC0415 - as above
    from ledger.allowances import OVERALL  # noqa: PLC0415 - as above
    from ledger.event import Step  # noqa: PLC0415 - as above
    from ledger.families import serving  # noqa: PLC0415 - as above

    if name is None and models:
        raise click.UsageError("--model says what one client may ask for: give its NAME")
    result = Result(as_json)
    with open_journal(root, "gateway limits", serving.FAMILY, create=name is None) as journal:
        state: serving.Serving = journal.state(serving.FAMILY)
        identity = OVERALL if name is None else name
        if name is not None:
            serving.check_known(name, state, now_us())
        wanted = changed(state.account(identity).limits, models, **limits)
        command = serving.SetGatewayLimits(identity=identity, limits=wanted)
        recorded = journal.submit(Step(serving.FAMILY, command)).result()
        if models or any(value is not None for value in limits.values()):
            result.line("recorded", "1 event" if recorded else "nothing new")
        state = journal.state(serving.FAMILY)
        result.item("limits", {"name": name or "all together", **shown(state.account(identity), now_us())})
    result.finish()
