"""Verify a journal of format 1, by docs/format.md alone: python verify_ledger.py LEDGER_DB [CHECKPOINT]..."""

import json
import re
import sqlite3
import sys
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat, zip_longest
from pathlib import Path
from typing import Any

from blake3 import blake3

COLUMNS = {"kind": (str,), "stream": (str,), "version": (int,), "key": (str, type(None))}
MEMBERS = COLUMNS | {"actor": (str,), "at": (int,), "body": (dict,), "cause": (str, type(None))}
CHECKPOINT = re.compile(r"\A([^\n]+)\n(0|[1-9][0-9]{0,17})\n([A-Za-z0-9+/]{43}=)\n")
# What is remembered, in a temporary database: what events say, contents they name (where first) and contents there are.
FACTS = """BEGIN; CREATE TABLE events (n INTEGER PRIMARY KEY, seq, origin, id, kind, stream, version, key);
CREATE TABLE named (name PRIMARY KEY, seq); CREATE TABLE held (name, ok); CREATE TABLE kept (name, size INT, root);"""
TWICE = """SELECT seq, 'as before' FROM (SELECT seq, row_number() OVER (PARTITION BY origin, {0} ORDER BY n) AS times
    FROM events WHERE {0} NOTNULL) WHERE times > 1"""
KEPT = "SELECT 0, 'SIZE ' || size FROM kept JOIN origins USING (name) WHERE origin = 1 AND"
RULES = (  # the findings that follow from it: their name, and a query for their events and meanings
    ("schema-changed", """SELECT 0, declared FROM (SELECT group_concat(sql, ';') AS declared FROM (SELECT sql FROM
        journal.sqlite_schema ORDER BY sql)) WHERE hex_of(declared) <> '382e3a297c8b5dee7db32ab5b3f6235c'"""),
    ("event-missing", """SELECT was + 1, 'to ' || (seq - 1) FROM (SELECT seq, lag(seq, 1, 0) OVER (ORDER BY seq)
        AS was FROM events WHERE seq > 0) WHERE seq > was + 1"""),
    ("version-wrong", """SELECT seq, was || ' ' || version FROM (SELECT seq, version, lag(version, 1, 0) OVER (PARTITION
        BY stream ORDER BY n) AS was FROM events WHERE origin = 1 AND kind NOTNULL) WHERE version <> was + 1"""),
    *(("recorded-twice", TWICE.format(what)) for what in ("id", "version || ' ' || stream", "quote(kind) || key")),
    ("origin-unknown", "SELECT seq, quote(origin) FROM events LEFT JOIN origins USING (origin) WHERE name IS NULL"),
    ("origin-unannounced", "SELECT seq, 'the end' FROM events WHERE n = (SELECT max(n) FROM events) AND origin <> 1"),
    ("origin-unused", "SELECT 0, name FROM origins LEFT JOIN events USING (origin) WHERE n IS NULL AND origin <> 1"),
    ("content-missing", """SELECT seq, hex(name) FROM named LEFT JOIN held USING (name) WHERE ok IS NULL AND 'b3:' ||
        lower(hex(name)) NOT IN (SELECT key FROM events WHERE kind = 'content-erased@1' AND key NOTNULL)"""),
    ("content-damaged", "SELECT ifnull(seq, 0), hex(name) FROM held LEFT JOIN named USING (name) WHERE NOT ok"),
    ("content-unreferred", "SELECT 0, hex(name) FROM held LEFT JOIN named USING (name) WHERE seq IS NULL"),
    ("origin-differs", "SELECT 0, name FROM kept WHERE name IS NOT (SELECT name FROM origins WHERE origin = 1)"),
    ("journal-truncated", f"{KEPT} size > (SELECT count(*) FROM events)"),
    ("journal-rewritten", f"{KEPT} size <= (SELECT count(*) FROM events) AND root <> root_of(size)"),
    ("structure-damaged", "SELECT 0, * FROM pragma_integrity_check(1, 'journal') WHERE integrity_check <> 'ok'"),
)  # fmt: skip


def root(db: sqlite3.Connection, low: int, high: int) -> bytes:
    """Make the root of the Merkle tree over the ids of events after low and up to high."""
    if high - low == 1:
        return bytes(db.execute("SELECT ifnull(id, x'') FROM events WHERE n = ?", (high,)).fetchone()[0])
    middle = low + (1 << (high - low - 1).bit_length() - 1)
    return blake3(b"\1" + root(db, low, middle) + root(db, middle, high)).digest() if high else blake3().digest()


def legible(data: Any) -> Any:
    """Read an event, or return None when it isn't one object in UTF-8 with exactly the members, each of its type."""
    with suppress(ValueError, AttributeError, RecursionError):
        event = json.loads(data.decode())
        json.dumps(event, ensure_ascii=False, allow_nan=False).encode()  # refuses NaN and lone surrogates
        typed = event.keys() == MEMBERS.keys() and all(type(event[name]) in MEMBERS[name] for name in MEMBERS)
        return event if typed and abs(event["version"]) < 1 << 53 else None
    return None


