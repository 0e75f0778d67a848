"""The store: the one place that opens ``ledger.db``.

It knows SQLite and nothing of what events mean. Two SQLite libraries, or one and a plain ``open()``, on the same file
in one process silently lose committed data, so nothing else in the product may touch the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw

from ledger import refusals

if TYPE_CHECKING:
    from ledger.errors import Refusal

NAME = "ledger.db"
LOCK_NAME = "ledger.lock"  # the sidecar under which it is written
DISK_ERRORS = (apsw.Error, OSError)
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})  # what the operating system says of a full disk
APPLICATION_ID = 0x45585031  # "EXP1"
FORMAT = 1
PAGE_BYTES = 16_384
WAL_LIMIT_BYTES = 4 << 20
BUSY_MS = 10_000
ROWS_AT_ONCE = 256
OWN = 1  # the number of the origin that was born with the journal

SCHEMA = """
CREATE TABLE origins (
    origin INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,
    id      BLOB NOT NULL,
    head    BLOB NOT NULL,
    origin  INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    stream  TEXT NOT NULL,
    version INTEGER NOT NULL,
    key     TEXT,
    bytes   BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_stream ON events (stream, version, origin);
CREATE UNIQUE INDEX events_by_key ON events (key, kind, origin) WHERE key IS NOT NULL;
CREATE INDEX events_by_kind ON events (kind, origin);
CREATE TABLE blobs (
    digest BLOB PRIMARY KEY,
    size   INTEGER NOT NULL,
    codec  TEXT NOT NULL CHECK (codec IN ('plain', 'zlib')),
    bytes  BLOB NOT NULL
) STRICT;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;
CREATE TRIGGER blobs_are_never_changed BEFORE UPDATE ON blobs
    BEGIN SELECT RAISE(ABORT, 'a blob is never changed'); END;
CREATE TRIGGER origins_are_never_changed BEFORE UPDATE ON origins
    BEGIN SELECT RAISE(ABORT, 'an origin is never changed'); END;
CREATE TRIGGER origins_are_never_deleted BEFORE DELETE ON origins
    BEGIN SELECT RAISE(ABORT, 'an origin is never deleted'); END;
"""

COLUMNS = "seq, id, head, kind, stream, version, key, bytes, origin"
Row = tuple[int, bytes, bytes, str, str, int, str | None, bytes, int]
BlobRow = tuple[bytes, int, str, bytes]

_INTO_EVENTS = f"INSERT INTO events ({COLUMNS}) VALUES "  # noqa: S608 - our own column names, no input


@cache
def _statement(head: str, tail: str, rows: int, columns: int) -> str:
    return head + ",".join([f"({','.join('?' * columns)})"] * rows) + tail


SMALL_WINDOW = 12  # bits
LARGE_LEVEL = 3  # a twelfth larger than at 6, in half the time


def pack(digest: bytes, content: bytes) -> BlobRow:
    """Return the blob's row, compressed when that makes it smaller by at least an eighth."""
    size = len(content)
    if size >= 128:  # noqa: PLR2004 - below this zlib's own header and trailer eat what it saves
        packed = _compressed(content)
        if len(packed) * 8 <= size * 7:
            return digest, size, "zlib", packed
    return digest, size, "plain", content


def _compressed(content: bytes) -> bytes:
    """Return a zlib stream. A small content gets a small window: clearing a large one costs more than packing."""
    if len(content) > 1 << SMALL_WINDOW:
        return zlib.compress(content, LARGE_LEVEL)
    packer = zlib.compressobj(6, zlib.DEFLATED, SMALL_WINDOW, 5)
    return packer.compress(content) + packer.flush()


def unpack(size: int, codec: str, stored: bytes) -> bytes | None:
    """Return the plain bytes, or None when they don't unpack to the recorded size."""
    if codec == "zlib":
        try:
            stored = zlib.decompressobj().decompress(stored, size + 1)
        except zlib.error:
            return None
    return stored if len(stored) == size else None


def create(path: Path, origin: str | None, *, vfs: str | None = None) -> None:
    """Make an empty journal at the path, whole or not at all. The caller holds the lock beside it."""
    fresh = path.with_name(path.name + ".new")
    for leftover in (fresh, fresh.with_name(fresh.name + "-wal"), fresh.with_name(fresh.name + "-shm")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = apsw.Connection(str(fresh), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        _pragma(connection, f"page_size = {PAGE_BYTES}")
        _pragma(connection, "journal_mode = WAL")
        _pragma(connection, "synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SCHEMA)
        _pragma(connection, f"application_id = {APPLICATION_ID}")
        _pragma(connection, f"user_version = {FORMAT}")
        # The origin's name is chance, and chance is an effect: it happens in the database, once.
        connection.execute(
            "INSERT INTO origins VALUES (?, coalesce(?, 'exp-ledger/' || lower(hex(randomblob(12)))))", (OWN, origin)
        )
        connection.execute("COMMIT")
    finally:
        connection.close()
    fresh.rename(path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def engine() -> dict[str, str]:
    """Return the versions of SQLite and of what binds it."""
    return {"sqlite": apsw.sqlite_lib_version(), "apsw": apsw.apsw_version()}


def _pragma(connection: apsw.Connection, text: str) -> object:
    return connection.execute(f"PRAGMA {text}").fetchone()


def named(path: Path, error: BaseException) -> Refusal:
    """Return the refusal that says what SQLite or the operating system reported."""
    if isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno in FULL):
        return refusals.NoRoom(path)
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError)):
        return refusals.JournalUnwritable(path, str(error))
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return refusals.JournalUnwritable(path, os.strerror(error.errno))
    if isinstance(error, apsw.NotADBError):
        return refusals.NotAJournal(path, "a file that is no SQLite database")
    if isinstance(error, apsw.BusyError):
        return refusals.JournalBusy(path)
    return refusals.StorageFailed(path, str(error) or type(error).__name__)


class Store:
    """One connection to one journal. Each method is one short transaction, or a part of the writer's."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        _look_at(path)
        try:
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        except (apsw.Error, OSError) as error:
            raise named(path, error) from error
        self.path = path
        self._vfs = vfs
        self.reading = OWN  # the origin whose events are found by kind, stream and key
        self._name = str(path)
        self._log = f"{path}-wal"
        try:
            self._prepare()
        except apsw.Error as error:
            self._connection.close()
            raise named(path, error) from error
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        self._connection.set_busy_timeout(BUSY_MS)
        found = run("SELECT * FROM pragma_application_id").get, run("SELECT * FROM pragma_user_version").get
        if found[0] != APPLICATION_ID:
            raise refusals.NotAJournal(self.path, "another program's database")
        version = cast("int", found[1])
        if version != FORMAT:
            refusal = refusals.JournalTooNew if version > FORMAT else refusals.JournalTooOld
            raise refusal(self.path, version, FORMAT)
        for setting in (
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "secure_delete = ON",
            "foreign_keys = ON",
        ):
            _pragma(self._connection, setting)
        self._inode = _inode(self._name)

    # What may be asked at any time.

    def origin(self) -> str:
        return str(self._connection.execute("SELECT name FROM origins WHERE origin = ?", (OWN,)).get)

    def last(self) -> tuple[int, bytes]:
        """Return seq and head of the newest event; (0, 32 zero bytes) for none."""
        row = self._connection.execute("SELECT seq, head FROM events ORDER BY seq DESC LIMIT 1").fetchone()
        return cast("tuple[int, bytes]", row) if row else (0, bytes(32))

    def head(self, seq: int) -> bytes | None:
        """Return the head after an event."""
        return cast("bytes | None", self._connection.execute("SELECT head FROM events WHERE seq = ?", (seq,)).get)

    def count(self, upto: int | None = None) -> int:
        """Return how many events there are; counting all of them reads an index only."""
        query = "SELECT count(*) FROM events"
        if upto is None:
            return cast("int", self._connection.execute(query).get)
        return cast("int", self._connection.execute(f"{query} WHERE seq <= ?", (upto,)).get)

    def count_after(self, seq: int) -> int:
        """Return how many events there are after a position, reading only those."""
        return cast("int", self._connection.execute("SELECT count(*) FROM events WHERE seq > ?", (seq,)).get)

    def snapshot(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which all that is read is of one moment."""
        return self._connection

    def row(self, seq: int) -> Row | None:
        query = f"SELECT {COLUMNS} FROM events WHERE seq = ?"  # noqa: S608 - a constant
        return cast("Row | None", self._connection.execute(query, (seq,)).fetchone())

    def rows(self, after: int, upto: int) -> Iterator[Row]:
        """Return all events after one position up to another, in order, a chunk a transaction."""
        query = f"SELECT {COLUMNS} FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT {ROWS_AT_ONCE}"  # noqa: S608 - our own column names, no input
        while True:
            chunk = cast("list[Row]", self._connection.execute(query, (after, upto)).fetchall())
            yield from chunk
            if len(chunk) < ROWS_AT_ONCE:
                return
            after = chunk[-1][0]

    def count_kinds(self, kinds: Sequence[str], after: int, upto: int) -> int:
        """Return how many events of the kinds there are between two positions, from the index alone."""
        query = "SELECT count(*) FROM events WHERE kind = ? AND origin = ? AND seq > ? AND seq <= ?"
        run = self._connection.execute
        return sum(cast("int", run(query, (kind, self.reading, after, upto)).get) for kind in kinds)

    def seqs(self, kinds: Sequence[str], after: int, upto: int) -> list[int]:
        """Return the positions of events of the kinds, in order, from the index alone."""
        found: list[int] = []
        query = "SELECT seq FROM events WHERE kind = ? AND origin = ? AND seq > ? AND seq <= ?"
        for kind in kinds:
            found += [cast("int", row[0]) for row in self._connection.execute(query, (kind, self.reading, after, upto))]
        found.sort()
        return found

    def kinds(self) -> list[tuple[str, int]]:
        """Return every kind of the origin being read with an event of it, by leaps through the index."""
        query = (
            "WITH RECURSIVE each(kind) AS (SELECT min(kind) FROM events UNION ALL"
            " SELECT (SELECT min(kind) FROM events WHERE kind > each.kind) FROM each WHERE kind IS NOT NULL)"
            " SELECT kind, (SELECT seq FROM events WHERE events.kind = each.kind AND origin = ? LIMIT 1) AS at"
            " FROM each WHERE at IS NOT NULL"
        )
        return cast("list[tuple[str, int]]", self._connection.execute(query, (self.reading,)).fetchall())

    def stream_seqs(self, stream: str, after: int, upto: int) -> list[int]:
        query = "SELECT seq FROM events WHERE stream = ? AND origin = ? AND seq > ? AND seq <= ? ORDER BY version"
        return [cast("int", row[0]) for row in self._connection.execute(query, (stream, self.reading, after, upto))]

    def rows_at(self, seqs: Sequence[int]) -> Iterator[Row]:
        """Return the events at the positions, in the order given, a chunk a transaction."""
        query = f"SELECT {COLUMNS} FROM events WHERE seq = ?"  # noqa: S608 - our own column names, no input
        for start in range(0, len(seqs), ROWS_AT_ONCE):
            bindings = [(seq,) for seq in seqs[start : start + ROWS_AT_ONCE]]
            yield from cast("list[Row]", self._connection.executemany(query, bindings).fetchall())

    def by_key(self, kind: str, key: str) -> Row | None:
        query = f"SELECT {COLUMNS} FROM events WHERE key = ? AND kind = ? AND origin = ?"  # noqa: S608 - our own column names, no input
        return cast("Row | None", self._connection.execute(query, (key, kind, self.reading)).fetchone())

    def version(self, stream: str) -> int:
        """Return the version of the stream's newest event, 0 for none."""
        query = "SELECT version FROM events WHERE stream = ? AND origin = ? ORDER BY version DESC LIMIT 1"
        return cast("int", self._connection.execute(query, (stream, OWN)).get or 0)

    def ids(self, after: int, upto: int) -> Iterator[bytes]:
        query = f"SELECT seq, id FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT {ROWS_AT_ONCE}"  # noqa: S608 - our own column names, no input
        while chunk := self._connection.execute(query, (after, upto)).fetchall():
            yield from (cast("bytes", row[1]) for row in chunk)
            after = cast("int", chunk[-1][0])

    def blob(self, digest: bytes) -> tuple[int, str, bytes] | None:
        query = "SELECT size, codec, bytes FROM blobs WHERE digest = ?"
        return cast("tuple[int, str, bytes] | None", self._connection.execute(query, (digest,)).fetchone())

    def holds(self, digest: bytes) -> bool:
        return self._connection.execute("SELECT 1 FROM blobs WHERE digest = ?", (digest,)).get is not None

    def referring(self, digest: str) -> list[int]:
        """Return the positions of all events that name the content; reads every event, so only for bad news."""
        query = "SELECT seq FROM events WHERE instr(bytes, CAST(? AS BLOB)) > 0 ORDER BY seq"
        return [cast("int", row[0]) for row in self._connection.execute(query, (f'"blob":"{digest}"',))]

    # What readers ask.

    def seqs_between(self, low: bytes, high: bytes, most: int) -> list[int]:
        """Return the first positions of events whose ids are within bounds; reads every event, as ids have no index."""
        query = "SELECT seq FROM events WHERE id >= ? AND id <= ? ORDER BY seq LIMIT ?"
        return [cast("int", row[0]) for row in self._connection.execute(query, (low, high, most))]

    def digests_between(self, low: bytes, high: bytes, most: int) -> list[bytes]:
        """Return the first digests of contents within bounds."""
        query = "SELECT digest FROM blobs WHERE digest >= ? AND digest <= ? ORDER BY digest LIMIT ?"
        return [cast("bytes", row[0]) for row in self._connection.execute(query, (low, high, most))]

    def streams_between(self, low: str, high: str, most: int) -> list[str]:
        """Return the first streams whose names are within bounds, from the index."""
        query = "SELECT DISTINCT stream FROM events WHERE stream >= ? AND stream <= ? ORDER BY stream LIMIT ?"
        return [cast("str", row[0]) for row in self._connection.execute(query, (low, high, most))]

    def mentioning(self, text: str, after: int, most: int) -> list[int]:
        """Return the first positions after one of events that hold a text anywhere; reads every event."""
        query = "SELECT seq FROM events WHERE seq > ? AND instr(bytes, CAST(? AS BLOB)) > 0 ORDER BY seq LIMIT ?"
        return [cast("int", row[0]) for row in self._connection.execute(query, (after, text, most))]

    def data_version(self) -> int:
        """Return a number that changes once another connection has committed."""
        return cast("int", self._connection.execute("PRAGMA data_version").get)

    def origins(self) -> dict[int, str]:
        """Return the names of all origins by their numbers; the first is where this journal was born."""
        return dict(
            cast("list[tuple[int, str]]", self._connection.execute("SELECT origin, name FROM origins").fetchall())
        )

    # The writer's transaction.

    def begin(self) -> None:
        if _inode(self._name) != self._inode:
            raise refusals.JournalReplaced(self.path)
        self._connection.execute("BEGIN IMMEDIATE")

    def insert(self, rows: Sequence[Row]) -> None:
        """Insert events with as few statements as possible: each one costs a hand-over between threads."""
        self._insert(_INTO_EVENTS, "", rows)

    def insert_origin(self, origin: int, name: str) -> None:
        self._connection.execute("INSERT INTO origins VALUES (?, ?)", (origin, name))

    def at_place(self, origin: int, stream: str, version: int) -> bytes | None:
        """Return the id of the event at a place of an origin's stream."""
        query = "SELECT id FROM events WHERE stream = ? AND version = ? AND origin = ?"
        return cast("bytes | None", self._connection.execute(query, (stream, version, origin)).get)

    def with_key(self, origin: int, kind: str, key: str) -> bytes | None:
        """Return the id of the event of an origin that has a kind and key."""
        query = "SELECT id FROM events WHERE key = ? AND kind = ? AND origin = ?"
        return cast("bytes | None", self._connection.execute(query, (key, kind, origin)).get)

    def insert_blobs(self, rows: Sequence[BlobRow]) -> None:
        """Insert blobs that aren't there yet."""
        self._insert("INSERT INTO blobs VALUES ", " ON CONFLICT DO NOTHING", rows)

    def _insert(self, head: str, tail: str, rows: Sequence[tuple[Any, ...]]) -> None:
        start = 0
        while start < len(rows):
            size = min(1 << (len(rows) - start).bit_length() - 1, 64)  # sizes are powers of two, so statements are few
            chunk = rows[start : start + size]
            self._connection.execute(_statement(head, tail, size, len(chunk[0])), tuple(chain.from_iterable(chunk)))
            start += size

    def erase(self, digests: Iterable[bytes]) -> None:
        """Delete contents; the events that say so are in the same transaction. Freed bytes are overwritten."""
        for digest in digests:
            self._connection.execute("DELETE FROM blobs WHERE digest = ?", (digest,))

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")

    def truncate_wal(self, *, even_small: bool = False) -> None:
        """Move the write-ahead log into the database when it is big. The caller holds the lock.

        A reader in the middle of something keeps the log as it is; the next commit tries again.
        """
        if not even_small and self.wal_bytes() < WAL_LIMIT_BYTES:
            return
        self._connection.set_busy_timeout(0)
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            pass
        finally:
            self._connection.set_busy_timeout(BUSY_MS)

    def wal_bytes(self) -> int:
        return os.stat(self._log).st_size  # noqa: PTH116 - asked after every commit, and a Path costs three times that

    def copy_to(self, path: Path) -> None:
        """Write all that is committed now to an empty file, and nothing of what was deleted; others go on writing."""
        self._connection.execute("VACUUM INTO ?", (str(path),))
        copy = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs)
        try:
            _pragma(copy, "journal_mode = WAL")  # which also syncs the file, as nothing did before
        finally:
            copy.close()

    def close(self) -> None:
        self._connection.close()


def _look_at(path: Path) -> None:
    """Refuse what SQLite would take or refuse without saying why."""
    try:
        there = path.stat()
    except FileNotFoundError:
        raise refusals.JournalWanted(path) from None
    except (NotADirectoryError, PermissionError) as error:
        raise refusals.JournalUnwritable(path, error.strerror or str(error)) from error
    if path.is_dir():
        raise refusals.NotAJournal(path, "a directory")
    if there.st_size == 0:
        raise refusals.NotAJournal(path, "an empty file")
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
        raise refusals.JournalUnwritable(path, "Permission denied")


def _inode(path: str) -> tuple[int, int]:
    try:
        there = os.stat(path)  # noqa: PTH116 - asked before every commit
    except FileNotFoundError:
        return (0, 0)
    return (there.st_dev, there.st_ino)
