"""Imports that a build was made of: its source is the only one of them, or a digest of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger.families.ingests import ImportCompleted, name_of

if TYPE_CHECKING:
    from ledger.families.builds import BuildCompleted
    from ledger.journal import Journal
    from ledger.recorded import Recorded


def imports_of(journal: Journal, build: BuildCompleted) -> list[Recorded]:
    """Return the imports whose sources together are a build's; none where it was built without any."""
    found: list[Recorded] = []
    for record in journal.events(ImportCompleted, stream=f"ingests:{build.project}"):
        if isinstance(record.event, ImportCompleted) and record.event.source == build.source:
            return [record]
        found.append(record)
        if name_of(_sources(found)) == build.source:
            return found
    return []


def sources_of(imports: Sequence[Recorded], source: str) -> list[str]:
    """Return the sources of imports, or the one that is given where there are none."""
    return list(dict.fromkeys(_sources(imports))) or [source]


def _sources(imports: Sequence[Recorded]) -> list[str]:
    return [record.event.source for record in imports if isinstance(record.event, ImportCompleted)]
