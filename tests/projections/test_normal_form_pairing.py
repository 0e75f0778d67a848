"""Pairing: parallel calls are never mixed up, by whatever evidence a trace has, and the way is recorded."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.families import traces
from ledger.families.traces import Trace
from projections.normal_form.sources.otlp import identifier, nanoseconds, recognises
from tests.projections.spans_double import lines
from tests.projections.test_normal_form_dialects import START, keep, read, span

Told = dict[str, Any]


def chat(number: int, made: list[Told], given_messages: list[Told] | None = None, parent: int = 9) -> Told:
    asked = [{"role": "user", "content": "Do"}] if given_messages is None else given_messages
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": json.dumps(made),
    }
    return span(number, "chat", told, parent)


def calls(*named: tuple[str, str]) -> list[Told]:
    """An assistant's message with calls of (id, argument)."""
    parts = [{"type": "tool_call", "id": name, "name": "get", "arguments": {"of": of}} for name, of in named]
    return [{"role": "assistant", "parts": parts}]


def ran(number: int, result: str | None, *, name: str = "", of: str = "", parent: int = 9, **more: Any) -> Told:
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get"}
    told |= {"gen_ai.tool.call.result": result} if result is not None else {}
    told |= {"gen_ai.tool.call.id": name} if name else {}
    told |= {"gen_ai.tool.call.arguments": json.dumps({"of": of})} if of else {}
    return span(number, "execute_tool get", told, parent, **more)


def turns(*spans: Told) -> list[tuple[str, str, str]]:
    (trace,) = read(*spans).traces
    return [(json.loads(turn.arguments)["of"], turn.observation, turn.paired) for turn in trace.turns]


def reasons(*spans: Told) -> list[str]:
    return sorted(one.reason for one in read(*spans).exclusions)


def test_parallel_calls_are_paired_by_id_whatever_the_order_of_results() -> None:
    made = calls(("a", "1"), ("b", "2"), ("c", "3"))
    spans = [chat(1, made), ran(2, "III", name="c"), ran(3, "I", name="a"), ran(4, "II", name="b")]
    assert turns(*spans) == [("1", "I", ""), ("2", "II", ""), ("3", "III", "")]


def test_parallel_calls_without_ids_are_paired_by_their_arguments_below_their_parent() -> None:
    made = calls(("", "1"), ("", "2"))
    assert turns(chat(1, made), ran(2, "II", of="2"), ran(3, "I", of="1")) == [
        ("1", "I", "parent"),
        ("2", "II", "parent"),
    ]
    loose = [chat(1, made, parent=0), ran(2, "II", of="2", parent=0), ran(3, "I", of="1", parent=0)]
    assert turns(*loose) == [("1", "I", "order"), ("2", "II", "order")]


def test_agents_at_work_at_once_do_not_take_each_others_results() -> None:
    spans = [
        chat(1, calls(("", "1")), parent=7),
        chat(2, calls(("", "2")), parent=8),
        ran(3, "I", parent=7),
        ran(4, "II", parent=8),
    ]
    assert turns(*spans) == [("1", "I", "parent"), ("2", "II", "parent")]
    assert turns(spans[0], spans[1], {**spans[3], "startTimeUnixNano": str(START + 2_500_000)}, spans[2]) == [
        ("1", "I", "parent"),
        ("2", "II", "parent"),
    ]
    below = [chat(1, calls(("", "1")), parent=0), chat(2, calls(("", "2")), parent=0), ran(3, "I", parent=1)]
    assert turns(*below) == [("1", "I", "parent")]


def test_without_any_evidence_but_order_the_way_says_so() -> None:
    assert turns(chat(1, calls(("", "1"), ("", "2"))), ran(2, "I"), ran(3, "II")) == [
        ("1", "I", "order"),
        ("2", "II", "parent"),
    ]


def test_a_run_with_other_arguments_is_another_call() -> None:
    spans = [chat(1, calls(("", "1"))), ran(2, "II", of="2")]
    assert turns(*spans) == [("2", "II", "")]
    assert reasons(*spans) == ["action-without-observation"]


def test_a_run_with_another_id_is_another_call() -> None:
    spans = [chat(1, calls(("a", "1"))), ran(2, "II", name="b", of="2")]
    assert turns(*spans) == [("2", "II", "")]
    assert turns(chat(1, calls(("a", "1"))), ran(2, "I", name="a"), ran(3, "??", name="b")) == [("1", "I", "")]
    assert reasons(chat(1, calls(("a", "1"))), ran(2, "I", name="a"), ran(3, "??", name="b")) == [
        "observation-without-action"
    ]


