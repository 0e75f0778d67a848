"""Drafts: one submission's events while they are decided, before they are accepted for the next commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from ledger import digests, refusals
from ledger.event import Event, Family, Found, Step, versions_of
from ledger.newest import Newest
from ledger.recorded import Author, Recorded, envelope, references, same_fact
from ledger.store import DISK_ERRORS, OWN, BlobRow, pack

Outcome = tuple[Recorded, ...] | BaseException
Waiting = Future[tuple[Recorded, ...]] | asyncio.Future[tuple[Recorded, ...]]


class Foreign(NamedTuple):
    """Events of another origin, by its name, as they are stored.

    ``announce`` returns the events that are to stand right after so many that weren't here before.
    """

    origin: str
    events: Sequence[bytes]
    announce: Callable[[int], tuple[Event, ...]]


class Submission:
    """Steps that are recorded together or not at all, and whoever waits for them."""

    __slots__ = ("cause", "contents", "foreign", "future", "loop", "packed", "steps")

    def __init__(
        self,
        steps: Sequence[Step],
        contents: Mapping[str, bytes],
        cause: str | None,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.steps = steps
        self.contents = contents
        self.cause = cause
        self.loop = loop
        self.future: Waiting = Future() if loop is None else loop.create_future()
        self.packed: dict[str, BlobRow] = {}
        self.foreign: Foreign | None = None

    def row(self, digest: str) -> BlobRow:
        """Return the row of a content, packed once however often it is appended."""
        row = self.packed.get(digest)
        if row is None:
            row = self.packed[digest] = pack(digests.raw(digest), self.contents[digest])
        return row


class Batch:
    """What one commit is to hold, in the order that it will have, and what to tell whom once it has returned."""

    def __init__(self, newest: Newest, author: Author, clock: Callable[[], int]) -> None:
        self.newest = newest
        self.author = author
        self.clock = clock
        self.seq = newest.seq
        self.head = newest.head
        self.blobs: dict[str, BlobRow] = {}
        self.by_key: dict[tuple[str, str], Recorded] = {}
        self.absent: set[tuple[str, str]] = set()  # looked up in the journal in vain; nobody else writes meanwhile
        self.outcomes: list[Outcome] = []
        self.origins: dict[str, int] = {}

    def number(self, origin: str) -> int:
        """Return the number of an origin, a new one for one that wasn't here before."""
        known = {name: number for number, name in self.newest.store.origins().items()} | self.origins
        if origin not in known:
            known[origin] = self.origins[origin] = max(known.values()) + 1
        return known[origin]

    def add(self, submission: Submission) -> None:
        """Decide a submission and accept it, or leave everything as if it had never been there."""
        draft = Draft(self, submission)
        try:
            draft.decide()
        except DISK_ERRORS:
            raise
        except Exception as refused:  # noqa: BLE001 - whoever submitted it gets it; the others' steps go on
            self.newest.forget(draft.folded)
            self.outcomes.append(refused)
        else:
            self.outcomes.append(draft.accept())


