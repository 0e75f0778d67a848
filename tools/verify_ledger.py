"""Verify a journal of format 1, by docs/format.md alone: python verify_ledger.py LEDGER_DB [CHECKPOINT]..."""

import json
import re
import sqlite3
import sys
import zlib
from binascii import b2a_base64, unhexlify
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat, zip_longest
from pathlib import Path
from typing import Any

from blake3 import blake3

COLUMNS = {"kind": (str,), "stream": (str,), "version": (int,), "key": (str, type(None))}
MEMBERS = COLUMNS | {"actor": (str,), "at": (int,), "body": (dict,), "cause": (str, type(None))}
CHECKPOINT = re.compile(r"\A([^\n]+)\n(0|[1-9][0-9]{0,17})\n([A-Za-z0-9+/]{43}=)\n([^\n]+\n)*(\n(— [^\n]+\n)*)?\Z")
REMEMBERED = """BEGIN; CREATE TABLE events (n INTEGER PRIMARY KEY, seq, origin, id, kind, stream, version, key);
CREATE TABLE named (name PRIMARY KEY, seq); CREATE TABLE held (name, ok); CREATE TABLE kept (name, size INT, root);"""
TWICE = """SELECT seq, '{0}{1} as before' FROM (SELECT seq, row_number() OVER (PARTITION BY origin, {0}{1} ORDER BY n)
    AS times FROM events WHERE {0} NOTNULL) WHERE times > 1"""
KEPT = "SELECT 0, 'SIZE ' || size FROM kept JOIN origins USING (name) WHERE origin = 1 AND"
RULES = (  # the findings that follow from it: their name, and a query for their events and meanings
    ("version-wrong", """SELECT seq, was || ' ' || version FROM (SELECT seq, version, lag(version, 1, 0) OVER (PARTITION
        BY stream ORDER BY n) AS was FROM events WHERE origin = 1 AND kind NOTNULL) WHERE version <> was + 1"""),
    *(("recorded-twice", TWICE.format(*what)) for what in (("id", ""), ("version", ", stream"), ("key", ", kind"))),
    ("origin-unknown", "SELECT seq, origin FROM events WHERE origin NOT IN (SELECT +origin FROM origins)"),
    ("origin-unknown", "SELECT 0, 'no row 1' WHERE 1 NOT IN (SELECT origin FROM origins)"),
    ("origin-unannounced", "SELECT seq, 'the end' FROM events WHERE n = (SELECT max(n) FROM events) AND origin <> 1"),
    ("origin-unused", "SELECT 0, name FROM origins LEFT JOIN events USING (origin) WHERE n IS NULL AND origin <> 1"),
    ("origin-differs", "SELECT 0, name FROM kept WHERE name IS NOT (SELECT name FROM origins WHERE origin = 1)"),
    ("journal-truncated", f"{KEPT} size > (SELECT count(*) FROM events)"),
    ("journal-rewritten", f"{KEPT} size <= (SELECT count(*) FROM events) AND root <> root_of(size)"),
    ("structure-damaged", "SELECT 0, * FROM pragma_integrity_check(1, 'journal') WHERE integrity_check <> 'ok'"),
    ("", "INSERT INTO held SELECT digest, is_content(digest, size, codec, bytes) FROM blobs NOT INDEXED"),
    ("content-missing", """SELECT seq, hex(name) FROM named LEFT JOIN held USING (name) WHERE ok IS NULL AND 'b3:' ||
        lower(hex(name)) NOT IN (SELECT key FROM events WHERE kind = 'content-erased@1' AND key NOTNULL)"""),
    ("content-damaged", "SELECT ifnull(seq, 0), hex(name) FROM held LEFT JOIN named USING (name) WHERE NOT ok"),
    ("content-unreferred", "SELECT 0, hex(name) FROM held LEFT JOIN named USING (name) WHERE seq IS NULL"),
)  # fmt: skip


def root(db: sqlite3.Connection, low: int, high: int) -> bytes:
    """Make the root of the Merkle tree over the ids of events after low and up to high."""
    if high - low == 1:
        return bytes(db.execute("SELECT ifnull(id, x'') FROM events WHERE n = ?", (high,)).fetchone()[0])
    middle = low + (1 << (high - low - 1).bit_length() - 1)
    return blake3(b"\1" + root(db, low, middle) + root(db, middle, high)).digest() if high else blake3().digest()


def plain(value: Any, depth: int = 1) -> bool:
    """Tell whether there is no float, no integer too great, no name beyond ASCII and nothing too deep."""
    if isinstance(value, dict | list):
        inner = value if isinstance(value, list) else value.values() if "".join(value).isascii() else [0.0]
        return depth <= 100 and all(plain(item, depth + 1) for item in inner)
    return abs(value) < 1 << 53 if isinstance(value, int) else not isinstance(value, float)


