"""Where traces come from: the files they were imported from are read again, and each trace found by its digest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from commands.ingesting.reading import Reading, inputs
from commands.perform.credentials import redactor_for
from ledger import digests
from ledger.families import providers
from ledger.families.traces import Exclusion, encoded

if TYPE_CHECKING:
    from ledger.journal import Journal


def places(journal: Journal, paths: Sequence[Path], wanted: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return, by digest, the places of those of the traces that the files give today.

    A trace whose lines were changed, or from which something else is taken out than when it was imported, has another
    digest and isn't there. The journal must have been opened with the family of providers.
    """
    redact = redactor_for(journal.state(providers.FAMILY)).error
    found: dict[str, tuple[str, ...]] = {}
    for made in Reading(inputs(paths), lambda text: (redact(text), 0)).made():
        if isinstance(made, Exclusion) or made.trace is None:
            continue
        digest = digests.content_digest(encoded(made.trace))
        if digest in wanted:
            found[digest] = made.places
    return found
