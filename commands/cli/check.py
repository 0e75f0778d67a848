"""``exp check``: tell whether the journal is what was recorded."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import Count, json_option, root_option


@click.command(help="Verify the journal; silent when all is well.")
@root_option
@click.option("--full", is_flag=True, help="Read all recorded content too, and let SQLite check its own structures.")
@click.option(
    "--from", "after", type=Count(0, 2**53 - 1), default=0, help="Trust events up to this one; check those after it."
)
@json_option
def command(root: Path, after: int, *, full: bool, as_json: bool) -> int:
    """Print every finding, each with its place and remedy; exit 1 when there is one."""
    from commands.render.findings import print_findings  # noqa: PLC0415 - as above
    from ledger.root_name import is_there  # noqa: PLC0415 - loaded when a command runs, not for --help
    from ledger.snapshots import FOLDER, differences  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - SQLite is loaded by the commands that need it
    from ledger.verify import Finding, verify  # noqa: PLC0415 - as above

    is_there(root, NAME)  # refuses a name that none can have
    findings = verify(root / NAME, full=full, after=after)
    readable = not any(one.name == "unreadable" for one in findings)
    if readable and (root / FOLDER).is_dir():
        from commands.families import all_families  # noqa: PLC0415 - all events are folded again: only if there is need

        findings += [Finding(one.name, 0, *one[1:]) for one in differences(root / NAME, all_families())]
    print_findings(findings, as_json=as_json)
    return 1 if findings else 0
