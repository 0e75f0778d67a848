"""``exp ingest show``: what a project's imports gave and left out, with totals that add up to the input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, project_name, root_option

if TYPE_CHECKING:
    from commands.ingesting.showing import Shown
    from commands.render.result import Result, Value


@click.command(help="Show what a project's imports gave and left out.")
@click.argument("project", type=project_name)
@click.option("--reason", metavar="REASON", help="List every place that was left out for this reason.")
@root_option
@json_option
def command(*, project: str, reason: str | None, root: Path, as_json: bool) -> None:
    """Count what each import gave, from the journal alone."""
    from commands.ingesting.showing import shown  # noqa: PLC0415 - loaded when a command runs, not for --help
    from commands.ingesting.tally import Tally, say  # noqa: PLC0415 - as above
    from commands.opening import open_journal  # noqa: PLC0415 - as above
    from commands.render.result import Result  # noqa: PLC0415 - as above
    from ledger.families import ingests  # noqa: PLC0415 - as above

    result = Result(as_json)
    with open_journal(root, "ingest show", ingests.FAMILY) as journal:
        completed = journal.state(ingests.FAMILY).of(project)
        result.line("project", project)
        total = Tally()
        for one in completed:
            import_ = shown(journal, one)
            _say(result, import_)
            if reason is not None:
                _say_places(result, import_, reason)
            total.add(import_.tally)
        result.line("imports", len(completed))
        say(result, total)
        result.line("traces-in-project", len(ingests.members(journal.blob(one.traces.blob) for one in completed)))
    result.finish()


def _say(result: Result, import_: Shown) -> None:
    completed, tally = import_.completed, import_.tally
    result.item(
        "import",
        {
            "event": import_.seq,
            "digest": completed.source,
            "units": tally.units,
            "used": tally.used,
            "excluded": tally.excluded,
            "traces": tally.traces,
            "turns": tally.turns,
            "redactions": tally.redactions.total(),
            "redacting": ",".join(completed.detectors) or "none",
        },
    )
    for name, one, why in import_.inputs:
        about: dict[str, Value] = {
            "import": import_.seq,
            "source": one.format,
            "why": why,
            "bytes": one.size,
            "digest": one.digest,
        }
        result.item("input", {"name": name, **about})
    for reason, left in sorted(tally.left.items()):
        kind = "excluded-of" if left.units else "finding-of"
        result.item(kind, {"import": import_.seq, "reason": reason, "units": left.units, "count": left.count})


def _say_places(result: Result, import_: Shown, reason: str) -> None:
    for one in import_.places(reason):
        result.item("place", {"import": import_.seq, "place": one.place, "units": one.units, "excerpt": one.detail})
