"""The normal form: every span is in a trace or among the exclusions, whatever an export holds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import digests
from ledger.detectors import Redaction
from ledger.episode import Turn
from ledger.families import traces
from ledger.families.traces import Trace
from ledger.redaction import Redactor
from projections.normal_form import export as exporting
from projections.normal_form import lines as reading
from projections.normal_form import read_export
from projections.normal_form.export import MOST_LISTED
from projections.normal_form.steps import normal_form
from tests.projections.spans_double import Span, attributes, lines, read, reasons, session, span

SHARED = Path(__file__).parents[3] / "shared" / "data"
PINNED = SHARED / "terminal-tasks.otel.jsonl.gz"
CORPUS = Path(__file__).parents[2] / "fixtures" / "traces" / "shell-sessions.otel.jsonl"
TWO = session("aaaa", "Say hi", [("echo hi", "hi\n"), ("true", "")], errors=[1], category="greeting")
OTHER = session("bbbb", "Count", [("wc -l f", "3 f\n")], category="counting")


def turn(command: str, output: str, *, error: bool = False) -> Turn:
    arguments = json.dumps({"command": command})
    return Turn(tool="bash", arguments=arguments, observation=output, error=error, paired="order")


def enveloped(*spans: Span, **resource: str) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": attributes(resource)}, "scopeSpans": [{"spans": spans}]}]}


def genai(name: str, number: int, operation: str, **values: Any) -> Span:
    written = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    named = {f"gen_ai.{key.replace('__', '.')}": value for key, value in written.items()}
    return span(name, number, {"gen_ai.operation.name": operation, **named})


def test_flat_spans_become_steps_with_task_errors_and_what_they_declare() -> None:
    export = read(lines([*TWO, *OTHER]))
    first, second = export.traces
    assert (first.name, first.task, first.final) == ("aaaa", "Say hi", None)
    assert first.turns == (turn("echo hi", "hi\n"), turn("true", "", error=True))
    assert first.attributes == (("trace.metadata.category", "greeting"),)
    assert second.turns == (turn("wc -l f", "3 f\n"),)
    assert export.exclusions == ()
    assert (export.refused, export.duplicate, export.redactions) == (0, 0, 0)


@settings(max_examples=40)
@given(st.permutations([*TWO, *OTHER, *session("cccc", "Wait", [("sleep 1", "")])]))
def test_the_order_of_lines_decides_nothing(permuted: list[Span]) -> None:
    expected = read(lines([*TWO, *OTHER, *session("cccc", "Wait", [("sleep 1", "")])]))
    assert [traces.encoded(one) for one in read(lines(permuted)).traces] == list(map(traces.encoded, expected.traces))


def test_spans_without_times_are_in_order_of_their_ids_wherever_they_stand() -> None:
    timeless = [{**one, "startTimeUnixNano": 0, "endTimeUnixNano": 0} for one in TWO]
    expected = read(lines(TWO)).traces[0].turns
    for given_spans in (timeless, timeless[::-1], timeless[2:] + timeless[:2]):
        assert read(lines(given_spans)).traces[0].turns == expected


def test_an_envelope_says_what_flat_spans_say() -> None:
    flat = read(lines(TWO))
    assert read(lines([enveloped(*TWO)])).traces == flat.traces
    assert read([json.dumps([enveloped(TWO[0]), enveloped(*TWO[1:])], indent=2).encode()]).traces == flat.traces


def test_a_file_that_is_one_indented_document_is_read_whole() -> None:
    whole = json.dumps(enveloped(*TWO), indent=1).encode().splitlines(keepends=True)
    assert read(whole).traces == read(lines(TWO)).traces


def test_resource_attributes_are_declared_too() -> None:
    (one,) = read(lines([enveloped(*TWO, team="search")])).traces
    assert ("team", "search") in one.attributes


def test_messages_with_parts_give_calls_results_task_and_the_closing_words() -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "How many?"}]}]
    called = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "wc", "arguments": {"f": 1}}]}]
    gave = [*asked, *called, {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "7"}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "Seven."}]}]
    export = read(
        lines(
            [
                genai("t", 1, "chat", input__messages=asked, output__messages=called),
                genai("t", 2, "chat", input__messages=gave, output__messages=said),
            ]
        )
    )
    (one,) = export.traces
    assert (one.task, one.final) == ("How many?", "Seven.")
    assert one.turns == (Turn(tool="wc", arguments='{"f":1}', observation="7", error=False, call_id="c1"),)
    assert export.exclusions == ()


def test_results_go_to_the_calls_whose_ids_they_carry() -> None:
    calls = [{"type": "tool_call", "id": name, "name": "get", "arguments": f'"{name}"'} for name in ("one", "two")]
    spans = [
        genai("t", 1, "chat", prompt="Get both", output__messages=[{"role": "assistant", "parts": calls}]),
        genai("t", 2, "execute_tool", tool__name="get", tool__call__id="two", tool__call__result="II"),
        genai("t", 3, "execute_tool", tool__name="get", tool__call__id="one", tool__call__result="I"),
    ]
    (one,) = read(lines(spans)).traces
    assert [(turn.arguments, turn.observation) for turn in one.turns] == [('"one"', "I"), ('"two"', "II")]


def test_tool_spans_with_arguments_are_steps_of_their_own_below_an_agent() -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "List"}]}]
    spans = [
        genai("t", 1, "invoke_agent", input__messages=asked),
        genai(
            "t", 2, "execute_tool", tool__name="bash", tool__call__arguments='{"command":"ls"}', tool__call__result=""
        ),
    ]
    (one,) = read(lines(spans)).traces
    assert (one.task, one.turns) == (
        "List",
        (Turn(tool="bash", arguments='{"command":"ls"}', observation="", error=False),),
    )


def test_older_span_events_are_read() -> None:
    chat = span("t", 1, {"gen_ai.operation.name": "chat"})
    chat["events"] = [
        {"name": "gen_ai.user.message", "attributes": attributes({"content": "Look"})},
        {
            "name": "gen_ai.choice",
            "attributes": attributes(
                {
                    "message": json.dumps(
                        {"tool_calls": [{"id": "c", "function": {"name": "ls", "arguments": "{}"}, "type": "function"}]}
                    )
                }
            ),
        },
    ]
    ran = span("t", 2, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls", "gen_ai.tool.call.id": "c"})
    ran["events"] = [
        {"name": "noise"},
        {"name": "gen_ai.tool.message", "attributes": attributes({"content": "nothing"})},
    ]
    (one,) = read(lines([chat, ran])).traces
    assert one.task == "Look"
    assert one.turns == (Turn(tool="ls", arguments="{}", observation="nothing", error=False, call_id="c"),)


def test_openai_style_messages_and_other_names_for_parts_are_read() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}
    given = [
        {"role": "user", "content": ["List ", {"type": "text", "text": "them"}, 7, {"type": "image"}]},
        {"role": "assistant", "content": None, "tool_calls": [call, "broken"]},
        {"role": "tool", "tool_call_id": "c", "content": "one two"},
    ]
    (one,) = read(lines([genai("t", 1, "chat", input__messages={"messages": given}, completion="Two.")])).traces
    assert (one.task, one.final) == ("List \nthem", "Two.")
    assert one.turns == (Turn(tool="ls", arguments='{"a":1}', observation="one two", error=False, call_id="c"),)


def test_the_details_event_and_event_content_are_read() -> None:
    chat = span("t", 1, {"gen_ai.operation.name": "chat"})
    asked = json.dumps([{"role": "user", "content": "Ask"}])
    said = json.dumps([{"role": "assistant", "content": "Answer"}])
    chat["events"] = [
        {
            "name": "gen_ai.client.inference.operation.details",
            "attributes": attributes({"gen_ai.input.messages": asked, "gen_ai.output.messages": said}),
        },
        "broken",
    ]
    (one,) = read(lines([chat])).traces
    assert (one.task, one.final) == ("Ask", "Answer")
    older = span("u", 1, {"gen_ai.operation.name": "chat"})
    older["events"] = [
        {"name": "gen_ai.user.message", "attributes": attributes({"gen_ai.event.content": '{"content":"Ask"}'})},
        {"name": "gen_ai.choice", "attributes": attributes({"gen_ai.event.content": '{"content":"Answer"}'})},
        {"name": "something else", "attributes": {}},
    ]
    (two,) = read(lines([older])).traces
    assert (two.task, two.final) == ("Ask", "Answer")


def test_values_of_every_kind_are_what_they_stand_for() -> None:
    run = genai("t", 1, "execute_tool", tool__name="x")
    listed = {"arrayValue": {"values": [{"intValue": "7"}, {"boolValue": True}, {"doubleValue": 0.5}]}}
    pairs = {"kvlistValue": {"values": [{"key": "n", "value": listed}, {"key": 1}, "broken"]}}
    run["attributes"] += [
        {"key": "gen_ai.tool.call.arguments", "value": pairs},
        {"key": "gen_ai.tool.call.result", "value": {"intValue": 12}},
    ]
    (one,) = read(lines([run])).traces
    assert (one.turns[0].arguments, one.turns[0].observation) == ('{"n":[7,true,0.5]}', "12")


def test_arguments_that_only_the_tool_span_has_complete_the_call() -> None:
    spans = [
        genai("t", 1, "chat", prompt="Go", tool__name="x"),
        genai("t", 2, "execute_tool", tool__name="x", tool__call__arguments="{}", tool__message="y"),
    ]
    spans[1]["attributes"] += [{"key": "gen_ai.tool.message", "value": {"stringValue": "y"}}]
    (one,) = read(lines(spans)).traces
    assert one.turns == (Turn(tool="x", arguments="{}", observation="y", error=False, paired="order"),)


def test_a_call_in_history_and_in_its_own_span_is_one_step() -> None:
    call = {"type": "tool_call", "id": "c", "name": "x", "arguments": "{}"}
    history = [{"role": "user", "content": "Go"}, {"role": "assistant", "parts": [call]}]
    spans = [
        genai("t", 1, "chat", input__messages=history, output__messages=[{"role": "assistant", "parts": [call]}]),
        genai("t", 2, "execute_tool", tool__call__id="c", tool__message="y"),
        genai("t", 3, "chat", input__messages=history, completion="Done"),
    ]
    spans[1]["attributes"] += [{"key": "gen_ai.tool.call.result", "value": {"stringValue": "y"}}]
    (one,) = read(lines(spans)).traces
    assert [turn.observation for turn in one.turns] == ["y"]
    assert one.final == "Done"


def test_what_was_recorded_before_traces_said_more_has_the_same_bytes() -> None:
    """The digest is of the corpus as it was recorded when a trace had six members and a turn four."""
    with CORPUS.open("rb") as file:
        export = read(file)
    before = [
        Trace(
            name=one.name,
            source=one.source,
            task=one.task,
            final=one.final,
            attributes=one.attributes,
            turns=tuple(
                Turn(tool=turn.tool, arguments=turn.arguments, observation=turn.observation, error=turn.error)
                for turn in one.turns
            ),
        )
        for one in export.traces
    ]
    stored = [traces.encoded(one) for one in before]
    assert len(stored) == 208
    digest = "b3:f9665008de96804e66d2e26b648ab4c517c3900585f32cd4bf861c637fa28f62"
    assert digests.content_digest(b"\n".join(stored)) == digest
    assert [traces.encoded(traces.decoded(one)) for one in stored] == stored
    assert all(turn.call_id for one in export.traces for turn in one.turns)


# what is left out


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{not json\n", "not-json"),
        (b'{"traceId": "t", "spanId"', "not-json"),
        (b"[" * 100_000 + b"\n", "nested-too-deeply"),
        (
            b'{"traceId":"t","attributes":[{"key":"k","value":' + b'{"arrayValue":{"values":[' * 20_000,
            "nested-too-deeply",
        ),
        (b'"just text"\n', "not-a-span"),
        (b"17\n", "not-a-span"),
        (b'{"other": 1}\n', "not-a-span"),
        (b'{"spanId": "s"}\n', "span-without-trace"),
        (b'{"traceId": [], "spanId": "s"}\n', "span-without-trace"),
        (b'{"resourceSpans": [3]}\n', "not-a-span"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": ["x"]}]}]}\n', "not-a-span"),
        (b"9" * 10_000 + b"\n", "not-json"),
        (b"\x00\x01\x02\n", "not-json"),
        (b"[NaN, " + b"[" * 5000 + b"\n", "nested-too-deeply"),
        (None, "line-too-long"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_the_others_are_read(line: bytes | None, reason: str) -> None:
    given = [*lines(TWO), line, *lines(OTHER)]
    export = read(given)
    assert len(export.traces) == 2
    (excluded,) = export.exclusions
    assert (excluded.reason, excluded.place.split(",")[0]) == (reason, "line 5")


def test_a_document_that_is_too_deep_or_never_ends_is_read_by_lines_after_all() -> None:
    deep = b'{"a":\n' + b"[" * 300 + b"]" * 300 + b"}\n"
    export = read([*deep.splitlines(keepends=True), *lines(TWO)])
    assert [one.reason for one in export.exclusions] == ["nested-too-deeply"]
    assert len(export.traces) == 1
    assert len(read([b"{\n", None, *lines(TWO)]).traces) == 1
    assert len(read([None, *lines(TWO)]).traces) == 1
    assert len(read([b"[" * 5000, *lines(TWO)]).traces) == 1
    assert len(read([b"\n", *lines(TWO)]).traces) == 1


def test_a_first_line_that_is_broken_does_not_hide_the_rest() -> None:
    export = read([b'{"traceId": \n', *lines(TWO)])
    assert len(export.traces) == 1
    assert [(one.place, one.reason) for one in export.exclusions] == [("line 1", "not-json")]


def test_an_observation_whose_action_is_lost_is_named_and_not_given_to_another() -> None:
    lost = read(lines(TWO[1:]))
    assert [one.turns for one in lost.traces] == [(turn("true", "", error=True),)]
    assert [(one.place, one.reason) for one in lost.exclusions] == [("line 1", "observation-without-action")]


def test_an_action_whose_observation_is_lost_does_not_take_the_next_one() -> None:
    lost = read(lines([TWO[0], *TWO[2:]]))
    assert [one.turns for one in lost.traces] == [(turn("true", "", error=True),)]
    (excluded,) = lost.exclusions
    assert (excluded.place, excluded.reason) == ("line 1", "action-without-observation")
    assert "echo hi" in excluded.detail


def test_an_empty_observation_is_kept_and_an_unrecorded_one_is_not_called_empty() -> None:
    quiet = genai("t", 1, "execute_tool", tool__name="bash", tool__call__arguments="{}", tool__call__result="")
    untold = genai("t", 2, "execute_tool", tool__name="bash", tool__call__arguments="{}")
    export = read(lines([quiet, untold]))
    assert [len(one.turns) for one in export.traces] == [1]
    assert reasons(export) == ["action-without-observation"]


def test_a_trace_that_is_there_twice_is_one_trace_and_counted() -> None:
    export = read(lines([*TWO, *OTHER, *TWO]))
    assert (len(export.traces), export.duplicate) == (2, 1)
    assert [(one.place, one.reason, one.count) for one in export.exclusions] == [("line 7", "trace-repeated", 4)]
    again = read(lines([*TWO, TWO[0]]))
    assert (again.duplicate, reasons(again)) == (0, ["span-repeated"])


def test_a_trace_without_steps_is_refused_by_name() -> None:
    export = read(lines([genai("t", 1, "chat", prompt="Hello?"), *OTHER]))
    assert (len(export.traces), export.refused, reasons(export)) == (1, 1, ["trace-without-steps"])


def test_a_conversation_without_tools_is_a_trace_with_closing_words() -> None:
    spans = [genai("t", 1, "chat", prompt="Hello?", completion="Good day.")]
    (one,) = read(lines(spans)).traces
    assert (one.turns, one.final) == ((), "Good day.")


def test_later_user_messages_are_counted_since_a_trace_has_one_task() -> None:
    asked = [{"role": "user", "content": text} for text in ("First", "Second", "Third")]
    export = read(lines([genai("t", 1, "chat", input__messages=asked, completion="Done."), *OTHER]))
    assert export.traces[1].task == "First"
    assert [(one.reason, one.count) for one in export.exclusions] == [("later-user-message", 2)]


def test_very_many_findings_of_a_kind_are_listed_to_a_limit_and_counted_beyond() -> None:
    export = read([*lines(TWO), *(b"?\n" for _ in range(MOST_LISTED + 5))])
    assert len(export.exclusions) == MOST_LISTED + 1
    assert (export.exclusions[-1].place, export.exclusions[-1].count) == ("elsewhere", 5)


# hostile values


def test_credentials_are_taken_out_before_anything_is_hashed() -> None:
    key = "sk-" + "abcdEFGH1234" * 3
    told = read(lines(session("t", f"Use {key}", [(f"curl -H {key}", f"ok {key}")])))
    hidden = read(lines(session("t", "Use [redacted]", [("curl -H [redacted]", "ok [redacted]")])))
    assert key.encode() not in traces.encoded(told.traces[0])
    assert told.redactions == 3
    assert told.traces == hidden.traces


def test_lone_surrogates_nul_nan_and_huge_numbers_are_survived() -> None:
    wild = (
        b'{"traceId":"t","spanId":"s","startTimeUnixNano":NaN,"endTimeUnixNano":1e999,"attributes":['
        b'{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},'
        b'{"key":"gen_ai.tool.name","value":{"stringValue":"a\\ud800 b/c"}},'
        b'{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"x\\udfffy\\u0000"}},'
        b'{"key":"gen_ai.tool.call.result","value":{"stringValue":"\\u0000"}},'
        b'{"key":"n","value":{"intValue":"' + b"9" * 5000 + b'"}},{"key":"m","value":{"intValue":' + b"9" * 40 + b"}},"
        b'{"key":"d","value":{"doubleValue":Infinity}}]}\n'
    )
    export = read([wild])
    (one,) = export.traces
    assert one.turns == (Turn(tool="a__b_c", arguments="x?y\0", observation="\0", error=False),)
    assert traces.decoded(traces.encoded(one)) == one


def test_bytes_that_are_not_utf8_are_replaced_and_that_is_said() -> None:
    export = read([line.replace(b"echo hi", b"echo \xff\xfe") for line in lines(TWO)])
    assert "�" in export.traces[0].turns[0].arguments
    assert set(reasons(export)) == {"bytes-replaced"}


def test_json_inside_a_text_is_cleaned_too_once_it_is_opened() -> None:
    key = "sk-" + "abcdEFGH1234" * 3
    hidden = key.replace("-", "\\u002d")
    said = '[{"role":"user","content":"Use ' + hidden + ' and \\ud800"}]'
    spans = session("t", "Task", [("a", "b")])
    spans[0]["attributes"][3]["value"]["stringValue"] = said
    spans[0]["attributes"] = [one for one in spans[0]["attributes"] if one["key"] != "trace.metadata"]
    (one,) = read(lines(spans)).traces
    assert one.task == "Use [redacted] and ?"


HIDING = [
    "sk-" + "abcdEFGH1234" * 3,
    "sk\\u002d" + "abcdEFGH1234" * 3,
    "Bearer " + "abcdEFGH1234" * 3,
    "\\ud83d",
    "\\ud83d\\ude00",
    "\\u0000",
    "\u00e9\U0001f600",
    "plain",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(HIDING), min_size=2, max_size=2), st.integers(0, 2), st.booleans())
def test_a_first_look_at_a_line_changes_nothing_but_the_time(words: list[str], levels: int, ascii_only: bool) -> None:  # noqa: FBT001
    def nested(word: str) -> str:
        text = f'"{word}"'
        for _ in range(levels):
            text = json.dumps(text, ensure_ascii=ascii_only)
        return text

    said = f'[{{"role":"user","content":{nested(words[0])}}}]'
    spans = session("t", "Task", [("a", said)])
    spans[0]["attributes"][3]["value"]["stringValue"] = said
    spans[1]["attributes"][2]["value"]["stringValue"] = words[1]
    given_lines = [json.dumps(one, ensure_ascii=ascii_only).encode(errors="surrogatepass") + b"\n" for one in spans]
    quick, slow = Redaction(Redactor()), Redaction(Redactor())
    expected = read(given_lines, slow.__call__)
    found = read(given_lines, quick)
    assert (found.traces, found.exclusions) == (expected.traces, expected.exclusions)
    for one in found.traces:
        assert HIDING[0].encode() not in traces.encoded(one)
        assert traces.decoded(traces.encoded(one)) == one


@pytest.mark.parametrize("depth", [150, 400, 900, 5000])
def test_json_inside_a_text_may_be_nested_as_deeply_as_it_likes(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    spans = [
        genai("t", 1, "chat", prompt=deep, output__messages=f'[{{"role":"assistant","content":{deep}}}]'),
        genai("t", 2, "execute_tool", tool__name="x", tool__call__arguments=deep, tool__message=deep),
        *OTHER,
    ]
    asked = [{"role": "user", "parts": [{"type": "tool_call", "name": "x", "arguments": "<deep>"}]}]
    opened_up = json.dumps(asked).replace('"<deep>"', deep)
    export = read(lines([*spans, genai("u", 1, "chat", input__messages=opened_up)]))
    assert "bbbb" in {one.name for one in export.traces}


def test_a_trace_that_exhausts_the_stack_is_refused_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(name: str, *rest: Any) -> Any:
        if name == "aaaa":
            raise RecursionError
        return normal_form(name, *rest)

    monkeypatch.setattr(exporting, "normal_form", exhausted)
    export = read(lines([*TWO, *OTHER]))
    assert ([one.name for one in export.traces], export.refused) == (["bbbb"], 1)
    assert reasons(export) == ["nested-too-deeply"]


def test_integers_beyond_64_bits_and_attributes_in_a_plain_object_are_taken() -> None:
    one = {**TWO[0], "startTimeUnixNano": 2**63 + 5, "kind": 2**63 + 5}
    one["attributes"] = {item["key"]: item["value"]["stringValue"] for item in TWO[0]["attributes"]}
    export = read(lines([one, *TWO[1:]]))
    assert export.traces[0].turns == read(lines(TWO)).traces[0].turns


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1])
@pytest.mark.parametrize("words", ["plain", "\u03c0\u03c8", "1781293605000000000"])
def test_a_number_is_read_alike_whether_or_not_its_line_needs_another_look(number: int, words: str) -> None:
    line = json.dumps({"kind": number, "listed": [number, 0.5], "words": words}, ensure_ascii=False).encode()

    class Quick:
        def __call__(self, text: str) -> tuple[str, int]:
            return text, 0

        def suspects(self, data: bytes) -> bool:
            return not data

    value, clean, _ = reading.Cleaner(Quick()).document(line)
    assert value == reading.Cleaner(Quick().__call__).document(line)[0]
    assert value["kind"] == (number if -(2**63) <= number < 2**63 else None)
    assert not (clean and value["kind"] is None)


def test_values_over_many_lines_one_after_another_are_all_read() -> None:
    whole = [json.dumps(enveloped(*spans, name="\u00e9"), indent=2).encode() for spans in (TWO, OTHER)]
    apart = read(b"\n\n".join(whole).splitlines(keepends=True))
    assert [one.name for one in apart.traces] == ["aaaa", "bbbb"]
    assert (apart.totals.units, apart.totals.used, apart.exclusions) == (len(TWO) + len(OTHER), apart.totals.units, ())
    assert read((whole[1] + whole[0]).splitlines(keepends=True)).traces == apart.traces
    cut = read((b"\n".join(whole) + b'\n{"traceId":\n"x",').splitlines(keepends=True))
    assert cut.traces == apart.traces
    after = sum(one.count(b"\n") + 1 for one in whole)
    assert [(one.place, one.reason) for one in cut.exclusions] == [
        (f"line {after + 1}", "not-json"),
        (f"line {after + 2}", "not-json"),
    ]
    assert cut.totals.units == cut.totals.used + cut.totals.excluded
    lined = read([*whole[0].splitlines(keepends=True), b"\n", *lines(OTHER)])
    assert [one.turns for one in lined.traces] == [one.turns for one in apart.traces]
    odd = read([*whole[0].splitlines(keepends=True), b"\n[" * 300, b"]" * 300, whole[1]])
    assert (odd.traces, reasons(odd)) == (apart.traces, ["nested-too-deeply"])


def test_which_of_two_equal_spans_is_used_is_not_up_to_the_order_of_their_lines() -> None:
    told = [enveloped(*TWO, **{"service.name": name}) for name in ("one", "two", "")]
    told.append(enveloped(*TWO, **{"service.name": "one", "service.version": "2"}))
    first = read(lines(told))
    assert ("service.version", "2") in first.traces[0].attributes
    for turned in (told[::-1], [*told[2:], *told[:2]], [told[3], *told[:3]]):
        assert read(lines(turned)).traces == first.traces
    assert read(lines(told[:2])).traces == read(lines(told[1::-1])).traces


def test_how_deep_a_value_may_be_does_not_depend_on_what_else_its_line_holds() -> None:
    class Quick:
        def __call__(self, text: str) -> tuple[str, int]:
            return text, 0

        def suspects(self, data: bytes) -> bool:
            return b"suspect" in data

    def fits(depth: int, word: str) -> bool:
        line = ("[" * depth + f'"{word}"' + "]" * depth).encode()
        try:
            reading.Cleaner(Quick()).document(line)
        except reading.Unreadable:
            return False
        return True

    for depth in range(reading.MOST_DEPTH - 3, reading.MOST_DEPTH + 60):
        assert fits(depth, "plain") == fits(depth, "suspect") == (depth <= reading.MOST_DEPTH)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = [
    "traceId", "spanId", "parentSpanId", "name", "status", "startTimeUnixNano", "attributes", "events",
    "resourceSpans", "scopeSpans", "spans", "resource", "key", "value", "stringValue", "intValue", "arrayValue",
    "kvlistValue", "values", "role", "content", "parts", "tool_calls", "type", "id", "name", "arguments",
    "function", "response", "messages", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt",
    "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.message",
    "gen_ai.tool.call.id",
]  # fmt: skip
shaped = st.recursive(
    json_values | st.sampled_from(["chat", "execute_tool", "invoke_agent", "tool", "user", "t", "tool_call"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), shaped, max_size=6), max_size=3))
def test_no_shape_of_json_stops_the_reading(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        document.setdefault("traceId", "t")
    export = read(lines(documents))
    for one in export.traces:
        assert traces.decoded(traces.encoded(one)) == one


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_no_bytes_stop_the_reading(given_lines: list[bytes]) -> None:
    export = read([*given_lines, *lines(TWO)])
    assert len(export.traces) == 1


@settings(max_examples=60, deadline=None)
@given(shaped)
def test_no_message_stops_the_reading(value: Any) -> None:
    text = json.dumps(value)
    for operation in ("chat", "execute_tool", "invoke_agent"):
        names = ("input.messages", "output.messages", "prompt", "tool.name", "tool.message", "tool.call.arguments")
        given_span = span("t", 1, {f"gen_ai.{name}": text for name in names} | {"gen_ai.operation.name": operation})
        plain = {**given_span, "attributes": {f"gen_ai.{name}": value for name in names}}
        read(lines([given_span, plain, *OTHER]))


def test_a_whole_file_larger_than_is_held_is_read_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WHOLE_FILE_BYTES", 10)
    export = read([b"{\n", *lines(TWO)])
    assert len(export.traces) == 1


def test_names_that_a_label_cannot_carry_get_a_digest_for_a_label() -> None:
    plain, strange = (read(lines(session(name, "Task", [("a", "b")]))).traces[0] for name in ("ab-12", "a b=\u2028"))
    assert plain.label == "ab-12"
    assert strange.label.startswith("t-")
    assert strange.label.removeprefix("t-").isalnum()


# the pinned export


def test_the_pinned_export_is_read_without_a_loss_in_any_order() -> None:
    if not PINNED.exists():
        pytest.skip(f"NOT RUN: {PINNED} isn't on this machine")
    content = gzip.decompress(PINNED.read_bytes()).splitlines(keepends=True)
    export = read(content)
    turns = [turn for one in export.traces for turn in one.turns]
    assert (len(export.traces), len(turns)) == (280, 685)
    assert (sum(not turn.observation for turn in turns), sum(turn.error for turn in turns)) == (114, 61)
    assert export.exclusions == ()
    assert read(sorted(content)).traces == export.traces
    by_ends = sorted(content, key=lambda line: line[::-1])
    assert read(by_ends).traces == export.traces


@pytest.mark.parametrize("producer", ["otlp", "otlp-generated", "langfuse", "langsmith", "braintrust", "posthog"])
def test_real_files_of_many_producers_are_read_or_refused_by_reason(producer: str) -> None:
    folder = SHARED / "traces" / producer
    if not folder.exists():
        pytest.skip(f"NOT RUN: {folder} isn't on this machine")
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            export = read_export(file, lambda text: (text, 0))
        assert export.traces or export.exclusions, path
