"""Verifying: every way in which a journal can differ from what was recorded, as findings.

A check returns all that it finds. Nothing here trusts a column that it can derive again from the stored bytes. What no
check of one file can show is a tail that was cut off: for that, compare a checkpoint kept elsewhere.

Rows are looked at many at once; only where something is off are they looked at one by one, to name it. What is kept is
bounded, but for one bit a content and what there is to say about damage.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec
from blake3 import blake3

from ledger import digests, refusals
from ledger.digests import CHAIN, LEAF
from ledger.inspecting import BUSY, Deviant, Inspected, Lost, Rows
from ledger.legible import Whole, columns_hold, is_name, legible
from ledger.recorded import ERASED_KIND
from ledger.store import DISK_ERRORS, OWN

FINDINGS = {
    "unreadable": "SQLite can't read a part of the file",
    "structure-damaged": "SQLite's own check of the file fails",
    "schema-changed": "a table, an index or a trigger isn't as it was made",
    "event-misplaced": "an event stands where none can be",
    "event-missing": "an event was removed",
    "event-changed": "the bytes of an event, or its id, were changed",
    "chain-broken": "an event doesn't follow the one before it",
    "event-illegible": "the bytes of an event are none",
    "column-changed": "a column says something else than the event",
    "version-wrong": "a stream has a gap, or an event twice",
    "recorded-twice": "what may be recorded once is there twice",
    "origin-unknown": "an event comes from an origin that isn't there",
    "origin-unused": "an origin has no events",
    "origin-unannounced": "events of another origin aren't announced as they stand",
    "content-missing": "a content is gone and wasn't erased",
    "content-damaged": "a content isn't what its digest says",
    "content-unreferred": "no event names a content",
}
IMPORTED_KIND = "bundle-imported@1"
UNKNOWN = object()  # the head after an event that isn't there
STREAMS_REMEMBERED = 50_000
SPARSE = 64  # rows of blobs are numbered one by one, but contents may have been erased


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
    try:
        store = Inspected(path, vfs=vfs)
    except refusals.StorageFailed as error:
        if not isinstance(error.__cause__, apsw.CorruptError):
            raise
        return [_nowhere_readable(error.__cause__)]
    try:
        return _Check(store, full=full, after=after).run()
    finally:
        store.close()


def _nowhere_readable(error: apsw.CorruptError) -> Finding:
    return Finding("unreadable", 0, "ledger.db", f"SQLite can't read any of the file: {error}", RESTORE)


class _Check:
    """One walk over the journal, and what it has seen so far."""

    def __init__(self, store: Inspected, *, full: bool, after: int) -> None:
        self.store = store
        self.full = full
        self.after = after
        self.findings: list[Finding] = []
        self.last = self.blobs = 0
        self.origins: dict[Any, str] = {}
        self.seen: set[Any] = set()
        self.pending: list[list[Any]] = []  # [origin, events]: what an announcement must come for
        self.expected = after + 1
        self.head: object = bytes(32)  # before the expected event
        self.versions: dict[str, int] = {}
        self.deviants: list[Deviant] = []  # events that say something else than their columns
        self.erased: set[bytes] = set()
        self.bad: dict[object, str] = {}
        self.named: dict[bytes, list[int]] = {}
        self.referred = bytearray()  # a bit for each row of blobs
        self.far: set[int] = set()  # rows whose numbers are too great for that

    def run(self) -> list[Finding]:
        self._part(self._measure)
        if not 0 <= self.after <= self.last:
            raise refusals.NoSuchEvent(self.after, self.last)
        parts: list[Callable[[], None]] = [self._schema, self._contents, self._events, self._end, self._blobs]
        if self.full:
            parts.append(self._structure)
        for part in parts:
            self._part(part)
        damaged = any(finding.name in ("schema-changed", "structure-damaged") for finding in self.findings)
        if self.deviants or damaged:
            self._part(self._repeated)  # otherwise the indexes saw to it
        return sorted(self.findings, key=lambda finding: (finding.seq, finding.name))

    def _part(self, part: Callable[[], None]) -> None:
        try:
            part()
        except BUSY:
            raise
        except DISK_ERRORS as error:
            self._add("unreadable", 0, "ledger.db", f"SQLite can't read a part of the file: {error}")

    def _add(self, name: str, seq: int, place: str, meaning: str, remedy: str = "") -> None:
        again = f"run `exp check --from {max(seq - 1, 0)}` after restoring; nothing after event {max(seq - 1, 0)} holds"
        self.findings.append(Finding(name, seq, place, meaning, remedy or (again if seq else RESTORE)))

    def _add_event(self, name: str, seq: int, meaning: str) -> None:
        self._add(name, seq, f"event {seq}", f"event {seq} {meaning}")

    # The file.

    def _measure(self) -> None:
        self.last, self.blobs, count = self.store.end()
        self.referred = bytearray(max(min(self.blobs, SPARSE * count), 0) // 8 + 1)

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
        for what, seqs in self.store.repeated(self.deviants):
            for seq in seqs[1:]:
                self._add("recorded-twice", seq, f"event {seq}", f"{refusals.sequence(seqs)} have the same {what}")

    # The events.

    def _events(self) -> None:
        self.origins = self.store.names()
        if self.after:
            before = self.store.row(self.after)
            self.head = before[2] if before else UNKNOWN
            for origin in self.store.origins_of(self.store.own_before(self.after), self.after):
                self._await(origin)
        first = () if self.after else self.store.before_first()
        for rows in chain(first, self.store.events(self.after, self.last)):
            if isinstance(rows, Lost):
                self._lost(rows)
            elif not self._all_hold(rows):
                for row in rows:
                    self._event(row)
        if self.expected <= self.last:
            self._missing(self.last)

    def _lost(self, lost: Lost) -> None:
        if lost.upto < 1:
            self._add("unreadable", 0, "events", f"whether events stand before 1 can't be read: {lost.reason}")
            return
        if lost.after + 1 == lost.upto:
            self._add_event("unreadable", lost.upto, f"can't be read from the file: {lost.reason}")
        else:
            reason = f"events {lost.after + 1} to {lost.upto} can't be read from the file: {lost.reason}"
            self._add("unreadable", lost.after + 1, f"events {lost.after + 1} to {lost.upto}", reason)
        if lost.after >= self.expected:
            self._missing(lost.after)
        self.expected, self.head = max(self.expected, lost.upto + 1), UNKNOWN

    def _missing(self, upto: int) -> None:
        first, self.expected = self.expected, upto + 1
        if first == upto:
            self._add_event("event-missing", first, "is missing")
        else:
            which = f"events {first} to {upto}"
            self._add("event-missing", first, which, f"{which} are missing")

    def _all_hold(self, rows: Rows) -> bool:
        """Tell whether there is nothing to say about rows; when there is, nothing was taken in."""
        seqs, ids, heads, kinds, streams, versions, keys, stored, origins = zip(*rows, strict=True)
        if seqs != tuple(range(self.expected, self.expected + len(rows))) or not self._is_own(kinds, origins):
            return False
        if (
            set(map(type, stored)) != {bytes}
            or set(map(type, ids + heads)) != {bytes}
            or not isinstance(self.head, bytes)
        ):
            return False
        if not all(map(eq, ids, [blake3(LEAF + one).digest() for one in stored])):
            return False
        before = (self.head, *heads[:-1])
        if not all(
            map(eq, heads, [blake3(CHAIN + head + ident).digest() for head, ident in zip(before, ids, strict=True)])
        ):
            return False
        named: list[tuple[int, list[str]]] = []
        if not (
            set(map(type, versions)) == {int}
            and columns_hold(zip(seqs, kinds, streams, versions, keys, stored, strict=True), named)
            and self._versions_hold(seqs, streams, versions)
        ):
            return False
        self._refer(named)
        if ERASED_KIND in kinds:
            self._note_erased(key for kind, key in zip(kinds, keys, strict=True) if kind == ERASED_KIND)
        self.expected, self.head = seqs[-1] + 1, heads[-1]
        return True

    def _is_own(self, kinds: Sequence[object], origins: Sequence[object]) -> bool:
        return (
            not self.pending and OWN in self.origins and set(map(type, origins)) == {int} and set(origins) == {OWN}
        ) and IMPORTED_KIND not in kinds

    def _versions_hold(self, seqs: Sequence[int], streams: Sequence[str], versions: Sequence[int]) -> bool:
        reached: dict[str, int] = {}
        for seq, stream, version in zip(seqs, streams, versions, strict=True):
            before = reached.get(stream)
            if before is None:
                before = self._reached(stream, seq, version)
            if version != before + 1:
                return False
            reached[stream] = version
        self._remember(reached)
        return True

    def _reached(self, stream: str, seq: int, version: int) -> int:
        """Return the version of a stream before an event, asking only when it can't be the first and isn't remembered.

        That no version occurs twice is what the unique index is for.
        """
        before = self.versions.get(stream)
        if before is None:
            return 0 if version == 1 else self.store.version_before(stream, seq, version - 1)
        return before

    def _remember(self, reached: dict[str, int]) -> None:
        if len(self.versions) > STREAMS_REMEMBERED:
            self.versions.clear()
        self.versions.update(reached)

    # An event by itself.

    def _event(self, row: Sequence[Any]) -> None:
        seq, ident, head, stored, origin = row[0], row[1], row[2], row[7], row[8]
        placed = seq >= self.expected
        if not placed:
            self._add_event("event-misplaced", seq, "stands before the first, or behind others of its place")
        elif seq > self.expected:
            self._missing(seq - 1)
            self.head = UNKNOWN
        derived = digests.event_id(stored) if isinstance(stored, bytes) else None
        if derived is None or derived != ident:
            self._add_event("event-changed", seq, "is not what was recorded")
        elif placed and self.head is not UNKNOWN and not self._follows(ident, head):
            self._add_event("chain-broken", seq, f"doesn't follow event {seq - 1}: its head differs")
        if placed:
            self.expected, self.head = seq + 1, head
        event, named = (legible(stored) if isinstance(stored, bytes) else None) or (None, [])
        if event is None:
            self._add_event("event-illegible", seq, "is no event in canonical JSON")
        self._origin(seq, origin, event)
        if event is not None:
            self._columns(seq, row, event)
            self._version(seq, origin, event)
            self._refer([(seq, named)])
            self._note_erased([event.key] if event.kind == ERASED_KIND else [])
        said = (event.kind, event.stream, event.version, event.key) if event else (None, None, None, None)
        if said != tuple(row[3:7]) or derived != ident:
            self.deviants.append(Deviant(seq, origin, derived, *said))

    def _follows(self, ident: bytes, head: object) -> bool:
        return isinstance(self.head, bytes) and digests.chained(self.head, ident) == head

    def _note_erased(self, keys: Iterable[str | None]) -> None:
        self.erased.update(digests.raw(key) for key in keys if key is not None and is_name(key))

    def _columns(self, seq: int, row: Sequence[Any], event: Whole) -> None:
        pairs = zip(("kind", "stream", "version", "key"), row[3:7], strict=True)
        for name, said in pairs:
            stored = getattr(event, name)
            if said != stored or type(said) is not type(stored):
                self._add(
                    "column-changed",
                    seq,
                    f"event {seq}, column {name}",
                    f"the column {name} of event {seq} says {said!r}, but the event says {stored!r}",
                )

    def _version(self, seq: int, origin: object, event: Whole) -> None:
        if origin != OWN:
            return  # a part of another journal was imported: its streams have gaps
        before = self._reached(event.stream, seq, event.version)
        if event.version != before + 1:
            self._add(
                "version-wrong",
                seq,
                f"event {seq}, stream {event.stream}",
                f"event {seq} has version {event.version} of its stream and should have {before + 1}",
            )
        self._remember({event.stream: event.version})

    # Origins.

    def _origin(self, seq: int, origin: object, event: Whole | None) -> None:
        if origin not in self.origins:
            self._add_event("origin-unknown", seq, "comes from no known origin")
        self.seen.add(origin)
        if origin != OWN:
            self._await(origin)
            return
        announced = None
        if event is not None and event.kind == IMPORTED_KIND:
            announced = _announced(event)
        elif not self.pending:
            return
        waiting = [[self.origins.get(number), events] for number, events in self.pending]
        self.pending = []
        if announced != waiting:
            self._add_event("origin-unannounced", seq, f"doesn't announce the {_counted(waiting)} that it should")

    def _await(self, origin: object) -> None:
        if not self.pending or self.pending[-1][0] != origin:
            self.pending.append([origin, 0])
        self.pending[-1][1] += 1

    def _end(self) -> None:
        if self.pending:
            waiting = [[self.origins.get(number), events] for number, events in self.pending]
            self._add_event(
                "origin-unannounced", self.last, f"ends the journal, and nothing announces {_counted(waiting)}"
            )
        if OWN not in self.origins:
            self._add("origin-unknown", 0, f"origins, {OWN}", "the journal has no name of its own")
        if not self.after:
            for number in sorted(self.origins.keys() - self.seen - {OWN}):
                name = self.origins[number]
                self._add("origin-unused", 0, f"origins, {number}", f"no event comes from the origin {name}")

    # The contents.

    def _refer(self, events: Iterable[tuple[int, list[str]]]) -> None:
        """Note which contents events name, and who names those that aren't there or aren't what they should be."""
        found: dict[bytes, list[int]] = {}
        for seq, names in events:
            for name in names:
                found.setdefault(digests.raw(name), []).append(seq)
        places = self.store.blob_places(list(found))
        for digest, seqs in found.items():
            place = places.get(digest)
            if place is None or digest in self.bad:
                self.named.setdefault(digest, []).extend(dict.fromkeys(seqs))
            if place is None:
                continue
            if 0 < place < 8 * len(self.referred):
                self.referred[place >> 3] |= 1 << (place & 7)
            else:
                self.far.add(place)

    def _contents(self) -> None:
        """With ``full`` find out which blobs aren't what their digests say."""
        if not self.full:
            return
        for rows in self.store.blobs(self.blobs):
            if isinstance(rows, Lost):
                self._add(
                    "unreadable", 0, "blobs", f"blobs {rows.after + 1} to {rows.upto} can't be read: {rows.reason}"
                )
                continue
            for row, digest, size, codec, stored in rows:
                content = _plain(size, codec, stored)
                if content is None or blake3(content).digest() != digest:
                    self.bad[digest if isinstance(digest, bytes) else row] = f"blob {row}"

    def _blobs(self) -> None:
        for digest, seqs in self.named.items():
            name = digests.named(digest)
            if digest in self.bad:
                self._add_blob("content-damaged", name, "isn't what its digest says", seqs)
            elif digest not in self.erased and not self._erased_before(name):
                self._add_blob("content-missing", name, "is missing", seqs)
        for key, place in self.bad.items():
            if key not in self.named:
                shown = digests.named(key) if isinstance(key, bytes) else "there"
                self._add("content-damaged", 0, place, f"the content {shown} isn't what its digest says")
        if self.full and not self.after:
            self._unreferred()

    def _unreferred(self) -> None:
        for row, digest in self.store.blob_rows(self.blobs):
            near = 0 < row < 8 * len(self.referred)
            there = self.referred[row >> 3] & 1 << (row & 7) if near else row in self.far
            if not there:
                shown = digests.named(digest) if isinstance(digest, bytes) else "of no digest"
                self._add("content-unreferred", 0, f"blob {row}", f"no event names the content {shown}")

    def _erased_before(self, name: str) -> bool:
        """Tell whether an event among those that are trusted says that a content was removed on purpose."""
        return bool(self.after) and any(seq <= self.after for seq in self.store.keyed(ERASED_KIND, name))

    def _add_blob(self, name: str, digest: str, how: str, seqs: list[int]) -> None:
        events = refusals.sequence(seqs)
        self._add(name, seqs[0], f"blobs, for {events}", f"the content {digest} {how}; it belongs to {events}", RESTORE)


def _plain(size: object, codec: object, stored: object) -> bytes | None:
    """Return the plain bytes of a blob, or None when the row isn't one of exactly so many."""
    if not isinstance(size, int) or not isinstance(stored, bytes):
        return None
    if codec == "zlib":
        unpacking = zlib.decompressobj()
        try:
            stored = unpacking.decompress(stored, max(size, 0) + 1)
        except (zlib.error, OverflowError):
            return None
        if not unpacking.eof or unpacking.unused_data:
            return None
    elif codec != "plain":
        return None
    return stored if len(stored) == size else None


class _Counted(msgspec.Struct):
    events: int
    origin: str


class _Announcement(msgspec.Struct):
    origins: list[_Counted]


def _announced(event: Whole) -> list[list[Any]] | None:
    """Return what an event says stands before it, origins without events left out; None when it says nothing."""
    try:
        body = msgspec.convert(event.body, _Announcement)
    except msgspec.ValidationError:
        return None
    return [[counted.origin, counted.events] for counted in body.origins if counted.events]


def _counted(waiting: list[list[Any]]) -> str:
    return " and ".join(f"{events} of {name}" for name, events in waiting) or "nothing"
