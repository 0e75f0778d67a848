"""The writer: the one thread of a process that adds to the journal.

Submissions wait in a queue. The thread takes all that wait, locks out other processes, folds what those have added,
lets each submission decide in turn on the newest state, and commits once for all of them. Nobody is told that an event
is recorded before that commit has returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path

from ledger import digests, refusals
from ledger.drafts import Batch, Outcome, Submission, Waiting
from ledger.locks import Sidecar
from ledger.newest import Newest
from ledger.recorded import ERASED_KIND, Author, Recorded
from ledger.store import DISK_ERRORS, LOCK_NAME, OWN, named

WAITS = (0, 0.05, 0.25)  # seconds before a batch is appended again after a failure, each time on a new connection
MOST_TOGETHER = 512


def settle(future: Waiting, outcome: Outcome) -> None:
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


def _settle_all(settled: Iterable[tuple[Waiting, Outcome]]) -> None:
    for future, outcome in settled:
        settle(future, outcome)


class Writer:
    """Owns the writing connection. All but ``put`` and ``stop`` runs in its own thread."""

    def __init__(
        self,
        path: Path,
        opener: Callable[[], Newest],
        author: Author,
        clock: Callable[[], int],
        publish: Callable[[list[Recorded]], None],
    ) -> None:
        self.path = path
        self._opener = opener
        self._author = author
        self._clock = clock
        self._publish = publish
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._sidecar = Sidecar(path.with_name(LOCK_NAME))
        self._newest: Newest | None = None
        self._reached = (0, bytes(32))  # seq and head of what is published
        self._attempt: Batch | None = None
        self._thread = threading.Thread(target=self._run, name="journal writer", daemon=True)

    def start(self, published: tuple[int, bytes]) -> None:
        """Start; whatever follows the event of this seq and head is published before a submission is answered."""
        self._reached = published
        self._thread.start()

    def put(self, submission: Submission) -> None:
        self._queue.put(submission)

    def stop(self) -> None:
        """Record all that waits, then end the thread and close the connection."""
        self._queue.put(None)
        self._thread.join()
        self._sidecar.close()

    def _run(self) -> None:
        going = True
        while going:
            waiting, going = self._take()
            if waiting:
                self._tell(waiting, self._record(waiting))
        self._forget()

    def _take(self) -> tuple[list[Submission], bool]:
        """Return all that waits, and whether more may come."""
        waiting: list[Submission] = []
        item = self._queue.get()
        while item is not None:
            waiting.append(item)
            if len(waiting) == MOST_TOGETHER or self._queue.empty():
                return waiting, True
            item = self._queue.get()
        return waiting, False

    def _tell(self, waiting: Sequence[Submission], outcomes: Sequence[Outcome]) -> None:
        """Resolve futures: at once those of threads, with one call a loop those of coroutines."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Waiting, Outcome]]] = {}
        for submission, outcome in zip(waiting, outcomes, strict=True):
            if submission.loop is None:
                settle(submission.future, outcome)
            else:
                by_loop.setdefault(submission.loop, []).append((submission.future, outcome))
        for loop, settled in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle_all, settled)

    def _record(self, waiting: Sequence[Submission]) -> Sequence[Outcome]:
        """Append a batch; after a failure of the disk, append it again to a journal opened anew."""
        self._attempt = None
        lasting: BaseException = refusals.StorageFailed(self.path, "nothing was tried")
        for wait in WAITS:
            if wait:
                time.sleep(wait)
            try:
                with self._sidecar.held():
                    return self._append(waiting)
            except DISK_ERRORS as failure:
                lasting = named(self.path, failure)
                lasting.__cause__ = failure
                self._forget()
            except BaseException as error:  # noqa: BLE001 - whoever waits must learn of it, and the thread go on
                lasting = error
                self._forget()
                break
        return [lasting] * len(waiting)

    def _append(self, waiting: Sequence[Submission]) -> Sequence[Outcome]:
        newest = self._open()
        newest.store.begin()
        tail = newest.catch_up()
        batch = self._survivor(tail)
        if batch is None:
            batch = self._attempt = Batch(newest, self._author, self._clock)
            for submission in waiting:
                batch.add(submission)
        if newest.ahead:
            for name, number in batch.origins.items():
                newest.store.insert_origin(number, name)
            newest.store.insert_blobs([*batch.blobs.values()])
            newest.store.insert([record.row() for record in newest.ahead])
            newest.store.erase(
                digests.raw(record.key or "")
                for record in newest.ahead
                if record.kind == ERASED_KIND and record.origin == OWN
            )
            newest.store.commit()
        else:
            newest.store.rollback()
        committed = tail + newest.committed()
        self._reached = (newest.seq, newest.head)
        if committed:
            self._publish(committed)
        self._tidy(newest)
        return batch.outcomes

    def _survivor(self, tail: Sequence[Recorded]) -> Batch | None:
        """Return the batch of an earlier attempt whose commit reported a failure and is in the journal all the same."""
        attempt = self._attempt
        if attempt is None or not attempt.newest.ahead:
            return None
        first = attempt.newest.ahead[0].id
        return attempt if any(record.id == first for record in tail) else None

    def _open(self) -> Newest:
        """Return the newest state: on a new connection from the last published event on, so that none is skipped."""
        if self._newest is None:
            self._newest = self._opener()
            self._newest.seq, self._newest.head = self._reached
        return self._newest

    def _tidy(self, newest: Newest) -> None:
        """Keep the write-ahead log small. What was appended is on the disk whether or not this succeeds."""
        try:
            newest.store.truncate_wal()
        except DISK_ERRORS:
            self._forget()

    def _forget(self) -> None:
        """Close the connection, which undoes what isn't committed, and forget all that was read through it."""
        if self._newest is not None:
            with contextlib.suppress(*DISK_ERRORS):
                self._newest.store.close()
            self._newest = None
