"""The writer: the one thread of a process that adds to the journal.

Commands wait in a queue. The thread takes all that wait, locks out other processes, folds what those have added, lets
each command decide in turn on the newest state, and commits once for all of them. Nobody is told that an event is
recorded before that commit has returned.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import apsw

from ledger import digests, refusals
from ledger.errors import Refusal
from ledger.event import Event, Family, Found, Step
from ledger.locks import Sidecar
from ledger.recorded import Author, Recorded, authentic, fold, same_fact
from ledger.store import BlobRow, Store, named, pack

WAITS = (0.0, 0.05, 0.25)  # seconds before a batch is appended again after a failure, each time on a new connection
MOST_TOGETHER = 512
STREAMS_REMEMBERED = 50_000

Outcome = tuple[Recorded, ...] | BaseException


class Submission:
    """Steps that are recorded together or not at all, and whoever waits for them."""

    __slots__ = ("blobs", "cause", "contents", "future", "loop", "steps")

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
        self.future: Any = Future() if loop is None else loop.create_future()
        self.blobs: list[BlobRow] | None = None

    def rows(self) -> list[BlobRow]:
        """Return the rows of the contents, packed once however often they are appended."""
        if self.blobs is None:
            self.blobs = [pack(digests.raw(digest), content) for digest, content in self.contents.items()]
        return self.blobs


def settle(future: Any, outcome: Outcome) -> None:
    """Tell whoever waits; someone who stopped waiting is not told."""
    if isinstance(future, Future):
        if not future.set_running_or_notify_cancel():
            return
    elif future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _settle_all(settled: Iterable[tuple[Any, Outcome]]) -> None:
    for future, outcome in settled:
        settle(future, outcome)


class Batch:
    """What one commit is to hold: events already decided, in the order that they will have."""

    def __init__(self, seq: int, head: bytes) -> None:
        self.seq = seq
        self.head = head
        self.records: list[Recorded] = []
        self.blobs: dict[bytes, BlobRow] = {}
        self.by_key: dict[tuple[str, str], Recorded] = {}
        self.outcomes: list[Outcome] = []


class Writer:
    """Owns the writing connection. All but ``put`` and ``stop`` runs in its own thread."""

    def __init__(
        self,
        path: Path,
        families: Sequence[Family],
        author: Author,
        clock: Callable[[], int],
        publish: Callable[[list[Recorded]], None],
        vfs: str | None,
    ) -> None:
        self.path = path
        self.readers: dict[str, list[Family]] = {}
        for family in families:
            for kind in family.kinds:
                self.readers.setdefault(kind.kind, []).append(family)
        self._author = author
        self._clock = clock
        self._publish = publish
        self._vfs = vfs
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._sidecar = Sidecar(path.with_name("ledger.lock"))
        self._store: Store | None = None
        self._seq = 0
        self._head = bytes(32)
        self._states: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="journal writer", daemon=True)
        self._thread.start()

    def put(self, submission: Submission) -> None:
        self._queue.put(submission)

    def stop(self) -> None:
        """Record all that waits, then end the thread and close the connection."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            waiting: list[Submission] = []
            item = self._queue.get()
            while True:
                if item is None:
                    going = False
                    break
                waiting.append(item)
                if len(waiting) == MOST_TOGETHER:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if waiting:
                self._tell(waiting, self._record(waiting))
                item = None
        self._forget()
        self._sidecar.close()

    def _tell(self, waiting: Sequence[Submission], outcomes: Sequence[Outcome]) -> None:
        """Resolve futures: at once those of threads, with one call a loop those of coroutines."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Any, Outcome]]] = {}
        for submission, outcome in zip(waiting, outcomes, strict=True):
            if submission.loop is None:
                settle(submission.future, outcome)
            else:
                by_loop.setdefault(submission.loop, []).append((submission.future, outcome))
        for loop, settled in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle_all, settled)
            except RuntimeError:  # the loop is closed: nobody waits any more
                continue

    def _record(self, waiting: Sequence[Submission]) -> list[Outcome]:
        """Append a batch; after a failure of the disk, append it again to a journal opened anew."""
        error: BaseException = RuntimeError()
        batch: Batch | None = None
        for wait in WAITS:
            time.sleep(wait)
            try:
                if self._store is None:
                    self._open()
                batch = self._survivor(batch) or Batch(0, b"")
                if not batch.outcomes:
                    with self._sidecar.held():
                        self._append(waiting, batch)
                return batch.outcomes
            except (apsw.Error, OSError) as failure:
                error = failure
                self._forget()
            except Refusal as refusal:  # damage, a journal that was swapped: nothing that waiting would repair
                self._forget()
                return [refusal] * len(waiting)
            except BaseException as bug:  # noqa: BLE001 - whoever waits must learn of it, and the thread must go on
                self._forget()
                return [bug] * len(waiting)
        lasting = named(self.path, error)
        lasting.__cause__ = error
        return [lasting] * len(waiting)

    def _open(self) -> None:
        self._store = Store(self.path, vfs=self._vfs)
        self._seq, self._head = self._store.last()

    def _forget(self) -> None:
        """Close the connection and forget all that was read through it."""
        self._states.clear()
        self._versions.clear()
        if self._store is not None:
            store, self._store = self._store, None
            try:
                store.close()
            except (apsw.Error, OSError):
                return

    def _survivor(self, batch: Batch | None) -> Batch | None:
        """Return the batch of a commit that failed and is nevertheless in the journal."""
        if batch is None or not batch.records or self._store is None:
            return None
        first = batch.records[0]
        row = self._store.row(first.seq)
        if row is None or row[1] != first.id:
            return None
        self._publish(batch.records)
        return batch

    def _append(self, waiting: Sequence[Submission], batch: Batch) -> None:
        store = self._store
        if store is None:
            raise AssertionError
        store.begin()
        try:
            tail = self._catch_up(store)
            batch.seq, batch.head = self._seq, self._head
            for submission in waiting:
                batch.outcomes.append(self._outcome(submission, batch))
            if batch.records:
                store.insert_blobs(batch.blobs.values())
                store.insert([record.row() for record in batch.records])
                store.commit()
            else:
                store.rollback()
        except BaseException:
            self._abandon(store)
            raise
        self._seq, self._head = batch.seq, batch.head
        self._publish(tail + batch.records)
        store.truncate_wal()

    def _abandon(self, store: Store) -> None:
        try:
            store.rollback()
        except apsw.Error:
            return

    def _catch_up(self, store: Store) -> list[Recorded]:
        """Fold what others committed, checking that it continues the chain."""
        seq, head = store.last()
        if seq == self._seq and head == self._head:
            return []
        tail = [Recorded(row) for row in store.rows(self._seq, seq)]
        for record in tail:
            authentic(record, self.path)
            if record.seq != self._seq + 1 or digests.chained(self._head, record.id) != record.head:
                raise refusals.JournalDamaged(self.path, record.seq, f"event {record.seq} doesn't continue the chain")
            self._seq, self._head = record.seq, record.head
            self._versions[record.stream] = record.version
            fold(self.readers, self._states, record)
        if (self._seq, self._head) != (seq, head):
            raise refusals.JournalDamaged(self.path, seq, f"event {seq} isn't the end that was there before")
        return tail

    def _state(self, family: Family, batch: Batch) -> Any:  # noqa: ANN401 - each family knows its own
        """Return the newest state, built from the journal when it isn't there."""
        name = family.name
        if name not in self._states:
            store = self._store
            if store is None:
                raise AssertionError
            state = family.initial()
            kinds = [kind.kind for kind in family.kinds]
            for row in store.rows_at(store.seqs(kinds, 0, self._seq)):
                state = family.evolve(state, authentic(Recorded(row), self.path).event)
            for record in batch.records:
                if record.kind in kinds:
                    state = family.evolve(state, record.event)
            self._states[name] = state
        return self._states[name]

    def _outcome(self, submission: Submission, batch: Batch) -> Outcome:
        draft = _Draft(self, submission, batch)
        try:
            draft.decide()
        except (apsw.Error, OSError):
            raise
        except Exception as refused:  # noqa: BLE001 - its own submitter gets it; the others' steps go on
            draft.undo()
            return refused
        return draft.accept()


