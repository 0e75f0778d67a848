"""LangWatch's exports: collector bodies, downloads, and spans of command-line agents."""

from __future__ import annotations

import json
from typing import Any

from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read


def typed(kind: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "value": value}


CALLS = [{"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": f'{{"n":{n}}}'}} for n in (1, 2)]
ASKED = typed("chat_messages", [{"role": "user", "content": "Look."}])
SPANS: list[dict[str, Any]] = [
    {
        "type": "llm",
        "span_id": "s1",
        "vendor": "p1",
        "model": "m1",
        "input": ASKED,
        "output": typed("chat_messages", [{"role": "assistant", "content": None, "tool_calls": CALLS}]),
        "metrics": {"prompt_tokens": 6, "completion_tokens": 2, "cost": 0.001},
        "timestamps": {"started_at": 1767225601000, "finished_at": 1767225601500},
    },
    {
        "type": "tool",
        "span_id": "s2",
        "parent_id": None,
        "name": "look",
        "input": typed("json", {"n": 2}),
        "output": typed("text", "two"),
        "error": {"has_error": True, "message": "half", "stacktrace": []},
        "timestamps": {"started_at": 1767225602000, "finished_at": 1767225602500},
    },
    {
        "type": "tool",
        "span_id": "s3",
        "name": "look",
        "input": typed("json", json.dumps({"n": 1})),
        "outputs": [typed("text", "one")],
        "error": {"has_error": False},
        "timestamps": {"started_at": 1767225603000},
    },
    {
        "type": "llm",
        "span_id": "s4",
        "input": ASKED,
        "output": typed("text", "Seen."),
        "timestamps": {"started_at": 1767225604000},
    },
]
TRACE = {
    "trace_id": "t1",
    "spans": SPANS,
    "metadata": {"thread_id": "th1"},
    "evaluations": [
        {"name": "ok", "passed": True, "details": "fine", "status": "processed"},
        {"name": "skipped", "score": 0, "status": "skipped"},
    ],
    "annotations": [
        {"isThumbsUp": False, "comment": "meh", "scoreOptions": {"style": {"value": "dry", "reason": "r"}}}
    ],
}
PAIRS = [("look", '{"n":1}', "one"), ("look", '{"n":2}', "two")]


def test_bodies_and_downloads_are_the_same_trace() -> None:
    for document in (TRACE, [TRACE], {"traces": [TRACE]}, {"groups": [[TRACE]], "totalHits": 1}):
        assert source("langwatch").recognises(document)
        found = read("langwatch", document)
        assert pairs(found.only) == PAIRS
        assert [turn.error for turn in found.only.turns] == [False, True]
        assert (found.only.task, found.only.final) == ("Look.", "Seen.")
        assert found.total("gen_ai.usage.input_tokens") == 6
        assert found.total("exp.cost.nano_usd") == 1_000_000
        assert found.spoken[0].end - found.spoken[0].start == 500_000_000


def test_evaluations_and_annotations_say_who_gave_them() -> None:
    assert [
        (note["name"], note["value"], note["label"], note["origin"]) for note in read("langwatch", TRACE).annotations
    ] == [
        ("ok", "1", "true", "model"),
        ("thumbs-up", "0", "false", "human"),
        ("style", "", "dry", "human"),
    ]


def test_a_trace_without_a_name_of_its_own_has_that_of_its_spans() -> None:
    unnamed = {"spans": [{**one, "trace_id": "t9"} for one in SPANS]}
    assert source("langwatch").recognises(unnamed)
    assert list(read("langwatch", unnamed).traces) == ["t9"]


def test_a_tool_run_of_a_command_line_agent_is_read() -> None:
    chat = {
        "scopeName": "cli",
        "spanName": "ai.streamText.doStream",
        "traceId": "t1",
        "spanId": "a",
        "startTime": 1767225601000,
        "attributes": {
            "ai.prompt.messages": json.dumps([{"role": "user", "content": "Go."}]),
            "ai.response.toolCalls": json.dumps([{"toolCallId": "c1", "toolName": "run", "args": '{"x":1}'}]),
            "ai.usage.promptTokens": 3,
        },
    }
    tool = {
        "scopeName": "cli",
        "spanName": "ai.toolCall",
        "traceId": "t1",
        "spanId": "b",
        "startTime": 1767225602000,
        "attributes": {
            "ai.toolCall.name": "run",
            "ai.toolCall.id": "c1",
            "ai.toolCall.args": '{"x":1}',
            "ai.toolCall.result": '"ran"',
        },
    }
    found = read("langwatch", tool, chat)
    assert pairs(found.only) == [("run", '{"x":1}', "ran")]
    assert found.total("gen_ai.usage.input_tokens") == 3


def test_what_is_no_span_is_an_exclusion() -> None:
    assert read("langwatch", [3, {"x": 1}], {"trace_id": "t", "spans": ["x"]}).reasons[:3] == ["not-a-span"] * 3


def test_opentelemetry_among_langwatchs_exports_is_read_too() -> None:
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps([{"role": "user", "content": "Go."}])}},
        {
            "key": "gen_ai.output.messages",
            "value": {"stringValue": json.dumps([{"role": "assistant", "content": "Done."}])},
        },
    ]
    spans = [
        {
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "b7ad6b7169203331",
            "name": "chat",
            "attributes": attributes,
        }
    ]
    found = read("langwatch", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert found.only.final == "Done."
    assert not source("langwatch").recognises(3)
