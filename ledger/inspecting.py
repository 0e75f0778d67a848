"""Inspecting: reading a journal's file without trusting what is in it.

A damaged row can hold a value of any type in any column, text that is no text, or be nowhere to be found. What can't be
read is told apart row by row, so that the rest still is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, cast

import apsw

from ledger.store import COLUMNS, DISK_ERRORS, OWN, ROWS_AT_ONCE, SCHEMA, Store

Rows = list[tuple[Any, ...]]
BUSY = (apsw.BusyError, apsw.FullError, apsw.InterruptError)  # the machine's trouble, not the file's
SPLITS = 2_000  # how often a range that can't be read is halved before what is left of it is given up
FIRST = -(2**63)
BEFORE_ALL = -1e19  # which is less than any integer of SQLite's
BLOBS_AT_ONCE = 8


class Lost(NamedTuple):
    """Positions after ``after`` up to ``upto`` that SQLite can't read, and what it says."""

    after: int
    upto: int
    reason: str


class Deviant(NamedTuple):
    """What an event's bytes say, where its columns say something else; the id alone when they are illegible."""

    seq: int
    origin: Any
    id: bytes | None
    kind: str | None
    stream: str | None
    version: int | None
    key: str | None


class Inspected(Store):
    """A journal that may be damaged."""

    def end(self) -> tuple[int, int, int]:
        """Return the newest event's position, the newest blob's row, and how many blobs there are, at one moment."""
        query = "SELECT (SELECT max(seq) FROM events), (SELECT max(rowid) FROM blobs), (SELECT count(*) FROM blobs)"
        seq, row, count = cast("tuple[int | None, int | None, int]", self._connection.execute(query).fetchone())
        return seq or 0, row or 0, count

    def events(self, after: int, upto: int) -> Iterator[Rows | Lost]:
        """Return events in order, many at once, their columns as they are."""
        return _readable(self._fetch_events, after, upto)

    def before_first(self) -> Iterator[Rows | Lost]:
        """Return the events at places below 1, where none should be."""
        return _before_first(self._fetch_events)

    def _fetch_events(self, low: float, high: int) -> Rows:
        query = f"SELECT {COLUMNS} FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT {ROWS_AT_ONCE}"  # noqa: S608 - our own column names, no input
        return self._fetch(query, "events", "seq", low, high)

    def blobs(self, upto: int) -> Iterator[Rows | Lost]:
        """Return rowid, digest, size, codec and bytes of every blob up to a row."""
        query = f"SELECT rowid, digest, size, codec, bytes FROM blobs WHERE rowid > ? AND rowid <= ? ORDER BY rowid LIMIT {BLOBS_AT_ONCE}"  # noqa: E501, S608 - one query; a constant
        fetch = partial(self._fetch, query, "blobs", "rowid")
        return chain(_before_first(fetch), _readable(fetch, 0, upto))

    def _fetch(self, query: str, table: str, place: str, low: float, high: int) -> Rows:
        try:
            rows = cast("Rows", self._connection.execute(query, (low, high)).fetchall())
        except UnicodeDecodeError:
            rows = self._column_by_column(query, table, place, low, high)
        if rows and rows[0][0] <= low:
            raise apsw.CorruptError(f"{place} {rows[0][0]} stands behind {low}")
        return rows

    def _column_by_column(self, query: str, table: str, place: str, low: float, high: int) -> Rows:
        """Return the rows although some text in them isn't UTF-8: its bad bytes are written with backslashes."""
        names = query.split("SELECT ", 1)[1].split(" FROM", 1)[0].split(", ")
        plain = query.replace(", ".join(names), place, 1)
        return [
            tuple(self._value(table, place, name, row) for name in names)
            for (row,) in cast("Rows", self._connection.execute(plain, (low, high)).fetchall())
        ]

    def _value(self, table: str, place: str, name: str, row: int) -> object:
        try:
            return self._connection.execute(f"SELECT {name} FROM {table} WHERE {place} = ?", (row,)).get  # noqa: S608 - names of ours
        except UnicodeDecodeError:
            stored = self._connection.execute(f"SELECT CAST({name} AS BLOB) FROM {table} WHERE {place} = ?", (row,)).get  # noqa: S608 - as above
            return cast("bytes", stored).decode(errors="backslashreplace")

    def own_before(self, upto: int) -> int:
        """Return the position of the last event of the journal's own origin up to a position."""
        query = "SELECT seq FROM events WHERE seq <= ? AND origin = ? ORDER BY seq DESC LIMIT 1"
        return cast("int", self._connection.execute(query, (upto, OWN)).get or 0)

    def origins_of(self, after: int, upto: int) -> list[Any]:
        """Return the origins of events, as they are."""
        query = "SELECT origin FROM events WHERE seq > ? AND seq <= ? ORDER BY seq"
        return [row[0] for row in self._connection.execute(query, (after, upto))]

    def names(self) -> dict[Any, Any]:
        """Return the names of origins by their numbers, as they are."""
        rows = self._connection.execute("SELECT origin, CAST(name AS BLOB) FROM origins").fetchall()
        return {number: cast("bytes", name).decode(errors="backslashreplace") for number, name in cast("Rows", rows)}

    def version_before(self, stream: str, seq: int, likely: int) -> int:
        """Return the version that a stream of the journal's own had reached before a position; one is likely."""
        query = "SELECT seq FROM events WHERE stream = ? AND version = ? AND origin = ?"
        if 0 < cast("int", self._connection.execute(query, (stream, likely, OWN)).get or 0) < seq:
            return likely
        query = "SELECT max(version) FROM events WHERE stream = ? AND origin = ? AND seq > 0 AND seq < ?"
        return cast("int", self._connection.execute(query, (stream, OWN, seq)).get or 0)

    def blob_places(self, digests: Sequence[bytes]) -> dict[bytes, int]:
        """Return the rows of those blobs that are there."""
        found = self._connection.executemany(
            "SELECT digest, rowid FROM blobs WHERE digest = ?", ((digest,) for digest in digests)
        )
        return dict(cast("list[tuple[bytes, int]]", found.fetchall()))

    def blob_rows(self, upto: int) -> Iterator[tuple[int, Any]]:
        """Return row and digest of every blob up to a row, reading nothing else."""
        query = "SELECT rowid, digest FROM blobs WHERE rowid <= ? ORDER BY rowid"
        return iter(cast("Iterator[tuple[int, Any]]", self._connection.execute(query, (upto,))))

    def keyed(self, kind: str, key: str) -> list[int]:
        """Return the positions of events of any origin that have the kind and the key."""
        query = "SELECT seq FROM events WHERE key = ? AND kind = ?"
        return [cast("int", row[0]) for row in self._connection.execute(query, (key, kind))]

    def repeated(self, deviants: Sequence[Deviant]) -> Iterator[tuple[str, list[int]]]:
        """Return what must be unique and isn't, reading the table and not the indexes that should have seen to it.

        Of events that say something else than their columns, what they say counts.
        """
        self._connection.execute("CREATE TEMP TABLE said (seq, origin, id, kind, stream, version, key)")
        self._connection.executemany("INSERT INTO said VALUES (?, ?, ?, ?, ?, ?, ?)", deviants)
        for what, columns in (("id", "id"), ("version", "stream, version"), ("key", "key, kind")):
            query = (
                f"WITH every AS (SELECT seq, origin, {columns} FROM events NOT INDEXED"  # noqa: S608 - our own column names, no input
                " WHERE seq NOT IN (SELECT seq FROM said)"
                f" UNION ALL SELECT seq, origin, {columns} FROM said)"
                f" SELECT group_concat(seq) FROM every WHERE {columns.split(',')[0]} IS NOT NULL"
                f" GROUP BY {columns}, origin HAVING count(*) > 1"
            )
            for row in self._connection.execute(query):
                yield what, sorted(map(int, str(row[0]).split(",")))

    def schema_differences(self) -> list[str]:
        """Return the names of tables, indexes and triggers that aren't as this format declares them."""
        query = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
        found = cast("Rows", self._connection.execute(query).fetchall())
        model = apsw.Connection(":memory:")
        try:
            model.execute(SCHEMA)
            declared = cast("Rows", model.execute(query).fetchall())
        finally:
            model.close()
        return sorted({str(row[1]) for row in set(found) ^ set(declared)})

    def integrity(self) -> list[str]:
        """Return what SQLite's own check says against the file."""
        rows = self._connection.execute("PRAGMA integrity_check").fetchall()
        return [str(row[0]) for row in rows if row[0] != "ok"]


def _before_first(fetch: Callable[[float, int], Rows]) -> Iterator[Rows | Lost]:
    """Return rows at places below 1; of those that can't be read it isn't worth telling one from another."""
    low = BEFORE_ALL
    try:
        while rows := fetch(low, 0):
            yield rows
            low = max(rows[0][0], rows[-1][0])
    except BUSY:
        raise
    except DISK_ERRORS as error:
        yield Lost(FIRST - 1, 0, str(error))


def _readable(fetch: Callable[[int, int], Rows], after: int, upto: int) -> Iterator[Rows | Lost]:
    """Return rows in order, and in their place the ranges that can't be read, narrowed down by halving."""
    waiting = [(after, upto)]
    splits = 0
    while waiting:
        low, high = waiting.pop()
        try:
            while rows := fetch(low, high):
                yield rows
                low = max(rows[0][0], rows[-1][0])  # a damaged table can go backwards
        except BUSY:
            raise
        except DISK_ERRORS as error:
            if high - low <= 1 or splits >= SPLITS:
                yield Lost(low, high, str(error))
                continue
            splits += 1
            middle = (low + high) // 2
            waiting += [(middle, high), (low, middle)]