def announces(event: Any, foreign: list[object]) -> bool:
    """Tell whether an event says of which origins those right before it are."""
    with suppress(TypeError, LookupError, OverflowError):
        said = event["body"]["origins"] if event and event["kind"] == "bundle-imported@1" else []
        names = chain.from_iterable(repeat(item["origin"], item["events"]) for item in said)
        return all(name == found for name, found in zip_longest(names, foreign, fillvalue=b""))
    return False


def is_content(digest: object, size: Any, codec: object, data: Any) -> bool:
    """Tell whether a row of blobs holds what its digest says."""
    with suppress(zlib.error, TypeError, OverflowError):
        stream = zlib.decompressobj()
        plain = stream.decompress(data, abs(size) + 1) if codec == "zlib" else data
        whole = codec == "plain" or (stream.eof and not stream.unused_data)
        return whole and len(plain) == size and blake3(plain).digest() == digest
    return False


def events(db: sqlite3.Connection) -> Iterator[tuple[str, int, object]]:
    """Hold each event against its bytes and what stands before it, and remember what it says."""
    names = dict(db.execute("SELECT origin, name FROM journal.origins"))
    last, before, foreign = 0, bytes(32), list[object]()
    query = "SELECT seq, id, head, origin, bytes, kind, stream, version, key FROM journal.events NOT INDEXED"
    for seq, stored, head, origin, data, *columns in db.execute(query):
        made, event = blake3(b"\0" + data).digest() if isinstance(data, bytes) else b"", legible(data)
        said = [event[name] if event else None for name in COLUMNS]
        broken = seq == last + 1 and head != blake3(b"\2" + before + made).digest()
        checks = {
            "event-misplaced": seq <= last,
            "event-changed": not made or made != stored,
            "chain-broken": made and made == stored and broken,
            "event-illegible": not event,
            "column-changed": event and repr(columns) != repr(said),
            "origin-unannounced": origin == 1 and not announces(event, foreign),
        }
        yield from ((name, seq, f"it stands after event {last}") for name, wrong in checks.items() if wrong)
        db.execute("INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (seq, origin, made or None, *said))
        contents = re.findall(rb'"blob":"b3:([0-9a-f]{64})"', data) if event else []
        named = [(bytes.fromhex(name.decode()), seq) for name in contents]
        db.executemany("INSERT OR IGNORE INTO named VALUES (?, ?)", named)
        last, before = (seq, head if isinstance(head, bytes) else b"") if seq > last else (last, before)
        foreign = [] if origin == 1 else foreign
        foreign += [] if origin == 1 else [names.get(origin)]


def findings(db: sqlite3.Connection, uri: str, kept: list[Any]) -> Iterator[tuple[str, int, object]]:
    """Check everything as it is at one moment, as far as SQLite can read it."""
    try:
        db.execute("ATTACH ? AS journal", (uri,))
        db.executescript(FACTS)
        db.executemany("INSERT INTO kept VALUES (?, ?, ?)", kept)
        marks = [db.execute(f"PRAGMA journal.{name}").fetchone()[0] for name in ("application_id", "user_version")]
        if marks != [0x45585031, 1]:
            yield "journal-too-new" if marks[0] == 0x45585031 else "not-a-journal", 0, f"its marks are {marks}"
            return
        yield from ((RULES[0][0], *found) for found in db.execute(RULES[0][1]))  # before it is relied on
        yield from events(db)
        db.execute("INSERT INTO held SELECT digest, is_content(digest, size, codec, bytes) FROM blobs NOT INDEXED")
        yield from ((name, *found) for name, query in RULES[1:] for found in db.execute(query))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with a stranger's file is a finding
        yield "not-a-journal" if "not a database" in str(error) else "unreadable", 0, error


def main() -> int:
    """Print the findings of a journal; exit with 0 when all is well, 1 after findings, 2 when asked wrongly."""
    try:
        uri = Path(sys.argv[1]).resolve(strict=True).as_uri() + "?mode=ro"
        kept = [CHECKPOINT.findall(Path(name).read_bytes().decode())[0] for name in sys.argv[2:]]
    except (OSError, ValueError, LookupError) as error:
        print(__doc__, ascii(error), sep="\n", file=sys.stderr)
        return 2
    db, count = sqlite3.connect("", uri=True, isolation_level=None), 0
    db.text_factory = lambda text: text.decode(errors="surrogateescape")
    db.create_function("is_content", 4, is_content)
    db.create_function("hex_of", 1, lambda text: blake3(text.encode(errors="replace")).hexdigest(16))
    db.create_function("root_of", 1, lambda size: b64encode(root(db, 0, size)).decode())
    for count, (name, event, meaning) in enumerate(findings(db, uri, kept), 1):  # noqa: B007 - it is used after
        print(f"{name} event {event}: {meaning}".encode("unicode_escape").decode())
    return min(count, 1)


if __name__ == "__main__":
    raise SystemExit(main())
