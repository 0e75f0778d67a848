"""``exp doctor``: what a root is like, and what needs doing."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option


@click.command(short_help="Say what the root is like and what needs doing.")
@root_option
@json_option
def command(root: Path, *, as_json: bool) -> int:
    """Say which versions are at work, how big the journal and its log are, and what needs doing.

    It looks at modes and owners of files, at the clock, at the room on the disk, and at calls and requests of processes
    that are gone. Nothing is changed. It exits with 1 when something needs doing. `exp check` looks at the events.
    """
    from commands.doctoring import examine  # noqa: PLC0415 - SQLite is loaded by the commands that need it
    from commands.opening import now_us  # noqa: PLC0415 - as above
    from commands.render.findings import print_findings  # noqa: PLC0415 - as above
    from commands.render.json_text import json_text  # noqa: PLC0415 - as above
    from commands.render.result import Result  # noqa: PLC0415 - as above
    from ledger.root_name import is_there  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - as above

    is_there(root, NAME)  # refuses a name that none can have
    facts, findings = examine(root, now_us())
    if as_json:
        rows = [finding._asdict() for finding in findings]
        click.echo(json_text({"well": not findings, "facts": facts, "findings": rows}, indent=2))
    else:
        result = Result(as_json=False)
        for name, value in facts.items():
            result.line(name, value)
        print_findings(findings, as_json=False)
    return 1 if findings else 0
