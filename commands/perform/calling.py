"""Calling: one physical call after another until a question is answered, each reserved before and settled after.

A call waits for a slot, then for money; while it waits for money, or for another process that asks the same, it holds
no slot. Whoever reserved settles, also when cancelled: only the waits for the provider, for money and for the next try
are interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

import msgspec

from commands.perform.outcome import Answered, Failed, Perform
from ledger import locks
from ledger.errors import Refusal
from ledger.event import BlobRef, Blobs, Step
from ledger.families import calls
from ledger.families.calls import BudgetWouldBeExceeded, CallAnswered, CallFailed, CallInFlight, CallLost, CallReleased
from ledger.families.providers import Endpoint
from ledger.money import NanoUSD
from ledger.prompt import Question

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.recorded import Recorded

POLL_SECONDS = 0.005
POLLS_A_PROBE = 20
BUSY = frozenset({429, 503, 529})


class CallWithoutAnswer(Refusal, name="call-without-answer", exit_code=50):
    """A provider gave no answer that can be used, however often it was asked; what it was asked for stays owed."""

    def __init__(self, alias: str, failure: Failed, tries: int) -> None:
        said = f": {failure.message}" if failure.message else ""
        super().__init__(
            f"model {alias} gave no answer in {tries} tr{'y' if tries == 1 else 'ies'} ({failure.reason}){said}",
            where=f"the call to {alias}; what was answered before is recorded",
            remedy="see that its provider is reachable and accepts the request, then run the same command again",
        )
        self.failure = failure


class ServedModelDiffers(Refusal, name="served-model-differs", exit_code=53):
    """Another model answered than the one that is configured."""

    def __init__(self, alias: str, pinned: str, served: str | None) -> None:
        super().__init__(
            f"model {alias} is pinned to {pinned} and {served or 'an unnamed model'} answered",
            where=f"the replies of {alias}",
            remedy='configure the name that its provider reports as "served_model_id" with --replace, '
            "if that is the model you want",
        )


class Run(msgspec.Struct, frozen=True):
    """One execution of a command that asks: named by the digest of its frozen inputs, under a ceiling or none.

    ``plan`` is the worst case of the whole, named by the refusal when the ceiling is reached.
    """

    id: str
    ceiling: NanoUSD | None
    purpose: str
    plan: NanoUSD | None = None


class Retrying(msgspec.Struct, frozen=True):
    """How often a call without an answer is tried, and how long is waited between: doubling, up to a most.

    A provider that says it is busy is tried more often, since that passes.
    """

    tries: int = 4
    busy_tries: int = 6
    first_seconds: float = 0.5
    most_seconds: float = 30.0
    most_asked_for_seconds: float = 120.0

    def gives_up(self, tried: int, failure: Failed) -> bool:
        """Tell whether that was the last try."""
        most = max(self.tries, self.busy_tries) if failure.status in BUSY else self.tries
        return not failure.again or tried >= most

    def wait(self, tried: int, asked_for: float | None) -> float:
        """Return the seconds before the next try: half to all of the doubled wait, or what the provider asked for."""
        doubled = min(self.first_seconds * 2.0 ** (tried - 1), self.most_seconds)
        jittered = doubled * (0.5 + random.random() / 2)  # noqa: S311 - spreads retries, hides nothing
        return jittered if asked_for is None else max(jittered, min(asked_for, self.most_asked_for_seconds))


class Call(msgspec.Struct, frozen=True):
    """A physical call, reserved."""

    question: str
    attempt: int
    dispatch: int
    run: str


class Settlement(msgspec.Struct, frozen=True):
    """What a provider's bytes mean: how the call ended, the steps recorded with that, and what is raised after."""

    end: CallAnswered | CallFailed
    steps: Sequence[Step] = ()
    blobs: Blobs | None = None
    raises: Exception | None = None


class Job(msgspec.Struct, frozen=True):
    """A question to be answered. ``read`` says what the answer's bytes mean."""

    endpoint: Endpoint
    question: Question
    attempt: int
    worst_case: NanoUSD | None
    asked: BlobRef
    blobs: Blobs
    read: Callable[[Call, Answered], Settlement]

    @property
    def place(self) -> str:
        """The key of the answer."""
        return f"{self.question.digest}:{self.attempt}"


