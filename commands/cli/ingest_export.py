"""``exp ingest export``: write recorded traces in the normal form, as OTLP JSON that can be read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, project_name, root_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledger.journal import Journal


@click.command(help="Write recorded traces as OTLP JSON.")
@click.option("--project", type=project_name, help="Only the traces of this project's imports.")
@click.option("--format", "form", type=click.Choice(["otlp"]), default="otlp", show_default=True, help="What to write.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="A new file; else standard output.")
@root_option
@json_option
def command(*, project: str | None, form: str, output: Path | None, root: Path, as_json: bool) -> None:
    """Write each trace as one line: an envelope with all its spans."""
    del form  # there is one
    from commands.ingesting.exporting import lines_of, write_new  # noqa: PLC0415 - loaded when a command runs
    from commands.opening import open_journal  # noqa: PLC0415 - as above
    from commands.render.progress import Progress  # noqa: PLC0415 - as above
    from commands.render.result import Result  # noqa: PLC0415 - as above
    from ledger.families import ingests  # noqa: PLC0415 - as above

    if as_json and output is None:
        raise click.UsageError("the traces go to the standard output; give --output FILE to have the result there")
    with open_journal(root, "ingest export", ingests.FAMILY) as journal:
        digests_ = _wanted(journal, project)
        with Progress(len(digests_), "traces") as progress:
            lines = lines_of(journal, digests_, progress.advance)
            if output is None:
                for line in lines:
                    click.echo(line, nl=False)
                return
            size = write_new(output, lines)
    result = Result(as_json)
    result.line("output", str(output))
    result.line("traces", len(digests_))
    result.line("bytes", size)
    result.finish()


def _wanted(journal: Journal, project: str | None) -> Sequence[str]:
    """Return the digests of the traces to write: a project's, or all that are recorded."""
    from ledger.families import ingests  # noqa: PLC0415 - as above
    from ledger.families.traces import TraceImported  # noqa: PLC0415 - as above

    if project is not None:
        completed = journal.state(ingests.FAMILY).of(project)
        return ingests.members(journal.blob(one.traces.blob) for one in completed)
    events = (record.event for record in journal.events(TraceImported))
    return sorted(event.trace for event in events if isinstance(event, TraceImported))
