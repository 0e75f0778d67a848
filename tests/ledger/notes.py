"""Two small families for tests of the journal: notes, and a tally that reads notes too."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path

from ledger.errors import REFUSALS, Refusal
from ledger.event import BlobRef, Blobs, Command, Event, Family, Found, Step, event
from ledger.journal import Journal


@event("test-note-taken@1")
class NoteTaken(Event):
    """A number under a subject, by name at most once."""

    subject: str
    number: int
    name: str | None = None
    text: BlobRef | None = None

    @property
    def stream(self) -> str:
        return f"note:{self.subject}"

    @property
    def key(self) -> str | None:
        return self.name


@event("test-tally-closed@1")
class TallyClosed(Event):
    """The sum of all numbers when it was asked for."""

    total: int

    @property
    def stream(self) -> str:
        return "tally"


class TooMany(Refusal, name="test-too-many", exit_code=199):
    """The notes would sum to more than is allowed."""

    def __init__(self, total: int) -> None:
        super().__init__(f"{total} is too many")


# A refusal of the tests is none of the product's, which documents its own by this table.
del REFUSALS[TooMany.name]


class TakeNote(Command):
    """Take a note unless the sum would pass the ceiling."""

    subject: str
    number: int = 1
    name: str | None = None
    text: BlobRef | None = None
    ceiling: int = 1_000_000


class TakeOnce(Command):
    """Take a note unless one of that name is there."""

    name: str

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        return ((NoteTaken.kind, self.name),)


class CloseTally(Command):
    """Write down the sum."""


def _decide_note(command: TakeNote | TakeOnce, state: list[int], found: Found) -> tuple[Event, ...]:
    if isinstance(command, TakeOnce):
        if found(NoteTaken.kind, command.name) is not None:
            return ()
        return (NoteTaken(subject="once", number=len(command.name), name=command.name),)
    if state[0] + command.number > command.ceiling:
        raise TooMany(state[0] + command.number)
    return (NoteTaken(subject=command.subject, number=command.number, name=command.name, text=command.text),)


def _evolve_note(state: list[int], taken: NoteTaken) -> list[int]:
    state[0] += taken.number
    return state


NOTES = Family(name="test-notes", kinds=(NoteTaken,), initial=lambda: [0], decide=_decide_note, evolve=_evolve_note)


def _evolve_tally(state: tuple[int, int], seen: Event) -> tuple[int, int]:
    total, closed = state
    return (total + seen.number, closed) if isinstance(seen, NoteTaken) else (total, closed + 1)


TALLY = Family(
    name="test-tally",
    kinds=(NoteTaken, TallyClosed),
    initial=lambda: (0, 0),
    decide=lambda command, state, found: (TallyClosed(total=state[0]),),
    evolve=_evolve_tally,
)


def note(subject: str, number: int = 1, **more: object) -> Step:
    return Step(NOTES, TakeNote(subject=subject, number=number, **more))  # type: ignore[arg-type]


def worded(words: str, name: str | None = None, subject: str = "words") -> tuple[Step, Blobs]:
    """Return a step that takes a note with text, and the text."""
    blobs = Blobs()
    return note(subject, name=name, text=blobs.put(words)), blobs


def opened(root: Path, *, create: bool = True, vfs: str | None = None, process: str = "") -> Journal:
    ticks = itertools.count(1_700_000_000_000_000)
    return Journal.open(
        root,
        [NOTES, TALLY],
        actor="test 0",
        clock=lambda: next(ticks),
        create=create,
        vfs=vfs,
        process=process,
        origin="example.org/test",
    )


def tamper(root: Path, *statements: str) -> None:
    """Change a journal as no release would."""
    connection = sqlite3.connect(root / "ledger.db")
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
