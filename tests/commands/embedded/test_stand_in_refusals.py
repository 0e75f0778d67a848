"""What the stand-in refuses, since the services refuse it: a table, and what it must accept."""

from __future__ import annotations

from typing import Any

import pytest

from commands.embedded.answer import CHAT, EMBEDDINGS, RESPONSES, answer
from tests.commands.embedded.asking import (
    BASH,
    COMMAND,
    JUDGE_SCHEMA,
    PARAMETERS,
    WORLD_MODEL_SCHEMA,
    agent,
    chat,
    closed,
    embeddings,
    example,
    judgment,
    responses,
    simulation,
    structured,
    turn,
)

USER = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
ITEM_CALL = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"}
ITEM_RESULT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
Case = tuple[dict[str, Any], str | None, str | None]


def without(request: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key != name}


def luna(**changes: Any) -> dict[str, Any]:
    return chat(model="gpt-5.6-luna", **changes)


def gpt4(**changes: Any) -> dict[str, Any]:
    return chat(model="gpt-4o", **changes)


def said(*messages: Any) -> dict[str, Any]:
    return chat(messages=list(messages))


def function(**changes: Any) -> dict[str, Any]:
    return agent(tools=[{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS, **changes}}])


def schema(wanted: dict[str, Any], *, strict: bool = True) -> dict[str, Any]:
    return chat(response_format=structured("mine", wanted, strict=strict))


