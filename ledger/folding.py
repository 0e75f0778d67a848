"""Folding: events to states, from wherever each family's state has come to, in memory that doesn't grow with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ledger.recorded import Recorded, authentic, fold, readers_of

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
        readers = readers_of([family for family in families if positions[family.name] <= start])
        for row in _rows(store, list(readers), start, end):
            fold(readers, states, authentic(Recorded(row), store.path), store.reading)
            read += 1
    return read


def _rows(store: Store, kinds: Sequence[str], after: int, upto: int) -> Iterator[Row]:
    """Return the events of the kinds: through the index where they are few, else all in a row."""
    wanted = frozenset(kinds)
    for start in range(after, upto, WINDOW):
        end = min(start + WINDOW, upto)
        seqs = store.seqs(kinds, start, end)
        if 2 * len(seqs) <= end - start:
            yield from store.rows_at(seqs)
            continue
        yield from (row for row in store.rows(start, end) if row[3] in wanted)
