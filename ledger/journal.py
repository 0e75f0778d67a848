"""The journal: immutable events in one file, and the states that are folded from them.

``submit`` and ``record`` add; everything else reads the committed view, which moves on when one of these is asked:
``state``, ``position``, ``events`` and ``checkpoint`` never see an event before its commit has returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import apsw

from ledger import digests, refusals, store
from ledger.drafts import Foreign, Submission
from ledger.event import Blobs, Event, Family, Step
from ledger.folding import fold_up_to
from ledger.locks import Held, Sidecar, hold, sweep
from ledger.merkle import Checkpoint, Frontier
from ledger.newest import Newest
from ledger.recorded import ERASED_KIND, Author, Recorded, authentic, fold, follows, readers_of, refuse_unknown
from ledger.root_name import is_there
from ledger.snapshots import WORTH, Snapshots
from ledger.store import LOCK_NAME, NAME, ROWS_AT_ONCE, Row, Store
from ledger.writer import Writer

__all__ = ["Checkpoint", "Journal", "Recorded"]

UNREAD = 64  # commits that the view may be behind: whoever only adds would keep all that was added in memory


class Journal:
    """One journal, opened for a command: see docs/format.md for the file, docs/tour.md for who uses it how."""

    def __init__(self, path: Path, families: Sequence[Family], author: Author, clock: Callable[[], int]) -> None:
        self.path = path
        self.process = ""
        self._families = tuple(families)
        self._author = author
        self._clock = clock
        self._vfs: str | None = None
        self._held: Held | None = None
        self._writer: Writer | None = None
        self._closed = False
        self._starting = threading.Lock()
        self._lock = threading.RLock()  # guards the reading connection and the view
        self._committed: deque[list[Recorded]] = deque()
        self._frontier = Frontier()
        self._readers = readers_of(families)
        self._states: dict[str, Any] = {}
        self._snapshots = Snapshots(path.parent, "")
        self._kept = 0  # the position of the newest snapshots, or from which on none was worth it

    @classmethod
    def open(  # noqa: PLR0913 - everything that a journal gets from outside, in one place
        cls,
        root: Path,
        families: Sequence[Family],
        *,
        actor: str,
        clock: Callable[[], int],
        create: bool = False,
        process: str = "",
        origin: str | None = None,
        vfs: str | None = None,
        reading: str | None = None,
    ) -> Journal:
        """Open the journal in the root and fold what the families read.

        ``process`` names this process for others (a random word; the lock is held until ``close``); ``reading`` names
        an origin whose imported events are read instead of the journal's own; ``origin`` and ``vfs`` are for tests: a
        fixed name for a new journal, and a file system that fails.
        """
        path = root / NAME
        there = is_there(root, NAME)
        journal = cls(path, families, Author(actor), clock)
        if create and not there:
            _create(root, path, origin, vfs)
        journal._vfs = vfs
        journal._store = Store(path, vfs=vfs)
        try:
            if reading is not None:
                journal._store.reading = journal._number(reading)
            read = journal._fold_all()
            if process:
                journal.process = process
                sweep(root)
                journal._held = hold(root, process)
                journal._snapshots = Snapshots(root, process)
                journal._snapshots.sweep()
            if read >= WORTH:
                journal._keep()
        except (apsw.Error, OSError) as error:
            journal._store.close()
            raise store.named(path, error) from error
        except BaseException:
            journal._store.close()
            raise
        return journal

    _store: Store

    def _number(self, name: str) -> int:
        """Return the number of the one origin that a name or its beginning means; OriginUnknown when it means none."""
        names = self._store.origins()
        found = [number for number, known in names.items() if known == name]
        found = found or [number for number, known in names.items() if known.startswith(name)]
        if len(found) != 1:
            raise refusals.OriginUnknown(name, tuple(names.values()))
        return found[0]

    def _fold_all(self) -> int:
        """Bring the view to the journal's end; return how many events had to be read for it."""
        reader = self._store
        self.origin = reader.origin()
        with reader.snapshot():
            self._seq, self._head = reader.last()
            positions = {family.name: self._unfolded(family) for family in self._families}
            whole = max(positions.values(), default=0)  # up to there nothing was missing when a snapshot was made
            count = whole + reader.count_after(whole) if whole else reader.count()
        if count != self._seq:
            missing = _first_gap(reader, self._seq)
            raise refusals.JournalDamaged(self.path, missing, f"event {missing} is missing")
        self._kept = self._seq
        if self._families:
            for kind, seq in reader.kinds():
                refuse_unknown(kind, seq)
        return fold_up_to(reader, self._families, self._states, positions, self._seq)

    def _unfolded(self, family: Family) -> int:
        """Take the family's state from its snapshot; return the position after which there is more to fold."""
        position, self._states[family.name] = self._snapshots.load(self._store, family, self._seq)
        return position

    def _keep(self) -> None:
        """Write snapshots of the view. The caller holds the lock, or is alone."""
        if self._store.reading == store.OWN:
            self._snapshots.save(self._families, self._states, self._seq, self._head)
        self._kept = self._seq

    # Adding.

    def submit(
        self, *steps: Step, blobs: Blobs | None = None, cause: str | None = None
    ) -> Future[tuple[Recorded, ...]]:
        """Record what the steps decide, all or nothing; resolves once it is on the disk.

        A refusal of any step becomes the future's exception. An event whose key is recorded with the same body isn't
        added again: the recorded one is in the result.
        """
        submission = Submission(steps, blobs.contents if blobs else {}, cause, None)
        self._put(submission)
        return cast("Future[tuple[Recorded, ...]]", submission.future)

    async def record(self, *steps: Step, blobs: Blobs | None = None, cause: str | None = None) -> tuple[Recorded, ...]:
        """Await ``submit``; when this returns, the view has folded the events. A cancelled await may still commit."""
        submission = Submission(steps, blobs.contents if blobs else {}, cause, asyncio.get_running_loop())
        self._put(submission)
        recorded = await cast("asyncio.Future[tuple[Recorded, ...]]", submission.future)
        if self._committed:
            self._catch_up()
        return recorded

    def admit(self, part: Foreign, blobs: Blobs) -> tuple[Recorded, ...]:
        """Record events of another origin with their contents, all or nothing; return what announces them.

        Events that are there already are left alone; OriginForked when others are in their places.
        """
        submission = Submission((), blobs.contents, None, None)
        submission.foreign = part
        self._put(submission)
        return cast("Future[tuple[Recorded, ...]]", submission.future).result()

    def origins(self) -> dict[int, str]:
        """Return the names of all origins by their numbers; the first is where this journal was born."""
        with self._lock, self._reading():
            return self._store.origins()

    def _put(self, submission: Submission) -> None:
        if len(self._committed) > UNREAD:
            self._catch_up()
        if self._store.reading != store.OWN:
            raise refusals.OriginNotOurs(self.path)
        for step in submission.steps:
            if step.family.name not in self._states:
                raise refusals.FamilyNotOpened(step.family.name)
        with self._starting:  # nothing may be put after the writer was told to stop
            if self._closed:
                raise refusals.JournalClosed(self.path)
            if self._writer is None:
                self._writer = self._started()
            self._writer.put(submission)

    def _started(self) -> Writer:
        writer = Writer(
            self.path,
            lambda: Newest(Store(self.path, vfs=self._vfs), self._readers, self._snapshots),
            self._author,
            self._clock,
            self._committed.append,
        )
        with self._lock:
            published = self._seq, self._head  # not the file's end: others may have committed since this was folded
        writer.start(published)
        return writer

    # The committed view.

    def _catch_up(self) -> None:
        """Fold what this process committed, and what it saw of others, in order of seq."""
        with self._lock:
            while self._committed:
                records = self._committed.popleft()
                if records and records[0].seq > self._seq + 1:
                    self._fold_rows(records[0].seq - 1)
                for record in records:
                    if record.seq > self._seq:
                        fold(self._readers, self._states, record, self._store.reading)
                        self._seq, self._head = record.seq, record.head
            if self._seq - self._kept >= self._snapshots.due():
                self._keep()

    def _fold_rows(self, upto: int) -> None:
        for row in self._store.rows(self._seq, upto):
            record = Recorded(row)
            follows(self._seq, self._head, record, self.path)
            fold(self._readers, self._states, record, self._store.reading)
            self._seq, self._head = record.seq, record.head

    def state(self, family: Family) -> Any:  # noqa: ANN401 - each family knows its own
        """Return the family's committed state, to be read only, until something else is awaited."""
        if self._committed:
            self._catch_up()
        return self._states[family.name]

    def refresh(self) -> None:
        """Fold what other processes committed; cheap when there is nothing new."""
        with self._lock, self._reading():
            self._catch_up()
            last, _ = self._store.last()
            if last > self._seq:
                self._fold_rows(last)

    def position(self) -> tuple[int, str]:
        """Return seq and head (``b3:`` form) of the committed view."""
        self._catch_up()
        return self._seq, digests.named(self._head)

    def checkpoint(self) -> Checkpoint:
        """Return origin, size and Merkle root of the committed view."""
        with self._lock, self._reading():
            self._catch_up()
            self._frontier.extend(self._store.ids(self._frontier.size, self._seq))
            return Checkpoint(self.origin, self._frontier.size, self._frontier.root())

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise store.named(self.path, error) from error

    # Reading.

    def events(self, *kinds: type[Event], stream: str | None = None, after: int = 0) -> Iterator[Recorded]:
        """Return events in order: of the kinds, or of a stream, or of these kinds in that stream, or all."""
        with self._lock, self._reading():
            self._catch_up()
            upto = self._seq
            seqs: list[int] | None = None
            if stream is not None:
                seqs = self._store.stream_seqs(stream, after, upto)
            elif kinds:
                seqs = self._store.seqs([version for kind in kinds for version in kind.kinds], after, upto)
        rows = self._store.rows(after, upto) if seqs is None else self._store.rows_at(seqs)
        wanted = {version for kind in kinds for version in kind.kinds}
        while chunk := self._some(rows):
            for row in chunk:
                if not wanted or row[3] in wanted:
                    yield authentic(Recorded(row), self.path)

    def _some(self, rows: Iterator[Row]) -> list[Row]:
        with self._lock, self._reading():
            return list(itertools.islice(rows, ROWS_AT_ONCE))

    def find(self, kind: type[Event], key: str) -> Recorded | None:
        """Return the newest committed event of this kind and key."""
        with self._lock, self._reading():
            found = (self._store.by_key(version, key) for version in kind.kinds)
            row = next(filter(None, found), None)
        return authentic(Recorded(row), self.path) if row else None

    def find_many(self, kind: type[Event], keys: Sequence[str]) -> dict[str, Recorded]:
        """Return those of the keys that are recorded."""
        found = ((key, self.find(kind, key)) for key in keys)
        return {key: record for key, record in found if record is not None}

    def blob(self, digest: str) -> bytes:
        """Return recorded content, verified; refuses by name what is missing, damaged or erased."""
        with self._lock, self._reading():
            row = self._store.blob(digests.raw(digest))
        content = store.unpack(*row) if row else None
        if content is not None and digests.content_digest(content) == digest:
            return content
        with self._lock, self._reading():
            seqs = self._store.referring(digest)
            erased = self._store.by_key(ERASED_KIND, digest)
        if erased is not None and row is None:
            raise refusals.ContentErased(digest, erased[0], seqs)
        raise refusals.ContentUnusable(digest, "missing" if row is None else "damaged", seqs)

    def blobs(self, digests_: Sequence[str]) -> dict[str, bytes]:
        return {digest: self.blob(digest) for digest in digests_}

    # Looking things up for a person.

    def ids(self, upto: int) -> Iterator[bytes]:
        """Return the ids of the first so many events, of whatever origin: the leaves of a checkpoint of that size."""
        with self._lock, self._reading():
            yield from self._store.ids(0, upto)

    def at(self, seq: int) -> Recorded | None:
        """Return the event at a position."""
        with self._lock, self._reading():
            row = self._store.row(seq)
        return authentic(Recorded(row), self.path) if row else None

    def starting_with(self, digits: str, most: int) -> tuple[list[int], list[str]]:
        """Return the first positions of events, and the first contents, whose digest begins with hexadecimal digits."""
        low, high = bytes.fromhex(digits.ljust(64, "0")), bytes.fromhex(digits.ljust(64, "f"))
        with self._lock, self._reading():
            seqs = self._store.seqs_between(low, high, most)
            return seqs, [digests.named(one) for one in self._store.digests_between(low, high, most)]

    def streams(self, beginning: str, most: int) -> list[str]:
        """Return the first streams whose names begin with a text."""
        with self._lock, self._reading():
            return self._store.streams_between(beginning, beginning + chr(0x10FFFF), most)

    def mentioning(self, text: str, most: int, *, after: int = 0) -> list[int]:
        """Return the first positions of events that hold a text anywhere in their bytes; it reads every event."""
        with self._lock, self._reading():
            return self._store.mentioning(text, after, most)

    def referring(self, digest: str) -> list[int]:
        """Return the positions of all events that name a content."""
        with self._lock, self._reading():
            return self._store.referring(digest)

    def holds(self, digest: str) -> bool:
        """Tell whether a content is there."""
        with self._lock, self._reading():
            return self._store.holds(digests.raw(digest))

    def change(self) -> int:
        """Return a number that differs once another process has committed."""
        with self._lock, self._reading():
            return self._store.data_version()

    # The end.

    def close(self) -> None:
        """Record what still waits, move the write-ahead log into the file, and let go of everything."""
        with self._starting:
            if self._closed:
                return
            self._closed = True
        if self._writer is not None:
            self._writer.stop()
        with self._lock:
            if self._seq - self._kept >= WORTH:
                self._keep()
            self._leave()
        if self._held is not None:
            self._held.release()

    def _leave(self) -> None:
        """Close under the lock: the last one out empties the write-ahead log, and nobody opens it meanwhile."""
        sidecar = Sidecar(self.path.with_name(LOCK_NAME))
        try:
            with sidecar.held():
                if self.path.exists():
                    with contextlib.suppress(apsw.Error, OSError):
                        self._store.truncate_wal(even_small=True)
                with contextlib.suppress(apsw.Error):
                    self._store.close()
        finally:
            sidecar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _create(root: Path, path: Path, origin: str | None, vfs: str | None) -> None:
    """Make the root, private and ignored by git, and an empty journal in it."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
            ignore.chmod(0o600)
        sidecar = Sidecar(path.with_name(LOCK_NAME))
    except OSError as error:
        if error.errno in store.FULL:
            raise refusals.NoRoom(root) from error
        raise refusals.JournalUnwritable(root, error.strerror or str(error)) from error
    try:
        with sidecar.held():
            if not path.exists():
                store.create(path, origin, vfs=vfs)
    except (apsw.Error, OSError) as error:
        raise store.named(path, error) from error
    finally:
        sidecar.close()


def _first_gap(reader: Store, last: int) -> int:
    """Return the first position without an event, by halving."""
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reader.count(middle) == middle else (low, middle)
    return high
