"""``exp gateway key rotate``: give a client another key."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.gateway_key_issue import hand_over, output_option
from commands.cli.options import Count, json_option, root_option
from commands.render.result import Result

WEEK = 7 * 24 * 3600
MICRO = 1_000_000


@click.command(short_help="Give a client another key.")
@click.argument("name")
@click.option(
    "--overlap",
    type=Count(0, 4 * WEEK),
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="How long the key that NAME had stays valid beside the new one.",
)
@output_option
@root_option
@json_option
def command(name: str, overlap: int, output: Path | None, root: Path, *, as_json: bool) -> None:
    """Make a new key for the client NAME, say it this once, and take back those that NAME had.

    Limits, budgets and idempotency keys stay NAME's.
    """
    from commands.gateway.keys import digest_of, new_key, write_key  # noqa: PLC0415 - loaded when a key is made
    from commands.opening import now_us, open_journal  # noqa: PLC0415 - as above
    from ledger.allowances import stamp  # noqa: PLC0415 - as above
    from ledger.event import Step  # noqa: PLC0415 - as above
    from ledger.families import serving  # noqa: PLC0415 - as above

    result = Result(as_json)
    key, now = new_key(), now_us()
    until = now + overlap * MICRO
    wanted = serving.RotateGatewayKey(identity=name, digest=digest_of(key), when=now, until=until)
    with open_journal(root, "gateway key rotate", serving.FAMILY) as journal:
        serving.check_known(name, journal.state(serving.FAMILY), now)
        if output is not None:
            write_key(output, key)
        recorded = journal.submit(Step(serving.FAMILY, wanted)).result()
    result.line("name", name)
    result.line("keys taken back", len(recorded) - 1)
    if overlap:
        result.line("valid until", stamp(until))
    hand_over(result, key, output)
    result.finish()
