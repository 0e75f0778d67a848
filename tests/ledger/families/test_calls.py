from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger.errors import Refusal
from ledger.event import BlobRef, Event
from ledger.families import calls
from ledger.families.calls import (
    BudgetWouldBeExceeded,
    CallAnswered,
    CallFailed,
    CallInFlight,
    CallLost,
    CallReleased,
    CallReserved,
    Calls,
    PriceUnknown,
    RecordVectors,
    ReserveCall,
    SettleCall,
    TextEmbedded,
    Totals,
    Vector,
)
from ledger.prompt import Usage

BLOB = BlobRef(blob="b3:" + "0" * 64, size=1, media="text/plain")
RUNS = ("run-a", "run-b")
CEILINGS = {"run-a": 1_000, "run-b": None}


def nothing(kind: str, key: str) -> Event | None:
    return None


def reserve(
    question: str = "b3:q", run: str = "run-a", worst: int | None = 400, ceiling: int | None = 1_000
) -> ReserveCall:
    return ReserveCall(
        question=question,
        attempt=0,
        run=run,
        ceiling=ceiling,
        alias="m",
        worst_case=worst,
        process="p",
        asked=BLOB,
    )


def answered(call: CallReserved, cost: int | None) -> CallAnswered:
    return CallAnswered(
        question=call.question,
        attempt=call.attempt,
        dispatch=call.dispatch,
        run=call.run,
        reply=BLOB,
        usage=Usage(),
        cost=cost,
        served_model="m",
        latency_us=1,
    )


def failed(call: CallReserved, cost: int | None) -> CallFailed:
    return CallFailed(
        question=call.question,
        attempt=call.attempt,
        dispatch=call.dispatch,
        run=call.run,
        reason="r",
        status=None,
        sent=True,
        cost=cost,
    )


def released(call: CallReserved) -> CallReleased:
    return CallReleased(question=call.question, attempt=call.attempt, dispatch=call.dispatch, run=call.run)


def lost(call: CallReserved) -> CallLost:
    return CallLost(question=call.question, attempt=call.attempt, dispatch=call.dispatch, run=call.run, process="p")


def folded(*events: Event) -> Calls:
    state = Calls()
    for event in events:
        state = calls.evolve(state, event)
    return state


def reservation(state: Calls, command: ReserveCall) -> CallReserved:
    (event,) = calls.decide(command, state, nothing)
    assert isinstance(event, CallReserved)
    return event


def test_a_question_in_flight_is_not_asked_by_anybody_else() -> None:
    event = reservation(Calls(), reserve())
    with pytest.raises(CallInFlight) as refused:
        calls.decide(reserve(run="run-b"), folded(event), nothing)
    assert refused.value.process == "p"


def test_an_answered_question_needs_no_reservation_and_no_second_answer() -> None:
    event = reservation(Calls(), reserve())
    answer = answered(event, 5)
    state = folded(event, answer)
    assert calls.decide(reserve(), state, lambda kind, key: answer) == ()
    assert calls.decide(SettleCall(end=answer), state, lambda kind, key: answer) == ()
    assert reserve().looks_up == SettleCall(end=answer).looks_up == ((CallAnswered.kind, answer.key or ""),)


def test_the_ceiling_holds_to_the_last_nano_dollar() -> None:
    first = reservation(Calls(), reserve(worst=600))
    state = folded(first)
    assert reservation(state, reserve("b3:r", worst=400)).worst_case == 400
    with pytest.raises(BudgetWouldBeExceeded) as refused:
        calls.decide(reserve("b3:r", worst=401), state, nothing)
    assert (refused.value.committed, refused.value.worst_case) == (600, 401)


def test_an_unknown_price_is_refused_under_a_ceiling_only() -> None:
    with pytest.raises(PriceUnknown):
        calls.decide(reserve(worst=None), Calls(), nothing)
    assert reservation(Calls(), reserve(worst=None, ceiling=None)).worst_case is None


def test_a_lost_call_stays_counted_and_the_next_is_a_new_dispatch() -> None:
    first = reservation(Calls(), reserve())
    state = folded(first, lost(first))
    assert state.totals("run-a") == Totals(ambiguous=400, calls=1, lost=1)
    again = reservation(state, reserve())
    assert again.dispatch == 1
    assert again.key == "b3:q:0:1"


def test_a_released_call_was_never_made() -> None:
    first = reservation(Calls(), reserve())
    assert folded(first, released(first)).totals("run-a") == Totals()


