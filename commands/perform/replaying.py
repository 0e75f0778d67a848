"""Replaying: the journal answers, or nobody does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

import msgspec

from ledger.differences import first_difference
from ledger.errors import Refusal
from ledger.families.calls import CallReserved
from ledger.prompt import Question
from ledger.redaction import Redactor

if TYPE_CHECKING:
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal

MOST_COMPARED = 2_000


class QuestionNotInJournal(Refusal, name="question-not-in-journal", exit_code=52):
    """A replay asks something that was never answered, so what led to it isn't what was recorded."""

    def __init__(self, digest: str, nearest: str | None, pointer: str | None, seq: int | None) -> None:
        near = f"; the nearest recorded one, event {seq}, differs first at {pointer}" if nearest else ""
        super().__init__(
            f"the replay asks {digest}, which the journal has no answer to{near}",
            where=f"the calls of ledger.db; nearest {nearest}" if nearest else "the calls of ledger.db",
            remedy="run `exp check --full`; nothing was called",
        )
        self.digest = digest
        self.nearest = nearest
        self.pointer = pointer


class Replaying:
    """Refuses every question, since only those without a recorded answer get here."""

    asks = False

    def __init__(self, journal: Journal, redactor: Redactor | None = None) -> None:
        self.redactor = redactor or Redactor()
        self._journal = journal

    async def __call__(self, endpoint: Endpoint, question: Question) -> Never:
        """Raise QuestionNotInJournal with the nearest recorded question and where it differs."""
        alike = [record for record in self._journal.events(CallReserved) if _alias(record.event) == endpoint.alias]
        asked = msgspec.json.decode(question.body)
        best: tuple[int, str, str, int] | None = None
        for record in alike[-MOST_COMPARED:]:
            event = record.event
            if not isinstance(event, CallReserved):
                continue
            try:
                recorded = self._journal.blob(event.asked.blob)
            except Refusal:
                continue
            common = _common(recorded, question.body)
            if best is None or common > best[0]:
                difference = first_difference(msgspec.json.decode(recorded), asked)
                pointer = difference.pointer if difference else "/"
                best = (common, event.question, pointer, record.seq)
        if best is None:
            raise QuestionNotInJournal(question.digest, None, None, None)
        raise QuestionNotInJournal(question.digest, best[1], best[2], best[3])


def _alias(event: object) -> str | None:
    return event.alias if isinstance(event, CallReserved) else None


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes two questions share at their beginning and their end."""
    least = min(len(one), len(other))
    low, high = 0, least
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    front = low
    low, high = 0, least - front
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[-middle:] == other[-middle:] else (low, middle - 1)
    return front + low