class Flight:
    """A job on its way, and how many wait for it."""

    __slots__ = ("aborted", "interruptible", "task", "waiters")

    def __init__(self) -> None:
        self.task: asyncio.Task[Recorded]
        self.waiters = 1
        self.interruptible = False
        self.aborted = False

    def abort(self) -> None:
        """Stop as soon as nothing is left unsettled."""
        self.aborted = True
        if self.interruptible:
            self.task.cancel()


class Calling:
    """Makes the calls of one run."""

    def __init__(
        self, journal: Journal, perform: Perform, run: Run, *, concurrency: int, retrying: Retrying | None = None
    ) -> None:
        self._journal = journal
        self._perform = perform
        self._run = run
        self._retrying = retrying or Retrying()
        self._slots = asyncio.Semaphore(concurrency)
        self._in_flight = 0
        self._settled = asyncio.Event()
        self._recovered = False

    async def answer(self, job: Job, flight: Flight) -> Recorded:
        """Return the recorded answer; CallWithoutAnswer when no try brought one."""
        tried = 0
        while True:
            if not self._recovered:
                await self._recover()
            outcome = await self._try(job, flight)
            if not isinstance(outcome, Failed):
                return outcome
            tried += 1
            if self._retrying.gives_up(tried, outcome):
                raise CallWithoutAnswer(job.endpoint.alias, outcome, tried)
            await self._interruptibly(flight, asyncio.sleep(self._retrying.wait(tried, outcome.retry_after)))

    async def _try(self, job: Job, flight: Flight) -> Recorded | Failed:
        """Make one physical call, once there is a slot and money for it."""
        while True:
            async with self._slot(flight):
                try:
                    call = await self._reserve(job)
                except (CallInFlight, BudgetWouldBeExceeded) as refusal:
                    obstacle = refusal
                else:
                    if call is not None:
                        return await self._dispatched(job, call, flight)
                    answered = self._journal.find(CallAnswered, job.place)
                    if answered is not None:
                        return answered
                    continue
            if isinstance(obstacle, CallInFlight):
                await self._interruptibly(flight, self._wait_elsewhere(job.place))
            else:
                await self._interruptibly(flight, self._wait_for_money(obstacle))

    @contextlib.asynccontextmanager
    async def _slot(self, flight: Flight) -> AsyncIterator[None]:
        """Hold one of the slots; whoever is told to stop while waiting for one stops there."""
        await self._interruptibly(flight, self._slots.acquire())
        try:
            if flight.aborted:
                raise asyncio.CancelledError
            yield
        finally:
            self._slots.release()

    async def _interruptibly(self, flight: Flight, waiting: Coroutine[object, object, object]) -> None:
        flight.interruptible = True
        try:
            if flight.aborted:
                waiting.close()
                raise asyncio.CancelledError
            await waiting
        finally:
            flight.interruptible = False

    def _refuse_early(self, job: Job) -> None:
        """Refuse what can't fit while own calls are in flight, so that a waiting crowd leaves the journal alone."""
        ceiling, worst = self._run.ceiling, job.worst_case
        if ceiling is None or worst is None or not self._in_flight:
            return
        committed = self._journal.state(calls.FAMILY).totals(self._run.id).committed
        if committed + worst > ceiling:
            raise BudgetWouldBeExceeded(ceiling, committed, worst)

    async def _reserve(self, job: Job) -> Call | None:
        """Set the worst case aside; None when another process has the answer by now."""
        self._refuse_early(job)
        command = calls.ReserveCall(
            question=job.question.digest,
            attempt=job.attempt,
            run=self._run.id,
            ceiling=self._run.ceiling,
            alias=job.endpoint.alias,
            worst_case=job.worst_case,
            process=self._journal.process,
            asked=job.asked,
        )
        recorded = await self._journal.record(Step(calls.FAMILY, command), blobs=job.blobs)
        if not recorded:
            return None
        dispatch = int((recorded[0].key or "").rpartition(":")[2])
        return Call(job.question.digest, job.attempt, dispatch, self._run.id)

    async def _dispatched(self, job: Job, call: Call, flight: Flight) -> Recorded | Failed:
        self._in_flight += 1
        try:
            outcome = await self._performed(job, call, flight)
            if isinstance(outcome, Failed):
                await self._settle(failed(call, outcome))
                return outcome
            settlement = job.read(call, outcome)
            recorded = await self._recorded(call, settlement)
            if settlement.raises is not None:
                raise settlement.raises
            if isinstance(settlement.end, CallFailed):
                return Failed(settlement.end.reason, settlement.end.status, settlement.end.message)
            return recorded[0]
        finally:
            self._in_flight -= 1
            self._settled.set()
            self._settled = asyncio.Event()

    async def _performed(self, job: Job, call: Call, flight: Flight) -> Answered | Failed:
        if flight.aborted:
            await self._settle(released(call))
            raise asyncio.CancelledError
        flight.interruptible = True
        try:
            return await self._perform(job.endpoint, job.question)
        except Refusal:
            flight.interruptible = False
            await self._settle(released(call))
            raise
        except asyncio.CancelledError:
            flight.interruptible = False
            await self._settle(failed(call, Failed("interrupted", charged=True)))
            raise
        except BaseException as bug:
            flight.interruptible = False
            await self._settle(failed(call, Failed(f"broken: {type(bug).__name__}", charged=True)))
            raise
        finally:
            flight.interruptible = False

    async def _settle(self, end: CallFailed | CallReleased | CallLost) -> None:
        await self._journal.record(Step(calls.FAMILY, calls.SettleCall(end=end)))

    async def _recorded(self, call: Call, settlement: Settlement) -> tuple[Recorded, ...]:
        """Record how the call ended with the steps that follow from it; the answer alone when those are refused."""
        end = Step(calls.FAMILY, calls.SettleCall(end=settlement.end))
        try:
            recorded = await self._journal.record(end, *settlement.steps, blobs=settlement.blobs)
        except Refusal:
            if settlement.steps:
                await self._journal.record(end, blobs=settlement.blobs)
            raise
        if not recorded or recorded[0].kind != settlement.end.kind:
            answered = self._journal.find(CallAnswered, f"{call.question}:{call.attempt}")
            return recorded if answered is None else (answered,)
        return recorded

    async def _recover(self) -> None:
        """Mark the calls of processes that are gone as lost, so that what they set aside is known for what it is."""
        self._recovered = True
        journal = self._journal
        journal.refresh()
        state: calls.Calls = journal.state(calls.FAMILY)
        others = {reserved.process for reserved in state.open.values()} - {journal.process}
        gone = {process for process in others if locks.is_free(journal.path.parent, process)}
        for reserved in list(state.open.values()):
            if reserved.process in gone:
                await self._lose(reserved)

    async def _lose(self, reserved: calls.CallReserved) -> None:
        lost = CallLost(
            question=reserved.question,
            attempt=reserved.attempt,
            dispatch=reserved.dispatch,
            run=reserved.run,
            process=reserved.process,
        )
        await self._settle(lost)

    async def _wait_elsewhere(self, place: str) -> None:
        """Wait until another process has settled its call, or is found to be gone."""
        journal = self._journal
        while True:
            journal.refresh()
            reserved = journal.state(calls.FAMILY).open.get(place)
            if reserved is None:
                return
            if reserved.process != journal.process and locks.is_free(journal.path.parent, reserved.process):
                await self._lose(reserved)
                return
            for _ in range(POLLS_A_PROBE):
                await asyncio.sleep(POLL_SECONDS)
                journal.refresh()
                if journal.state(calls.FAMILY).open.get(place) is not reserved:
                    return

    async def _wait_for_money(self, refusal: BudgetWouldBeExceeded) -> None:
        """Wait until a call of this run is settled; refuse when none is in flight."""
        if self._in_flight:
            await self._settled.wait()
            return
        self._journal.refresh()
        state: calls.Calls = self._journal.state(calls.FAMILY)
        for place, reserved in state.open.items():
            if reserved.run == self._run.id:
                await self._wait_elsewhere(place)
                return
        if state.totals(self._run.id).committed < refusal.committed:
            return
        raise BudgetWouldBeExceeded(refusal.ceiling, refusal.committed, refusal.worst_case, self._run.plan or 0)


def failed(call: Call, outcome: Failed) -> CallFailed:
    """Return the event for a call without an answer. What may have been charged for has no known cost."""
    return CallFailed(
        question=call.question,
        attempt=call.attempt,
        dispatch=call.dispatch,
        run=call.run,
        reason=outcome.reason,
        status=outcome.status,
        sent=outcome.sent,
        cost=None if outcome.charged else 0,
        message=outcome.message,
    )


def released(call: Call) -> CallReleased:
    """Return the event for a call that never left."""
    return CallReleased(question=call.question, attempt=call.attempt, dispatch=call.dispatch, run=call.run)
