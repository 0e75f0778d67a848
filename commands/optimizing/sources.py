"""Where the answers of rollouts come from: asked for and recorded, or read back and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from commands.optimizing import asked
from commands.optimizing.refusals import ReplayDiffers
from ledger import canonical
from ledger.differences import first_difference
from ledger.event import Blobs, Event, Step
from ledger.families import cells, judging
from ledger.families.cells import CellOpened
from ledger.families.judging import JudgmentRecorded

if TYPE_CHECKING:
    from commands.optimizing.rollout import Part
    from commands.perform.asking import Accept, Answer, Asking
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal
    from ledger.prompt import Question
    from ledger.recorded import Recorded
    from projections.retrieval import Example, Index

STAND_IN = "exp-stand-in"
MOST_SCORES = 1 << 20  # that are held at once


class Retrieving:
    """Finds examples through recorded vectors."""

    def __init__(self, asking: Asking, embedder: Endpoint, index: Index) -> None:
        self.asking = asking
        self._embedder = embedder
        self.index = index
        self._vectors: dict[str, bytes] = {}
        self.stand_ins: set[str] = set()

    def note(self, answer: Answer) -> Answer:
        """Remember that an answer comes from a stand-in, when it says so."""
        fingerprint = answer.reply.system_fingerprint if answer.reply else None
        if fingerprint is not None and fingerprint.startswith(STAND_IN):
            self.stand_ins.add(fingerprint)
        return answer

    async def near(self, text: str, lineage: str) -> Sequence[Example]:
        """Return the recorded actions nearest to a text, but for those of its own lineage."""
        return self.index.search(await self.vector(text), asked.EXAMPLES, without_lineage=lineage)

    async def vector(self, text: str) -> bytes:
        """Return the vector of a text."""
        vector = self._vectors.get(text)
        if vector is None:
            vector = self._vectors[text] = (await self.asking.embed(self._embedder, (text,)))[0]
        return vector


class Asked(Retrieving):
    """Asks whatever the journal has no answer to, and records each step with its answer."""

    async def ask(
        self, endpoint: Endpoint, question: Question, *, attempt: int, accept: Accept | None = None
    ) -> Answer:
        """Return the answer once it and its steps are recorded."""
        return self.note(await self.asking.ask(endpoint, question, attempt=attempt, accept=accept))


class Following:
    """Reads answers back, and holds what follows from each against what was recorded with it.

    Steps are decided anew on states that begin empty; nothing is written.
    """

    def __init__(self, journal: Journal, asking: Asking) -> None:
        self._journal = journal
        self._asking = asking
        self._recorded: dict[tuple[str, str | None], Recorded] = {}
        self._derived: dict[tuple[str, str], Event] = {}
        self._states: dict[str, Any] = {family.name: family.initial() for family in (cells.FAMILY, judging.FAMILY)}

    def expect(self, parts: Collection[Part]) -> None:
        """Read what is recorded of these cells, and compare how they were opened."""
        streams = {stream for part in parts for stream in (f"cell:{part.cell.id}", f"judgment:{part.cell.id}")}
        kinds: tuple[type[Event], ...] = (*cells.FAMILY.kinds, JudgmentRecorded)
        for record in self._journal.events(*kinds):
            if record.stream in streams:
                self._recorded[record.kind, record.key] = record
        for part in parts:
            self._fits(CellOpened(cell=part.cell.id, facts=part.cell), cells.FAMILY.name, 0)

    def expect_judgments(self, subjects: Collection[str]) -> None:
        """Read what is recorded of judgments about these subjects."""
        for subject in subjects:
            for record in self._journal.events(JudgmentRecorded, stream=f"judgment:{subject}"):
                self._recorded[record.kind, record.key] = record

    async def ask(
        self, endpoint: Endpoint, question: Question, *, attempt: int, accept: Accept | None = None
    ) -> Answer:
        """Return the recorded answer once its steps were compared; a Refusal names what doesn't fit."""
        answer = await self._asking.ask(endpoint, question, attempt=attempt)
        for step in accept(answer, Blobs()) if accept else ():
            self._follows(step, answer.seq)
        return answer

    def finish(self) -> None:
        """Refuse recorded steps that nothing leads to."""
        left = min(self._recorded.values(), key=lambda record: record.seq, default=None)
        if left is not None:
            raise ReplayDiffers(left.seq, left.kind, "no recorded answer leads to it")

    def _follows(self, step: Step, cause: int) -> None:
        state = self._states[step.family.name]
        for event in step.family.decide(step.command, state, lambda kind, key: self._derived.get((kind, key))):
            self._fits(event, step.family.name, cause)

    def _fits(self, event: Event, family: str, cause: int) -> None:
        record = self._recorded.pop((event.kind, event.key), None)
        if record is None:
            raise ReplayDiffers(cause, "call-answered@1", f"the {event.kind} that follows from it isn't recorded")
        body, derived = bytes(record.envelope.body), canonical.encode(event)
        if body != derived:
            difference = first_difference(msgspec.json.decode(body), msgspec.json.decode(derived))
            raise ReplayDiffers(record.seq, record.kind, "the recorded answer leads to other facts", difference)
        if event.key is not None:
            self._derived[event.kind, event.key] = event
        evolve = cells.FAMILY.evolve if family == cells.FAMILY.name else judging.FAMILY.evolve
        self._states[family] = evolve(self._states[family], event)


class Replayed(Retrieving):
    """Reads answers back as a rollout needs them; what rollouts look up at the same time is looked up together."""

    def __init__(self, journal: Journal, asking: Asking, embedder: Endpoint, index: Index) -> None:
        super().__init__(asking, embedder, index)
        self.following = Following(journal, asking)
        self._together = max(1, MOST_SCORES // max(1, len(index)))
        self._waiting: list[tuple[bytes, str, asyncio.Future[Sequence[Example]]]] = []

    async def near(self, text: str, lineage: str) -> Sequence[Example]:
        """Return the recorded actions nearest to a text, but for those of its own lineage."""
        vector = await self.vector(text)
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[Example]] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._look_up)  # after all rollouts that can go on now have asked for theirs
        self._waiting.append((vector, lineage, found))
        return await found

    def _look_up(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), self._together):
            vectors, lineages, futures = zip(*waiting[first : first + self._together], strict=True)
            try:
                rows = self.index.search_many(vectors, asked.EXAMPLES, without_lineages=lineages)
            except Exception as error:  # noqa: BLE001 - whoever waits must learn of it
                for future in futures:
                    future.set_exception(error)
                continue
            for future, found in zip(futures, rows, strict=True):
                if not future.done():
                    future.set_result(found)

    async def ask(
        self, endpoint: Endpoint, question: Question, *, attempt: int, accept: Accept | None = None
    ) -> Answer:
        """Return the recorded answer once its steps were compared; a Refusal names what doesn't fit."""
        return self.note(await self.following.ask(endpoint, question, attempt=attempt, accept=accept))