# name of the case: request, parameter that the refusal names, its code
CHAT_REFUSALS: dict[str, Case] = {
    "no model": (without(chat(), "model"), "model", "missing_required_parameter"),
    "a model that is no text": (chat(model=5), "model", "invalid_type"),
    "an embedding model": (chat(model="text-embedding-3-small"), "model", None),
    "no messages": (without(chat(), "messages"), "messages", "missing_required_parameter"),
    "empty messages": (chat(messages=[]), "messages", "empty_array"),
    "messages that are no list": (chat(messages="hi"), "messages", "invalid_type"),
    "a message that is text": (said("hi"), "messages[0]", "invalid_type"),
    "an unknown parameter": (chat(top_k=5), "top_k", "unknown_parameter"),
    "an unknown parameter that is null": (chat(top_k=None), "top_k", "unknown_parameter"),
    "a bad role": (said({"role": "robot", "content": "hi"}), "messages[0].role", "invalid_value"),
    "no role": (said({"content": "hi"}), "messages[0].role", "missing_required_parameter"),
    "an unknown field of a message": (said({**USER, "mood": "good"}), "messages[0].mood", "unknown_parameter"),
    "null content of a user": (said({"role": "user", "content": None}), "messages[0].content", None),
    "no content of a user": (said({"role": "user"}), "messages[0].content", None),
    "content that is a number": (said({"role": "user", "content": 5}), "messages[0].content", "invalid_type"),
    "no parts": (said({"role": "user", "content": []}), "messages[0].content", "empty_array"),
    "a part without text": (
        said({"role": "user", "content": [{"type": "text"}]}),
        "messages[0].content[0].text",
        "missing_required_parameter",
    ),
    "a part that is a picture": (
        said({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}),
        "messages[0].content[0].type",
        "invalid_value",
    ),
    "an assistant that says nothing": (said(USER, {"role": "assistant", "content": None}), "messages[1].content", None),
    "no tool calls in a list of them": (
        said(USER, {"role": "assistant", "content": "x", "tool_calls": []}),
        "messages[1].tool_calls",
        "empty_array",
    ),
    "a tool call without an id": (
        said(USER, {"role": "assistant", "tool_calls": [without(CALL, "id")]}, RESULT),
        "messages[1].tool_calls[0].id",
        "missing_required_parameter",
    ),
    "arguments that are an object": (
        said(
            USER,
            {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "bash", "arguments": {}}}]},
            RESULT,
        ),
        "messages[1].tool_calls[0].function.arguments",
        "invalid_type",
    ),
    "a tool message without a call": (said(USER, RESULT), "messages[1].role", None),
    "a tool message for another call": (
        said(USER, CALLS, {**RESULT, "tool_call_id": "c2"}),
        "messages[2].role",
        None,
    ),
    "two tool messages for one call": (said(USER, CALLS, RESULT, RESULT), "messages[3].role", None),
    "a tool message without an id": (
        said(USER, CALLS, {"role": "tool", "content": "ok"}),
        "messages[2].tool_call_id",
        "missing_required_parameter",
    ),
    "a call without an answer": (said(USER, CALLS), "messages.[2].role", None),
    "a call that is answered too late": (said(USER, CALLS, USER, RESULT), "messages.[2].role", None),
    "temperature as text": (chat(temperature="0"), "temperature", "invalid_type"),
    "temperature as a boolean": (chat(temperature=True), "temperature", "invalid_type"),
    "temperature above 2": (chat(temperature=2.5), "temperature", "decimal_above_max_value"),
    "temperature below 0": (chat(temperature=-1), "temperature", "decimal_below_min_value"),
    "top_p above 1": (chat(top_p=1.5), "top_p", "decimal_above_max_value"),
    "no tokens at all": (chat(max_tokens=0), "max_tokens", "integer_below_min_value"),
    "half a token": (chat(max_tokens=1.5), "max_tokens", "invalid_type"),
    "both limits": (chat(max_tokens=5, max_completion_tokens=5), "max_tokens", "invalid_parameter_combination"),
    "a limit beyond the model's": (gpt4(max_tokens=100_000), "max_tokens", "invalid_value"),
    "n of 0": (chat(n=0), "n", "integer_below_min_value"),
    "five stop sequences": (chat(stop=list("abcde")), "stop", "array_above_max_length"),
    "stream as text": (chat(stream="yes"), "stream", "invalid_type"),
    "stream options without a stream": (chat(stream_options={"include_usage": True}), "stream_options", None),
    "an unknown stream option": (
        chat(stream=True, stream_options={"usage": True}),
        "stream_options.usage",
        "unknown_parameter",
    ),
    "logprobs, which it cannot compute": (chat(logprobs=True), "logprobs", "unsupported_parameter"),
    "legacy functions": (chat(functions=[]), "functions", "unsupported_parameter"),
    "sound": (chat(modalities=["text", "audio"]), "modalities", "unsupported_parameter"),
    "too much metadata": (chat(metadata={str(n): "x" for n in range(17)}), "metadata", "object_above_max_properties"),
    "metadata that is no text": (chat(metadata={"a": 1}), "metadata.a", "invalid_type"),
    "an unknown effort": (luna(reasoning_effort="huge"), "reasoning_effort", "invalid_value"),
    "max_tokens of a reasoning model": (luna(max_tokens=100), "max_tokens", "unsupported_parameter"),
    "temperature of a reasoning model": (luna(temperature=0), "temperature", "unsupported_value"),
    "temperature of an o model": (chat(model="o3-mini", temperature=0.5), "temperature", "unsupported_value"),
    "top_p of a reasoning model": (luna(top_p=0.5), "top_p", "unsupported_value"),
    "a penalty of a reasoning model": (luna(presence_penalty=1), "presence_penalty", "unsupported_parameter"),
    "stop of a reasoning model": (luna(stop="x"), "stop", "unsupported_parameter"),
    "function tools with an effort": (luna(tools=[BASH], reasoning_effort="xhigh"), "reasoning_effort", None),
    "an effort of a model that cannot reason": (gpt4(reasoning_effort="low"), None, None),
    "no tools in a list of them": (chat(tools=[]), "tools", "empty_array"),
    "too many tools": (
        chat(tools=[{"type": "function", "function": {"name": f"t{n}"}} for n in range(129)]),
        "tools",
        "array_above_max_length",
    ),
    "a tool choice without tools": (chat(tool_choice="auto"), "tool_choice", None),
    "parallel calls without tools": (chat(parallel_tool_calls=True), "parallel_tool_calls", None),
    "a tool choice that is not offered": (
        agent(tool_choice={"type": "function", "function": {"name": "other"}}),
        "tool_choice",
        None,
    ),
    "an unknown tool choice": (agent(tool_choice="maybe"), "tool_choice", "invalid_value"),
    "a tool without a function": (
        chat(tools=[{"type": "function"}]),
        "tools[0].function",
        "missing_required_parameter",
    ),
    "a flat tool, as responses takes it": (
        chat(tools=[{"type": "function", "name": "bash", "parameters": PARAMETERS}]),
        "tools[0].name",
        "unknown_parameter",
    ),
    "a tool of another type": (chat(tools=[{"type": "web_search"}]), "tools[0].type", "invalid_value"),
    "a function with a bad name": (function(name="a.b"), "tools[0].function.name", "invalid_value"),
    "a function with a long name": (function(name="a" * 65), "tools[0].function.name", "invalid_value"),
    "properties that are no object": (
        function(parameters={"type": "object", "properties": []}),
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "a property that is no schema": (
        function(parameters={"type": "object", "properties": {"a": 5}}),
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "parameters that are no object": (
        function(parameters={"type": "string"}),
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "an array parameter without items": (
        function(parameters={"type": "object", "properties": {"a": {"type": "array"}}}),
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "strict parameters that aren't": (
        function(strict=True, parameters=PARAMETERS),
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "a format without a type": (chat(response_format={}), "response_format.type", "missing_required_parameter"),
    "an unknown format": (chat(response_format={"type": "xml"}), "response_format.type", "invalid_value"),
    "a schema without a name": (
        chat(response_format={"type": "json_schema", "json_schema": {"schema": {}}}),
        "response_format.json_schema.name",
        "missing_required_parameter",
    ),
    "no schema at all": (
        chat(response_format={"type": "json_schema"}),
        "response_format.json_schema",
        "missing_required_parameter",
    ),
    "a JSON object that nobody mentioned": (chat(response_format={"type": "json_object"}), "messages", None),
    "an open object in strict mode": (
        schema(without(WORLD_MODEL_SCHEMA, "additionalProperties")),
        "response_format",
        "invalid_json_schema",
    ),
    "an optional property in strict mode": (
        schema({**WORLD_MODEL_SCHEMA, "required": ["observation"]}),
        "response_format",
        "invalid_json_schema",
    ),
    "a required property that isn't there": (
        schema({**closed(a={"type": "string"}), "required": ["a", "b"]}),
        "response_format",
        "invalid_json_schema",
    ),
    "an open object inside": (
        schema(closed(a={"type": "object", "properties": {}})),
        "response_format",
        "invalid_json_schema",
    ),
    "an array at the root": (schema({"type": "array", "items": {}}), "response_format", "invalid_json_schema"),
    "a property without a type": (schema(closed(a={})), "response_format", "invalid_json_schema"),
    "a type that isn't one": (schema(closed(a={"type": "text"})), "response_format", "invalid_json_schema"),
    "oneOf": (schema(closed(a={"type": "string", "oneOf": []})), "response_format", "invalid_json_schema"),
    "an object without properties": (
        schema({"type": "object", "additionalProperties": False}),
        "response_format",
        "invalid_json_schema",
    ),
    "an array without items": (schema(closed(a={"type": "array"})), "response_format", "invalid_json_schema"),
    "a property that is text": (schema(closed(a="string")), "response_format", "invalid_json_schema"),
    "a default": (schema(closed(a={"type": "string", "default": ""})), "response_format", "invalid_json_schema"),
    "items without a type": (
        schema(closed(a={"type": "array", "items": {}})),
        "response_format",
        "invalid_json_schema",
    ),
    "a fault inside anyOf": (
        schema(closed(a={"anyOf": [{"type": "string"}, {"type": "object"}]})),
        "response_format",
        "invalid_json_schema",
    ),
    "too long a prompt": (
        gpt4(messages=[{"role": "user", "content": "x" * 600_000}]),
        "messages",
        "context_length_exceeded",
    ),
}

RESPONSES_REFUSALS: dict[str, Case] = {
    "no input": (without(responses(), "input"), "input", "missing_required_parameter"),
    "no model": (without(responses(), "model"), "model", "missing_required_parameter"),
    "messages instead of input": (responses(messages=[USER]), "messages", "unknown_parameter"),
    "max_tokens": (responses(max_tokens=100), "max_tokens", "unknown_parameter"),
    "chat's reasoning_effort": (responses(reasoning_effort="low"), "reasoning_effort", "unknown_parameter"),
    "chat's response_format": (responses(response_format={"type": "text"}), "response_format", "unknown_parameter"),
    "fewer tokens than 16": (responses(max_output_tokens=15), "max_output_tokens", "integer_below_min_value"),
    "empty input": (responses(input=[]), "input", "empty_array"),
    "input that is a number": (responses(input=5), "input", "invalid_type"),
    "an unknown item": (responses(input=[{"type": "thought"}]), "input[0]", "invalid_value"),
    "a bad role": (responses(input=[{"role": "tool", "content": "x"}]), "input[0].role", "invalid_value"),
    "chat's part of a message": (
        responses(input=[{"role": "user", "content": [{"type": "text", "text": "x"}]}]),
        "input[0].content[0].type",
        "invalid_value",
    ),
    "an output without a call": (responses(input=[USER, ITEM_RESULT]), "input", None),
    "a call without an output": (responses(input=[USER, ITEM_CALL]), "input", None),
    "a call without a name": (
        responses(input=[USER, without(ITEM_CALL, "name"), ITEM_RESULT]),
        "input[1].name",
        "missing_required_parameter",
    ),
    "an earlier response": (
        responses(previous_response_id="resp_1"),
        "previous_response_id",
        "previous_response_not_found",
    ),
    "the background": (responses(background=True), "background", "unsupported_parameter"),
    "temperature of a reasoning model": (responses(temperature=0), "temperature", "unsupported_parameter"),
    "an effort of a model that cannot reason": (
        responses(model="gpt-4o"),
        "reasoning.effort",
        "unsupported_parameter",
    ),
    "an unknown effort": (responses(reasoning={"effort": "huge"}), "reasoning.effort", "invalid_value"),
    "a nested tool, as chat takes it": (responses(tools=[BASH]), "tools[0].function", "unknown_parameter"),
    "a tool of another type": (responses(tools=[{"type": "mcp"}]), "tools[0].type", "invalid_value"),
    "a format with a schema that isn't strict": (
        responses(text={"format": {"type": "json_schema", "name": "m", "strict": True, "schema": {"type": "object"}}}),
        "text.format",
        "invalid_json_schema",
    ),
    "a format without a schema": (
        responses(text={"format": {"type": "json_schema", "name": "m"}}),
        "text.format.schema",
        "missing_required_parameter",
    ),
    "an embedding model": (responses(model="embedded-embedder"), "model", None),
    "a tool choice that is not offered": (
        responses(tool_choice={"type": "function", "name": "other"}),
        "tool_choice",
        None,
    ),
    "stream options without a stream": (responses(stream_options={}), "stream_options", None),
}

EMBEDDINGS_REFUSALS: dict[str, Case] = {
    "no input": (without(embeddings(), "input"), "input", "missing_required_parameter"),
    "no model": (without(embeddings(), "model"), "model", "missing_required_parameter"),
    "empty text": (embeddings(input=""), "input", "invalid_value"),
    "empty text among others": (embeddings(input=["a", ""]), "input", "invalid_value"),
    "an empty list": (embeddings(input=[]), "input", "invalid_value"),
    "a number as text": (embeddings(input=["a", 5]), "input[1]", "invalid_type"),
    "an object": (embeddings(input={"a": 1}), "input", "invalid_type"),
    "2,049 inputs": (embeddings(input=["a"] * 2049), "input", "array_above_max_length"),
    "an input of more than 8,192 tokens": (embeddings(input=["a b " * 8_200]), "input", "invalid_value"),
    "more than 300,000 tokens": (embeddings(input=["a b " * 8_000] * 38), None, "max_tokens_per_request"),
    "an unknown encoding": (embeddings(encoding_format="hex"), "encoding_format", "invalid_value"),
    "more dimensions than the model has": (embeddings(dimensions=1537), "dimensions", None),
    "no dimensions": (embeddings(dimensions=0), "dimensions", "integer_below_min_value"),
    "dimensions of a model that has one length": (
        embeddings(model="text-embedding-ada-002", dimensions=256),
        "dimensions",
        None,
    ),
    "an unknown parameter": (embeddings(truncate=True), "truncate", "unknown_parameter"),
    "a chat model": (embeddings(model="gpt-4o"), None, None),
}
TABLE = [
    pytest.param(api, *case, id=f"{api}: {name}")
    for api, cases in ((CHAT, CHAT_REFUSALS), (RESPONSES, RESPONSES_REFUSALS), (EMBEDDINGS, EMBEDDINGS_REFUSALS))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("api", "request_", "param", "code"), TABLE)
def test_what_the_service_refuses_is_refused(
    api: str, request_: dict[str, Any], param: str | None, code: str | None
) -> None:
    status, body = answer(api, request_)
    assert 400 <= status < 500
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize("request_", [None, [], "text", 5])
@pytest.mark.parametrize("api", [CHAT, RESPONSES, EMBEDDINGS])
def test_a_body_that_is_no_object_is_refused(api: str, request_: object) -> None:
    status, body = answer(api, request_)
    assert status == 400
    assert body["error"]["type"] == "invalid_request_error"


PARTS = [{"type": "text", "text": "hello"}]
ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a candidate": (CHAT, agent(max_tokens=8000, temperature=0)),
    "a candidate that reasons": (RESPONSES, responses()),
    "a candidate that reasons, later on": (RESPONSES, responses(input=[USER, ITEM_CALL, ITEM_RESULT])),
    "a world model": (CHAT, simulation(COMMAND, example(COMMAND, "x"))),
    "a judge": (CHAT, judgment(turn())),
    "an embedder": (EMBEDDINGS, embeddings()),
    "a judge through responses": (
        RESPONSES,
        responses(text={"format": {"type": "json_schema", "name": "m", "strict": True, "schema": JUDGE_SCHEMA}}),
    ),
    "parts of text": (CHAT, said({"role": "user", "content": PARTS})),
    "role developer": (CHAT, said({"role": "developer", "content": "x"}, USER)),
    "an assistant that only refuses": (CHAT, said(USER, {"role": "assistant", "refusal": "no"}, USER)),
    "calls answered in another order": (
        CHAT,
        said(
            USER,
            {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
            {**RESULT, "tool_call_id": "c2"},
            RESULT,
        ),
    ),
    "arguments that are no JSON": (
        CHAT,
        said(USER, {**CALLS, "tool_calls": [{**CALL, "function": {"name": "bash", "arguments": "{oops"}}]}, RESULT),
    ),
    "optional parameters that are null": (CHAT, chat(temperature=None, tools=None, stop=None, n=None, seed=None)),
    "temperature 1 of a reasoning model": (CHAT, luna(temperature=1)),
    "an effort without tools": (CHAT, luna(reasoning_effort="high")),
    "tools without an effort": (CHAT, luna(tools=[BASH])),
    "tools with effort none": (CHAT, luna(tools=[BASH], reasoning_effort="none")),
    "an effort of a compatible service's model": (CHAT, chat(model="deepseek-v4-flash", reasoning_effort="low")),
    "a chat model of the fifth kind": (CHAT, chat(model="gpt-5-chat-latest", temperature=0)),
    "a JSON object that is mentioned": (
        CHAT,
        chat(messages=[{"role": "user", "content": "Give me JSON."}], response_format={"type": "json_object"}),
    ),
    "a loose schema": (CHAT, schema({"type": "object"}, strict=False)),
    "a function without parameters": (CHAT, agent(tools=[{"type": "function", "function": {"name": "now"}}])),
    "strict parameters": (CHAT, function(strict=True, parameters=closed(command={"type": "string"}))),
    "a nullable property": (CHAT, schema(closed(a={"type": ["string", "null"]}))),
    "plain text as input": (RESPONSES, responses(input="hello")),
    "a list of outputs": (
        RESPONSES,
        responses(input=[USER, ITEM_CALL, {**ITEM_RESULT, "output": [{"type": "input_text", "text": "ok"}]}]),
    ),
    "2,048 inputs": (EMBEDDINGS, embeddings(input=["a"] * 2048)),
    "an input of 8,192 tokens": (EMBEDDINGS, embeddings(input=["a b " * 8_192])),
    "8,000 bytes of any kind": (EMBEDDINGS, embeddings(input=["\u20ac" * 2_666])),
    "token numbers": (EMBEDDINGS, embeddings(input=[[1, 2, 3], [4]])),
}


@pytest.mark.parametrize(("api", "request_"), [pytest.param(*case, id=name) for name, case in ACCEPTED.items()])
def test_what_the_service_accepts_is_answered(api: str, request_: dict[str, Any]) -> None:
    status, body = answer(api, request_)
    assert status == 200, body


def test_a_request_is_left_as_it_came() -> None:
    request, twin = agent(stop=["x"], n=2), agent(stop=["x"], n=2)
    answer(CHAT, request)
    assert request == twin
