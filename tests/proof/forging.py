"""Forging: a journal that verifies and doesn't say what was recorded, as whoever can write the file could make it."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blake3 import blake3

from ledger.store import SCHEMA

Edit = Callable[[str, dict[str, Any]], None]  # a kind and an event's body, changed in place


class Forger:
    """Reads a journal whole, lets its facts be changed, and writes it back with every digest made again."""

    def __init__(self, root: Path) -> None:
        self.path = root / "ledger.db"
        rows = sqlite3.connect(self.path)
        self.origins = rows.execute("SELECT origin, name FROM origins").fetchall()
        query = "SELECT origin, kind, stream, version, key, bytes FROM events ORDER BY seq"
        self.events = [[*row[:5], json.loads(row[5])] for row in rows.execute(query)]
        self.contents = {
            digest: zlib.decompress(stored) if codec == "zlib" else stored
            for digest, codec, stored in rows.execute("SELECT digest, codec, bytes FROM blobs")
        }
        rows.close()

    def body(self, kind: str, **facts: object) -> dict[str, Any]:
        """Return the first body of a kind that has these members."""
        for event in self.events:
            if event[1] == kind and facts.items() <= event[5]["body"].items():
                found: dict[str, Any] = event[5]["body"]
                return found
        raise LookupError(kind)

    def content(self, reference: dict[str, Any]) -> bytes:
        return self.contents[bytes.fromhex(reference["blob"][3:])]

    def replace(self, reference: dict[str, Any], content: bytes) -> None:
        """Put another content in the place of one, wherever it is named."""
        before, size = reference["blob"], reference["size"]
        digest = blake3(content).digest()
        del self.contents[bytes.fromhex(before[3:])]
        self.contents[digest] = content
        old = f'"blob": "{before}", "media": "{reference["media"]}", "size": {size}'
        new = f'"blob": "b3:{digest.hex()}", "media": "{reference["media"]}", "size": {len(content)}'
        for event in self.events:
            event[5] = json.loads(json.dumps(event[5], sort_keys=True).replace(old, new))

    def write(self) -> None:
        """Write the journal."""
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
            self.path.with_name(name).unlink(missing_ok=True)
        rows = sqlite3.connect(self.path)
        rows.execute("PRAGMA page_size = 16384")
        rows.execute("PRAGMA journal_mode = WAL")
        rows.executescript(SCHEMA)
        rows.execute(f"PRAGMA application_id = {0x45585031}")
        rows.execute("PRAGMA user_version = 1")
        rows.executemany("INSERT INTO origins VALUES (?, ?)", self.origins)
        head = bytes(32)
        for seq, (origin, kind, stream, version, key, event) in enumerate(self.events, start=1):
            stored = json.dumps(event, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
            ident = blake3(b"\x00" + stored).digest()
            head = blake3(b"\x02" + head + ident).digest()
            place = (seq, ident, head, origin, kind, stream, version, event["key"] if key else key, stored)
            rows.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", place)
        for digest, content in self.contents.items():
            rows.execute("INSERT INTO blobs VALUES (?, ?, 'plain', ?)", (digest, len(content), content))
        rows.commit()
        rows.close()
