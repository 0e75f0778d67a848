from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from commands.perform.asking import Answer, Asking, Retrying, Run
from commands.perform.calling import CallWithoutAnswer, ServedModelDiffers
from commands.perform.outcome import Answered, Failed, Outcome
from commands.perform.replaying import QuestionNotInJournal, Replaying
from commands.perform.scripted import Scripted
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import calls
from ledger.families.calls import BudgetWouldBeExceeded, CallAnswered, CallFailed, PriceUnknown
from ledger.families.providers import Capabilities, Endpoint
from ledger.journal import Journal
from ledger.money import NANO
from ledger.prompt import Question
from ledger.redaction import Redactor
from tests.commands.perform.journals import asking_about, journal, kinds
from tests.commands.perform.provider import chat_bytes, endpoint

NOW = Retrying(tries=3, busy_tries=5, first_seconds=0.0)
UNLIMITED = Run("run", None, "test")
QUESTION = asking_about("who are you?")


def always(body: bytes) -> Scripted:
    return Scripted(lambda endpoint, question: Answered(body, 7))


def in_turn(*outcomes: Outcome) -> Scripted:
    waiting = list(outcomes)
    return Scripted(lambda endpoint, question: waiting.pop(0))


def totals(opened: Journal, run: str = "run") -> calls.Totals:
    found: calls.Totals = opened.state(calls.FAMILY).totals(run)
    return found


def nothing_open(opened: Journal) -> bool:
    return not opened.state(calls.FAMILY).open and totals(opened).reserved == 0


