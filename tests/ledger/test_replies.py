from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.families.providers import Connection, Endpoint, Model
from ledger.prompt import Reply, ToolCall, Usage
from ledger.replies import UnreadableReply, read_reply, read_vectors, served_as_pinned

CHAT = {
    "model": "m-1",
    "system_fingerprint": "fp",
    "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
}


def read(body: Any, api: str = "chat.completions") -> Reply:
    return read_reply(api, body if isinstance(body, bytes) else json.dumps(body).encode())


def test_a_chat_completion_is_read() -> None:
    assert read(CHAT) == Reply(
        text="hi",
        tool_calls=(),
        finish_reason="stop",
        served_model="m-1",
        usage=Usage(100, 20, 40, None, 5),
        system_fingerprint="fp",
    )


def test_tool_calls_are_read_as_written_also_when_they_are_no_json() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls'}},
        {"function": {"name": "shell", "arguments": {"command": "ls"}}},
        {"function": {"name": "shell"}},
        "nonsense",
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    reply = read({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert reply.text is None
    assert reply.tool_calls == (
        ToolCall("a", "shell", '{"command": "ls'),
        ToolCall("call_1", "shell", '{"command":"ls"}'),
        ToolCall("call_2", "shell", "{}"),
    )


def test_content_may_come_in_parts_and_a_refusal_is_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert read({"choices": [{"message": {"content": parts}}]}).text == "ab"
    assert read({"choices": [{"message": {"content": None, "refusal": "no"}}]}).text == "no"
    assert read({"choices": [{"message": {"content": ""}}]}).text is None


def test_the_output_of_responses_is_read() -> None:
    body = {
        "model": "m",
        "status": "completed",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]},
            {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"},
            7,
        ],
        "usage": {
            "input_tokens": 9,
            "output_tokens": 8,
            "input_tokens_details": {"cached_tokens": 7},
            "output_tokens_details": {"reasoning_tokens": 6},
        },
    }
    reply = read(body, "responses")
    assert reply == Reply("ab", (ToolCall("c", "shell", "{}"),), "tool_calls", "m", Usage(9, 8, 7, None, 6))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "completed"}, "stop"),
        ({}, "stop"),
        ({"status": "failed"}, "failed"),
    ],
)
def test_how_responses_ended_is_said_in_the_words_of_chat_completions(more: dict[str, Any], reason: str) -> None:
    assert read({"output": [], **more}, "responses").finish_reason == reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        ({"choices": []}, "no choice"),
        ({"choices": [{}]}, "a choice without a message"),
        ({"choices": ["x"]}, "a choice without a message"),
        ({"error": {"message": "no"}}, "an error instead of a reply"),
        ({}, "no choice"),
    ],
)
def test_what_is_no_reply_says_why(body: Any, reason: str) -> None:
    with pytest.raises(UnreadableReply) as unreadable:
        read(body)
    assert unreadable.value.reason == reason


def test_responses_without_output_cannot_be_read() -> None:
    with pytest.raises(UnreadableReply):
        read({"status": "completed"}, "responses")


def test_lone_surrogates_are_replaced_so_that_the_text_can_be_recorded() -> None:
    body = b'{"choices":[{"message":{"content":"a\\ud800b \\ud83d\\ude00"}}]}'
    text = read(body).text
    assert text == "a\ufffdb \U0001f600"


@pytest.mark.parametrize("usage", [None, 7, {"prompt_tokens": "9"}, {"prompt_tokens": -1}, {"prompt_tokens": True}])
def test_counts_that_are_none_are_unknown_and_never_zero(usage: object) -> None:
    assert read({"choices": [{"message": {"content": "x"}}], "usage": usage}).usage == Usage()


def test_cache_hits_are_read_in_other_words_too() -> None:
    usage = {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4, "cache_creation_input_tokens": 2}
    assert read({"choices": [{"message": {}}], "usage": usage}).usage == Usage(9, None, 4, 2, None)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "tool_calls", "function", "usage", "output", "type", "error", "text"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON_VALUES, st.sampled_from(["chat.completions", "responses"]))
def test_any_json_is_read_or_said_to_be_unreadable(body: object, api: str) -> None:
    try:
        read_reply(api, json.dumps(body).encode())
    except UnreadableReply:
        return


@given(st.binary(max_size=60), st.sampled_from(["chat.completions", "responses"]))
def test_any_bytes_are_read_or_said_to_be_unreadable(body: bytes, api: str) -> None:
    try:
        read_reply(api, body)
    except UnreadableReply:
        return


def test_vectors_come_back_in_the_order_asked_for_whichever_way_they_are_written() -> None:
    packed = struct.pack("<2f", 0.5, -1.0)
    data = [{"index": 1, "embedding": [0.5, -1]}, {"index": 0, "embedding": base64.b64encode(packed).decode()}]
    vectors, served, usage = read_vectors(
        json.dumps({"data": data, "model": "e", "usage": {"prompt_tokens": 3, "total_tokens": 3}}).encode(), 2
    )
    assert vectors == [packed, packed]
    assert served == "e"
    assert usage == Usage(input_tokens=3)


@pytest.mark.parametrize("embedding", [None, "@", "AAA=", [], ["x"], [1e300], [True], {}])
def test_a_broken_vector_is_unreadable(embedding: object) -> None:
    with pytest.raises(UnreadableReply):
        read_vectors(json.dumps({"data": [{"index": 0, "embedding": embedding}]}).encode(), 1)


@pytest.mark.parametrize("data", [[1], [{"index": 9, "embedding": [1]}], [{"index": "0", "embedding": [1]}], None, []])
def test_vectors_without_a_place_are_unreadable(data: object) -> None:
    with pytest.raises(UnreadableReply):
        read_vectors(json.dumps({"data": data}).encode(), 1)


@pytest.mark.parametrize(
    ("provider", "pinned", "served", "fits"),
    [
        ("openai", None, "gpt-5.6-luna", True),
        ("openai", None, "gpt-5.6-luna-2026-05-13", True),
        ("openai", None, "gpt-5.6-luna-mini", False),
        ("openai", None, "gpt-5.6-luna-2026-05-13-x", False),
        ("openai", None, "gpt-5x6-luna", False),
        ("openai", None, None, False),
        ("openai-compatible", None, "gpt-5.6-luna-2026-05-13", False),
        ("openai-compatible", None, "gpt-5.6-luna", True),
        ("openai-compatible", "other", "other", True),
        ("openai-compatible", "other", "gpt-5.6-luna", False),
        ("openai", "other", "other-2026-05-13", False),
        ("embedded", None, "gpt-5.6-luna", True),
    ],
)
def test_the_model_that_answers_must_be_the_pinned_one(
    provider: Any,
    pinned: str | None,
    served: str | None,
    fits: bool,  # noqa: FBT001
) -> None:
    asked = Endpoint(
        model=Model(alias="a", connection="c", model="gpt-5.6-luna", served_model_id=pinned),
        connection=Connection(name="c", provider=provider),
    )
    assert served_as_pinned(asked, served) is fits
