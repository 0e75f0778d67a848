"""Dialects of OpenTelemetry: the same short session in each of them becomes the same trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.episode import Turn
from ledger.families.traces import Annotation, Model, Trace, Usage
from projections.normal_form import dialects
from projections.normal_form.dialects import indexed
from projections.normal_form.export import Export, read_export
from tests.projections.spans_double import lines

SHARED = Path(__file__).parents[3] / "shared" / "data" / "traces"
START = 1_700_000_000_000_000_000
ARGUMENTS = '{"command":"wc -l hosts"}'


def keep(text: str) -> tuple[str, int]:
    return text, 0


def value(one: Any) -> dict[str, Any]:
    if isinstance(one, bool):
        return {"boolValue": one}
    if isinstance(one, int):
        return {"intValue": str(one)}
    if isinstance(one, float):
        return {"doubleValue": one}
    if isinstance(one, list):
        return {"arrayValue": {"values": [value(item) for item in one]}}
    return {"stringValue": one}


def span(number: int, name: str, told: dict[str, Any], parent: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(START + number * 1_000_000),
        "endTimeUnixNano": str(START + number * 1_000_000 + 500_000),
        "attributes": [{"key": key, "value": value(item)} for key, item in told.items()],
        **more,
    }


def read(*spans: Any) -> Export:
    export = read_export(lines(spans), keep)
    totals = export.totals
    assert totals.units == totals.used + totals.excluded
    return export


def one(*spans: Any) -> Trace:
    (trace,) = read(*spans).traces
    return trace


CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": ARGUMENTS}}
PART = {"type": "tool_call", "id": "c1", "name": "run", "arguments": {"command": "wc -l hosts"}}
ASKED: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
TOLD: list[dict[str, Any]] = [
    *ASKED,
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "3"},
]


def test_current_names() -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "How many?"}]}]
    made = [
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "I count."}, PART],
        }
    ]
    shared = {"gen_ai.conversation.id": "conv", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    trace = one(
        span(1, "invoke_agent desk", {"gen_ai.operation.name": "invoke_agent", **shared}),
        span(
            2,
            "chat m",
            {
                "gen_ai.operation.name": "chat",
                **shared,
                "gen_ai.response.model": "m-1",
                "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
                "gen_ai.input.messages": json.dumps(asked),
                "gen_ai.output.messages": json.dumps(made),
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 5,
                "gen_ai.usage.cost": 0.000125,
            },
            1,
        ),
        span(
            3,
            "execute_tool run",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "run",
                "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.result": "3",
            },
            1,
            status={"code": 2},
        ),
    )
    assert trace.turns == (
        Turn(tool="run", arguments=ARGUMENTS, observation="3", error=True, call_id="c1", said="I count."),
    )
    assert (trace.task, trace.system, trace.conversation_id) == ("How many?", "Be brief.", "conv")
    assert trace.models == (Model(requested="m", served="m-1", provider="openai"),)
    assert trace.usage == Usage(input_tokens=10, output_tokens=5)
    assert (trace.cost, trace.duration_us) == (125_000, 2_500)


def indexed_prompt(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for index, message in enumerate(messages):
        for key in ("role", "content", "tool_call_id"):
            if key in message:
                told[f"{prefix}.{index}.{key}"] = message[key]
        for number, call in enumerate(message.get("tool_calls", [])):
            told[f"{prefix}.{index}.tool_calls.{number}.id"] = call["id"]
            told[f"{prefix}.{index}.tool_calls.{number}.name"] = call["function"]["name"]
            told[f"{prefix}.{index}.tool_calls.{number}.arguments"] = call["function"]["arguments"]
    return told


def test_traceloops_indices_are_numbers_also_past_nine() -> None:
    before = [{"role": "user" if number % 2 == 0 else "assistant", "content": f"m{number}"} for number in range(10)]
    told = indexed_prompt("gen_ai.prompt", [*before, *TOLD[2:]])
    told = dict(sorted(told.items()))
    trace = one(
        span(
            1,
            "openai.chat",
            {
                "llm.request.type": "chat",
                "gen_ai.system": "openai",
                **told,
                **indexed_prompt("gen_ai.completion", [{"role": "assistant", "content": "Three."}]),
                "gen_ai.completion.0.finish_reason": "stop",
                "llm.request.functions.10.name": "z",
                "llm.request.functions.2.name": "run",
                "gen_ai.usage.prompt_tokens": 7,
                "gen_ai.usage.completion_tokens": 2,
                "llm.usage.total_tokens": 9,
            },
        )
    )
    assert (trace.task, trace.final) == ("m0", "Three.")
    assert trace.turns == (Turn(tool="run", arguments=ARGUMENTS, observation="3", error=False, call_id="c1"),)
    assert trace.usage == Usage(input_tokens=7, output_tokens=2)
    assert not [name for name, _ in trace.attributes if name.startswith(("llm.", "gen_ai.prompt"))]


def test_numbers_in_names_are_numbers_and_what_they_name_is_an_object_where_others_are_named_too() -> None:
    told = {"a.10.b": 1, "a.9.b": 2, "a.009.c": 3, "b": 4}
    assert indexed.taken(told, "a.") == [{"c": 3}, {"b": 2}, {"b": 1}]
    assert told == {"b": 4}
    assert indexed.taken({"a.1": 1, "a.x": 2}, "a.") == {"1": 1, "x": 2}


def test_traceloops_entities_are_tools_and_workflows() -> None:
    trace = one(
        span(
            1,
            "desk.workflow",
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": json.dumps({"inputs": {"messages": ASKED}}),
                "traceloop.association.properties.session_id": "s1",
            },
        ),
        span(
            2,
            "run.tool",
            {
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "run.tool",
                "traceloop.entity.input": json.dumps({"inputs": {"command": "wc -l hosts"}}),
                "traceloop.entity.output": json.dumps({"output": "3"}),
            },
            1,
        ),
    )
    assert (trace.task, trace.conversation_id) == ("How many?", "s1")
    assert trace.turns == (Turn(tool="run", arguments=ARGUMENTS, observation="3", error=False),)


def openinference(messages: list[dict[str, Any]], prefix: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for index, message in enumerate(messages):
        start = f"{prefix}.{index}.message"
        for key in ("role", "content", "tool_call_id"):
            if key in message:
                told[f"{start}.{key}"] = message[key]
        for number, call in enumerate(message.get("tool_calls", [])):
            told[f"{start}.tool_calls.{number}.tool_call.id"] = call["id"]
            for key, item in call["function"].items():
                told[f"{start}.tool_calls.{number}.tool_call.function.{key}"] = item
    return told


OPENINFERENCE = [
    ("agent", {"openinference.span.kind": "AGENT", "input.value": "How many?", "session.id": "s"}, 0),
    (
        "ChatCompletion",
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.system": "openai",
            **openinference(ASKED, "llm.input_messages"),
            **openinference([{"role": "assistant", "tool_calls": [CALL]}], "llm.output_messages"),
            "llm.token_count.prompt": 8,
            "llm.token_count.completion": 4,
            "llm.token_count.prompt_details.cache_read": 3,
            "llm.tools.0.tool.json_schema": '{"type":"function"}',
            "input.value": json.dumps({"messages": ASKED}),
        },
        1,
    ),
    (
        "run",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "run",
            "input.value": '{"command": "wc -l hosts"}',
            "output.value": json.dumps({"content": "3", "type": "tool", "tool_call_id": "c1"}),
        },
        1,
    ),
]


def test_openinference() -> None:
    trace = one(*(span(number, name, told, parent) for number, (name, told, parent) in enumerate(OPENINFERENCE, 1)))
    assert (trace.task, trace.system, trace.conversation_id) == ("How many?", "Be brief.", "s")
    assert trace.turns == (Turn(tool="run", arguments=ARGUMENTS, observation="3", error=False, call_id="c1"),)
    assert trace.models == (Model(requested="m", provider="openai"),)
    assert trace.usage == Usage(input_tokens=8, output_tokens=4, cached_tokens=3)
    assert trace.attributes == (("gen_ai.provider.name", "openai"), ("gen_ai.request.model", "m"))


def nested(told: dict[str, Any]) -> dict[str, Any]:
    whole = indexed.taken(dict(told), "")
    assert isinstance(whole, dict)
    return whole


@pytest.mark.parametrize("form", ["columns", "nested", "flat"])
def test_phoenix_exports_are_flat_with_columns_or_objects_in_objects(form: str) -> None:
    flat = []
    for number, (name, told, parent) in enumerate(OPENINFERENCE, 1):
        row: dict[str, Any] = {
            "name": name,
            "span_kind": told["openinference.span.kind"],
            "parent_id": f"{parent:016x}" if parent else None,
            "start_time": f"2026-01-02T03:04:{number:02d}.123456789Z",
            "end_time": f"2026-01-02T03:04:{number:02d}.5+00:00",
            "status_code": "ERROR" if number == 3 else "OK",
        }
        kept = {key: item for key, item in told.items() if key != "openinference.span.kind"}
        if form == "columns":
            row |= {"context.trace_id": "t1", "context.span_id": f"{number:016x}", "attributes.empty": None}
            row |= {f"attributes.{key}": item for key, item in kept.items()}
        else:
            row["context"] = {"trace_id": "t1", "span_id": f"{number:016x}"}
            row["attributes"] = nested(kept) if form == "nested" else kept
        flat.append(row)
    for name in ("otlp", "phoenix", "openinference"):
        (trace,) = read_export(lines(flat), keep, name).traces
        assert (trace.name, trace.task, trace.duration_us) == ("t1", "How many?", 2_376_543)
        assert trace.turns == (Turn(tool="run", arguments=ARGUMENTS, observation="3", error=True, call_id="c1"),)
        assert trace.usage == Usage(input_tokens=8, output_tokens=4, cached_tokens=3)


def test_a_console_exporters_spans_are_read() -> None:
    told = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Hi?", "gen_ai.completion": "Hi."}
    context = {"trace_id": "0x0af7651916cd43dd8448eb211c80319c", "span_id": "0xb7ad6b7169203331"}
    written = {
        "name": "chat",
        "context": context,
        "parent_id": None,
        "start_time": "2026-01-02T03:04:05Z",
        "status": {"status_code": "UNSET"},
        "attributes": told,
        "resource": {"attributes": {"team": "search"}},
    }
    trace = one(written)
    assert (trace.name, trace.task, trace.final) == ("0af7651916cd43dd8448eb211c80319c", "Hi?", "Hi.")
    assert ("team", "search") in trace.attributes


def test_pydantic_ais_conversation_is_on_the_agents_span_and_its_tools_have_names_of_their_own() -> None:
    events = [
        {"event.name": "gen_ai.user.message", "role": "user", "content": "How many?", "gen_ai.message.index": 0},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "tool_calls": [CALL]},
        {"event.name": "gen_ai.tool.message", "role": "tool", "id": "c1", "content": "3"},
    ]
    final = {"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": "Three."}}
    trace = one(
        span(
            1,
            "agent run",
            {
                "gen_ai.operation.name": "invoke_agent",
                "all_messages_events": json.dumps([*events, final]),
                "final_result": "Three.",
                "model_name": "m",
                "operation.cost": 0.5,
            },
        )
    )
    assert (trace.task, trace.final) == ("How many?", "Three.")
    assert trace.turns == (Turn(tool="run", arguments=ARGUMENTS, observation="3", error=False, call_id="c1"),)
    parts = [
        {"role": "user", "parts": [{"type": "text", "content": "How many?"}]},
        {"role": "assistant", "parts": [PART]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "3"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Three."}]},
    ]
    newer = {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": json.dumps(parts)}
    assert one(span(1, "agent run", newer)).turns == trace.turns
    ran = span(
        2,
        "running tool",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "run",
            "tool_arguments": ARGUMENTS,
            "tool_response": "3",
        },
    )
    assert one(ran).turns[0].observation == "3"
    chat = {"gen_ai.operation.name": "chat", "events": json.dumps([*events, final]), "operation.cost": 0.25}
    assert one(span(1, "chat m", chat)).turns == trace.turns
    assert one(span(1, "chat m", chat)).cost == 250_000_000


def test_vercels_sdk() -> None:
    prompt = [
        {"role": "user", "content": [{"type": "text", "text": "How many?"}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c0", "toolName": "run", "input": {}}]},
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "c0", "toolName": "run", "output": {"type": "text", "value": "0"}}
            ],
        },
    ]
    call = [{"toolCallId": "c1", "toolName": "run", "args": ARGUMENTS}]
    trace = one(
        span(
            1,
            "ai.generateText",
            {
                "ai.operationId": "ai.generateText",
                "ai.prompt": json.dumps({"prompt": "How many?"}),
                "ai.usage.promptTokens": 9,
            },
        ),
        span(
            2,
            "ai.generateText.doGenerate",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt.messages": json.dumps(prompt),
                "ai.response.toolCalls": json.dumps(call),
                "ai.response.text": "Counting.",
                "ai.model.id": "m",
                "ai.usage.promptTokens": 9,
                "ai.usage.completionTokens": 4,
            },
            1,
        ),
        span(
            3,
            "ai.toolCall",
            {
                "ai.operationId": "ai.toolCall",
                "ai.toolCall.name": "run",
                "ai.toolCall.id": "c1",
                "ai.toolCall.args": ARGUMENTS,
                "ai.toolCall.result": '"3"',
            },
            1,
        ),
    )
    assert [(turn.call_id, turn.observation, turn.said) for turn in trace.turns] == [
        ("c0", "0", ""),
        ("c1", '"3"', "Counting."),
    ]
    assert trace.usage == Usage(input_tokens=9, output_tokens=4)


def test_messages_as_providers_write_them() -> None:
    anthropic = [
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "run", "input": {"a": 1}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "3"}],
                }
            ],
        },
    ]
    gemini = [
        {"role": "user", "parts": [{"text": "How many?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {"a": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "run", "response": {"out": 3}}}]},
    ]
    bedrock = [
        {"role": "user", "content": [{"text": "How many?"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "run", "input": {"a": 1}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "3"}]}}]},
    ]
    responses = [
        {"role": "user", "content": [{"type": "input_text", "text": "How many?"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "run", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]
    langchain = [
        {"lc": 1, "type": "constructor", "kwargs": {"type": "human", "content": "How many?"}},
        {
            "lc": 1,
            "kwargs": {"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "run", "args": {"a": 1}}]},
        },
        {"lc": 1, "kwargs": {"type": "tool", "content": "3", "tool_call_id": "c1"}},
    ]
    doubly = json.dumps(json.dumps(responses))
    for given_messages in (anthropic, gemini, bedrock, responses, langchain, [langchain], doubly):
        written = given_messages if isinstance(given_messages, str) else json.dumps(given_messages)
        trace = one(span(1, "chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": written}))
        (turn,) = trace.turns
        assert (trace.task, turn.tool, turn.arguments) == ("How many?", "run", '{"a":1}')
        assert turn.observation == ('{"out":3}' if given_messages is gemini else "3")
        assert (turn.paired, turn.error) == ("order" if given_messages is gemini else "", given_messages is anthropic)


def test_annotations_rewards_tasks_and_evaluations_are_kept() -> None:
    noted = [{"name": "helpful", "value": 0.50, "origin": "human", "comment": "ok"}, {"name": "x", "label": "good"}, {}]
    event = {
        "name": "gen_ai.evaluation.result",
        "attributes": [
            {"key": f"gen_ai.evaluation.{key}", "value": value(item)}
            for key, item in {"name": "relevance", "score.value": 0.75, "score.label": "high"}.items()
        ],
    }
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt": "Hi?",
        "gen_ai.completion": "Hi.",
        "exp.annotations": json.dumps(noted),
        "exp.task.id": "task-1",
        "exp.reward": 1.50,
    }
    trace = one(span(1, "chat", told, events=[event]))
    assert trace.annotations == (
        Annotation(name="helpful", value="0.5", origin="human", comment="ok"),
        Annotation(name="relevance", value="0.75", label="high"),
        Annotation(name="x", label="good"),
    )
    assert (trace.reward, trace.task_id) == ("1.5", "task-1")
    metadata = {key: item for key, item in told.items() if key != "exp.task.id"} | {"meta": '{"task_id":"t-9"}'}
    assert one(span(1, "chat", metadata)).task_id == "t-9"
    other = span(2, "chat", {**told, "exp.reward": 2, "exp.task.id": "task-2"})
    assert (one(span(1, "chat", told), other).reward, one(span(1, "chat", told), other).task_id) == ("", "")


def test_what_a_call_does_not_say_makes_sums_unknown_and_errors_are_named() -> None:
    told = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Hi?", "gen_ai.completion": "Hi.", "gen_ai.usage.cost": 1}
    counted = {**told, "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4}
    both = one(span(1, "chat", counted), span(2, "chat", told))
    assert (both.usage, both.cost) == (None, 2_000_000_000)
    free = {key: item for key, item in told.items() if key != "gen_ai.usage.cost"}
    assert one(span(1, "chat", counted), span(2, "chat", free)).cost is None
    failed = span(3, "chat", {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Hi?", "error.type": "RateLimited"})
    trace = one(span(1, "chat", counted), failed)
    assert (trace.usage, trace.errors) == (Usage(input_tokens=3, output_tokens=4), ("RateLimited",))
    for wrong in ("many", -1, 0.5, 2**60):
        odd = {**counted, "gen_ai.usage.input_tokens": wrong}
        assert one(span(1, "chat", odd)).usage == Usage(output_tokens=4)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    [
        mark.strip() + tail
        for dialect in dialects.DIALECTS
        for mark in dialect.marks
        for tail in ("", "0", "0.role", "0.message.content", "0.tool_calls.0", "x.0")
    ]
    + ["input.value", "output.value", "openinference.span.kind", "traceloop.span.kind", "ai.operationId", "ai.prompt"]
    + ["traceloop.entity.input", "traceloop.entity.output", "ai.response.toolCalls", "exp.annotations", "exp.reward"]
    + ["gen_ai.usage.cost", "gen_ai.usage.input_tokens", "gen_ai.operation.name", "exp.source", "exp.trace", "exp.turn"]
)
values = json_values | st.sampled_from(
    ["TOOL", "LLM", "AGENT", "tool", "workflow", "chat", "execute_tool", "ai.toolCall"]
)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.dictionaries(names, values | json_values.map(json.dumps), max_size=8), min_size=1, max_size=3))
def test_no_value_under_any_name_stops_the_reading(given_attributes: list[dict[str, Any]]) -> None:
    spans = [{**span(number, "x", {}), "attributes": told} for number, told in enumerate(given_attributes, 1)]
    read(*spans)


@pytest.mark.parametrize(
    ("file", "turns", "finals"),
    [
        ("otlp/legacy-span-events.synthetic.otlp.json", 1, 0),
        ("otlp/vs-copilot-sample-1.jsonl", 3, 0),
        ("otlp/vs-copilot-sample-2.jsonl", 3, 0),
        ("otlp-generated/contrib-v2-new.otlp.json", 2, 3),
        ("otlp-generated/contrib-v2-structural-only.otlp.json", 2, 0),
        ("otlp-generated/openinference.otlp.json", 2, 3),
        ("otlp-generated/pydantic-ai.otlp.json", 0, 2),
        ("otlp-generated/traceloop-0.46-indexed-attrs.otlp.json", 2, 3),
        ("otlp-generated/traceloop.otlp.json", 2, 3),
    ],
)
def test_real_files_are_read_with_the_right_pairs(file: str, turns: int, finals: int) -> None:
    path = SHARED / file
    if not path.exists():
        pytest.skip(f"NOT RUN: {path} isn't on this machine")
    with path.open("rb") as opened:
        export = read_export(opened, keep)
    assert export.totals.units == export.totals.used + export.totals.excluded
    found = [turn for trace in export.traces for turn in trace.turns]
    assert len(found) == turns
    assert sum(trace.final is not None for trace in export.traces) == finals
    assert {turn.paired for turn in found} <= {""}
    if file.startswith("otlp-generated"):
        outputs = {turn.observation: turn.arguments for turn in found}
        assert set(outputs) <= {"3 /etc/hosts\n", "cat: /tmp/nope.txt: No such file or directory\n"}
        assert "echo" in outputs.get("3 /etc/hosts\n", "echo")
        assert "run_command" in outputs.get("cat: /tmp/nope.txt: No such file or directory\n", "run_command")
        assert all(
            trace.models
            == (Model(requested="smollm2-135m-instruct", served=trace.models[0].served, provider="openai"),)
            for trace in export.traces
        )
        assert all(trace.usage is not None for trace in export.traces)
    if "copilot" in file:
        (trace,) = export.traces
        assert trace.conversation_id == "4a8f63f6-7626-4416-a874-fc7bd2c3f005"
        assert trace.turns[2].observation == "Build succeeded with 0 warning(s)."
