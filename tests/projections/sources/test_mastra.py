"""Mastra's exports: spans of its exporters, its tables and its API."""

from __future__ import annotations

import json
from typing import Any

from ledger.families.traces import Usage
from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read


def span(number: int, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "traceId": "t1",
        "spanId": f"s{number}",
        "parentSpanId": None if number == 1 else "s1",
        "name": members.pop("name", kind),
        "spanType": kind,
        "startedAt": f"2026-01-01T00:00:0{number}.000Z",
        "endedAt": f"2026-01-01T00:00:0{number}.500Z",
        **members,
    }


ASKED = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Weather?"}]}]}
CALLS = [{"type": "tool-call", "toolCallId": f"c{n}", "toolName": "weather", "args": {"day": n}} for n in (1, 2)]
SPANS = [
    span(
        1, "agent_run", name="agent run: 'a'", input="Weather?", output={"text": "Fine."}, metadata={"threadId": "th1"}
    ),
    span(
        2,
        "model_generation",
        input=ASKED,
        output={"text": "Fine."},
        attributes={
            "model": "m1",
            "provider": "p1",
            "usage": {"inputTokens": 9, "outputTokens": 4, "inputDetails": {"cacheRead": 3}},
        },
    ),
    span(
        3,
        "model_step",
        parentSpanId="s2",
        output={"text": "", "toolCalls": CALLS},
        attributes={"usage": {"inputTokens": 5, "outputTokens": 3, "inputDetails": {"cacheRead": 3}}},
    ),
    span(4, "tool_call", name="tool: 'weather'", input={"day": 2}, output={"sky": "grey"}),
    span(5, "tool_call", name="tool: 'weather'", input={"day": 1}, error={"message": "no sky"}),
    span(
        6,
        "model_step",
        parentSpanId="s2",
        output={"text": "Fine."},
        attributes={"usage": {"inputTokens": 4, "outputTokens": 1}},
    ),
    span(7, "model_chunk", parentSpanId="s6", output={"text": "Fine."}),
]
PAIRS = [("weather", '{"day":1}', "no sky"), ("weather", '{"day":2}', '{"sky":"grey"}')]


def snake(row: dict[str, Any]) -> dict[str, Any]:
    named = {"".join(f"_{one.lower()}" if one.isupper() else one for one in name): it for name, it in row.items()}
    return {name: json.dumps(it) if name in ("input", "output", "attributes") else it for name, it in named.items()}


def test_lists_tables_and_events_are_the_same_trace() -> None:
    events = [{"type": "span_ended", "exportedSpan": one} for one in SPANS]
    logged = [{"type": "trace", "timestamp": "2026-01-01T00:00:00Z", "data": one} for one in events]
    inner = [{name: it for name, it in one.items() if name != "traceId"} for one in SPANS]
    typed = [{**one, "type": one["spanType"], "spanType": None} for one in SPANS]
    for document in (
        SPANS,
        {"spans": SPANS},
        {"data": [{"traceId": "t1", "spans": inner}]},
        events,
        logged,
        [*map(snake, SPANS)],
        typed,
    ):
        assert source("mastra").recognises(document) or document == {"data": [{"traceId": "t1", "spans": inner}]}
        found = read("mastra", document)
        assert pairs(found.only) == PAIRS
        assert [turn.error for turn in found.only.turns] == [True, False]
        assert (found.only.task, found.only.final) == ("Weather?", "Fine.")
        assert found.only.usage == Usage(input_tokens=9, output_tokens=4, cached_tokens=3)
        assert {one.attributes.get("gen_ai.conversation.id") for one in found.spans["t1"]} == {"th1", None}


def test_a_span_told_twice_is_one_with_what_its_end_says() -> None:
    begun = [{**one, "endedAt": None, "output": None} for one in SPANS]
    for documents in ([*begun, *SPANS], [*SPANS, *begun]):
        found = read("mastra", *documents)
        assert pairs(found.only) == PAIRS
        assert len(found.spans["t1"]) == len(SPANS)


def test_a_generation_without_steps_is_read_alone() -> None:
    found = read("mastra", {"spans": SPANS[:2]})
    assert (found.only.task, found.only.final) == ("Weather?", "Fine.")
    assert found.spoken[0].attributes["gen_ai.request.model"] == "m1"


def test_a_tool_that_says_it_failed_without_words_is_an_error() -> None:
    failed = span(
        4,
        "mcp_tool_call",
        attributes={"toolId": "weather", "success": False, "toolCallId": "c2"},
        input={"day": 2},
        output="?",
    )
    found = read("mastra", *SPANS[:3], failed)
    assert (found.only.turns[0].error, found.only.turns[0].arguments) == (True, '{"day":2}')


def test_what_is_no_span_is_an_exclusion() -> None:
    found = read("mastra", [3, {"name": "x"}, {"traceId": "t", "name": "x"}, {"traceId": {}, "spanType": "agent_run"}])
    assert found.reasons == ["not-a-span", "not-a-span", "row-without-trace", "row-without-trace"]
    assert not source("mastra").recognises({"traceId": "a", "spanId": "b", "type": "SPAN"})


def test_scores_of_a_span_are_a_models() -> None:
    scored = {**SPANS[0], "scores": [{"scorerName": "tone", "score": 0.5, "reason": "dry"}]}
    found = read("mastra", scored, *SPANS[1:])
    assert found.annotations == [{"name": "tone", "value": "0.5", "label": "", "origin": "model", "comment": "dry"}]
    assert not source("mastra").recognises(3)


def test_what_the_end_of_a_span_says_decides() -> None:
    for early, late in (("a", "z"), ("z", "a")):
        begun = {**SPANS[1], "endedAt": None, "output": {"text": early}}
        ended = {**SPANS[1], "output": {"text": late}}
        assert read("mastra", SPANS[0], begun, ended).spoken[0].attributes["gen_ai.output.messages"][0]["parts"] == [
            {"type": "text", "content": late}
        ]
