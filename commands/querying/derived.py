"""The derived database: what is queried. It follows the journal, holds no content, and may be deleted.

It is the only module that uses sqlite-utils, and it never opens the journal's own file: two SQLite libraries on one
file in one process lose data.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlite_utils import Database

from commands.explaining.telling import moment
from commands.querying.refusals import DatabaseInTheWay
from commands.querying.views import EVENTS, VERSION, VIEWS
from commands.whole_file import fresh
from ledger import digests
from ledger.locks import Sidecar

if TYPE_CHECKING:
    from ledger.journal import Journal

NAME = "views.db"
LOCK_NAME = "views.lock"
PRIVATE = 0o600
BUSY_SECONDS = 30
ROWS_TOGETHER = 1_000


def refreshed(journal: Journal) -> Path:
    """Return the path of the derived database, brought up to the journal's position: extended, or made anew."""
    path = journal.path.with_name(NAME)
    lock = Sidecar(path.with_name(LOCK_NAME))
    try:
        with lock.held():
            if not _extended(journal, path):
                fresh = path.with_name(f"{NAME}.new")
                make(journal, fresh)
                fresh.replace(path)
    except (sqlite3.Error, OSError) as error:
        raise DatabaseInTheWay(path, str(error)) from error
    finally:
        lock.close()
    return path


def make(journal: Journal, path: Path) -> None:
    """Make a derived database that wasn't there, readable by its owner alone."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
    try:
        with _opened(path) as database, database.atomic():
            database.table("events").create(EVENTS, pk="seq")
            database.table("journal").create({"origin": str, "position": int, "head": str, "version": str})
            _extend(journal, database, 0)
            database.table("events").create_index(["kind", "key"])
            database.table("events").create_index(["stream"])
            for name, sql in VIEWS.items():
                database.create_view(name, sql.strip())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def carried_out(source: Path, target: Path) -> None:
    """Copy the derived database to a file of its own; DatabaseInTheWay when there is something already."""
    try:
        if os.path.lexists(target):
            raise FileExistsError  # noqa: TRY301 - as when somebody makes it meanwhile
        str(target).encode()  # SQLite takes names as UTF-8
        with fresh(target) as made:
            with (
                contextlib.closing(sqlite3.connect(source)) as here,
                contextlib.closing(sqlite3.connect(made)) as there,
            ):
                here.backup(there)
            os.link(made, target)
    except FileExistsError as error:
        raise DatabaseInTheWay(target, "there is something of that name") from error
    except (OSError, UnicodeEncodeError, sqlite3.Error) as error:
        raise DatabaseInTheWay(target, getattr(error, "strerror", None) or str(error)) from error


def _extended(journal: Journal, path: Path) -> bool:
    """Append what the journal has more; tell whether the database was one that could be appended to."""
    if not path.is_file():
        return False
    try:
        with _opened(path) as database:
            database.conn.execute("BEGIN IMMEDIATE")
            with database.conn:
                position = _position(journal, database)
                if position is None:
                    return False
                if position < journal.position()[0]:
                    _extend(journal, database, position)
                return True
    except sqlite3.Error:
        return False


def _position(journal: Journal, database: Database) -> int | None:
    """Return how far a database has come; None when it is of another journal, of another past, or another release."""
    rows = list(database.table("journal").rows)
    if len(rows) != 1 or rows[0]["version"] != VERSION or rows[0]["origin"] != journal.origin:
        return None
    position, head = rows[0]["position"], rows[0]["head"]
    if position > journal.position()[0]:
        journal.refresh()  # another process has brought it further than this one had read
    record = journal.at(position) if position else None
    known = digests.named(record.head) if record is not None else digests.named(bytes(32))
    return position if head == known and (record is not None or not position) else None


def _extend(journal: Journal, database: Database, position: int) -> None:
    rows = _rows(journal, position)
    database.table("events").insert_all(rows, batch_size=ROWS_TOGETHER)
    reached, head = journal.position()
    table = database.table("journal")
    table.delete_where()
    facts = {"origin": journal.origin, "position": reached, "head": head, "version": VERSION}
    table.insert(facts)


def _rows(journal: Journal, after: int) -> Iterator[dict[str, Any]]:
    for record in journal.events(after=after):
        yield {
            "seq": record.seq,
            "id": digests.named(record.id),
            "kind": record.kind,
            "stream": record.stream,
            "version": record.version,
            "key": record.key,
            "at": moment(record.at),
            "at_us": record.at,
            "actor": record.actor,
            "cause": record.cause,
            "origin": record.origin,
            "body": bytes(record.envelope.body).decode(),
        }


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Database]:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        yield Database(connection, execute_plugins=False)
    finally:
        connection.close()
