"""``exp ingest``: import traces without building, from files, directories, the standard input or the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, project_name, root_option
from commands.ingesting.flags import redaction_options, source_option

if TYPE_CHECKING:
    from commands.ingesting.asked import Wanted
    from commands.render.result import Result, Value
    from ledger.journal import Journal


@click.command(help="Import files of traces without building.")
@click.argument("files", nargs=-1, metavar="FILE...")
@source_option
@click.option("--project", type=project_name, help="Make the traces part of this project; `exp build` uses them.")
@click.option("--from-gateway", is_flag=True, help="Import what the gateway answered, as its journal has it.")
@redaction_options
@click.option("--dry-run", is_flag=True, help="Read and count; record nothing.")
@root_option
@json_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    files: tuple[str, ...],
    source: str,
    project: str | None,
    from_gateway: bool,
    redact: str | None,
    redact_rules: Path | None,
    dry_run: bool,
    root: Path,
    as_json: bool,
) -> None:
    """Read each input to its end, and record what is new of it."""
    from commands.render.result import Result  # noqa: PLC0415 - loaded when a command runs, not for --help

    if bool(files) == from_gateway:
        raise click.UsageError("name files, directories or - for the standard input; or give --from-gateway alone")
    from commands.ingesting.asked import Wanted  # noqa: PLC0415 - as above

    wanted = Wanted(project or "", files, source, redact, redact_rules, gateway=from_gateway)
    result = Result(as_json)
    if dry_run and not _is_there(root):
        _import(None, wanted, result, dry=True)
    else:
        from commands.opening import open_journal  # noqa: PLC0415 - as above
        from ledger.families import ingests, providers, traces  # noqa: PLC0415 - as above

        families = (ingests.FAMILY, providers.FAMILY, traces.FAMILY)
        with open_journal(root, "ingest", *families, create=not dry_run) as journal:
            _import(journal, wanted, result, dry=dry_run)
    result.finish()


def _is_there(root: Path) -> bool:
    from ledger.root_name import is_there  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - as above

    return is_there(root, NAME)


def _import(journal: Journal | None, wanted: Wanted, result: Result, *, dry: bool) -> None:
    from commands.ingesting.asked import opened  # noqa: PLC0415 - as above
    from commands.ingesting.recording import Recorder  # noqa: PLC0415 - as above
    from commands.ingesting.tally import say  # noqa: PLC0415 - as above
    from commands.perform.credentials import redactor_for  # noqa: PLC0415 - as above
    from ledger.families.providers import FAMILY, Providers  # noqa: PLC0415 - as above

    values = redactor_for(Providers() if journal is None else journal.state(FAMILY))
    found = opened(journal, wanted, values, lambda path, why: result.item("skipped", {"path": str(path), "why": why}))
    with found.progress:
        read = Recorder(journal, wanted.project, found.redaction, dry=dry).record(found.reading)
    for one in found.reading.found:
        facts: dict[str, Value] = {
            "source": one.source or "none",
            "why": one.why,
            "bytes": one.size,
            "digest": one.digest,
        }
        result.item("input", {"name": one.name, **facts})
    say(result, read.tally)
    result.line("traces-new", read.tally.new)
    result.line("project", wanted.project or "none")
    result.line("imported", "before" if not read.fresh else "not yet" if dry else "now")
    if dry:
        result.text("dry run: nothing was recorded")
    elif journal is not None:
        position, head = journal.position()
        result.line("position", position)
        result.line("head", head)
        from commands.render.place import say_checkpoint  # noqa: PLC0415 - as above

        say_checkpoint(result, journal)
        if wanted.project:
            result.text(f"`exp build {wanted.project}` builds from all traces of the project")
        else:
            result.text(
                "no build uses these traces yet: the same command with --project NAME makes them part of a project"
            )
