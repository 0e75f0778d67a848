"""Mutations: a journal changed at random in every way that a disk or a person could, and what a change amounts to.

A change is meaningful when a row of any table says something else than before, or SQLite can no longer read it. What is
looked at to tell is read with another SQLite than the product's, and by none of its code.
"""

# ruff: noqa: S311, S608 - chance is wanted the same each time; the SQL is of these tests
from __future__ import annotations

import contextlib
import io
import runpy
import shutil
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest import mock

from blake3 import blake3

from ledger.errors import Refusal
from ledger.inspecting import Inspected
from ledger.merkle import Checkpoint
from ledger.proving import checkpoint, compare
from ledger.store import NAME
from ledger.verify import verify
from tests.ledger.notes import note, opened, worded

EVENTS = 40
STAND_ALONE = Path(__file__).resolve().parents[2] / "tools" / "verify_ledger.py"

Rows = tuple[tuple[object, ...], ...]


class Sound(NamedTuple):
    """A journal as it was recorded, what its tables say, and a checkpoint that was kept."""

    root: Path
    said: tuple[Rows, ...]
    kept: Checkpoint


def recorded(root: Path) -> Sound:
    """Record a small journal with everything in it that can be changed."""
    with opened(root) as journal:
        for number in range(EVENTS):
            if number % 5 == 3:
                step, blobs = worded(f"the words of event {number} " * (1 + number % 3 * 40), subject=f"s{number % 3}")
                journal.submit(step, blobs=blobs).result()
            else:
                journal.submit(note(f"s{number % 4}", number, name=f"k{number}" if number % 2 else None)).result()
    return sound(root)


def sound(root: Path) -> Sound:
    """Return a journal that nobody has changed."""
    said = told(root)
    if said is None:
        raise AssertionError(root)
    store = Inspected(root / NAME)
    try:
        return Sound(root, said, checkpoint(store))
    finally:
        store.close()


def told(root: Path) -> tuple[Rows, ...] | None:
    """Return what the rows of all tables say, contents unpacked; None when SQLite can't read one."""
    connection = sqlite3.connect(root / NAME)
    connection.text_factory = bytes
    try:
        facts = [(*connection.execute("PRAGMA application_id"), *connection.execute("PRAGMA user_version"))]
        facts += [
            tuple(connection.execute(f"SELECT *, {types} FROM {table} NOT INDEXED ORDER BY {place}"))
            for table, place, types in (
                ("origins", "origin", "typeof(name)"),
                ("events", "seq", "typeof(kind), typeof(stream), typeof(key), typeof(bytes), typeof(id), typeof(head)"),
            )
        ]
        blobs = connection.execute("SELECT digest, size, codec, bytes, typeof(bytes) FROM blobs NOT INDEXED")
        return (*facts, tuple(sorted(map(_unpacked, blobs), key=repr)))
    except (sqlite3.Error, OverflowError, UnicodeDecodeError):
        return None
    finally:
        connection.close()


def _unpacked(row: tuple[object, ...]) -> tuple[object, ...]:
    digest, size, codec, stored, kind = row
    if codec == b"zlib" and isinstance(stored, bytes):
        unpacking = zlib.decompressobj()
        with contextlib.suppress(zlib.error):
            return (digest, size, codec, unpacking.decompress(stored), unpacking.eof, unpacking.unused_data, kind)
    return row


class Tampering:
    """A connection that changes rows as the file's declarations would never let it, and leaves these as they were."""

    def __init__(self, root: Path) -> None:
        self.connection = sqlite3.connect(root / NAME, isolation_level=None)
        self.triggers = self.connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()

    def __enter__(self) -> sqlite3.Connection:
        self.connection.execute("BEGIN")
        for name, _ in self.triggers:
            self.connection.execute(f"DROP TRIGGER {name}")
        return self.connection

    def __exit__(self, *_: object) -> None:
        for _name, sql in self.triggers:
            self.connection.execute(sql)
        with contextlib.suppress(sqlite3.Error):
            self.connection.execute("COMMIT")
        self.connection.close()


