"""Starting on a long journal: from snapshots, and by folding every event again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.measuring import Bar
from ledger import digests
from ledger.event import BlobRef, Event, Family, Step
from ledger.families import cells, policies, providers, serving
from ledger.journal import Journal
from ledger.recorded import Author, envelope
from ledger.snapshots import differences
from ledger.store import NAME, OWN, Row, Store

PLACEHOLDER = "0" * 12
TOGETHER = 30_000
GATEWAY = (providers.FAMILY, policies.FAMILY, serving.FAMILY)


def opened(root: Path, *families: Family, process: str = "") -> Journal:
    """Open a journal with the real clock."""
    clock = lambda: time.time_ns() // 1000  # noqa: E731 - a clock is a function without a name
    return Journal.open(root, families, actor="bench", clock=clock, create=True, process=process)


def a_request() -> tuple[Event, ...]:
    """Return what the journal holds of one request to an alias."""
    content = BlobRef(blob="b3:" + "a" * 64, size=1_500, media="application/json")
    return (
        serving.RequestAccepted(
            request=PLACEHOLDER,
            route=serving.CHAT,
            identity="key-0123456789abcdef",
            model="small",
            alias="small",
            streamed=False,
            ghost=False,
            process="0123456789abcdef",
            worst_case=4_000_000,
            body=content,
        ),
        serving.RouteDecided(
            request=PLACEHOLDER,
            alias="small",
            reason="named",
            api="openai-chat",
            base_url="http://127.0.0.1:9/v1",
            sent="b3:" + "c" * 64,
        ),
        serving.RequestAnswered(
            request=PLACEHOLDER,
            response=content,
            usage=serving.Counted(input_tokens=300, output_tokens=200),
            cost=1_000_000,
            served_model="small-1",
            as_pinned=True,
            redacted=False,
            latency_us=9_000,
            first_byte_us=8_000,
        ),
    )


def a_cell() -> tuple[Event, ...]:
    """Return the two smallest events of a rollout: a turn, and its end."""
    cell, reply = f"cell-{PLACEHOLDER}", BlobRef(blob="b3:" + "a" * 64, size=40, media="application/json")
    question = "b3:" + "e" * 52 + PLACEHOLDER
    return (
        cells.CandidateTurned(cell=cell, turn=0, attempt=0, question=question, reply=reply, calls=0, shape="final"),
        cells.CellFinished(cell=cell, ended="done", model_calls=1, actions=0, input_tokens=9, output_tokens=9),
    )


class Template(NamedTuple):
    """An event's row before a number is written into it."""

    kind: str
    stream: str
    version: int
    key: str | None
    stored: bytes


def fill(root: Path, events: tuple[Event, ...], times: int) -> None:
    """Write the events so many times, each time with another number in them; of a process nobody waits for it is."""
    opened(root).close()
    store = Store(root / NAME)
    templates = _templates(events)
    try:
        rows: list[Row] = []
        for row in _rows(store, templates, times):
            rows.append(row)
            if len(rows) == TOGETHER:
                _write(store, rows)
                rows = []
        _write(store, rows)
        store.truncate_wal(even_small=True)
    finally:
        store.close()


def _templates(events: tuple[Event, ...]) -> list[Template]:
    author = Author("bench")
    versions: dict[str, int] = {}
    found = []
    for event in events:
        version = versions[event.stream] = versions.get(event.stream, 0) + 1
        stored = author.stored(event, 1_700_000_000_000_000, None, event.stream, version)
        found.append(Template(event.kind, event.stream, version, event.key, stored))
        envelope(stored)
    return found


def _rows(store: Store, templates: list[Template], times: int) -> Iterator[Row]:
    seq, head = store.last()
    for number in range(times):
        name = f"{number:012d}"
        for kind, stream, version, key, stored in templates:
            written = stored.replace(PLACEHOLDER.encode(), name.encode())
            ident = digests.event_id(written)
            head = digests.chained(head, ident)
            seq += 1
            named = None if key is None else key.replace(PLACEHOLDER, name)
            yield seq, ident, head, kind, stream.replace(PLACEHOLDER, name), version, named, written, OWN


def _write(store: Store, rows: list[Row]) -> None:
    store.begin()
    store.insert(rows)
    store.commit()
    store.truncate_wal()


def run(folder: Path, requests: int) -> list[Bar]:
    """Return the figures."""
    return _gateway(folder / "requests", requests) + _project(folder / "cells", requests)


def _gateway(root: Path, requests: int) -> list[Bar]:
    fill(root, a_request(), requests)
    bars = []
    for what, most in (("folding all", None), ("from a snapshot", 2.0)):
        started, used = time.monotonic(), time.process_time()
        journal = opened(root, *GATEWAY, process="starting")
        key = serving.IssueGatewayKey(identity="key-1", digest="b3:" + what)
        journal.submit(Step(serving.FAMILY, key)).result()
        bars.append(Bar(f"start, {requests:,} requests, {what}: wall", time.monotonic() - started, most, "s"))
        bars.append(Bar(f"start, {requests:,} requests, {what}: CPU", time.process_time() - used, None, "s"))
        state: serving.Serving = journal.state(serving.FAMILY)
        if state.settled != requests * 1_000_000:
            message = f"{state.settled} isn't what was answered"
            raise AssertionError(message)
        journal.close()
    used = time.process_time()
    wrong = list(differences(root / NAME, GATEWAY))
    bars.append(Bar(f"snapshots of {requests:,} requests checked: CPU", time.process_time() - used, None, "s"))
    return [*bars, Bar("snapshots that differ", len(wrong), 0, "")]


def _project(root: Path, events: int) -> list[Bar]:
    fill(root, a_cell(), events // 2)
    used = time.process_time()
    with opened(root, cells.FAMILY) as journal:
        finished = len(journal.state(cells.FAMILY).finished)
        journal.checkpoint()
    bar = Bar(f"verified rebuild from {events:,} small events: CPU", time.process_time() - used, 6.0, "s")
    if finished != events // 2:
        message = f"{finished} isn't what was finished"
        raise AssertionError(message)
    return [bar]
