"""The newest state: what the writer knows while it holds the lock, which may run ahead of the next commit.

It is thrown away with its connection after any failure, and built again from the journal when it is next needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledger import digests, refusals
from ledger.event import Family
from ledger.folding import fold_up_to
from ledger.recorded import ERASED_KIND, Recorded, fold, follows, readers_of
from ledger.snapshots import Snapshots
from ledger.store import OWN, Store

STREAMS_REMEMBERED = 50_000


class Newest:
    """The journal's end, the states of the families that write, and versions of streams, through one connection."""

    def __init__(self, store: Store, readers: Mapping[str, list[Family]], snapshots: Snapshots) -> None:
        self.store = store
        self.readers = readers
        self._snapshots = snapshots
        self.seq, self.head = store.last()
        self.ahead: list[Recorded] = []  # accepted, not committed yet
        self._states: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        erasures = store.rows_at(store.seqs([ERASED_KIND], 0, self.seq))
        self.erased = {row[6] for row in erasures}  # what was erased stays so, whoever brings it again

    def catch_up(self) -> list[Recorded]:
        """Fold and return what others committed, having checked that it continues the chain."""
        seq, head = self.store.last()
        if seq == self.seq and head == self.head:
            return []
        tail = [Recorded(row) for row in self.store.rows(self.seq, seq)]
        for record in tail:
            follows(self.seq, self.head, record, self.store.path)
            self.seq, self.head = record.seq, record.head
            if record.origin == OWN:
                self._versions[record.stream] = record.version
                self._remember_erased(record)
            self.fold(record)
        if (self.seq, self.head) != (seq, head):
            raise refusals.JournalDamaged(self.store.path, seq, f"event {seq} isn't the end that was there before")
        return tail

    def state(self, family: Family) -> Any:  # noqa: ANN401 - each family knows its own
        """Return the family's newest state, what is accepted and not committed yet included."""
        name = family.name
        if name not in self._states:
            position, state = self._snapshots.load(self.store, family, self.seq)
            states = {name: state}
            fold_up_to(self.store, [family], states, {name: position}, self.seq)
            readers = readers_of([family])
            for record in self.ahead:
                fold(readers, states, record)
            self._states[name] = states[name]
        return self._states[name]

    def fold(self, record: Recorded) -> None:
        fold(self.readers, self._states, record)

    def forget(self, families: Iterable[Family]) -> None:
        """Drop states that folded what isn't recorded after all."""
        for family in families:
            self._states.pop(family.name, None)

    def by_key(self, kind: str, key: str) -> Recorded | None:
        row = self.store.by_key(kind, key)
        return Recorded(row) if row else None

    def holds(self, digest: str) -> bool:
        """Tell whether content was recorded, even if it was erased since."""
        return self.store.holds(digests.raw(digest)) or self.store.by_key(ERASED_KIND, digest) is not None

    def version(self, stream: str) -> int:
        """Return the version that a stream has reached."""
        known = self._versions.get(stream)
        return self.store.version(stream) if known is None else known

    def accept(self, records: Sequence[Recorded], versions: Mapping[str, int]) -> None:
        """Take events as the next to be committed; seq and head must be set."""
        self.ahead += records
        for record in records:
            self._remember_erased(record)
        if len(self._versions) > STREAMS_REMEMBERED:
            self._versions.clear()
        self._versions.update(versions)

    def _remember_erased(self, record: Recorded) -> None:
        if record.kind == ERASED_KIND and record.origin == OWN:
            self.erased.add(record.key)

    def committed(self) -> list[Recorded]:
        """Return what was ahead and now is recorded."""
        records, self.ahead = self.ahead, []
        if records:
            self.seq, self.head = records[-1].seq, records[-1].head
        return records
