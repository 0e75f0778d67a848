"""Asking: one question, one answer, however often it is asked; each physical call is reserved before, settled after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ledger.event import BlobRef, Blobs, Step
from ledger.families.providers import Endpoint
from ledger.money import NanoUSD
from ledger.prompt import Question, Reply

if TYPE_CHECKING:
    from ledger.journal import Journal


class Run(msgspec.Struct, frozen=True):
    """One execution of a command that asks: named by the digest of its frozen inputs, under a ceiling or none."""

    id: str
    ceiling: NanoUSD | None
    purpose: str
    plan: NanoUSD | None = None


class Answer(msgspec.Struct, frozen=True):
    """What is recorded for (question, attempt). ``reply`` is None when it can't be read; ``problem`` says why."""

    question: Question
    attempt: int
    raw: bytes
    reply: Reply | None
    problem: str | None
    cost: NanoUSD | None
    seq: int
    recorded_ref: BlobRef
    replayable: bool = True


class Spend(msgspec.Struct, frozen=True):
    """What a run has spent so far. ``ambiguous`` is the worst case of calls whose cost nobody knows."""

    settled: NanoUSD
    ambiguous: NanoUSD
    calls: int
    retries: int


Accept = Callable[[Answer, Blobs], Iterable[Step]]


class Asking:
    """Asks for one run of a command."""

    def __init__(self, journal: Journal, perform: object, run: Run, *, concurrency: int = 16) -> None:
        raise NotImplementedError

    async def ask(
        self, endpoint: Endpoint, question: Question, *, attempt: int = 0, accept: Accept | None = None
    ) -> Answer:
        """Return the recorded answer, or ask for it and record it together with the steps that ``accept`` returns."""
        raise NotImplementedError

    async def embed(self, endpoint: Endpoint, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of int8 for each text, scaled so that its largest component is 127 in size."""
        raise NotImplementedError

    def spend(self) -> Spend:
        """Return what this run has spent, in this process and earlier ones."""
        raise NotImplementedError
