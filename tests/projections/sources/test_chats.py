"""Each provider's and framework's form of messages becomes the same parts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projections.normal_form.sources.chats import answered, conversation, decoded, definitions, plain, result, spoken

TEXT = [{"type": "text", "content": "Hi."}]
CALL = {"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}
BACK = {"type": "tool_call_response", "id": "c1", "response": "one"}


def constructed(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", kind], "kwargs": kwargs}


@pytest.mark.parametrize(
    "value",
    [
        {"role": "assistant", "content": "Hi."},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
        {"role": "model", "parts": [{"text": "Hi."}]},
        {"parts": [{"text": "Hi."}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi."}]}}]},
        {
            "choices": [
                {"index": 1, "message": {"role": "assistant", "content": "No."}},
                {"index": 0, "message": {"role": "assistant", "content": "Hi."}},
            ]
        },
        {
            "object": "response",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}],
        },
        {"generations": [[{"text": "Hi.", "message": constructed("AIMessage", content="Hi.")}]]},
        {"generations": [[{"text": "Hi.", "generation_info": None, "type": "Generation"}]]},
        constructed("AIMessageChunk", content="Hi.", type="AIMessageChunk"),
        {"type": "ai", "content": "Hi.", "additional_kwargs": {}, "example": False},
        {"type": "ai", "data": {"content": "Hi."}},
        {"message": {"role": "assistant", "content": "Hi."}, "type": "assistant"},
        {"text": "Hi.", "files": [], "toolCalls": []},
        ["ai", "Hi."],
        [["assistant", "Hi."]],
        [{"type": "text", "text": "Hi."}],
        "Hi.",
        '{"role": "assistant", "content": "Hi."}',
        {"output": "Hi."},
    ],
)
def test_an_answer_is_read_in_every_form(value: Any) -> None:
    found = conversation(value if value != ["ai", "Hi."] else [value], "assistant")
    assert found == [{"role": "assistant", "parts": TEXT}]


@pytest.mark.parametrize(
    "value",
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "f", "args": {"a": 1}, "type": "tool_call"}],
        },
        {
            "role": "assistant",
            "content": "",
            "additional_kwargs": {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}]},
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "f", "args": {"a": 1}}],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {"a": 1}}],
        },
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}]},
        {
            "role": "assistant",
            "content": [{"type": "function", "id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}],
        },
        {"type": "function_call", "call_id": "c1", "id": "c1", "name": "f", "arguments": {"a": 1}},
        {"text": "", "toolCalls": [{"toolCallId": "c1", "toolName": "f", "args": {"a": 1}}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": "f", "arguments": {"a": 1}}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}],
            "tool_calls": [{"id": "c1", "name": "f", "args": {"a": 1}}],
        },
    ],
)
def test_a_call_is_read_in_every_form(value: Any) -> None:
    assert conversation([value], "assistant") == [{"role": "assistant", "parts": [CALL]}]


@pytest.mark.parametrize(
    "value",
    [
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "one"}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one"}]}],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": {"type": "text", "value": "one"}}
            ],
        },
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "f", "result": "one"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "one"}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": "one"}}]},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        constructed("ToolMessage", content="one", tool_call_id="c1"),
        {"type": "tool", "content": "one", "tool_call_id": "c1", "name": "f"},
    ],
)
def test_a_result_is_read_in_every_form(value: Any) -> None:
    assert conversation([value], "user") == [{"role": "tool", "parts": [BACK]}]


def test_results_say_that_they_failed_in_every_form() -> None:
    forms = [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}]},
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "error-text", "value": "no"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "", "error": {"message": "no"}},
        {"role": "tool", "tool_call_id": "c1", "content": "no", "status": "error"},
        {"role": "tool", "content": [{"type": "tool-error", "toolCallId": "c1", "error": "no"}]},
    ]
    for form in forms:
        (message,) = conversation([form], "user")
        assert message["parts"] == [{**BACK, "response": "no", "is_error": True}]


def test_thoughts_are_no_words_and_pictures_are_kept() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x"}}
    value = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm"}, {"text": "so", "thought": True}, picture, *TEXT],
    }
    assert [part["type"] for part in conversation(value, "assistant")[0]["parts"]] == [
        "reasoning",
        "reasoning",
        "image_url",
        "text",
    ]


def test_instructions_beside_messages_are_the_systems() -> None:
    for value in (
        {"messages": [{"role": "user", "content": "Hi."}], "system": "Be brief."},
        {"messages": [{"role": "user", "content": "Hi."}], "system": [{"type": "text", "text": "Be brief."}]},
        {"model": "m", "input": [{"role": "user", "content": "Hi."}], "instructions": "Be brief."},
        {"prompt": "Hi.", "system": "Be brief."},
    ):
        assert [one["role"] for one in conversation(value, "user")] == ["system", "user"]


def test_what_has_the_form_of_no_message_is_none_and_is_spoken_as_json() -> None:
    for value in ({"a": 1}, {"content": "x", "title": "y"}, {"args": ["x"], "kwargs": {}}, [1, 2], [None], 3, None, {}):
        assert conversation(value, "user") == []
    assert spoken({"a": 1}, "user") == [{"role": "user", "parts": [{"type": "text", "content": '{"a":1}'}]}]
    assert spoken({"args": ["Hi."], "kwargs": {}}, "user") == [{"role": "user", "parts": TEXT}]
    assert spoken({}, "user") == spoken(None, "user") == []


def test_values_are_decoded_as_often_as_they_are_encoded_and_texts_stay_texts() -> None:
    assert decoded(json.dumps(json.dumps({"a": 1}))) == {"a": 1}
    assert decoded('"Hi."') == "Hi."
    for value in ("42", "true", "{not json", "[1", "Hi.", 3, None):
        assert decoded(value) == value
    assert decoded('{"a":"\\ud800","b":123456789012345678901234}') == {"a": "?", "b": None}
    deep = "[" * 60 + "]" * 60
    assert decoded(deep) == deep


def test_a_tools_result_is_its_text_and_says_its_call() -> None:
    assert result(constructed("ToolMessage", content="one", tool_call_id="c1", status="error")) == ("one", "c1", True)
    assert result({"content": [{"type": "text", "text": "one"}], "isError": True}) == ("one", "", True)
    assert result({"content": [{"type": "text", "text": "one"}], "other": 1})[0] == {
        "content": [{"type": "text", "text": "one"}],
        "other": 1,
    }
    assert result('"one"') == ("one", "", False)
    assert result([{"type": "text", "text": "a"}, "b"]) == ("a\nb", "", False)
    assert result("[1, 2]") == ("[1, 2]", "", False)
    assert result(None) == (None, "", False)


def test_plain_texts_definitions_and_answers() -> None:
    assert plain({"question": "Hi.", "context": None}) == "Hi."
    assert plain({"question": "Hi.", "answer": "Ho."}) == {"question": "Hi.", "answer": "Ho."}
    assert definitions({"f": '{"description":"d"}', "g": 3}) == [{"name": "f", "description": "d"}, {"name": "g"}]
    assert definitions(['{"name":"f"}', 3]) == [{"name": "f"}]
    said = conversation([{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hi."}], "user")
    assert answered(said) == (said[:1], said[1:])
    assert answered(said[:1]) == (said[:1], [])
    assert answered([]) == ([], [])


def test_pieces_of_rarer_shapes() -> None:
    assert conversation(["Hi.", ""], "user") == [{"role": "user", "parts": TEXT}]
    assert (
        conversation({"messages": [], "system_instruction": {"parts": [{"text": "Be brief."}]}}, "user")[0]["role"]
        == "system"
    )
    mixed = {"role": "assistant", "content": ["Hi.", "", {"type": 3}]}
    assert conversation(mixed, "assistant") == [{"role": "assistant", "parts": TEXT}]
    assert decoded("[1") == "[1"
    assert decoded('"\\x"') == '"\\x"'
    assert conversation({"role": "assistant", "content": [{"type": "text", "text": ""}, {"type": "tool_use"}]}, "user")
    four_times = json.dumps(json.dumps(json.dumps(json.dumps("Hi."))))
    assert decoded(four_times) == '"Hi."'


def test_a_definition_in_a_tools_message_says_nothing() -> None:
    defined = {"type": "function", "function": {"name": "f", "parameters": {}}}
    for content in (defined, json.dumps(defined)):
        assert conversation([{"role": "tool", "content": content}], "user") == [{"role": "tool", "parts": []}]
