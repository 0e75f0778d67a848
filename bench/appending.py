"""Appending to the journal: durable events a second, each ratio taken in turns with bare apsw on the same disk."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from bench.measuring import Bar
from commands.walkthrough import corpus
from ledger.event import BlobRef, Blobs, Command, Event, Family, Found, Step, event
from ledger.journal import Journal
from ledger.store import BUSY_MS, NAME, PAGE_BYTES, WAL_LIMIT_BYTES

TEXT = 1_900  # with its envelope an event has 2.1 KB
TURNS = 16
CLIENTS = 16


@event("bench-noted@1")
class BenchNoted(Event):
    """An event of the size of a usual one."""

    number: int
    text: str

    @property
    def stream(self) -> str:
        """One stream for all."""
        return "bench"


class Note(Command):
    """Record a number."""

    number: int


@event("bench-kept@1")
class BenchKept(Event):
    """Contents."""

    contents: tuple[BlobRef, ...]

    @property
    def stream(self) -> str:
        """One stream for all."""
        return "contents"


class Keep(Command):
    """Record contents."""

    contents: tuple[BlobRef, ...]


def _decide(command: Note | Keep, state: int, found: Found) -> tuple[Event, ...]:
    del state, found
    if isinstance(command, Keep):
        return (BenchKept(contents=command.contents),)
    return (BenchNoted(number=command.number, text="x" * TEXT),)


FAMILY = Family(
    name="bench",
    kinds=(BenchNoted, BenchKept),
    initial=lambda: 0,
    decide=_decide,
    evolve=lambda state, _event: state + 1,
)


class Bare:
    """What SQLite alone does with the same bytes, pages and promises: one table, no chain, no index, no decision."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.set_busy_timeout(BUSY_MS)
        for setting in (
            f"page_size = {PAGE_BYTES}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "secure_delete = ON",
        ):
            self.connection.execute(f"PRAGMA {setting}")
        self.connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT")
        self.log = Path(f"{path}-wal")
        self.seq = 0

    def append(self, rows: list[tuple[bytes]]) -> None:
        """Commit the rows, and empty the log as the journal does."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO events (bytes) VALUES (?)", rows)
        self.connection.execute("COMMIT")
        if self.log.stat().st_size >= WAL_LIMIT_BYTES:
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close."""
        self.connection.close()


def _opened(root: Path) -> Journal:
    return Journal.open(root, [FAMILY], actor="bench", clock=lambda: time.time_ns() // 1000, create=True)


def run(folder: Path, events: int) -> list[Bar]:
    """Return the figures."""
    bars = []
    for together, least in ((1, 0.6), (100, 0.5)):
        bars += _against_bare(folder / f"appending-{together}", events, together, least)
    return [*bars, *_clients(folder / "clients", events), _contents(folder / "contents")]


def _against_bare(root: Path, events: int, together: int, least: float) -> list[Bar]:
    """Append in turns to a journal and to a bare table, and compare."""
    times = max(1, events // TURNS // together)
    with _opened(root) as journal:
        bare = Bare(root / "bare.db")
        row = (journal.submit(Step(FAMILY, Note(number=0))).result()[0].bytes,)

        def append_to_journal() -> None:
            journal.submit(*[Step(FAMILY, Note(number=number)) for number in range(together)]).result()

        def append_to_many() -> None:
            waiting = [journal.submit(Step(FAMILY, Note(number=number))) for number in range(together)]
            for future in waiting:
                future.result()

        ways: dict[str, Callable[[], None]] = {
            "journal": append_to_journal,
            "bare": lambda: bare.append([row] * together),
            "submissions": append_to_many,
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(TURNS):
            for way, append in ways.items():
                started = time.monotonic()
                for _ in range(times):
                    append()
                took[way].append((time.monotonic() - started) / times / together)
        bare.close()
    rate = {way: 1 / statistics.median(each) for way, each in took.items()}
    ratio = statistics.median(bare / ours for bare, ours in zip(took["bare"], took["journal"], strict=True))
    what = f"append, {together} a commit"
    return [
        Bar(f"{what}: bare apsw", rate["bare"], None, "events/s"),
        Bar(f"{what}: journal", rate["journal"], None, "events/s", {1: "1,410", 100: "39,647"}[together]),
        Bar(f"{what}: {together} submissions that wait", rate["submissions"], None, "events/s"),
        Bar(f"{what}: rate / rate of bare apsw", ratio, least, "", least=True),
    ]


def _clients(root: Path, events: int) -> list[Bar]:
    """Let coroutines append, each its next event when its last one is recorded."""
    latencies: list[float] = []

    async def client(journal: Journal, times: int) -> None:
        for number in range(times):
            started = time.monotonic()
            await journal.record(Step(FAMILY, Note(number=number)))
            latencies.append(time.monotonic() - started)

    async def all_clients(journal: Journal) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(client(journal, max(1, events // CLIENTS)))

    with _opened(root) as journal:
        started = time.monotonic()
        asyncio.run(all_clients(journal))
        rate = len(latencies) / (time.monotonic() - started)
        size = len(next(journal.events()).bytes)
    stored = (root / NAME).stat().st_size
    raw = len(latencies) * size
    median = statistics.median(latencies) * 1_000
    return [
        Bar(f"append, {CLIENTS} waiting clients", rate, 5_000, "events/s", least=True),
        Bar(f"append, {CLIENTS} waiting clients: median", median, 2.0, "ms"),
        Bar("size of events / raw", stored / raw, 1.2, ""),
    ]


def _contents(root: Path) -> Bar:
    """Record the shipped traces, a content a line, and compare what the file grows by with what was given."""
    texts = [line for line in corpus().read_bytes().splitlines() if line]
    with _opened(root) as journal:
        journal.checkpoint()
    before = (root / NAME).stat().st_size
    with _opened(root) as journal:
        blobs = Blobs()
        references = [blobs.put(text) for text in texts]
        journal.submit(Step(FAMILY, Keep(contents=tuple(references))), blobs=blobs).result()
    grown = (root / NAME).stat().st_size - before
    return Bar("size of contents / raw text", grown / sum(map(len, texts)), 0.7, "")
