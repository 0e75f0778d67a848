"""Recorded events: the envelope that an event is stored in, written once and read lazily."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ledger import canonical, digests, refusals
from ledger.event import KINDS, OLDER, Event, Family, Older
from ledger.kinds import RELEASE
from ledger.legible import ILLEGIBLE

if TYPE_CHECKING:
    from ledger.store import Row

ERASED_KIND = "content-erased@1"
references = re.compile(rb'"blob":"(b3:[0-9a-f]{64})"').findall  # in stored bytes: text can't hold these quotes
_text = msgspec.json.Encoder().encode
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """What is in an event's bytes beside its body."""

    actor: str
    at: int
    body: msgspec.Raw
    cause: str | None
    key: str | None
    kind: str
    stream: str
    version: int


_envelopes = msgspec.json.Decoder(Envelope)
envelope = _envelopes.decode


class Recorded:
    """An event with its place. The typed event, and what else is in the bytes, are decoded when asked for."""

    __slots__ = ("_envelope", "_event", "bytes", "head", "id", "key", "kind", "origin", "seq", "stream", "version")

    def __init__(self, row: Row, event: Event | None = None) -> None:
        self.seq, self.id, self.head, self.kind, self.stream, self.version, self.key, self.bytes, self.origin = row
        self._event = event
        self._envelope: Envelope | None = None

    def __repr__(self) -> str:
        return f"<event {self.seq}: {self.kind} in {self.stream}>"

    def row(self) -> Row:
        return (self.seq, self.id, self.head, self.kind, self.stream, self.version, self.key, self.bytes, self.origin)

    @property
    def event(self) -> Event:
        """The typed event; UnknownKind when this release has no type for it."""
        if self._event is None:
            self._event = decode(self.kind, self.bytes, self.seq)
        return self._event

    @property
    def envelope(self) -> Envelope:
        if self._envelope is None:
            try:
                self._envelope = _envelopes.decode(self.bytes)
            except ILLEGIBLE as error:
                meaning = f"event {self.seq} is no event: {error}"
                raise refusals.JournalDamaged(Path("ledger.db"), self.seq, meaning) from error
        return self._envelope

    @property
    def at(self) -> int:
        """When it was recorded: UTC, microseconds. A fact, never an order."""
        return self.envelope.at

    @property
    def actor(self) -> str:
        return self.envelope.actor

    @property
    def cause(self) -> str | None:
        return self.envelope.cause


def decode(kind: str, stored: bytes, seq: int) -> Event:
    """Return the typed event in stored bytes."""
    decoder = _decoders.get(kind)
    if decoder is None:
        known = KINDS.get(kind) or OLDER.get(kind)
        if known is None:
            raise refusals.UnknownKind(kind, seq)
        shape = msgspec.defstruct("Stored", [("body", known)])
        decoder = _decoders[kind] = msgspec.json.Decoder(shape)
    try:
        body = decoder.decode(stored).body
    except ILLEGIBLE as error:
        raise refusals.JournalDamaged(Path("ledger.db"), seq, f"event {seq} is no {kind}: {error}") from error
    return body.upcast() if isinstance(body, Older) else cast("Event", body)


class Author:
    """Writes stored bytes for one actor: the members in sorted order, around bodies that are canonical already."""

    def __init__(self, actor: str) -> None:
        self._start = b'{"actor":' + _text(actor) + b',"at":'
        self._kinds: dict[str, bytes] = {}

    def stored(self, event: Event, at: int, cause: str | None, stream: str, version: int) -> bytes:
        key = event.key
        middle = self._kinds.get(event.kind)
        if middle is None:
            middle = self._kinds[event.kind] = b',"kind":' + _text(event.kind) + b',"stream":'
        return b'%b%d,"body":%b,"cause":%b,"key":%b%b%b,"version":%d}' % (
            self._start,
            at,
            canonical.encode(event),
            b"null" if cause is None else _text(cause),
            b"null" if key is None else _text(key),
            middle,
            _text(stream),
            version,
        )


def same_fact(existing: Recorded, event: Event) -> bool:
    """Tell whether a recorded event says what this one says, whoever recorded it and when, and in which version."""
    if existing.kind != event.kind:
        return existing.event == event
    return bytes(existing.envelope.body) == canonical.encode(event)


def authentic(record: Recorded, path: Path) -> Recorded:
    """Return the record when its bytes are those that its id was made from; JournalDamaged otherwise."""
    if digests.event_id(record.bytes) != record.id:
        raise refusals.event_changed(path, record.seq)
    return record


def follows(seq: int, head: bytes, record: Recorded, path: Path) -> None:
    """Refuse a record that isn't authentic, or doesn't come right after the position and head that are given."""
    authentic(record, path)
    if record.seq != seq + 1 or digests.chained(head, record.id) != record.head:
        raise refusals.JournalDamaged(path, record.seq, f"event {record.seq} doesn't follow event {seq}")


def refuse_unknown(kind: str, seq: int) -> None:
    """Refuse a kind that no module of this release has: what it says might matter, so it is never skipped."""
    if kind not in RELEASE and kind not in KINDS and kind not in OLDER:
        raise refusals.UnknownKind(kind, seq)


def readers_of(families: Sequence[Family]) -> dict[str, list[Family]]:
    """Return, by kind, the families that fold it."""
    readers: dict[str, list[Family]] = {}
    for family in families:
        for kind in family.kinds:
            for version in kind.kinds:
                readers.setdefault(version, []).append(family)
    return readers


def fold(readers: Mapping[str, list[Family]], states: dict[str, Any], record: Recorded, origin: int = 1) -> None:
    """Evolve those states that are there and read this kind; what comes from another origin concerns none of them."""
    if record.origin != origin:
        return
    reading = readers.get(record.kind)
    if reading is None:
        if readers:
            refuse_unknown(record.kind, record.seq)
        return
    for family in reading:
        if family.name in states:
            states[family.name] = family.evolve(states[family.name], record.event)
