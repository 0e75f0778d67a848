"""``exp verify-checkpoint``: whether the journal only grew since a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, root_option

if TYPE_CHECKING:
    from ledger.inspecting import Inspected
    from ledger.verify import Finding


@click.command(short_help="Tell whether the journal only grew since; silent when it did.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@root_option
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    default=None,
    help="The root of a copy that was kept: names the first event that differs.",
)
@json_option
def command(files: tuple[Path, ...], root: Path, against: Path | None, *, as_json: bool) -> int:
    """Compare the journal with checkpoints that were kept; exit 1 when it isn't a continuation of one.

    Each difference is named: another origin, events cut off at the end, or events rewritten or forked and between
    which positions. Several checkpoints narrow the positions down.
    """
    from commands.proving import inspected, read_checkpoint  # noqa: PLC0415 - loaded when the command runs
    from commands.render.findings import print_findings  # noqa: PLC0415 - as above
    from ledger.proving import compare  # noqa: PLC0415 - as above

    kept = [(str(path), read_checkpoint(path)) for path in files]
    store = inspected(root)
    try:
        findings = compare(store, kept)
        if against is not None:
            findings += _differing(store, against)
    finally:
        store.close()
    print_findings(findings, as_json=as_json)
    return 1 if findings else 0


def _differing(store: Inspected, against: Path) -> list[Finding]:
    from ledger.proving import first_difference  # noqa: PLC0415 - loaded when there is something to compare
    from ledger.root_name import is_there  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - as above
    from ledger.verify import Finding  # noqa: PLC0415 - as above

    is_there(against, NAME)  # refuses a name that none can have
    found = first_difference(store, against / NAME)
    if found is None:
        return []
    seq, meaning = found
    return [Finding("event-differs", seq, str(against), meaning, "one of the two was rewritten from there on")]