def test_a_run_whose_id_nobody_asked_for_does_not_answer_a_call_with_an_id() -> None:
    spans = [chat(1, calls(("a", "1"), ("b", "2"))), ran(2, "I", name="a"), ran(3, "??", name="c")]
    assert turns(*spans) == [("1", "I", "")]
    assert reasons(*spans) == ["action-without-observation", "observation-without-action"]


def test_an_action_that_only_a_later_call_tells_of_stands_where_it_ran() -> None:
    history = [{"role": "user", "content": "Do"}, *calls(("a", "1")), result("a", "I"), *calls(("b", "2"))]
    spans = [
        ran(1, "I", name="a", parent=0),
        chat(2, calls(("b", "2"))),
        ran(3, "II", name="b"),
        chat(4, [], history),
    ]
    assert turns(*spans) == [("1", "I", ""), ("2", "II", "")]


def result(name: str, text: str | None, **more: Any) -> Told:
    return {"role": "tool", "tool_call_id": name, "content": text, **more}


def test_a_result_in_a_span_and_in_later_messages_is_one_and_the_spans_own_words_count() -> None:
    made = calls(("a", "1"))
    history = [{"role": "user", "content": "Do"}, *made, result("a", "I, wrapped")]
    spans = [chat(1, made), ran(2, "I", name="a", status={"code": 2}), chat(3, [], history), chat(4, [], history)]
    assert turns(*spans) == [("1", "I", "")]
    assert read(*spans).traces[0].turns[0].error
    assert turns(spans[0], spans[2]) == [("1", "I, wrapped", "")]
    assert reasons(*spans) == []


def test_results_in_messages_without_ids_belong_to_the_calls_before_them() -> None:
    history = [
        {"role": "user", "content": "Do"},
        *calls(("", "1"), ("", "2")),
        {"role": "tool", "content": "I"},
        {"role": "tool", "content": "II"},
        *calls(("", "1")),
        {"role": "tool", "content": "again"},
    ]
    expected = [("1", "I", "order"), ("2", "II", "order"), ("1", "again", "order")]
    assert turns(chat(1, [], history)) == expected
    assert turns(chat(1, [], history[:4]), chat(2, [], history)) == expected
    spread = [
        chat(1, calls(("", "1"), ("", "2"))),
        ran(2, "II", of="2"),
        ran(3, "I", of="1"),
        chat(4, calls(("", "1")), history[:4]),
        chat(5, [], history),
    ]
    assert [(of, text) for of, text, _ in turns(*spread)] == [("1", "I"), ("2", "II"), ("1", "again")]


def test_an_id_that_is_used_again_for_another_call_is_another_step() -> None:
    spans = [
        chat(1, calls(("call_0", "1"))),
        ran(2, "I", name="call_0"),
        chat(3, calls(("call_0", "2"))),
        ran(4, "II", name="call_0"),
    ]
    assert turns(*spans) == [("1", "I", ""), ("2", "II", "")]
    history = [*calls(("call_0", "1")), result("call_0", "I"), *calls(("call_0", "2")), result("call_0", "II")]
    assert turns(chat(1, [], history)) == [("1", "I", ""), ("2", "II", "")]


def test_a_call_that_is_made_once_more_after_its_answer_is_another_step() -> None:
    once, both = calls(("call_0", "1")), calls(("call_0", "1"), ("call_1", "2"))
    first, second = [*once, result("call_0", "busy")], [*once, result("call_0", "ready")]
    polled = [chat(1, once), chat(2, once, first), chat(3, [], [*first, *second]), chat(4, [], [*first, *second])]
    expected = [("1", "busy", ""), ("1", "ready", "")]
    assert turns(*polled) == expected
    assert turns(chat(1, [], [*first, *second])) == expected
    ran_too = [polled[0], ran(2, "busy", name="call_0"), chat(3, once, first), ran(4, "ready", name="call_0")]
    assert turns(*ran_too, chat(5, [], [*first, *second])) == expected
    wave = [*both, result("call_1", "B"), result("call_0", "A")]
    again = [*both, result("call_0", "C"), result("call_1", "D")]
    found = turns(chat(1, both), chat(2, both, wave), chat(3, [], [*wave, *again]))
    assert found == [("1", "A", ""), ("2", "B", ""), ("1", "C", ""), ("2", "D", "")]


