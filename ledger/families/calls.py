"""Calls: money set aside for each physical call, and how the call ended.

A call is reserved at its worst case before it leaves, and ends as answered, failed, released (it never left) or lost
(its process is gone). What nobody knows the cost of stays counted at its worst case and is shown as ambiguous. State
holds sums a run and the calls that are open, never a map of all questions.
"""

from __future__ import annotations

import msgspec

from ledger.errors import Refusal
from ledger.event import BlobRef, Command, Event, Fact, Family, Found, event
from ledger.money import NanoUSD, usd
from ledger.prompt import Usage


class BudgetWouldBeExceeded(Refusal, name="budget-would-be-exceeded", exit_code=21):
    """The worst case of the next call doesn't fit under the ceiling."""

    def __init__(self, ceiling: NanoUSD, committed: NanoUSD, worst_case: NanoUSD, owed: NanoUSD = 0) -> None:
        suffices = max(committed + worst_case, owed)
        super().__init__(
            f"the next call may cost {usd(worst_case, 6)}, {usd(committed, 6)} of {usd(ceiling)} is spent or set aside",
            where="the cost ceiling of this command; what was answered is recorded",
            remedy=f"run the same command with a ceiling of at least {usd(suffices)} "
            f"(`exp config budget {usd(suffices).removeprefix('$')}` and the command's own cost flag)",
        )
        self.ceiling = ceiling
        self.committed = committed
        self.worst_case = worst_case


class PriceUnknown(Refusal, name="price-unknown", exit_code=26):
    """A call under a ceiling to a model whose price isn't configured."""

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"the price of model {alias} is unknown, so no ceiling can hold; nothing was called",
            where="its capabilities, as recorded by `exp config providers`",
            remedy='configure "input_cost_per_million_tokens_usd" and "output_cost_per_million_tokens_usd" '
            "with --replace (0 means self-hosted)",
        )


class CallInFlight(Refusal, name="call-in-flight", exit_code=54):
    """The same question is being asked already."""

    def __init__(self, process: str, dispatch: int) -> None:
        super().__init__(
            "the same question is being asked by another process",
            where=f"process {process}",
            remedy="wait for it, or run the command again",
        )
        self.process = process
        self.dispatch = dispatch


class CallEvent(Event):
    """Something about one physical call: its question, which answer to it, which try."""

    question: str
    attempt: int
    dispatch: int
    run: str

    @property
    def stream(self) -> str:
        """One stream a question."""
        return f"call:{self.question[3:35]}"

    @property
    def key(self) -> str | None:
        """One end a call."""
        return f"{self.question}:{self.attempt}:{self.dispatch}"


@event("call-reserved@1")
class CallReserved(CallEvent):
    """Money set aside before a call leaves. ``asked`` is the question; ``process`` holds a lock while it lives."""

    alias: str
    worst_case: NanoUSD | None
    process: str
    asked: BlobRef


@event("call-answered@1")
class CallAnswered(CallEvent):
    """An answer, and what it cost: None when the provider didn't say. ``problem`` says why it can't be read, if so."""

    reply: BlobRef | None
    usage: Usage
    cost: NanoUSD | None
    served_model: str | None
    latency_us: int
    problem: str | None = None
    replayable: bool = True

    @property
    def key(self) -> str | None:
        """One answer an attempt, whichever try brought it."""
        return f"{self.question}:{self.attempt}"


@event("call-failed@1")
class CallFailed(CallEvent):
    """A call without an answer that can be used. ``cost`` is None when it may have been charged for."""

    reason: str
    status: int | None
    sent: bool
    cost: NanoUSD | None
    message: str = ""


@event("call-released@1")
class CallReleased(CallEvent):
    """A call that never left."""


@event("call-lost@1")
class CallLost(CallEvent):
    """A call whose process is gone: whether it left, and what it cost, nobody knows."""

    process: str


class Totals(msgspec.Struct):
    """Sums of a run. ``settled`` is known, ``ambiguous`` is the worst case of what isn't, ``reserved`` is in flight."""

    settled: NanoUSD = 0
    ambiguous: NanoUSD = 0
    reserved: NanoUSD = 0
    calls: int = 0
    answered: int = 0
    failed: int = 0
    lost: int = 0
    unpriced: int = 0

    @property
    def committed(self) -> NanoUSD:
        """All that may have been spent, or may yet be, by calls made so far."""
        return self.settled + self.ambiguous + self.reserved


class Calls(msgspec.Struct):
    """Calls that are open, by question and attempt; tries that brought no answer yet; sums a run."""

    runs: dict[str, Totals] = msgspec.field(default_factory=dict)
    open: dict[str, CallReserved] = msgspec.field(default_factory=dict)
    tries: dict[str, int] = msgspec.field(default_factory=dict)

    def totals(self, run: str) -> Totals:
        """Return the sums of a run."""
        return self.runs.get(run) or Totals()


class ReserveCall(Command):
    """Set money aside for one physical call."""

    question: str
    attempt: int
    run: str
    ceiling: NanoUSD | None
    alias: str
    worst_case: NanoUSD | None
    process: str
    asked: BlobRef

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """An answer that is there already needs no call."""
        return ((CallAnswered.kind, f"{self.question}:{self.attempt}"),)


