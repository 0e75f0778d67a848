"""``exp import bundle``, or ``exp import``: bring in a run that was carried away elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result


@click.command(help="Bring in a bundle that `exp export` wrote.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@root_option
@json_option
def command(file: Path, root: Path, *, as_json: bool) -> None:
    """Verify a bundle, and keep its events as another journal's."""
    from commands.bundles.importing import bring_in, opened  # noqa: PLC0415 - loaded when the command runs
    from commands.opening import open_journal  # noqa: PLC0415 - as above
    from ledger.families import imports  # noqa: PLC0415 - as above

    with (
        opened(file) as (bundle, verified),  # before a journal is made for it
        open_journal(root, "import", imports.FAMILY, create=True) as journal,
    ):
        imported = bring_in(journal, bundle, verified)
        position, head = journal.position()
    result, manifest = Result(as_json), imported.verified.manifest
    for name in ("run", "project", "policy", "report"):
        result.line(name, getattr(manifest, name))
    result.line("origin", imported.verified.checkpoint.origin)
    result.line("checkpoint", " ".join(manifest.checkpoint.split()))
    result.line("bundle", imported.verified.digest)
    result.line("added", imported.fresh)
    if imported.known:
        result.text("this bundle was brought in before, so nothing is new")
    result.line("journal", f"{position} {head}")
    result.text(f"`exp replay --origin {imported.verified.checkpoint.origin} --root {root}` computes it again")
    result.finish()