def test_a_state_that_is_told_as_an_answer_makes_no_call_twice() -> None:
    user, closing = [{"role": "user", "content": "Do"}], [{"role": "assistant", "content": "Done"}]
    once, answer = calls(("call_0", "1")), [result("call_0", "I")]
    first = [*user, *once, *answer]
    whole = [chat(1, [*user, *once], user), chat(2, [*first, *closing], first)]
    assert turns(*whole) == [("1", "I", "")]
    assert read(*whole).traces[0].final == "Done"
    again = [*first, *once, result("call_0", "II")]
    twice = [whole[0], chat(2, [*first, *once], first), chat(3, [*again, *closing], again)]
    assert turns(*twice) == [("1", "I", ""), ("1", "II", "")]
    assert turns(chat(1, once, user), chat(2, first, first)) == [("1", "I", "")]
    assert reasons(chat(1, once, user), chat(2, once, first)) == ["action-without-observation"]


def test_a_result_whose_call_is_told_later_finds_it() -> None:
    spans = [chat(1, [], [result("a", "I")]), ran(2, None, name="a", of="1")]
    assert turns(*spans) == [("1", "I", "")]
    assert reasons(*spans) == []
    alone = [chat(1, [{"role": "assistant", "content": "Done"}], [{"role": "user", "content": "Do"}, result("a", "I")])]
    assert reasons(*alone) == ["observation-without-action"]
    repeated = [*alone, chat(2, [], [{"role": "user", "content": "Do"}, result("a", "I")])]
    assert reasons(*repeated) == ["observation-without-action"]


def test_a_result_that_is_not_told_is_not_nothing() -> None:
    history = [{"role": "user", "content": "Do"}, *calls(("a", "1")), result("a", None)]
    assert reasons(chat(1, [], history)) == ["action-without-observation", "trace-without-steps"]
    assert turns(chat(1, [], [*history[:2], result("a", "")])) == [("1", "", "")]


def test_a_clock_that_is_wrong_does_not_matter_where_ids_tell() -> None:
    early = ran(2, "I", name="a")
    early["startTimeUnixNano"] = str(START - 5_000_000_000)
    assert turns(chat(1, calls(("a", "1"))), early) == [("1", "I", "")]


def test_spans_without_times_stand_where_their_calls_tell() -> None:
    first, second, third = calls(("a", "1")), calls(("b", "2")), [{"role": "assistant", "content": "Done"}]
    history = [{"role": "user", "content": "Do"}, *first, result("a", "I")]
    further = [*history, *second, result("b", "II")]
    spans = [
        chat(7, first),
        ran(3, "I", name="a"),
        chat(5, second, history),
        ran(1, "II", name="b"),
        chat(2, third, further),
    ]
    for one in spans:
        one.update(startTimeUnixNano=0, endTimeUnixNano="0")
    assert turns(*spans) == [("1", "I", ""), ("2", "II", "")]
    assert read(*spans).traces[0].final == "Done"
    for one in spans[1:]:
        del one["startTimeUnixNano"]
    assert read(*spans[::-1]).traces[0].final == "Done"


def test_a_model_call_above_another_one_is_counted_as_an_agent() -> None:
    told = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1, "gen_ai.operation.name": "chat"}
    spans = [
        span(1, "outer", {**told, "gen_ai.prompt": "Do"}),
        span(2, "inner", {**told, "gen_ai.prompt": "Do", "gen_ai.completion": "Done"}, 1),
    ]
    (trace,) = read(*spans).traces
    assert trace.usage is not None
    assert trace.usage.input_tokens == 5


def test_parents_in_a_circle_and_ids_that_spans_share_are_survived() -> None:
    round_ = [chat(1, calls(("a", "1")), parent=2), ran(2, "I", name="a", parent=1), chat(3, [], parent=3)]
    assert turns(*round_) == [("1", "I", "")]
    shared = [chat(1, calls(("a", "1"))), {**ran(2, "I", name="a"), "spanId": f"{1:016x}"}]
    assert turns(*shared) == [("1", "I", "")]
    assert reasons(*shared) == ["span-id-reused"]


def test_a_span_without_an_id_gets_one_of_its_content_and_without_a_trace_that_of_its_conversation() -> None:
    one = chat(1, calls(("a", "1")))
    two = ran(2, "I", name="a")
    one["spanId"], two["spanId"] = "0" * 16, None
    assert turns(one, two) == [("1", "I", "")]
    assert reasons(one, two) == ["span-without-id", "span-without-id"]
    for part in (one, two):
        part["traceId"] = ""
        part["attributes"].append({"key": "gen_ai.conversation.id", "value": {"stringValue": "conv"}})
    (trace,) = read(one, two).traces
    assert trace.name == "conversation conv"


