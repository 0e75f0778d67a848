"""Folding: events to states, from wherever each family's state has come to, in memory that doesn't grow with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from ledger import refusals
from ledger.digests import LEAF
from ledger.recorded import decode, readers_of

if TYPE_CHECKING:
    from ledger.event import Family
    from ledger.store import Row, Store

WINDOW = 16_384  # positions whose events are looked for at once


def fold_up_to(
    store: Store, families: Sequence[Family], states: dict[str, Any], positions: Mapping[str, int], upto: int
) -> int:
    """Fold what each family reads after its own position, up to one for all; return how many events were read.

    Every event that is read must be what was recorded. Events of other origins are passed by.
    """
    read = 0
    marks = sorted({*(positions[family.name] for family in families), upto})
    for start, end in pairwise(marks):
        read += _fold(store, [family for family in families if positions[family.name] <= start], states, start, end)
    return read


def _fold(store: Store, families: Sequence[Family], states: dict[str, Any], after: int, upto: int) -> int:
    """Fold one stretch: this is what opening takes, so nothing is made of an event but the event."""
    readers = {
        kind: [(family.name, family.evolve) for family in reading] for kind, reading in readers_of(families).items()
    }
    origin, read = store.reading, 0
    for seq, ident, _head, kind, _stream, _version, _key, stored, row_origin in _rows(
        store, list(readers), after, upto
    ):
        reading = readers.get(kind)
        if reading is None or row_origin != origin:
            continue
        if blake3(LEAF + stored).digest() != ident:
            raise refusals.event_changed(store.path, seq)
        event = decode(kind, stored, seq)
        for name, evolve in reading:
            states[name] = evolve(states[name], event)
        read += 1
    return read


def _rows(store: Store, kinds: Sequence[str], after: int, upto: int) -> Iterator[Row]:
    """Return at least the events of the kinds: through the index where they are few, else all in a row."""
    for start in range(after, upto, WINDOW):
        end = min(start + WINDOW, upto)
        if 2 * store.count_kinds(kinds, start, end) > end - start:
            yield from store.rows(start, end)
        else:
            yield from store.rows_at(store.seqs(kinds, start, end))