def test_an_answer_of_a_process_taken_for_dead_is_kept() -> None:
    first = reservation(Calls(), reserve())
    state = folded(first, lost(first))
    (late,) = calls.decide(SettleCall(end=answered(first, 7)), state, nothing)
    after = calls.evolve(state, late)
    assert after.totals("run-a") == Totals(settled=7, ambiguous=400, calls=1, answered=1, lost=1)
    assert after.tries == {}


def test_settling_twice_records_once() -> None:
    first = reservation(Calls(), reserve())
    state = folded(first, failed(first, 0))
    for end in (failed(first, 0), lost(first), released(first)):
        assert calls.decide(SettleCall(end=end), state, nothing) == ()


def test_vectors_are_recorded_once_a_text() -> None:
    vectors = tuple(Vector(question=name, vector=BLOB, dimensions=1) for name in ("b3:x", "b3:y"))
    command = RecordVectors(vectors=vectors, attempt=0, call="b3:c")
    assert command.looks_up == ((TextEmbedded.kind, "b3:x:0"), (TextEmbedded.kind, "b3:y:0"))
    both = calls.decide_vectors(command, None, nothing)
    assert [event.key for event in both] == ["b3:x:0", "b3:y:0"]
    known = both[0]
    assert calls.decide_vectors(command, None, lambda kind, key: known if key == "b3:x:0" else None) == both[1:]
    assert calls.VECTORS.evolve(calls.VECTORS.initial(), known) is None


def test_other_events_change_nothing() -> None:
    vector = Vector(question="b3:x", vector=BLOB, dimensions=1)
    assert calls.evolve(Calls(), TextEmbedded(embedded=vector, attempt=0, call="b3:c")) == Calls()


class Money(RuleBasedStateMachine):
    """Any interleaving of reservations and their ends, by several processes and runs."""

    @initialize()
    def start(self) -> None:
        self.state = Calls()
        self.answers: dict[str, Event] = {}
        self.events: list[Event] = []

    def found(self, kind: str, key: str) -> Event | None:
        return self.answers.get(key)

    def submit(self, command: ReserveCall | SettleCall) -> None:
        try:
            events = calls.decide(command, self.state, self.found)
        except Refusal:
            return
        for event in events:
            self.state = calls.evolve(self.state, event)
            self.events.append(event)
            if isinstance(event, CallAnswered) and event.key:
                assert event.key not in self.answers
                self.answers[event.key] = event

    @rule(question=st.sampled_from("abcdef"), run=st.sampled_from(RUNS), worst=st.integers(0, 500))
    def ask(self, question: str, run: str, worst: int) -> None:
        self.submit(reserve(question, run, worst, CEILINGS[run]))

    @precondition(lambda self: self.state.open)
    @rule(data=st.data(), how=st.integers(0, 4))
    def end(self, data: st.DataObject, how: int) -> None:
        place = data.draw(st.sampled_from(sorted(self.state.open)))
        call = self.state.open[place]
        worst = call.worst_case or 0
        cost = data.draw(st.none() | st.integers(0, worst))
        ends = (answered(call, cost), failed(call, cost), failed(call, 0), released(call), lost(call))
        self.submit(SettleCall(end=ends[how]))
        self.submit(SettleCall(end=ends[how]))

    @invariant()
    def no_ceiling_is_passed(self) -> None:
        for run, ceiling in CEILINGS.items():
            assert ceiling is None or self.state.totals(run).committed <= ceiling

    @invariant()
    def sums_are_those_of_what_is_open(self) -> None:
        for run in RUNS:
            open_ = [call for call in self.state.open.values() if call.run == run]
            totals = self.state.totals(run)
            assert totals.reserved == sum(call.worst_case or 0 for call in open_)
            assert totals.calls == totals.answered + totals.failed + totals.lost + len(open_)

    @invariant()
    def folding_again_gives_the_same(self) -> None:
        assert folded(*self.events) == self.state


TestMoney = Money.TestCase


@given(st.permutations(range(4)), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_independent_calls_in_another_order_give_the_same_sums(order: list[int], ends: list[int]) -> None:
    reserved = [reservation(Calls(), reserve(f"b3:{n}", worst=10 * n, ceiling=None)) for n in range(4)]
    of = (lambda c: answered(c, 1), lambda c: answered(c, None), lambda c: failed(c, 2), released, lost)
    pairs = [(call, of[ends[n]](call)) for n, call in enumerate(reserved)]
    one = folded(*itertools.chain.from_iterable(pairs))
    other = folded(*itertools.chain.from_iterable(pairs[n] for n in order))
    assert one.runs == other.runs
    assert one.tries == other.tries


def test_every_event_survives_its_own_encoding() -> None:
    call = reservation(Calls(), reserve())
    for event in (call, answered(call, None), failed(call, 1), released(call), lost(call)):
        assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event
        assert event.stream == "call:q"