class _Draft:
    """One submission's events before they are accepted to the batch."""

    def __init__(self, writer: Writer, submission: Submission, batch: Batch) -> None:
        self.writer = writer
        self.submission = submission
        self.batch = batch
        self.answer: list[Recorded] = []
        self.fresh: list[Recorded] = []
        self.unfolded: list[Recorded] = []
        self.by_key: dict[tuple[str, str], Recorded] = {}
        self.evolved: set[str] = set()
        self.versions: dict[str, int] = {}

    def decide(self) -> None:
        for step in self.submission.steps:
            family, command = step.family, step.command
            looked_up = {wanted: self.look_up(*wanted) for wanted in command.looks_up}
            found = _finder(looked_up)
            self.fold_for(family)
            for event in family.decide(command, self.writer._state(family, self.batch), found):  # noqa: SLF001
                self.add(event)

    def look_up(self, kind: str, key: str) -> Recorded | None:
        """Return the event of this kind and key: from this draft, this batch, or the journal."""
        wanted = (kind, key)
        record = self.by_key.get(wanted) or self.batch.by_key.get(wanted)
        if record is None:
            store = self.writer._store  # noqa: SLF001
            row = store.by_key(kind, key) if store is not None else None
            record = Recorded(row) if row else None
        return record

    def add(self, event: Event) -> None:
        key, stream, kind = event.key, event.stream, event.kind
        if key is not None:
            existing = self.look_up(kind, key)
            if existing is not None:
                if not same_fact(existing, event):
                    raise refusals.KeyConflict(kind, key, existing.seq)
                self.answer.append(existing)
                return
        version = self.version(stream) + 1
        writer = self.writer
        stored = writer._author.stored(event, writer._clock(), self.submission.cause, stream, version)  # noqa: SLF001
        # seq and head are given when the draft is accepted
        record = Recorded((0, digests.event_id(stored), b"", kind, stream, version, key, stored), event)
        self.versions[stream] = version
        if key is not None:
            self.by_key[kind, key] = record
        self.fresh.append(record)
        self.unfolded.append(record)
        self.answer.append(record)

    def version(self, stream: str) -> int:
        known = self.versions.get(stream)
        if known is None:
            remembered = self.writer._versions  # noqa: SLF001
            known = remembered.get(stream)
            if known is None:
                store = self.writer._store  # noqa: SLF001
                known = store.version(stream) if store is not None else 0
        return known

    def fold_for(self, family: Family) -> None:
        """Fold this draft's earlier events, but only once a step of a family that reads them has to decide."""
        writer = self.writer
        readers = [reader for record in self.unfolded for reader in writer.readers.get(record.kind, ())]
        if not any(reader is family for reader in readers):
            return
        for reader in readers:
            writer._state(reader, self.batch)  # noqa: SLF001
            self.evolved.add(reader.name)
        for record in self.unfolded:
            fold(writer.readers, writer._states, record)  # noqa: SLF001
        self.unfolded.clear()

    def undo(self) -> None:
        """Forget states that folded what isn't recorded after all; they are built again when next needed."""
        for name in self.evolved:
            self.writer._states.pop(name, None)  # noqa: SLF001

    def accept(self) -> tuple[Recorded, ...]:
        batch, writer = self.batch, self.writer
        for record in self.unfolded:
            fold(writer.readers, writer._states, record)  # noqa: SLF001
        for record in self.fresh:
            batch.seq += 1
            batch.head = digests.chained(batch.head, record.id)
            record.seq, record.head = batch.seq, batch.head
        batch.records += self.fresh
        batch.by_key.update(self.by_key)
        if self.fresh:
            for row in self.submission.rows():
                batch.blobs[row[0]] = row
        remembered = writer._versions  # noqa: SLF001
        if len(remembered) > STREAMS_REMEMBERED:
            remembered.clear()
        remembered.update(self.versions)
        return tuple(self.answer)


def _finder(looked_up: Mapping[tuple[str, str], Recorded | None]) -> Found:
    def found(kind: str, key: str) -> Event | None:
        record = looked_up[kind, key]
        return None if record is None else record.event

    return found
