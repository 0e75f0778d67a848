"""Showing: a completed import, counted again from what is recorded of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from commands.ingesting.tally import Tally
from ledger import refusals
from ledger.families import ingests, traces
from ledger.families.ingests import ImportCompleted, InputRead
from ledger.families.traces import Exclusion, InputExcluded

if TYPE_CHECKING:
    from ledger.journal import Journal

ERASED = "(erased)"
MOST_SHOWN = 200


class Shown(msgspec.Struct):
    """An import with its sums; ``seq`` is its event's position."""

    seq: int
    completed: ImportCompleted
    inputs: tuple[tuple[str, InputRead, str], ...]  # each with its name, and why it was read as it was
    tally: Tally
    left: tuple[Exclusion, ...]

    def places(self, reason: str) -> Iterator[Exclusion]:
        """Yield what was left out for a reason, by place: names by letter, lines and items by number."""
        return iter(sorted((one for one in self.left if one.reason == reason), key=lambda one: _natural(one.place)))


def shown(journal: Journal, completed: ImportCompleted) -> Shown:
    """Return an import with what its traces and findings add up to. A trace that was erased is counted as one."""
    record = journal.find(ImportCompleted, completed.key)
    tally = Tally(units=completed.units, used=completed.used, refused=completed.refused, repeated=completed.repeated)
    for one in completed.redactions:
        tally.redactions[one.detector] = one.count
    for digest, _ in ingests.unpacked(journal.blob(completed.traces.blob)):
        try:
            tally.take(traces.decoded(journal.blob(digest)))
        except refusals.ContentErased:
            tally.traces += 1
    left = tuple(_left(journal, completed))
    for exclusion in left:
        tally.leave(exclusion.reason, exclusion.units, exclusion.count, exclusion.place)
    return Shown(
        seq=0 if record is None else record.seq,
        completed=completed,
        inputs=tuple((_text(journal, one.name.blob), one, _text(journal, one.why.blob)) for one in completed.inputs),
        tally=tally,
        left=left,
    )


def _left(journal: Journal, completed: ImportCompleted) -> Iterator[Exclusion]:
    """Yield what was found, in the order in which it was found."""
    for key in _keys(journal.blob(completed.findings.blob)):
        record = journal.find(InputExcluded, key)
        event = None if record is None else record.event
        if isinstance(event, InputExcluded):
            detail = "" if event.detail is None else _text(journal, event.detail.blob)[:MOST_SHOWN]
            yield Exclusion(place=event.place, reason=event.reason, detail=detail, count=event.count, units=event.units)


def _natural(place: str) -> tuple[tuple[str, int], ...]:
    words = re.findall(r"([^0-9]*)([0-9]*)", place)
    return tuple((word, int(number or 0)) for word, number in words)


def _text(journal: Journal, digest: str) -> str:
    try:
        return journal.blob(digest).decode(errors="replace")
    except refusals.ContentErased:
        return ERASED


_keys = msgspec.json.Decoder(list[str]).decode