class Draft:
    """One submission's events, and what deciding them has touched."""

    __slots__ = (
        "answer",
        "batch",
        "blobs",
        "by_key",
        "folded",
        "fresh",
        "newest",
        "submission",
        "unfolded",
        "versions",
    )

    def __init__(self, batch: Batch, submission: Submission) -> None:
        self.batch = batch
        self.newest = batch.newest
        self.submission = submission
        self.answer: list[Recorded] = []
        self.fresh: list[Recorded] = []
        self.unfolded: list[Recorded] = []
        self.folded: list[Family] = []
        self.by_key: dict[tuple[str, str], Recorded] = {}
        self.blobs: dict[str, BlobRow] = {}
        self.versions: dict[str, int] = {}

    def decide(self) -> None:
        """Run each step on the newest state, which includes the steps before it."""
        if self.submission.foreign is not None:
            self._admit(self.submission.foreign)
        for step in self.submission.steps:
            family, command = step.family, step.command
            looks_up = command.looks_up
            found = _finder({wanted: self._look_up(*wanted) for wanted in looks_up} if looks_up else _NOTHING)
            if self.unfolded:
                self._fold_for(family)
            for event in family.decide(command, self.newest.state(family), found):
                self._add(event)

    def _admit(self, foreign: Foreign) -> None:
        """Take events of another origin as they are, but for those that are here already."""
        origin = self.batch.number(foreign.origin)
        store, path = self.newest.store, self.newest.store.path
        for stored in foreign.events:
            event, ident = envelope(stored), digests.event_id(stored)
            there = store.at_place(origin, event.stream, event.version)
            if there == ident:
                continue
            if (
                origin == OWN
                or there is not None
                or (event.key is not None and store.with_key(origin, event.kind, event.key))
            ):
                raise refusals.OriginForked(path, foreign.origin, event.stream, event.version)
            for digest in {found.decode() for found in references(stored)} & self.submission.contents.keys():
                if not self.newest.holds(digest):
                    self.blobs[digest] = self.submission.row(digest)
            self.fresh.append(
                Recorded((0, ident, b"", event.kind, event.stream, event.version, event.key, stored, origin))
            )
        for announcement in foreign.announce(len(self.fresh)):
            self._add(announcement)

    def _look_up(self, kind: str, key: str) -> Recorded | None:
        """Return the event of this kind and key: from this draft, this batch, or the journal."""
        for version in versions_of(kind):
            wanted = (version, key)
            record = self.by_key.get(wanted) or self.batch.by_key.get(wanted)
            if record is None and wanted not in self.batch.absent:
                record = self.newest.by_key(version, key)
            if record is not None:
                return record
            self.batch.absent.add(wanted)
        return None

    def _add(self, event: Event) -> None:
        key, stream, kind = event.key, event.stream, event.kind
        if key is not None:
            existing = self._look_up(kind, key)
            if existing is not None:
                if not same_fact(existing, event):
                    raise refusals.KeyConflict(kind, key, existing.seq)
                self.answer.append(existing)
                return
        version = self.versions.get(stream)
        version = (self.newest.version(stream) if version is None else version) + 1
        batch = self.batch
        stored = batch.author.stored(event, batch.clock(), self.submission.cause, stream, version)
        # seq and head are given when the draft is accepted
        record = Recorded((0, digests.event_id(stored), b"", kind, stream, version, key, stored, OWN), event)
        self._carry(kind, stored)
        self.versions[stream] = version
        if key is not None:
            self.by_key[kind, key] = record
        self.fresh.append(record)
        self.unfolded.append(record)
        self.answer.append(record)

    def _carry(self, kind: str, stored: bytes) -> None:
        """Take along the contents that an event names, and only these."""
        if b'"blob":' not in stored:
            return
        for found in references(stored):
            digest = found.decode()
            if digest in self.newest.erased:
                continue
            if digest in self.submission.contents:
                self.blobs[digest] = self.submission.row(digest)
            elif digest not in self.batch.blobs and not self.newest.holds(digest):
                raise refusals.ContentNotGiven(kind, digest)

    def _fold_for(self, family: Family) -> None:
        """Fold this draft's earlier events, but only once a family that reads one of them has to decide.

        Most drafts never come to this, so that most refusals leave no state to be built again.
        """
        readers = [reader for record in self.unfolded for reader in self.newest.readers.get(record.kind, ())]
        if not any(reader is family for reader in readers):
            return
        for reader in readers:
            self.newest.state(reader)
        self.folded += readers
        for record in self.unfolded:
            self.newest.fold(record)
        self.unfolded.clear()

    def accept(self) -> tuple[Recorded, ...]:
        """Give each event its place, and fold what isn't folded yet."""
        batch = self.batch
        for record in self.fresh:
            batch.seq += 1
            batch.head = digests.chained(batch.head, record.id)
            record.seq, record.head = batch.seq, batch.head
        for record in self.unfolded:
            self.newest.fold(record)
        self.newest.accept(self.fresh, self.versions)
        batch.by_key.update(self.by_key)
        batch.blobs.update(self.blobs)
        return tuple(self.answer)


_NOTHING: Mapping[tuple[str, str], Recorded | None] = {}


def _finder(looked_up: Mapping[tuple[str, str], Recorded | None]) -> Found:
    def found(kind: str, key: str) -> Event | None:
        record = looked_up[kind, key]
        return None if record is None else record.event

    return found
