"""``exp export``: a run in one file, with all that it rests on."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result


@click.command(help="Carry a run away in one file.")
@click.argument("run", metavar="RUN")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@root_option
@click.option("--origin", metavar="NAME", help="A run that was imported from this origin.")
@json_option
def command(run: str, out: Path, root: Path, origin: str | None, *, as_json: bool) -> None:
    """Replay the run, then write what it rests on; the same run gives the same bytes."""
    from commands.bundles.exporting import export  # noqa: PLC0415 - loaded when the command runs
    from commands.opening import read_journal  # noqa: PLC0415 - as above
    from commands.optimizing.running import refuse_unsound  # noqa: PLC0415 - as above

    with read_journal(root) as journal:
        refuse_unsound(journal)
    exported = export(root, run, origin, out)
    result, manifest = Result(as_json), exported.manifest
    for name in ("run", "project", "policy", "report", "events", "contents"):
        result.line(name, getattr(manifest, name))
    result.line("checkpoint", " ".join(manifest.checkpoint.split()))
    result.line("bundle", exported.bundle)
    result.line("file", str(out))
    result.finish()
