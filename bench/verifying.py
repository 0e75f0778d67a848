"""Verifying: events checked a CPU second, beside a bare scan of the same file taken in turns, and changes found."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
from blake3 import blake3

from bench.measuring import EXP, Bar, measure
from ledger import digests
from ledger.digests import CHAIN, LEAF
from ledger.recorded import Envelope
from ledger.store import NAME, OWN, Row, Store, create, pack
from ledger.verify import verify
from tests.proof import mutations

TEXT = 1_700
TOGETHER = 1_024
CONTENT_EVERY = 4
ROUNDS = 5
SEED = 2026
STREAMS = 997
PROJECT = "test-noted@1"


def recorded(root: Path, events: int, text: int) -> None:
    """Write a journal of events with a text in them, and a content for every fourth."""
    root.mkdir(parents=True)
    create(root / NAME, "bench/verifying")
    store, head, rows, blobs = Store(root / NAME), bytes(32), [], []
    for seq in range(1, events + 1):
        body: dict[str, object] = {"number": seq, "text": f"{seq} and so on " * (text // 16)}
        if seq % CONTENT_EVERY == 0:
            content = f"content {seq} ".encode() * 60
            name = digests.content_digest(content)
            blobs.append(pack(digests.raw(name), content))
            body["reply"] = {"blob": name, "media": "text/plain", "size": len(content)}
        row = _row(seq, head, body)
        head = row[2]
        rows.append(row)
        if len(rows) == TOGETHER or seq == events:
            store.begin()
            store.insert(rows)
            store.insert_blobs(blobs)
            store.commit()
            rows, blobs = [], []
    store.truncate_wal(even_small=True)
    store.close()


def _row(seq: int, head: bytes, body: dict[str, object]) -> Row:
    key, stream, version = digests.content_digest(b"%d" % seq), f"bench:{seq % STREAMS}", (seq - 1) // STREAMS + 1
    if seq % STREAMS == 0:
        version = seq // STREAMS
    facts = {"actor": "bench", "at": seq, "body": body, "cause": None, "key": key, "kind": PROJECT}
    stored = json.dumps({**facts, "stream": stream, "version": version}, sort_keys=True, separators=(",", ":")).encode()
    ident = digests.event_id(stored)
    return (seq, ident, digests.chained(head, ident), PROJECT, stream, version, key, stored, OWN)


def bare(path: Path) -> None:
    """Scan, hash, chain and decode, and look at nothing else: what can't be done without."""
    decode = msgspec.json.Decoder(Envelope).decode
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    head = bytes(32)
    for ident, stored_head, stored in connection.execute("SELECT id, head, bytes FROM events ORDER BY seq"):
        if blake3(LEAF + stored).digest() != ident:
            raise AssertionError(ident)
        head = blake3(CHAIN + head + ident).digest()
        if head != stored_head:
            raise AssertionError(head)
        decode(stored)
    connection.close()


def taken(work: Callable[[], object]) -> float:
    """Return the CPU seconds that something takes."""
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def run(folder: Path, events: int, changes: int) -> list[Bar]:
    """Return the figures; with few events no time is worth anything."""
    root, longer = folder / "journal", folder / "longer"
    recorded(root, events, TEXT)
    recorded(longer, 4 * events, TEXT)
    path = root / NAME
    well: list[object] = []
    times: dict[str, list[float]] = {"bare": [], "check": [], "full": []}
    for _ in range(ROUNDS):
        times["bare"].append(taken(lambda: bare(path)))
        times["check"].append(taken(lambda: well.extend(verify(path))))
        times["full"].append(taken(lambda: well.extend(verify(path, full=True))))
    if well:
        raise AssertionError(well)
    rate = {name: events / min(each) for name, each in times.items()}
    ratio = statistics.median(a / b for a, b in zip(times["bare"], times["check"], strict=True))
    memory = [
        measure((*EXP, "check", "--full", "--root", str(one)), os.environ, folder).megabytes for one in (root, longer)
    ]
    return [
        Bar("check, events of 2.1 KB a CPU second", rate["check"], 100_000, "events/s", "168,000 bare", least=True),
        Bar("check --full, the same", rate["full"], None, "events/s"),
        Bar("bare scan, chain and decode, in turns", rate["bare"], None, "events/s"),
        Bar("check beside the bare scan, which doesn't write again", ratio, 0.5, "times", least=True),
        Bar("check --full, memory at 4 times the events", memory[1] - memory[0], 8, "MB more"),
        *_found(folder, changes),
    ]


def _found(folder: Path, changes: int) -> list[Bar]:
    journal = mutations.recorded(folder / "sound")
    (folder / "changed").mkdir()
    meaningful = missed = alone = 0
    for outcome in mutations.mutated(journal, folder / "changed", changes, SEED):
        meaningful += outcome.meaningful
        missed += outcome.meaningful and not outcome.found
        alone += outcome.meaningful and outcome.alone == []
    return [
        Bar(f"meaningful of {changes:,} random changes", meaningful, None, "changes"),
        Bar("not found by check --full and a checkpoint", missed, 0, "changes"),
        Bar("not found by the stand-alone verifier", alone, 0, "changes"),
    ]