class SettleCall(Command):
    """Say how a call ended: ``end`` is the event."""

    end: CallAnswered | CallFailed | CallReleased | CallLost

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """An attempt is answered once."""
        return ((CallAnswered.kind, f"{self.end.question}:{self.end.attempt}"),)


def decide(command: ReserveCall | SettleCall, state: Calls, found: Found) -> tuple[Event, ...]:
    """Return the reservation or the settlement; nothing when it is there already."""
    if isinstance(command, ReserveCall):
        return _reserve(command, state, found)
    end = command.end
    place = f"{end.question}:{end.attempt}"
    reserved = state.open.get(place)
    mine = reserved is not None and reserved.dispatch == end.dispatch
    if isinstance(end, CallAnswered) and found(CallAnswered.kind, place) is None:
        return (end,)  # paid for, so it is kept even if its process was taken for dead
    return (end,) if mine else ()


def _reserve(command: ReserveCall, state: Calls, found: Found) -> tuple[Event, ...]:
    place = f"{command.question}:{command.attempt}"
    if found(CallAnswered.kind, place) is not None:
        return ()
    reserved = state.open.get(place)
    if reserved is not None:
        raise CallInFlight(reserved.process, reserved.dispatch)
    if command.ceiling is not None:
        if command.worst_case is None:
            raise PriceUnknown(command.alias)
        committed = state.totals(command.run).committed
        if committed + command.worst_case > command.ceiling:
            raise BudgetWouldBeExceeded(command.ceiling, committed, command.worst_case)
    return (
        CallReserved(
            question=command.question,
            attempt=command.attempt,
            dispatch=state.tries.get(place, 0),
            run=command.run,
            alias=command.alias,
            worst_case=command.worst_case,
            process=command.process,
            asked=command.asked,
        ),
    )


def evolve(state: Calls, event: Event) -> Calls:
    """Fold one event."""
    if not isinstance(event, CallEvent):
        return state
    place = f"{event.question}:{event.attempt}"
    totals = state.runs.get(event.run)
    if totals is None:
        totals = state.runs[event.run] = Totals()
    if isinstance(event, CallReserved):
        state.open[place] = event
        totals.reserved += event.worst_case or 0
        totals.calls += 1
        return state
    reserved = state.open.get(place)
    worst = 0
    if reserved is not None and reserved.dispatch == event.dispatch:
        del state.open[place]
        worst = reserved.worst_case or 0
        totals.reserved -= worst
    _settle(totals, event, worst)
    if isinstance(event, CallAnswered):
        state.tries.pop(place, None)
    else:
        state.tries[place] = max(state.tries.get(place, 0), event.dispatch + 1)
    return state


def _settle(totals: Totals, event: CallEvent, worst: NanoUSD) -> None:
    if isinstance(event, CallReleased):
        totals.calls -= 1
        return
    if isinstance(event, CallLost):
        totals.lost += 1
        totals.ambiguous += worst
        return
    if isinstance(event, CallFailed):
        totals.failed += 1
    else:
        totals.answered += 1
    cost = getattr(event, "cost", None)
    if cost is None:
        totals.ambiguous += worst
        totals.unpriced += 1
    else:
        totals.settled += cost


class Vector(Fact):
    """A text's vector: the digest of its question, and int8 components scaled so that the largest is 127 in size."""

    question: str
    vector: BlobRef
    dimensions: int


@event("text-embedded@1")
class TextEmbedded(Event):
    """A text's vector. Texts are asked about in batches; ``call`` is the question that carried this one."""

    embedded: Vector
    attempt: int
    call: str

    @property
    def stream(self) -> str:
        """One stream a call."""
        return f"call:{self.call[3:35]}"

    @property
    def key(self) -> str | None:
        """One vector an attempt."""
        return f"{self.embedded.question}:{self.attempt}"


class RecordVectors(Command):
    """Record the vectors that a call brought, but for texts that have one."""

    vectors: tuple[Vector, ...]
    attempt: int
    call: str

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """A text is embedded once."""
        return tuple((TextEmbedded.kind, f"{vector.question}:{self.attempt}") for vector in self.vectors)


def decide_vectors(command: RecordVectors, state: None, found: Found) -> tuple[Event, ...]:
    """Return the vectors that are new."""
    del state
    return tuple(
        TextEmbedded(embedded=vector, attempt=command.attempt, call=command.call)
        for vector in command.vectors
        if found(TextEmbedded.kind, f"{vector.question}:{command.attempt}") is None
    )


def _unchanged(state: None, event: Event) -> None:
    """Vectors are looked up by key; nothing is folded."""
    del state, event


FAMILY = Family(
    name="calls",
    kinds=(CallReserved, CallAnswered, CallFailed, CallReleased, CallLost),
    initial=Calls,
    decide=decide,
    evolve=evolve,
)
VECTORS = Family(name="vectors", kinds=(TextEmbedded,), initial=lambda: None, decide=decide_vectors, evolve=_unchanged)