def test_ids_are_hexadecimal_base64_or_numbers() -> None:
    raw = bytes(range(16))
    assert identifier(base64.b64encode(raw).decode()) == raw.hex() == identifier(raw.hex().upper())
    assert identifier("0x" + raw.hex()) == raw.hex()
    assert (identifier("0x" + "0" * 32), identifier(base64.b64encode(bytes(8)).decode())) == ("", "")
    assert identifier(base64.b64encode(raw[:8]).decode()) == raw[:8].hex()
    assert identifier(base64.urlsafe_b64encode(b"\xff" * 16).decode()) == "ff" * 16
    assert (identifier(17), identifier(0), identifier(json.loads("true")), identifier(None), identifier("0" * 32)) == (
        "17",
        "",
        "",
        "",
        "",
    )
    assert (identifier(" ac7b9fc0ea0d0000a "), identifier("Trace-1")) == ("ac7b9fc0ea0d0000a", "Trace-1")


def test_times_are_numbers_texts_and_calendars() -> None:
    def at(told: Any, name: str = "start_time") -> int:
        return nanoseconds({name: told}, (name,))

    moment = 1_767_323_045_123_456_789
    assert at(str(moment), "startTimeUnixNano") == at(moment, "startTimeUnixNano") == moment
    assert at("2026-01-02T03:04:05.123456789Z") == at("2026-01-02T05:04:05.123456789+02:00") == moment
    assert at("2026-01-02T03:04:05.5Z") == 1_767_323_045_500_000_000
    assert at("2026-01-02 03:04:05") == 1_767_323_045 * 10**9
    assert at(1_767_323_045) == at(1_767_323_045_000) == at(1_767_323_045_000_000) == 1_767_323_045 * 10**9
    assert at(1_767_323_045.5) == 1_767_323_045_500_000_000
    assert at([1_767_323_045, 7]) == 1_767_323_045_000_000_007
    odd: Any
    for odd in (None, True, "soon", "9" * 30, float("inf"), [1], ["a", 1], {}, "0000-00-00T00:00:00", 1e300):
        assert at(odd) == 0


def test_only_what_is_opentelemetrys_is_recognised_as_such() -> None:
    assert recognises(chat(1, [])) != ""
    assert recognises([chat(1, [])]) != ""
    other: Any
    for other in (
        {},
        [],
        3,
        None,
        {"traceId": "a"},
        {"spans": [1], "traceId": "a"},
        {"id": "a", "trace_id": "b", "start_time": 1},
    ):
        assert recognises(other) == ""


@st.composite
def sessions(draw: st.DrawFn) -> list[Told]:
    """A session with ids or without, with times or without, told in spans, in messages, or in both."""
    ids = draw(st.booleans())
    spans: list[Told] = []
    history: list[Told] = [{"role": "user", "content": "Do"}]
    number = 0
    for round_ in range(draw(st.integers(1, 3))):
        made = calls(*((f"c{round_}-{at}" if ids else "", f"{round_}-{at}") for at in range(draw(st.integers(0, 3)))))
        number += 1
        spans.append(chat(number, made, list(history)))
        history += made
        for at in draw(st.permutations(range(len(made[0]["parts"])))):
            number += 1
            if draw(st.booleans()):
                name = f"c{round_}-{at}" if ids else ""
                spans.append(ran(number, f"r{round_}-{at}", name=name, of=f"{round_}-{at}"))
        if draw(st.booleans()):
            history += [
                result(f"c{round_}-{at}" if ids else "", f"r{round_}-{at}") for at in range(len(made[0]["parts"]))
            ]
    if draw(st.booleans()):
        for one in spans:
            one["startTimeUnixNano"] = 0
    return spans


@settings(max_examples=150, deadline=None)
@given(sessions(), st.randoms(use_true_random=False))
def test_any_permutation_gives_the_same_traces_and_no_pair_is_wrong(spans: list[Told], chance: Any) -> None:
    mixed = list(spans)
    chance.shuffle(mixed)
    first, second = read(*spans).traces, read(*mixed).traces
    assert [traces.encoded(one) for one in first] == [traces.encoded(one) for one in second]
    for one in first:
        assert_right(one)


def assert_right(trace: Trace) -> None:
    for turn in trace.turns:
        assert turn.observation == "r" + json.loads(turn.arguments)["of"]


def test_the_double_keeps_texts() -> None:
    assert (keep("a"), lines([1])) == (("a", 0), [b"1\n"])
