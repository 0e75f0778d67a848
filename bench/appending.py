"""Appending to the journal: durable events a second, alone and with others waiting."""

from __future__ import annotations

import time
from pathlib import Path

from bench.measuring import Bar
from ledger.event import Blobs, Command, Event, Family, Found, Step, event
from ledger.journal import Journal

TEXT = 2_000


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


def _decide(command: Note, state: int, found: Found) -> tuple[Event, ...]:
    del state, found
    return (BenchNoted(number=command.number, text="x" * TEXT),)


FAMILY = Family(
    name="bench", kinds=(BenchNoted,), initial=lambda: 0, decide=_decide, evolve=lambda state, _event: state + 1
)


def run(folder: Path, events: int) -> list[Bar]:
    """Return the figures."""
    bars = []
    for waiting in (1, 16, 64):
        root = folder / f"appending-{waiting}"
        journal = Journal.open(root, [FAMILY], actor="bench", clock=lambda: time.time_ns() // 1000, create=True)
        with journal:
            started = time.monotonic()
            for first in range(0, events, waiting):
                futures = [
                    journal.submit(Step(FAMILY, Note(number=number)), blobs=Blobs())
                    for number in range(first, min(first + waiting, events))
                ]
                for future in futures:
                    future.result()
            rate = events / (time.monotonic() - started)
        bars.append(Bar(f"journal, {waiting} waiting", rate, None, "events/s", "1,410" if waiting == 1 else ""))
    return bars
