"""Collected: a reading that is held whole, for who has to know all traces before anything is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ledger.families.traces import Exclusion, Trace

if TYPE_CHECKING:
    from commands.ingesting.reading import Found
    from commands.ingesting.recording import Readable
    from ledger.detectors import Redaction
    from projections.normal_form.export import Totals


class Collected:
    """What a reading gave, to be recorded later."""

    def __init__(self, reading: Readable, redaction: Redaction) -> None:
        self.given: tuple[Trace | Exclusion, ...] = tuple(reading)
        self.redaction = redaction
        self.found: Sequence[Found] = reading.found
        self.digest: str = reading.digest
        self.totals: Totals = reading.totals

    def __iter__(self) -> Iterator[Trace | Exclusion]:
        return iter(self.given)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces alone."""
        return tuple(one for one in self.given if isinstance(one, Trace))
