"""Asked: the inputs that a command line names become readings, and for a build the material that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from commands.ingesting.collected import Collected
from commands.ingesting.flags import redacting
from commands.ingesting.material import Material, of_imports, of_inputs
from commands.ingesting.reading import Reading, inputs
from commands.render.progress import Progress

if TYPE_CHECKING:
    from commands.ingesting.recording import Readable
    from ledger.detectors import Redaction
    from ledger.journal import Journal
    from ledger.redaction import Redactor

Skipped = Callable[[Path, str], None]


class Wanted:
    """Which inputs are to be read, as what, and what is to be left out of them."""

    def __init__(
        self,
        project: str,
        given: tuple[str, ...],
        source: str,
        redact: str | None,
        rules: Path | None,
        *,
        gateway: bool,
    ) -> None:
        self.project = project
        self.given = given
        self.source = source
        self.redact = redact
        self.rules = rules
        self.gateway = gateway


class Opened(NamedTuple):
    """Inputs to be read, what is left out of them, and what shows how far that is."""

    reading: Readable
    redaction: Redaction
    progress: Progress


def opened(journal: Journal | None, wanted: Wanted, values: Redactor, skipped: Skipped) -> Opened:
    """Return the inputs that are named; nothing is read before they are iterated."""
    redaction = redacting(wanted.redact, wanted.rules, values, "" if journal is None else journal.origin)
    if wanted.gateway:
        from commands.ingesting.traffic import NothingServed, Traffic  # noqa: PLC0415 - few readings need it

        if journal is None:
            raise NothingServed
        return Opened(Traffic(journal, redaction), redaction, Progress(0, "requests"))
    given = inputs(wanted.given, skipped)
    sizes = [one.size or 0 for one in given]
    progress = Progress(sum(sizes) if all(sizes) else 0, "bytes")
    reading = Reading(
        given,
        redaction,
        source_name=wanted.source,
        scratch=None if journal is None else journal.path.parent,
        progress=progress.advance,
    )
    return Opened(reading, redaction, progress)


def read(journal: Journal, wanted: Wanted, values: Redactor, skipped: Skipped) -> Material:
    """Return what a build is to be made of: the inputs that are named, else what was imported for its project."""
    if not wanted.given and not wanted.gateway:
        return of_imports(journal, wanted.project)
    found = opened(journal, wanted, values, skipped)
    with found.progress:
        collected = Collected(found.reading, found.redaction)
    return of_inputs(collected, ", ".join(wanted.given) or "the gateway's requests")
