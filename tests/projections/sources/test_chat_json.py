"""Conversations as JSON, and logs of requests with their responses."""

from __future__ import annotations

from typing import Any

import pytest

from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read

CALLS = [{"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": f'{{"n":{n}}}'}} for n in (1, 2)]
BEGUN: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
CALLED = {"role": "assistant", "content": None, "tool_calls": CALLS}
GIVEN = [
    {"role": "tool", "tool_call_id": "c2", "content": "two"},
    {"role": "tool", "tool_call_id": "c1", "content": "one"},
]
CLOSED = {"role": "assistant", "content": "Done."}
WHOLE = [*BEGUN, CALLED, *GIVEN, CLOSED]
PAIRS = [("f", '{"n":1}', "one"), ("f", '{"n":2}', "two")]


def exchange(messages: list[dict[str, Any]], answer: dict[str, Any], created: int = 1767225601) -> dict[str, Any]:
    usage = {"prompt_tokens": len(messages), "completion_tokens": 1}
    response = {
        "object": "chat.completion",
        "created": created,
        "model": "m1-2026",
        "choices": [{"index": 0, "message": answer}],
        "usage": usage,
    }
    return {"request": {"model": "m1", "messages": messages}, "response": response}


LOG = [exchange(BEGUN, CALLED), exchange([*BEGUN, CALLED, *GIVEN], CLOSED, 1767225605)]


@pytest.mark.parametrize(
    "document",
    [
        {"messages": WHOLE, "tools": [{"type": "function", "function": {"name": "f"}}]},
        WHOLE,
        [WHOLE],
        [{"messages": WHOLE}],
        {"data": [{"messages": WHOLE}]},
        {"input": {"messages": WHOLE[:-1]}, "preferred_output": [CLOSED], "non_preferred_output": []},
    ],
)
def test_a_conversation_is_a_trace_with_its_calls_paired_by_id(document: Any) -> None:
    assert source("chat-json").recognises(document) or "data" in document
    found = read("chat-json", document)
    assert pairs(found.only) == PAIRS
    assert (found.only.task, found.only.final) == ("Go.", "Done.")


def test_exchanges_that_continue_one_another_are_one_trace_in_any_order() -> None:
    for documents in (LOG, LOG[::-1], [LOG]):
        found = read("chat-json", *documents)
        assert pairs(found.only) == PAIRS
        assert found.only.final == "Done."
        assert found.total("gen_ai.usage.input_tokens") == 2 + 5
        assert {span.attributes["gen_ai.response.model"] for span in found.spoken} == {"m1-2026"}


def test_exchanges_that_went_different_ways_are_different_traces() -> None:
    other = exchange(BEGUN, {"role": "assistant", "content": "No."})
    found = read("chat-json", *LOG, other)
    assert sorted((trace.final, len(trace.turns)) for trace in found.traces.values()) == [("Done.", 2), ("No.", 0)]


def test_declared_conversations_are_their_own() -> None:
    found = read("chat-json", {"id": "x", "messages": WHOLE}, {"session_id": "y", **LOG[1]})
    assert sorted(found.traces) == ["x", "y"]
    assert found.spans["y"][-1].attributes["gen_ai.conversation.id"] == "y"


def test_requests_and_responses_with_their_envelopes_are_read() -> None:
    wrapped = {
        "custom_id": "1",
        "request": {"url": "/v1/x", "body": LOG[1]["request"]},
        "response": {"status_code": 200, "body": LOG[1]["response"]},
    }
    assert pairs(read("chat-json", wrapped).only) == PAIRS


def test_a_response_in_items_is_read() -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"n":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
    ]
    answer = {
        "object": "response",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        ],
    }
    found = read(
        "chat-json", {"request": {"model": "m", "input": items, "instructions": "Be brief."}, "response": answer}
    )
    assert pairs(found.only) == PAIRS[:1]
    assert (found.only.task, found.only.final) == ("Go.", "Done.")