def legible(data: Any) -> Any:
    """Read an event, or return None when it isn't one object in canonical JSON with the members, each of its type."""
    with suppress(ValueError, AttributeError, RecursionError):
        event = json.loads(data.decode())
        same = json.dumps(event, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() == data
        typed = event.keys() == MEMBERS.keys() and all(type(event[name]) in MEMBERS[name] for name in MEMBERS)
        return event if same and typed and plain(event) else None
    return None


def announces(event: Any, foreign: list[object]) -> bool:
    """Tell whether an event says of which origins those right before it are."""
    with suppress(TypeError, LookupError, OverflowError):
        said = event["body"]["origins"] if event and event["kind"] == "bundle-imported@1" else []
        names = chain.from_iterable(repeat(item["origin"], item["events"]) for item in said)
        return isinstance(said, list) and all(one == other for one, other in zip_longest(names, foreign, fillvalue=b""))
    return False


def is_content(digest: object, size: Any, codec: object, data: Any) -> bool:
    """Tell whether a row of blobs holds what its digest says."""
    with suppress(zlib.error, TypeError, OverflowError):
        plain = (stream := zlib.decompressobj()).decompress(data, abs(size) + 1) if codec == "zlib" else data
        whole = codec == "plain" or (stream.eof and not stream.unused_data)
        return whole and len(plain) == size and blake3(plain).digest() == digest
    return False


def events(db: sqlite3.Connection) -> Iterator[tuple[str, int, object]]:
    """Hold each event against its bytes and what stands before it, and remember what it says."""
    names = dict(db.execute("SELECT origin, name FROM journal.origins"))
    last, before, foreign = 0, bytes(32), list[object]()
    query = "SELECT seq, id, head, origin, bytes, kind, stream, version, key FROM journal.events NOT INDEXED"
    for seq, stored, head, place, data, *columns in db.execute(query):
        origin = place if type(place) is int else repr(place)
        made, event = blake3(b"\0" + data).digest() if isinstance(data, bytes) else b"", legible(data)
        said = [event[name] if event else None for name in COLUMNS]
        checks = {
            "event-misplaced": seq <= last,
            "event-changed": not made or made != stored,
            "chain-broken": seq == last + 1 and stored == made > b"" and head != blake3(b"\2" + before + made).digest(),
            "event-illegible": not event,
            "column-changed": event and repr(columns) != repr(said),
            "origin-unannounced": origin == 1 and not announces(event, foreign),
        }
        yield from [("event-missing", last + 1, f"up to {seq - 1}")] if seq > last + 1 else []
        yield from ((name, seq, f"it stands after event {last}") for name, wrong in checks.items() if wrong)
        db.execute("INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (seq, origin, made or None, *said))
        named = re.findall(rb'"blob":"b3:([0-9a-f]{64})"', data) if event else []
        db.executemany("INSERT OR IGNORE INTO named VALUES (?, ?)", ((unhexlify(name), seq) for name in named))
        last, before = (seq, head if isinstance(head, bytes) else b"") if seq > last else (last, before)
        foreign = [] if origin == 1 else foreign
        foreign += [] if origin == 1 else [names.get(origin)]


def findings(db: sqlite3.Connection, uri: str, kept: list[Any]) -> Iterator[tuple[str, int, object]]:
    """Check everything as it is at one moment, as far as SQLite can read it."""
    try:
        db.execute("ATTACH ? AS journal", (uri,))
        db.executescript(REMEMBERED)
        db.executemany("INSERT INTO kept VALUES (?, ?, ?)", kept)
        mark, form = (db.execute(f"PRAGMA journal.{name}").fetchone()[0] for name in ("application_id", "user_version"))
        if (mark, form) != (0x45585031, 1):
            other = "journal-too-new" if form > 1 else "journal-too-old"
            yield other if mark == 0x45585031 else "not-a-journal", 0, f"its marks are {mark} and {form}"
            return
        declared = ";".join(sorted(str(sql) for (sql,) in db.execute("SELECT sql FROM journal.sqlite_schema") if sql))
        if blake3(declared.encode(errors="replace")).hexdigest(16) != "382e3a297c8b5dee7db32ab5b3f6235c":
            yield "schema-changed", 0, declared
        yield from events(db)
        yield from ((name, *found) for name, query in RULES for found in db.execute(query))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with a stranger's file is a finding
        yield "not-a-journal" if "not a database" in str(error) else "unreadable", 0, error


if __name__ == "__main__":  # exits with 0 when all is well, with 1 after findings, with 2 when asked wrongly
    try:
        uri = Path(sys.argv[1]).resolve(strict=True).as_uri() + "?mode=ro"
        kept = [CHECKPOINT.findall(Path(name).read_bytes().decode())[0][:3] for name in sys.argv[2:]]
    except (OSError, ValueError, LookupError) as error:
        print(__doc__, ascii(error), sep="\n", file=sys.stderr)
        raise SystemExit(2) from None
    db, count = sqlite3.connect("", uri=True, isolation_level=None), 0
    db.text_factory = lambda text: text.decode(errors="surrogateescape")
    db.create_function("is_content", 4, is_content)
    db.create_function("root_of", 1, lambda size: b2a_base64(root(db, 0, size), newline=False).decode())
    for count, (name, seq, meaning) in enumerate(findings(db, uri, kept), 1):  # noqa: B007 - it is used after
        print(f"{name} {seq} {meaning}".encode("unicode_escape").decode())
    raise SystemExit(min(count, 1))
