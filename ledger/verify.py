"""Verifying: every way in which a journal can differ from what was recorded, as findings.

A check returns all that it finds. Nothing here trusts an index or a column that it can derive again from the stored
bytes. What no check of one file can show is a tail that was cut off: for that, compare a checkpoint kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from ledger import digests, refusals
from ledger.recorded import ERASED_KIND, Envelope, references
from ledger.store import OWN, Store, unpack

_envelope = msgspec.json.Decoder(Envelope).decode


class Finding(NamedTuple):
    """One difference: what it is called, at which event (0 for none), where, what it means, what to do."""

    name: str
    seq: int
    place: str
    meaning: str
    remedy: str


RESTORE = "restore the root from a copy; nothing that depends on this can be reproduced"


def verify(path: Path, *, full: bool = False, after: int = 0, vfs: str | None = None) -> list[Finding]:
    """Return every finding about the events after a position, whose head is trusted; none when all is well.

    ``full`` also reads every blob and lets SQLite check its own structures. Refuses by name what is no journal.
    """
    store = Store(path, vfs=vfs)
    try:
        return _Check(store, full=full, after=after).run()
    finally:
        store.close()


class _Check:
    """One walk over the journal, and what it has seen so far."""

    def __init__(self, store: Store, *, full: bool, after: int) -> None:
        self.store = store
        self.full = full
        self.after = after
        self.findings: list[Finding] = []
        self.versions: dict[tuple[int, str], int] = {}
        self.held: set[bytes] = set()
        self.bad: dict[bytes, str] = {}
        self.named: dict[bytes, list[int]] = {}
        self.referred: set[bytes] = set()
        self.erased: set[str] = set()
        self.unreadable: set[int] = set()

    def run(self) -> list[Finding]:
        last, _ = self.store.last()
        if not 0 <= self.after <= last:
            raise refusals.NoSuchEvent(self.after, last)
        parts: list[Callable[[], None]] = [self._schema, self._contents, lambda: self._events(last), self._blobs]
        if self.full:
            parts += [self._repeated, self._structure]
        for part in parts:
            try:
                part()
            except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
                self._add("unreadable", 0, "ledger.db", f"SQLite can't read a part of the file: {error}")
        return sorted(self.findings, key=lambda finding: (finding.seq, finding.name))

    def _add(self, name: str, seq: int, place: str, meaning: str, remedy: str = "") -> None:
        again = f"run `exp check --from {max(seq - 1, 0)}` after restoring; nothing after event {max(seq - 1, 0)} holds"
        self.findings.append(Finding(name, seq, place, meaning, remedy or (again if seq else RESTORE)))

    # The file.

    def _schema(self) -> None:
        for name in self.store.schema_differences():
            self._add(
                "schema-changed",
                0,
                f"ledger.db, {name}",
                f"{name} isn't as this format declares it: another program altered the file",
                "see docs/format.md for the declaration; restore the root from a copy",
            )

    def _structure(self) -> None:
        for line in self.store.integrity():
            self._add("structure-damaged", 0, "ledger.db", f"SQLite's own check says: {line}")

    def _repeated(self) -> None:
        for what, seqs in self.store.repeated():
            listed = ", ".join(map(str, seqs))
            self._add("recorded-twice", seqs[-1], f"ledger.db, {what}", f"events {listed} have the same {what}")

    # The events.

    def _events(self, last: int) -> None:
        before = self.store.row(self.after) if self.after else None
        head: bytes | None = before[2] if before else (None if self.after else bytes(32))
        expected = self.after + 1
        origins = self.store.origins()
        for row in self._rows(last):
            seq, origin = row[0], row[8]
            if seq != expected:
                self._missing(expected, seq - 1)
                head = None
            expected = seq + 1
            self._event(row, head)
            if origin not in origins:
                self._add("origin-unknown", seq, f"event {seq}", f"event {seq} comes from no known origin")
            head = row[2]
        if expected <= last:
            self._missing(expected, last)

    def _rows(self, last: int) -> Iterator[Any]:
        """Return the rows, one by one where SQLite can't read a run of them."""
        reached = self.after
        try:
            for row in self.store.rows_to_check(self.after, last):
                yield row
                reached = row[0]
        except apsw.CorruptError:
            for seq in range(reached + 1, last + 1):
                try:
                    yield from self.store.rows_to_check(seq - 1, seq)
                except apsw.CorruptError:
                    self.unreadable.add(seq)
                    self._add("unreadable", seq, f"event {seq}", f"event {seq} can't be read from the file")

    def _missing(self, first: int, last: int) -> None:
        for seq in sorted(set(range(first, last + 1)) - self.unreadable):
            self._add("event-missing", seq, f"event {seq}", f"event {seq} is missing")

    def _event(self, row: Any, head: bytes | None) -> None:  # noqa: ANN401 - columns as they are, whatever their type
        seq, ident, stored_head, stored = row[0], row[1], row[2], row[7]
        if digests.event_id(stored) != ident:
            self._add("event-changed", seq, f"event {seq}", f"event {seq} is not what was recorded")
        elif head is not None and digests.chained(head, ident) != stored_head:
            self._add(
                "chain-broken", seq, f"event {seq}", f"event {seq} doesn't follow event {seq - 1}: its head differs"
            )
        try:
            envelope = _envelope(stored)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._add("event-illegible", seq, f"event {seq}", f"event {seq} is no event in canonical JSON")
            return
        self._columns(seq, row, envelope)
        self._version(seq, row, envelope)
        self._references(seq, envelope, stored)

    def _columns(self, seq: int, row: Any, envelope: Envelope) -> None:  # noqa: ANN401 - a damaged row holds anything
        if (envelope.kind, envelope.stream, envelope.version, envelope.key) == row[3:7]:
            return
        for name, said, stored in (
            ("kind", row[3], envelope.kind),
            ("stream", row[4], envelope.stream),
            ("version", row[5], envelope.version),
            ("key", row[6], envelope.key),
        ):
            if said != stored:
                self._add(
                    "column-changed",
                    seq,
                    f"event {seq}, column {name}",
                    f"the column {name} of event {seq} says {said!r}, but the event says {stored!r}",
                )

    def _version(self, seq: int, row: Any, envelope: Envelope) -> None:  # noqa: ANN401 - a damaged row holds anything
        if row[8] > OWN and row[8] in self.store.origins():
            return  # a part of another journal was imported: its streams have gaps
        stream = (row[8], envelope.stream)
        before = self.versions.get(stream)
        if before is None:
            before = self.store.version_before(row[8], envelope.stream, self.after) if self.after else 0
        if envelope.version != before + 1:
            self._add(
                "version-wrong",
                seq,
                f"event {seq}, stream {envelope.stream}",
                f"event {seq} has version {envelope.version} of its stream and should have {before + 1}",
            )
        self.versions[stream] = envelope.version

    # The contents.

    def _references(self, seq: int, envelope: Envelope, stored: bytes) -> None:
        if envelope.kind == ERASED_KIND and envelope.key is not None:
            self.erased.add(envelope.key)
        for name in references(stored):
            digest = digests.raw(name.decode())
            self.referred.add(digest)
            if digest in self.bad or digest not in self.held:
                self.named.setdefault(digest, []).append(seq)

    def _contents(self) -> None:
        """Find out which blobs there are, and with ``full`` whether each is what its digest says."""
        if not self.full:
            self.held = self.store.blob_digests()
            return
        for rowid, digest, size, codec, stored in self.store.blob_rows():
            content = unpack(size, codec, stored)
            if content is None or digests.content_digest(content) != digests.named(digest):
                self.bad[digest] = f"blob {rowid}"
            self.held.add(digest)

    def _blobs(self) -> None:
        for digest, seqs in self.named.items():
            name = digests.named(digest)
            if digest in self.bad:
                self._add_blob("content-damaged", name, "isn't what its digest says", seqs)
            elif name not in self.erased:
                self._add_blob("content-missing", name, "is missing", seqs)
        if not self.full:
            return
        for digest, place in self.bad.items():
            if digest not in self.named:
                self._add(
                    "content-damaged", 0, place, f"the content {digests.named(digest)} isn't what its digest says"
                )
        if not self.after:
            for digest in sorted(self.held - self.referred - self.bad.keys()):
                self._add("content-unreferred", 0, "blobs", f"no event names the content {digests.named(digest)}")

    def _add_blob(self, name: str, digest: str, how: str, seqs: list[int]) -> None:
        events = refusals.sequence(seqs)
        self._add(name, seqs[0], f"blobs, for {events}", f"the content {digest} {how}; it belongs to {events}", RESTORE)