# The changes. Each takes a root and chance, and says what it did.

Change = Callable[[Path, Random], str]


def flip_a_bit(root: Path, chance: Random) -> str:
    content = bytearray((root / NAME).read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(8)
    (root / NAME).write_bytes(content)
    return f"bit flipped in byte {place}"


def write_over_bytes(root: Path, chance: Random) -> str:
    content = bytearray((root / NAME).read_bytes())
    place, count = chance.randrange(len(content)), chance.choice((1, 4, 64, 512))
    content[place : place + count] = bytes(chance.randrange(256) for _ in range(len(content[place : place + count])))
    (root / NAME).write_bytes(content)
    return f"{count} bytes written over from {place}"


def swap_pages(root: Path, chance: Random) -> str:
    content = bytearray((root / NAME).read_bytes())
    size = 16_384
    first, second = (size * chance.randrange(len(content) // size) for _ in range(2))
    content[first : first + size], content[second : second + size] = (
        content[second : second + size],
        content[first : first + size],
    )
    (root / NAME).write_bytes(content)
    return f"pages at {first} and {second} swapped"


def cut_the_file(root: Path, chance: Random) -> str:
    content = (root / NAME).read_bytes()
    place = chance.randrange(len(content))
    (root / NAME).write_bytes(content[:place])
    return f"file cut at {place}"


def _two(chance: Random) -> tuple[int, int]:
    first, second = chance.sample(range(1, EVENTS + 1), 2)
    return first, second


def swap_events(root: Path, chance: Random) -> str:
    first, second = _two(chance)
    with Tampering(root) as rows:
        for old, new in ((first, -7), (second, first), (-7, second)):
            rows.execute("UPDATE events SET seq = ? WHERE seq = ?", (new, old))
    return f"events {first} and {second} swapped"


def swap_what_events_say(root: Path, chance: Random) -> str:
    first, second = _two(chance)
    column = chance.choice(("bytes", "id", "head"))
    with Tampering(root) as rows:
        values = dict(rows.execute(f"SELECT seq, {column} FROM events WHERE seq IN (?, ?)", (first, second)))
        for seq, value in ((first, values[second]), (second, values[first])):
            rows.execute(f"UPDATE events SET {column} = ? WHERE seq = ?", (value, seq))
    return f"{column} of events {first} and {second} swapped"


def drop_events(root: Path, chance: Random) -> str:
    first = chance.randrange(1, EVENTS + 1)
    last = min(first + chance.choice((0, 0, 0, 1, 5)), EVENTS)
    with Tampering(root) as rows:
        rows.execute("DELETE FROM events WHERE seq BETWEEN ? AND ?", (first, last))
    return f"events {first} to {last} dropped"


def drop_events_and_close_the_gap(root: Path, chance: Random) -> str:
    seq = chance.randrange(1, EVENTS)
    with Tampering(root) as rows:
        rows.execute("DELETE FROM events WHERE seq = ?", (seq,))
        for later in range(seq + 1, EVENTS + 1):
            rows.execute("UPDATE events SET seq = ? WHERE seq = ?", (later - 1, later))
    return f"event {seq} dropped and the gap closed"


def double_an_event(root: Path, chance: Random) -> str:
    seq, place = chance.randrange(1, EVENTS + 1), chance.choice((0, -3, EVENTS + 1, EVENTS + 9, 2**40))
    with Tampering(root) as rows:
        rows.execute(
            "INSERT INTO events SELECT ?, id, head, origin, kind, stream, version + 1000, NULL, bytes"
            " FROM events WHERE seq = ?",
            (place, seq),
        )
    return f"event {seq} doubled at {place}"


def reorder_events(root: Path, chance: Random) -> str:
    first = chance.randrange(1, EVENTS - 3)
    seqs = list(range(first, min(first + chance.randrange(3, 9), EVENTS) + 1))
    shuffled = chance.sample(seqs, len(seqs))
    with Tampering(root) as rows:
        rows.execute("UPDATE events SET seq = -seq WHERE seq BETWEEN ? AND ?", (seqs[0], seqs[-1]))
        for old, new in zip(seqs, shuffled, strict=True):
            rows.execute("UPDATE events SET seq = ? WHERE seq = ?", (new, -old))
    return f"events {seqs[0]} to {seqs[-1]} reordered" if seqs != shuffled else "nothing"


def edit_a_column(root: Path, chance: Random) -> str:
    seq = chance.randrange(1, EVENTS + 1)
    column, values = chance.choice(
        (
            ("id", (bytes(32), b"", bytes(31))),
            ("head", (bytes(32), b"", bytes(33))),
            ("origin", (2, 0, -1)),
            ("kind", ("test-tally-closed@1", "", "test-note-taken@2", 'x","kind":"y')),
            ("stream", ("note:s0", "note:zz", "", "\x00")),
            ("version", (0, 1, 500, -1, 2**53)),
            ("key", ("k1", None, "", "zz", "é")),
        )
    )
    value = chance.choice(values)
    with Tampering(root) as rows, contextlib.suppress(sqlite3.IntegrityError):
        rows.execute(f"UPDATE events SET {column} = ? WHERE seq = ?", (value, seq))
    return f"{column} of event {seq} set to {value!r}"


def edit_an_event(root: Path, chance: Random) -> str:
    """Change bytes, and as many of the columns made from them as whoever did it thought of."""
    seq, care = chance.randrange(1, EVENTS + 1), chance.randrange(4)
    with Tampering(root) as rows:
        (stored,) = rows.execute("SELECT bytes FROM events WHERE seq = ?", (seq,)).fetchone()
        changed = bytearray(stored)
        place = chance.randrange(len(changed))
        changed[place] ^= 1 << chance.randrange(8)
        rows.execute("UPDATE events SET bytes = ? WHERE seq = ?", (bytes(changed), seq))
        if care:
            _rechain(rows, seq, seq if care == 1 else EVENTS if care == 2 else seq, heads=care > 1)
    return f"byte {place} of event {seq} edited with care {care}"


def rewrite_the_end(root: Path, chance: Random) -> str:
    """Change one event and compute everything after it again: only a checkpoint tells."""
    seq = chance.randrange(1, EVENTS + 1)
    with Tampering(root) as rows:
        (stored,) = rows.execute("SELECT bytes FROM events WHERE seq = ?", (seq,)).fetchone()
        changed = stored.replace(b'"at":17', b'"at":18', 1)
        rows.execute("UPDATE events SET bytes = ? WHERE seq = ?", (changed, seq))
        _rechain(rows, seq, EVENTS, heads=True)
    return f"everything from event {seq} rewritten"


def _rechain(rows: sqlite3.Connection, first: int, last: int, *, heads: bool) -> None:
    found = rows.execute("SELECT head FROM events WHERE seq = ?", (first - 1,)).fetchone()
    head = found[0] if found else bytes(32)
    for seq, stored in rows.execute("SELECT seq, bytes FROM events WHERE seq >= ? ORDER BY seq", (first,)).fetchall():
        ident = blake3(b"\x00" + stored).digest()
        head = blake3(b"\x02" + head + ident).digest()
        if seq <= last:
            rows.execute("UPDATE events SET id = ? WHERE seq = ?", (ident, seq))
            if heads:
                rows.execute("UPDATE events SET head = ? WHERE seq = ?", (head, seq))


def cut_the_end(root: Path, chance: Random) -> str:
    seq = chance.randrange(0, EVENTS)
    with Tampering(root) as rows:
        rows.execute("DELETE FROM events WHERE seq > ?", (seq,))
        left = [row[0] for row in rows.execute("SELECT bytes FROM events")]
        for (digest,) in rows.execute("SELECT digest FROM blobs").fetchall():
            if not any(digest.hex().encode() in stored for stored in left):
                rows.execute("DELETE FROM blobs WHERE digest = ?", (digest,))
    return f"all after event {seq} cut off"


def edit_a_blob(root: Path, chance: Random) -> str:
    with Tampering(root) as rows:
        digest, size, stored = chance.choice(rows.execute("SELECT digest, size, bytes FROM blobs").fetchall())
        changed = bytearray(stored)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        column, value = chance.choice(
            (
                ("bytes", bytes(changed)),
                ("bytes", stored + b"\x00"),
                ("bytes", b""),
                ("size", size + 1),
                ("size", -1),
                ("codec", "plain"),
                ("codec", "zlib"),
                ("digest", bytes(changed[:32])),
                ("digest", bytes(32)),
            )
        )
        rows.execute(f"UPDATE blobs SET {column} = ? WHERE digest = ?", (value, digest))
    return f"{column} of blob {digest.hex()[:8]} edited"


def drop_or_add_a_blob(root: Path, chance: Random) -> str:
    with Tampering(root) as rows:
        if chance.random() < 0.5:
            (digest,) = chance.choice(rows.execute("SELECT digest FROM blobs").fetchall())
            rows.execute("DELETE FROM blobs WHERE digest = ?", (digest,))
            return f"blob {digest.hex()[:8]} dropped"
        content = bytes(chance.randrange(256) for _ in range(40))
        rows.execute("INSERT INTO blobs VALUES (?, 40, 'plain', ?)", (blake3(content).digest(), content))
        return "a blob added"


def edit_the_file(root: Path, chance: Random) -> str:
    statement = chance.choice(
        (
            "PRAGMA application_id = 7",
            "PRAGMA user_version = 2",
            "UPDATE origins SET name = 'example.org/elsewhere'",
            "INSERT INTO origins VALUES (2, 'example.org/second')",
            "UPDATE origins SET origin = 3",
            "DELETE FROM origins",
        )
    )
    with Tampering(root) as rows:
        rows.execute(statement)
    return statement


CHANGES: tuple[Change, ...] = (
    *(flip_a_bit,) * 6,
    write_over_bytes,
    swap_pages,
    cut_the_file,
    swap_events,
    swap_what_events_say,
    drop_events,
    drop_events_and_close_the_gap,
    double_an_event,
    reorder_events,
    edit_a_column,
    edit_a_column,
    edit_an_event,
    edit_an_event,
    rewrite_the_end,
    cut_the_end,
    edit_a_blob,
    drop_or_add_a_blob,
    edit_the_file,
)


class Outcome(NamedTuple):
    """What became of one mutation."""

    what: str
    meaningful: bool
    found: list[str]  # by the product: names of findings, or of the refusal
    alone: list[str] | None  # by the stand-alone verifier; None where there is none


def mutated(journal: Sound, folder: Path, count: int, seed: int) -> Iterator[Outcome]:
    """Change copies of a journal and return what became of each; every copy is left until the next one is made."""
    chance = Random(seed)
    kept = folder / "kept"
    kept.write_text(journal.kept.text(), "utf-8")
    for _ in range(count):
        root = folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(journal.root, root)
        what = chance.choice(CHANGES)(root, chance)
        meaningful = told(root) != journal.said
        yield Outcome(what, meaningful, found(root, journal.kept), alone(root, kept))


def found(root: Path, kept: Checkpoint) -> list[str]:
    """Return what the product says about a root."""
    try:
        names = [finding.name for finding in verify(root / NAME, full=True)]
        if names:
            return names
        store = Inspected(root / NAME)
        try:
            return [finding.name for finding in compare(store, [("kept", kept)])]
        finally:
            store.close()
    except Refusal as refusal:
        return [refusal.name]


def alone(root: Path, kept: Path) -> list[str] | None:
    """Return what the stand-alone verifier says about a root."""
    if not STAND_ALONE.is_file():
        return None
    out = io.StringIO()
    status: object = 0
    with (
        mock.patch.object(sys, "argv", [str(STAND_ALONE), str(root / NAME), str(kept)]),
        contextlib.redirect_stdout(out),
    ):
        try:
            runpy.run_path(str(STAND_ALONE), run_name="__main__")
        except SystemExit as left:
            status = left.code or 0
    return [line.split()[0] for line in out.getvalue().splitlines()] if status else []
