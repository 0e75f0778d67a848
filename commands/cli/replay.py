"""``exp replay``: compute again what was published, from the journal alone, and compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands.replaying import Replayed
    from commands.replaying.verdicts import Verdict
    from ledger.differences import Difference

MOST_EVENTS = 20
MOST_SHOWN = 200


@click.command(help="Compute again what was published, and compare.")
@click.argument("ids", nargs=-1, metavar="[RUN or ID]...")
@root_option
@click.option("--origin", metavar="NAME", help="Replay what was imported from this origin instead.")
@json_option
def command(ids: tuple[str, ...], root: Path, origin: str | None, *, as_json: bool) -> int:
    """Print a line for each result; exit 1 when one isn't identical."""
    from commands.opening import open_journal  # noqa: PLC0415 - the journal is opened by commands that need it
    from commands.optimizing.running import refuse_unsound  # noqa: PLC0415 - as above
    from commands.render.progress import Progress  # noqa: PLC0415 - as above
    from commands.replaying import FAMILIES, replay  # noqa: PLC0415 - as above
    from commands.replaying.units import named, units  # noqa: PLC0415 - as above

    result = Result(as_json)
    with open_journal(root, "replay", *FAMILIES, reading=origin) as journal:
        refuse_unsound(journal)
        chosen = named(units(journal), ids)
        with Progress(len(chosen), "replaying") as progress:
            replayed = replay(journal, chosen, progress.advance)
        seq, head = journal.position()
        imported = [] if origin else list(journal.origins().values())[1:]
    return _say(result, replayed, f"{seq} {head}", imported)


def _say(result: Result, replayed: Replayed, position: str, imported: Sequence[str]) -> int:
    for verdict in replayed.verdicts:
        result.item(verdict.kind, {"id": verdict.id, "status": verdict.status, **_details(verdict, result.as_json)})
    if not replayed.verdicts:
        result.text("nothing is published yet, so there is nothing to compute again")
    for name in imported:
        result.text(f"what was imported is computed again with --origin {name}")
    result.line("journal", position)
    result.finish()
    if replayed.unanswered is not None:
        raise replayed.unanswered
    return int(any(verdict.status != "identical" for verdict in replayed.verdicts))


def _details(verdict: Verdict, whole: bool) -> dict[str, str | int | bool | None]:  # noqa: FBT001 - the one caller says what
    found: dict[str, str | int | bool | None] = {"project": verdict.project}
    if verdict.status == "identical":
        return found
    found["why"] = verdict.why
    if verdict.difference is not None:
        found |= _difference(verdict.difference, whole)
    more = len(verdict.events) - MOST_EVENTS
    listed = " ".join(map(str, verdict.events if whole else verdict.events[:MOST_EVENTS]))
    found["events"] = f"{listed} and {more} more" if more > 0 and not whole else listed
    return found


def _difference(difference: Difference, whole: bool) -> dict[str, str | int | bool | None]:  # noqa: FBT001 - as above
    return {
        "pointer": difference.pointer or "/",
        "recorded": _shown(difference.left, whole),
        "derived": _shown(difference.right, whole),
    }


def _shown(value: object, whole: bool) -> str:  # noqa: FBT001 - as above
    from ledger.differences import Absent  # noqa: PLC0415 - only where something differs

    text = "absent" if isinstance(value, Absent) else json.dumps(value, ensure_ascii=False)
    return text if whole or len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