def test_a_streams_chunks_make_its_message() -> None:
    chunks = [
        {"choices": [{"delta": {"content": "Do"}}]},
        {"choices": [{"delta": {"content": "ne."}}]},
        {"choices": [], "usage": {"prompt_tokens": 4}},
    ]
    found = read("chat-json", {"request": LOG[1]["request"], "response": chunks})
    assert (found.only.final, found.total("gen_ai.usage.input_tokens")) == ("Done.", 4)


def test_a_refused_request_is_a_question_with_an_error() -> None:
    found = read(
        "chat-json",
        {"request": LOG[0]["request"], "response": {"error": {"message": "too long", "type": "bad_request"}}},
    )
    (chat,) = found.spoken
    assert (chat.error, chat.attributes["error.type"], chat.attributes["error.message"]) == (
        True,
        "bad_request",
        "too long",
    )
    assert "gen_ai.output.messages" not in chat.attributes


def test_older_forms_are_read() -> None:
    legacy = [
        BEGUN[1],
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "one"},
    ]
    assert pairs(read("chat-json", {"messages": legacy}).only) == [("f", "{}", "one")]
    shared = {
        "conversations": [{"from": "human", "value": "Go."}, {"from": "gpt", "value": "Done."}],
        "system": "Be brief.",
    }
    assert read("chat-json", shared).only.final == "Done."
    completed = read("chat-json", {"prompt": "Go.", "completion": "Done."})
    assert (completed.only.task, completed.only.final) == ("Go.", "Done.")


def test_a_question_without_an_answer_and_rewards_are_kept() -> None:
    found = read(
        "chat-json", {"messages": [*WHOLE, {"role": "user", "content": "And?"}], "reward": 0.5, "scores": {"a": "good"}}
    )
    assert found.only.final is None
    assert [(note["name"], note["value"], note["label"]) for note in found.annotations] == [
        ("a", "", "good"),
        ("reward", "0.5", ""),
    ]


def test_what_is_no_conversation_is_an_exclusion() -> None:
    assert read("chat-json", 3, {"x": 1}, {"messages": []}, [4]).reasons == ["not-a-conversation"] * 4
    assert not source("chat-json").recognises({"messages": WHOLE, "run_type": "llm"})
    assert not source("chat-json").recognises({"messages": [{"text": "x"}]})


def test_rarer_conversations() -> None:
    recognises = source("chat-json").recognises
    assert recognises({"prompt": "Go.", "completion": "Done."}) == "a prompt with its completion"
    assert read("chat-json", {"messages": [{"role": "user", "content": ""}], "prompt": 1, "completion": ""}).reasons
    assert read("chat-json", {"request": {"messages": []}, "response": {}}).reasons == ["conversation-without-messages"]
    silent = read("chat-json", {"request": LOG[0]["request"], "response": [{"choices": [{"delta": {}}]}, 3]})
    assert "gen_ai.output.messages" not in silent.spoken[0].attributes
    scored = read("chat-json", {"messages": WHOLE, "scores": {"a": None, "b": [1]}})
    assert scored.annotations == []


def test_an_exchange_that_went_on_otherwise_is_an_exclusion_and_the_longer_is_kept() -> None:
    said = {"role": "assistant", "content": "First."}
    asked = [*BEGUN, said, {"role": "user", "content": "More."}]
    longer = exchange([*asked, CLOSED, {"role": "user", "content": "Again."}], CLOSED)
    other = exchange(asked, {"role": "assistant", "content": "Otherwise."})
    found = read("chat-json", exchange(BEGUN, said), other, longer)
    assert found.only.final == "Done."
    assert "conversation-continued-otherwise" in found.reasons
    declared = [{**one, "session_id": "s"} for one in (other, longer)]
    assert "conversation-continued-otherwise" not in read("chat-json", *declared).reasons


def test_a_streams_chunks_make_calls() -> None:
    pieces = [
        {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"n"'}},
        {"index": 0, "id": "c1", "function": {"arguments": ":1}"}},
    ]
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in (pieces[0], pieces[1], 3)]
    streamed = {"request": LOG[0]["request"], "response": chunks}
    assert pairs(read("chat-json", streamed, LOG[1]).only)[0] == PAIRS[0]