def test_an_answer_is_asked_for_once_and_then_comes_from_the_journal(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = always(chat_bytes())
        first = asyncio.run(Asking(opened, world, UNLIMITED).ask(endpoint(), QUESTION))
        second = asyncio.run(Asking(opened, world, UNLIMITED).ask(endpoint(), QUESTION))
        assert first == second
        assert first.reply is not None
        assert first.reply.text == "hello"
        assert first.cost == 10_000 + 10_000
        assert len(world.asked) == 1
        assert kinds(opened) == ["call-reserved@1", "call-answered@1"]
        assert opened.blob(first.recorded_ref.blob) == first.raw == chat_bytes()
        assert nothing_open(opened)


def test_another_attempt_is_another_call(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = always(chat_bytes())
        asking = Asking(opened, world, UNLIMITED)

        async def both() -> None:
            await asking.ask(endpoint(), QUESTION)
            await asking.ask(endpoint(), QUESTION, attempt=1)

        asyncio.run(both())
        assert len(world.asked) == 2
        assert asking.spend().calls == 2
        assert asking.spend().retries == 0


def test_equal_questions_in_flight_share_one_call_and_everyone_accepts(tmp_path: Path) -> None:
    accepted: list[int] = []

    def accept(answer: Answer, blobs: Blobs) -> Iterable[Step]:
        accepted.append(answer.attempt)
        return ()

    async def slowly() -> Outcome:
        await asyncio.sleep(0.02)
        return Answered(chat_bytes())

    with journal(tmp_path / "r") as opened:
        world = Scripted(lambda endpoint, question: slowly())
        asking = Asking(opened, world, UNLIMITED)

        async def crowd() -> None:
            await asyncio.gather(*(asking.ask(endpoint(), QUESTION, accept=accept) for _ in range(5)))

        asyncio.run(crowd())
        assert len(world.asked) == 1
        assert accepted == [0] * 5


def test_what_an_answer_means_is_recorded_in_the_same_commit(tmp_path: Path) -> None:
    budget = calls.SettleCall(
        end=CallFailed(question="b3:other", attempt=0, dispatch=0, run="x", reason="r", status=None, sent=False, cost=0)
    )

    def accept(answer: Answer, blobs: Blobs) -> Iterable[Step]:
        return (Step(calls.FAMILY, budget), _vector_step(blobs))

    with journal(tmp_path / "r") as opened:
        asyncio.run(Asking(opened, always(chat_bytes()), UNLIMITED).ask(endpoint(), QUESTION, accept=accept))
        assert kinds(opened) == ["call-reserved@1", "call-answered@1", "text-embedded@1"]
        again = Asking(opened, Replaying(opened), UNLIMITED)
        asyncio.run(again.ask(endpoint(), QUESTION, accept=accept))
        assert len(kinds(opened)) == 3


def _vector_step(blobs: Blobs) -> Step:
    vector = calls.Vector(question="b3:text", vector=blobs.put(b"\x01"), dimensions=1)
    return Step(calls.VECTORS, calls.RecordVectors(vectors=(vector,), attempt=0, call="b3:call"))


class Declined(Refusal, name="declined-for-a-test", exit_code=9_001):
    pass


def test_an_answer_that_was_paid_for_is_kept_when_its_steps_are_refused(tmp_path: Path) -> None:
    def accept(answer: Answer, blobs: Blobs) -> Iterable[Step]:
        message = "no"
        raise Declined(message)

    with journal(tmp_path / "r") as opened:
        world = always(chat_bytes())
        with pytest.raises(Declined):
            asyncio.run(Asking(opened, world, UNLIMITED).ask(endpoint(), QUESTION, accept=accept))
        assert kinds(opened) == ["call-reserved@1", "call-answered@1"]
        assert nothing_open(opened)
        asyncio.run(Asking(opened, world, UNLIMITED).ask(endpoint(), QUESTION))
        assert len(world.asked) == 1


def test_an_answer_that_was_paid_for_is_kept_when_the_journal_refuses_its_steps(tmp_path: Path) -> None:
    def decide(command: object, state: object, found: object) -> tuple[()]:
        message = "no"
        raise Declined(message)

    refusing = calls.VECTORS.__class__("vectors", calls.VECTORS.kinds, lambda: None, decide, calls.VECTORS.evolve)

    def accept(answer: Answer, blobs: Blobs) -> Iterable[Step]:
        return (Step(refusing, calls.RecordVectors(vectors=(), attempt=0, call="x")),)

    with journal(tmp_path / "r") as opened:
        with pytest.raises(Declined):
            asyncio.run(Asking(opened, always(chat_bytes()), UNLIMITED).ask(endpoint(), QUESTION, accept=accept))
        assert kinds(opened) == ["call-reserved@1", "call-answered@1"]
        assert nothing_open(opened)


def test_an_unreadable_reply_is_an_answer_that_says_why(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        answer = asyncio.run(Asking(opened, always(b"<html>"), UNLIMITED).ask(endpoint(), QUESTION))
        assert answer.reply is None
        assert answer.problem == "not JSON"
        assert answer.raw == b"<html>"
        assert totals(opened).ambiguous > 0  # no usage came with it: its cost is unknown, and stays counted


def test_a_call_without_an_answer_is_tried_again_and_every_try_is_recorded(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = in_turn(Failed("status 500", 500), Failed("timed out", charged=True), Answered(chat_bytes()))
        asking = Asking(opened, world, UNLIMITED, retrying=NOW)
        asyncio.run(asking.ask(endpoint(), QUESTION))
        assert kinds(opened) == [
            "call-reserved@1",
            "call-failed@1",
            "call-reserved@1",
            "call-failed@1",
            "call-reserved@1",
            "call-answered@1",
        ]
        dispatches = [record.key.rpartition(":")[2] for record in opened.events(calls.CallReserved) if record.key]
        assert dispatches == ["0", "1", "2"]
        spend = asking.spend()
        assert spend.retries == 2
        assert spend.calls == 3
        assert spend.ambiguous == totals(opened).ambiguous > 0  # the time-out may have been charged for
        assert spend.settled == 20_000


def test_after_the_last_try_the_question_stays_owed_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = Scripted(lambda endpoint, question: Failed("unreachable", sent=False))
        with pytest.raises(CallWithoutAnswer):
            asyncio.run(Asking(opened, world, UNLIMITED, retrying=NOW).ask(endpoint(), QUESTION))
        assert len(world.asked) == 3
        assert nothing_open(opened)
        assert totals(opened).committed == 0
        asyncio.run(Asking(opened, always(chat_bytes()), UNLIMITED).ask(endpoint(), QUESTION))
        last = list(opened.events(calls.CallReserved))[-1].event
        assert isinstance(last, calls.CallReserved)
        assert last.dispatch == 3


def test_a_busy_provider_is_tried_more_often(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = in_turn(*[Failed("status 429", 429)] * 4, Answered(chat_bytes()))
        asyncio.run(Asking(opened, world, UNLIMITED, retrying=NOW).ask(endpoint(), QUESTION))
        assert len(world.asked) == 5


def test_what_is_refused_for_good_is_not_tried_again(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = in_turn(Failed("status 400", 400, again=False))
        with pytest.raises(CallWithoutAnswer):
            asyncio.run(Asking(opened, world, UNLIMITED, retrying=NOW).ask(endpoint(), QUESTION))


def test_another_model_than_the_pinned_one_is_a_failure_that_was_paid_for(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        with pytest.raises(ServedModelDiffers) as refused:
            asyncio.run(Asking(opened, always(chat_bytes(model="other")), UNLIMITED).ask(endpoint(), QUESTION))
        assert "other" in refused.value.what
        assert kinds(opened) == ["call-reserved@1", "call-failed@1"]
        assert totals(opened).settled == 20_000


def test_an_unknown_price_is_refused_under_a_ceiling_and_nothing_is_called(tmp_path: Path) -> None:
    unpriced = endpoint(able=Capabilities(supports_completions=True))
    with journal(tmp_path / "r") as opened:
        world = always(chat_bytes())
        with pytest.raises(PriceUnknown):
            asyncio.run(Asking(opened, world, Run("run", NANO, "test")).ask(unpriced, QUESTION))
        assert world.asked == []
        assert kinds(opened) == []
        asyncio.run(Asking(opened, world, UNLIMITED).ask(unpriced, QUESTION))
        assert len(world.asked) == 1


def test_a_call_that_does_not_fit_is_refused_naming_the_ceiling_that_would_do(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = always(chat_bytes())
        run = Run("run", 1_000, "test", plan=5 * NANO)
        with pytest.raises(BudgetWouldBeExceeded) as refused:
            asyncio.run(Asking(opened, world, run).ask(endpoint(), QUESTION))
        assert world.asked == []
        assert "$5.00" in refused.value.remedy


def test_reservations_wait_for_money_and_never_exceed_the_ceiling(tmp_path: Path) -> None:
    questions = [asking_about(f"question {number:02}") for number in range(12)]
    worst = 2 * 100_000 + len(questions[0].body) * 1_000
    ceiling = 3 * worst
    most: list[int] = []

    with journal(tmp_path / "r") as opened:

        async def watched() -> Outcome:
            most.append(totals(opened).committed)
            await asyncio.sleep(0.002)
            return Answered(chat_bytes())

        world = Scripted(lambda endpoint, question: watched())
        asking = Asking(opened, world, Run("run", ceiling, "test"))

        async def crowd() -> None:
            await asyncio.gather(*(asking.ask(endpoint(), question) for question in questions))

        asyncio.run(crowd())
        assert len(world.asked) == 12
        assert max(most) <= ceiling
        assert _most_committed(opened) <= ceiling


def _most_committed(opened: Journal) -> int:
    """Fold the journal from its beginning and return the most that was ever committed."""
    state = calls.FAMILY.initial()
    most = 0
    for record in opened.events():
        state = calls.evolve(state, record.event)
        most = max(most, state.totals("run").committed)
    return most


def test_a_cancelled_call_is_settled_by_whoever_made_it(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        all_asked = asyncio.Event()

        async def never() -> Outcome:
            if len(world.asked) == 3:
                all_asked.set()
            await asyncio.sleep(60)
            raise AssertionError

        world = Scripted(lambda endpoint, question: never())
        asking = Asking(opened, world, UNLIMITED)

        async def cancelled() -> None:
            tasks = [asyncio.ensure_future(asking.ask(endpoint(), asking_about(f"{n}"))) for n in range(3)]
            await asyncio.wait_for(all_asked.wait(), 10)
            for task in tasks:
                task.cancel()
            assert all(
                isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True)
            )

        asyncio.run(cancelled())
        assert nothing_open(opened)
        assert kinds(opened).count("call-failed@1") == 3
        assert totals(opened).ambiguous > 0


def test_a_call_cancelled_while_it_is_being_reserved_is_released(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = always(chat_bytes())
        asking = Asking(opened, world, UNLIMITED)

        async def cancelled() -> None:
            task = asyncio.ensure_future(asking.ask(endpoint(), QUESTION))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert nothing_open(opened)
        assert world.asked == []
        assert kinds(opened) in ([], ["call-reserved@1", "call-released@1"])


def test_one_of_two_who_wait_may_leave_without_stopping_the_call(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:

        async def slowly() -> Outcome:
            await asyncio.sleep(0.05)
            return Answered(chat_bytes())

        asking = Asking(opened, Scripted(lambda endpoint, question: slowly()), UNLIMITED)

        async def two() -> Answer:
            leaving = asyncio.ensure_future(asking.ask(endpoint(), QUESTION))
            staying = asyncio.ensure_future(asking.ask(endpoint(), QUESTION))
            await asyncio.sleep(0.02)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            return await staying

        assert asyncio.run(two()).reply is not None
        assert kinds(opened) == ["call-reserved@1", "call-answered@1"]


def test_a_credential_in_a_question_or_an_answer_is_recorded_nowhere(tmp_path: Path) -> None:
    secret = 'very"secret/value'
    redactor = Redactor([secret])

    def script(endpoint: Endpoint, question: Question) -> Outcome:
        assert b"secret" not in question.body
        return Answered(chat_bytes(f"your key is {secret} and sk-aaaaaaaaaaaaaaaaaaaaaaaa"))

    with journal(tmp_path / "r") as opened:
        asking = Asking(opened, Scripted(script, redactor), UNLIMITED)
        answer = asyncio.run(asking.ask(endpoint(), asking_about(f"my key is {secret}")))
        assert answer.reply is not None
        assert answer.reply.text == "your key is [redacted] and sk-aaaaaaaaaaaaaaaaaaaaaaaa"
        assert not answer.replayable
        recorded = opened.find(CallAnswered, f"{answer.question.digest}:0")
        assert recorded is not None
        assert isinstance(recorded.event, CallAnswered)
        assert not recorded.event.replayable
    assert b"secret" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_replay_asks_nobody_and_names_where_its_question_differs(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        asyncio.run(Asking(opened, always(chat_bytes()), UNLIMITED).ask(endpoint(), QUESTION))
        before = kinds(opened)
        other = asking_about("who are you??")
        with pytest.raises(QuestionNotInJournal) as refused:
            asyncio.run(Asking(opened, Replaying(opened), UNLIMITED).ask(endpoint(), other))
        assert refused.value.pointer == "/request/messages/0/content"
        assert refused.value.digest == other.digest
        assert refused.value.nearest == QUESTION.digest
        assert kinds(opened) == before


def test_a_question_that_breaks_the_edge_leaves_nothing_open(tmp_path: Path) -> None:
    def script(endpoint: Endpoint, question: Question) -> Outcome:
        raise ZeroDivisionError

    with journal(tmp_path / "r") as opened:
        with pytest.raises(ZeroDivisionError):
            asyncio.run(Asking(opened, Scripted(script), UNLIMITED).ask(endpoint(), QUESTION))
        assert nothing_open(opened)


def test_retries_wait_longer_each_time_and_as_long_as_they_are_asked_to() -> None:
    retrying = Retrying(tries=9, first_seconds=1.0, most_seconds=10.0)
    for tried in range(1, 9):
        doubled = min(2.0 ** (tried - 1), 10.0)
        assert doubled / 2 <= retrying.wait(tried, None) <= doubled
    assert retrying.wait(1, 60.0) == 60.0
    assert retrying.wait(1, 9_999.0) == 120.0


def test_an_answer_that_another_process_recorded_brings_the_view_up_to_it(tmp_path: Path) -> None:
    with journal(tmp_path / "r", "late") as late, journal(tmp_path / "r", "early") as early:
        asyncio.run(Asking(early, always(chat_bytes()), UNLIMITED).ask(endpoint(), QUESTION))
        asked = always(chat_bytes())
        answer = asyncio.run(Asking(late, asked, UNLIMITED).ask(endpoint(), QUESTION))
        assert not asked.asked
        assert [record.seq for record in late.events(CallAnswered)] == [answer.seq]
        assert totals(late).calls == 1
