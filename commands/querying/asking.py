"""Asking: one SELECT on the derived database, which it can't change, within a time and a size."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from commands.querying.refusals import QueryRefused, QueryTooLong
from ledger.errors import Refusal

LARGEST_VALUE = 64 << 20
LONGEST_SQL = 1_000_000
STEPS_BETWEEN = 1_000
ROWS_TOGETHER = 256
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_ASKED = {"table_info", "table_xinfo", "table_list"}
_WORDS = {
    getattr(sqlite3, name): name.removeprefix("SQLITE_")
    for name in dir(sqlite3)
    if name.startswith(("SQLITE_CREATE", "SQLITE_DROP", "SQLITE_ALTER"))
} | {
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_TRANSACTION: "TRANSACTION",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_FUNCTION: "the function",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
}

Content = Callable[[str], "str | bytes | None"]


class Answer:
    """The columns of an answer, and its rows as they come."""

    def __init__(self, columns: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
        self.columns = tuple(columns)
        self.rows = rows


class Query:
    """One connection for one query. ``content`` reads a content by its digest, for SQL's ``content(digest)``."""

    def __init__(self, path: Path, content: Content, *, seconds: int) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._late = False
        self._denied = ""
        self._failed: Refusal | None = None
        self._content = content
        self._connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)
        run = self._connection.execute
        run("PRAGMA query_only = ON")
        run("PRAGMA cell_size_check = ON")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, LONGEST_SQL)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.create_function("content", 1, self._read_content)
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._check_time, STEPS_BETWEEN)

    def ask(self, sql: str) -> Answer:
        """Return the answer; QueryRefused for SQL that is wrong or does more than read, QueryTooLong in time."""
        try:
            cursor = self._connection.execute(sql)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise self._refusal(error, sql) from error
        if cursor.description is None:
            raise QueryRefused("it asks for nothing", sql)
        return Answer([column[0] for column in cursor.description], self._rows(cursor, sql))

    def columns(self, view: str) -> tuple[str, ...]:
        """Return the names of a view's columns."""
        return self.ask(f'SELECT * FROM "{view}" LIMIT 0').columns  # noqa: S608 - one of our own names

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def _rows(self, cursor: sqlite3.Cursor, sql: str) -> Iterator[tuple[Any, ...]]:
        while True:
            try:
                rows = cursor.fetchmany(ROWS_TOGETHER)
            except (sqlite3.Error, ValueError) as error:
                raise self._refusal(error, sql) from error
            if not rows:
                return
            yield from rows

    def _refusal(self, error: Exception, sql: str) -> Refusal:
        if self._failed is not None:
            return self._failed
        if self._late:
            return QueryTooLong(self._seconds, sql)
        if self._denied:
            return QueryRefused(f"it would do more than read: {self._denied}", sql)
        return QueryRefused(str(error), sql)

    def _authorize(self, action: int, one: str | None, two: str | None, *_: str | None) -> int:
        if action in _READS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and two != "load_extension":
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and one in _ASKED:
            return sqlite3.SQLITE_OK
        names = " ".join(name for name in (one, two) if name)
        self._denied = f"{_WORDS.get(action, 'something')} {names}".rstrip()
        return sqlite3.SQLITE_DENY

    def _check_time(self) -> int:
        self._late = time.monotonic() > self._until
        return self._late

    def _read_content(self, digest: object) -> str | bytes | None:
        """Return a content for SQL: text where it is text. NULL for NULL, and for what was erased."""
        if not isinstance(digest, str):
            return None
        try:
            return self._content(digest)
        except Refusal as refusal:
            self._failed = refusal
            raise
