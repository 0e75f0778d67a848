"""``exp erase``: remove a content for ever; the proof of what it was stays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result
from ledger.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands.naming import Named
    from ledger.journal import Journal

ASKED = "asked-for"


class ErasingNotAgreed(Refusal, name="erasing-not-agreed", exit_code=111):
    """What would be erased was shown, and nobody has agreed to it yet."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} content{'s' * (count != 1)} would be gone for ever; nothing was erased",
            where="exp erase",
            remedy="run the same command with --yes; nothing brings a content back",
        )


class NothingToErase(Refusal, name="nothing-to-erase", exit_code=217):
    """An event without contents was to be erased; its facts are part of the proof."""

    def __init__(self, seq: int, kind: str) -> None:
        super().__init__(
            f"event {seq}, {kind}, names no content, and its facts can't be erased",
            where="the journal",
            remedy="name a content, an event that names contents, or a trace",
        )


@click.command(short_help="Remove a content for ever, and keep the proof.")
@click.argument("id_", metavar="ID")
@root_option
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is recorded with the erasure.")
@click.option("--yes", is_flag=True, help="Do it. Without this, what would be gone is shown and nothing is erased.")
@json_option
def command(id_: str, root: Path, reason: str, *, yes: bool, as_json: bool) -> None:
    """Remove the content that ID means: a content, all contents of an event, or the trace of that name.

    Every event that names it is listed and still proves what its digest was; what depends on it says "not
    reproducible: erased". It stays erased when the same content is recorded again. Copies in backups, bundles, reports
    and other files aren't reached, and neither are other contents that quote it, such as prompts.
    """
    from commands.naming import find  # noqa: PLC0415 - loaded when the command runs
    from commands.opening import open_journal  # noqa: PLC0415 - as above
    from ledger.families import contents, providers  # noqa: PLC0415 - as above

    if not reason.strip():
        message = "the reason is empty"
        raise click.BadParameter(message, param_hint="--reason")
    result = Result(as_json)
    with open_journal(root, "erase", contents.FAMILY, providers.FAMILY) as journal:
        targets = _targets(find(journal, id_))
        owed = _plan(journal, targets, result)
        if owed and not yes:
            result.finish()
            raise ErasingNotAgreed(len(owed))
        if owed:
            _erase(journal, owed, reason.strip())
        for digest in targets:
            record = journal.find(contents.ContentErased, digest)
            result.item("erased", {"content": digest, "event": record.seq if record is not None else None})
    if _remains(root):
        result.text("its bytes stay in the database until the other processes that use this root have ended")
    result.finish()


def _targets(named: Named) -> tuple[str, ...]:
    """Return the contents to erase."""
    from commands.explaining.telling import named_contents  # noqa: PLC0415 - loaded when the command runs

    if named.content is not None:
        return (named.content,)
    if named.record is None:
        raise AssertionError(named)
    targets = named_contents(named.record)
    if not targets:
        raise NothingToErase(named.record.seq, named.record.kind)
    return tuple(targets)


def _plan(journal: Journal, targets: Sequence[str], result: Result) -> list[str]:
    """Say what each content belongs to, and return those that are still there."""
    from ledger.families.contents import ContentErased  # noqa: PLC0415 - loaded when the command runs

    owed = []
    for digest in targets:
        if journal.find(ContentErased, digest) is None:
            owed.append(digest)
        result.item("content", {"content": digest, "state": "held" if journal.holds(digest) else "not there"})
        for seq in journal.referring(digest):
            record = journal.at(seq)
            if record is not None:
                result.item("referrer", {"event": seq, "kind": record.kind, "stream": record.stream})
    return owed


def _erase(journal: Journal, targets: Sequence[str], reason: str) -> None:
    from commands.perform.credentials import redactor_for  # noqa: PLC0415 - loaded when something is erased
    from ledger.event import Blobs, Step  # noqa: PLC0415 - as above
    from ledger.families import contents, providers  # noqa: PLC0415 - as above

    blobs = Blobs()
    redactor = redactor_for(journal.state(providers.FAMILY))
    why = blobs.put(redactor.error(reason.encode(errors="replace").decode()))
    steps = [Step(contents.FAMILY, contents.EraseContent(content=one, reason=ASKED, why=why)) for one in targets]
    journal.submit(*steps, blobs=blobs).result()


def _remains(root: Path) -> bool:
    """Tell whether the write-ahead log could not be moved into the database, which would overwrite what was there."""
    from ledger.store import NAME  # noqa: PLC0415 - loaded when the command runs

    log = root / f"{NAME}-wal"
    return log.exists() and log.stat().st_size > 0
