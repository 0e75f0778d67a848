"""Asking: one question, one answer, however often it is asked; each physical call is reserved before, settled after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from commands.perform.calling import Call, Calling, Flight, Job, Retrying, Run, ServedModelDiffers, Settlement, failed
from commands.perform.outcome import Answered, Failed, Perform
from ledger import estimates, questions
from ledger.event import BlobRef, Blobs, Step
from ledger.families import calls
from ledger.families.calls import CallAnswered, CallFailed
from ledger.families.providers import Endpoint
from ledger.money import NanoUSD
from ledger.prompt import Question, Reply, Usage
from ledger.replies import UnreadableReply, read_reply, served_as_pinned

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.recorded import Recorded

__all__ = ["Accept", "Answer", "Asking", "Retrying", "Run", "Spend"]

JSON = "application/json"


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
    """Asks for one run of a command; what is recorded is never asked again.

    The journal must have been opened with the families of ``ledger.families.calls``.
    """

    def __init__(
        self,
        journal: Journal,
        perform: Perform,
        run: Run,
        *,
        concurrency: int = 16,
        retrying: Retrying | None = None,
    ) -> None:
        self.journal = journal
        self.perform = perform
        self.run = run
        self._calling = Calling(journal, perform, run, concurrency=concurrency, retrying=retrying)
        self._flights: dict[str, Flight] = {}

    async def ask(
        self, endpoint: Endpoint, question: Question, *, attempt: int = 0, accept: Accept | None = None
    ) -> Answer:
        """Return the recorded answer, or ask for it and record it together with the steps that ``accept`` returns.

        A Refusal when there is no answer: the ceiling is reached, the price unknown, the provider silent, the model
        another one than pinned. Whatever was paid for is recorded, also when the steps of ``accept`` are refused.
        """
        question = self._redacted(question)
        place = f"{question.digest}:{attempt}"
        shared = self._flights.get(place)
        if shared is None:
            recorded = self.journal.find(CallAnswered, place)
            if recorded is None:
                return await self._asked(endpoint, question, attempt, accept)
        else:
            shared.waiters += 1
            recorded = await self._shared(shared, place)
        return await self._accepted(self._answer(recorded, question), accept)

    async def _shared(self, flight: Flight, place: str) -> Recorded:
        """Return the answer to a call that others wait for too; what refused their steps doesn't concern this one."""
        try:
            return await self._landed(flight)
        except Exception:
            recorded = self.journal.find(CallAnswered, place)
            if recorded is None:
                raise
            return recorded

    async def embed(self, endpoint: Endpoint, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of int8 for each text, scaled so that its largest component is 127 in size."""
        from commands.perform.embedding import embed  # noqa: PLC0415 - numpy is loaded by those who embed

        return await embed(self, endpoint, texts)

    def spend(self) -> Spend:
        """Return what this run has spent, in this process and earlier ones."""
        totals = self.journal.state(calls.FAMILY).totals(self.run.id)
        return Spend(totals.settled, totals.ambiguous, totals.calls, totals.failed + totals.lost)

    async def fly(self, job: Job) -> Recorded:
        """Return the recorded answer to a job, sharing the call with whoever asks the same at this time."""
        flight = self._flights.get(job.place)
        if flight is None:
            flight = self._flights[job.place] = Flight()
            flight.task = asyncio.create_task(self._calling.answer(job, flight))
            flight.task.add_done_callback(lambda _: self._flights.pop(job.place, None))
        else:
            flight.waiters += 1
        return await self._landed(flight)

    async def _landed(self, flight: Flight) -> Recorded:
        """Wait for a shared call. The last one to stop waiting stops the call, and waits until it is settled."""
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                flight.abort()
                await asyncio.wait([flight.task])
            raise

    async def _asked(self, endpoint: Endpoint, question: Question, attempt: int, accept: Accept | None) -> Answer:
        fresh: list[Answer] = []

        def read(call: Call, outcome: Answered) -> Settlement:
            return self._read(endpoint, question, call, outcome, _Taker(accept, fresh))

        blobs = Blobs()
        job = Job(
            endpoint=endpoint,
            question=question,
            attempt=attempt,
            worst_case=worst_case(endpoint, question) if self.perform.asks else 0,
            asked=blobs.put(question.body, JSON),
            blobs=blobs,
            read=read,
        )
        if not self.perform.asks:
            await self.perform(endpoint, question)  # raises: replaying has no answer that the journal hasn't
        recorded = await self.fly(job)
        if fresh and fresh[0].recorded_ref == _reply_of(recorded):
            return msgspec.structs.replace(fresh[0], seq=recorded.seq)
        return await self._accepted(self._answer(recorded, question), accept)

    def _read(self, endpoint: Endpoint, question: Question, call: Call, outcome: Answered, taker: _Taker) -> Settlement:
        """Say what the bytes mean, without the values of credentials, which a model may have been shown."""
        raw, redactions = self.perform.redactor.data(outcome.body)
        reply, problem = _reply(questions.api_of(question), raw)
        cost = estimates.actual_cost(endpoint.capabilities, reply.usage if reply else Usage())
        served = reply.served_model if reply else None
        if reply is not None and not served_as_pinned(endpoint, served):
            return mismatch(endpoint, call, served, cost)
        blobs = Blobs()
        end = CallAnswered(
            question=call.question,
            attempt=call.attempt,
            dispatch=call.dispatch,
            run=call.run,
            reply=blobs.put(raw, JSON),
            usage=reply.usage if reply else Usage(),
            cost=cost,
            served_model=served,
            latency_us=outcome.latency_us,
            problem=problem,
            replayable=not redactions,
        )
        answer = _made(question, end, raw, reply, 0)
        try:
            steps = taker.take(answer, blobs)
        except Exception as error:  # noqa: BLE001 - the answer is paid for: it is recorded, then this is raised
            return Settlement(end, (), blobs, error)
        return Settlement(end, steps, blobs)

    async def _accepted(self, answer: Answer, accept: Accept | None) -> Answer:
        if accept is not None:
            blobs = Blobs()
            steps = tuple(accept(answer, blobs))
            if steps:
                await self.journal.record(*steps, blobs=blobs)
        return answer

    def _answer(self, recorded: Recorded, question: Question) -> Answer:
        event = recorded.event
        if not isinstance(event, CallAnswered) or event.reply is None:
            raise AssertionError(recorded)
        if recorded.seq > self.journal.position()[0]:  # another process has it: what came with it is read next
            self.journal.refresh()
        raw = self.journal.blob(event.reply.blob)
        reply, _ = _reply(questions.api_of(question), raw)
        return _made(question, event, raw, reply, recorded.seq)

    def _redacted(self, question: Question) -> Question:
        body, count = self.perform.redactor.data(question.body)
        return questions.restored(body) if count else question


class _Taker:
    """Hands a fresh answer to whoever asked first, and remembers it."""

    def __init__(self, accept: Accept | None, fresh: list[Answer]) -> None:
        self._accept = accept
        self._fresh = fresh

    def take(self, answer: Answer, blobs: Blobs) -> tuple[Step, ...]:
        """Return the steps that are recorded together with the answer."""
        self._fresh[:] = [answer]
        return tuple(self._accept(answer, blobs)) if self._accept else ()


def worst_case(endpoint: Endpoint, question: Question) -> NanoUSD | None:
    """Return the most that one call with this question may cost; None when a price or the output limit is unknown."""
    limit = questions.output_limit(questions.asked(question.body)) or endpoint.capabilities.maximum_output_tokens
    if limit is None:
        return 0 if estimates.is_free(endpoint.capabilities) else None
    return estimates.worst_case(endpoint, len(question.body), limit)


def mismatch(endpoint: Endpoint, call: Call, served: str | None, cost: NanoUSD | None) -> Settlement:
    """Return the settlement of a call that another model answered: a failure, paid for."""
    pinned = endpoint.model.served_model_id or endpoint.model.model
    end = failed(call, Failed("served-model-differs", message=served or ""))
    return Settlement(paid(end, cost), raises=ServedModelDiffers(endpoint.alias, pinned, served))


def unusable(call: Call, reason: str, cost: NanoUSD | None) -> Settlement:
    """Return the settlement of a call whose answer is of no use to anybody: a failure, paid for, and tried again."""
    return Settlement(paid(failed(call, Failed(reason)), cost))


def paid(end: CallFailed, cost: NanoUSD | None) -> CallFailed:
    """Return the event of a failure that brought an answer, with what that cost."""
    return msgspec.structs.replace(end, cost=cost)


def _reply(api: str, raw: bytes) -> tuple[Reply | None, str | None]:
    try:
        return read_reply(api, raw), None
    except UnreadableReply as unreadable:
        return None, unreadable.reason


def _reply_of(recorded: Recorded) -> BlobRef | None:
    event = recorded.event
    return event.reply if isinstance(event, CallAnswered) else None


def _made(question: Question, event: CallAnswered, raw: bytes, reply: Reply | None, seq: int) -> Answer:
    if event.reply is None:
        raise AssertionError
    return Answer(
        question=question,
        attempt=event.attempt,
        raw=raw,
        reply=reply,
        problem=event.problem,
        cost=event.cost,
        seq=seq,
        recorded_ref=event.reply,
        replayable=event.replayable,
    )
