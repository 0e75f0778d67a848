from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.episode import Tool
from ledger.families.providers import Capabilities, Connection, Endpoint, Model
from ledger.prompt import Prompt, Question, ReplySchema
from ledger.questions import (
    ModelCannot,
    api_of,
    asked,
    embedding_question,
    output_limit,
    question,
    restored,
    text_question,
    url,
    wire_body,
)

TOOL = Tool(
    name="shell", description="Run it", parameters='{"type":"object","properties":{"command":{"type":"string"}}}'
)
SCHEMA = ReplySchema("judge_reply", {"type": "object", "properties": {"score": {"type": "integer"}}})
CALLING = (
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "do it"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"command":"ls"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
)
ALL = Capabilities(
    supports_completions=True,
    supports_tools=True,
    supports_structured_output=True,
    supports_temperature=True,
    supports_reasoning=True,
    reasoning_effort="xhigh",
    maximum_output_tokens=32_000,
)


def endpoint(provider: Any, able: Capabilities, base_url: str | None = "https://api.example/v1") -> Endpoint:
    return Endpoint(
        model=Model(alias="m", connection="c", model="the-model", capabilities=able),
        connection=Connection(name="c", provider=provider, base_url=base_url),
    )


def request(
    provider: Any, able: Capabilities, prompt: Prompt, *, limit: int = 8_000, temperature: int | None = 0
) -> tuple[str, dict[str, Any]]:
    made = question(endpoint(provider, able), prompt, sample=0, output_limit=limit, temperature=temperature)
    body = json.loads(made.body)
    assert api_of(made) == body["api"]
    return body["api"], body["request"]


def test_a_reasoning_model_of_openai_with_tools_is_asked_through_responses_and_nothing_is_stored() -> None:
    api, sent = request("openai", ALL, Prompt(CALLING, (TOOL,)))
    assert api == "responses"
    assert sent == {
        "model": "the-model",
        "input": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "do it"},
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command":"ls"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        ],
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": "shell",
                "description": "Run it",
                "parameters": json.loads(TOOL.parameters),
                "strict": False,
            }
        ],
        "reasoning": {"effort": "xhigh"},
        "max_output_tokens": 8_000,
        "temperature": 0,
    }


def test_a_reasoning_model_without_an_effort_is_asked_without_one() -> None:
    able = Capabilities(supports_completions=True, supports_tools=True, supports_reasoning=True)
    api, sent = request("openai", able, Prompt(CALLING, (TOOL,)))
    assert api == "responses"
    assert "reasoning" not in sent
    assert sent["max_output_tokens"] == 8_000


def test_a_shape_is_asked_for_in_the_words_of_responses_too() -> None:
    _, sent = request("openai", ALL, Prompt(CALLING, (TOOL,), SCHEMA))
    assert sent["text"] == {
        "format": {"type": "json_schema", "name": "judge_reply", "strict": True, "schema": SCHEMA.schema}
    }


def test_a_reasoning_model_without_tools_is_asked_through_chat_completions() -> None:
    api, sent = request("openai", ALL, Prompt(CALLING[:2], (), SCHEMA), limit=16_384)
    assert api == "chat.completions"
    assert sent == {
        "model": "the-model",
        "messages": list(CALLING[:2]),
        "reasoning_effort": "xhigh",
        "max_completion_tokens": 16_384,
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "judge_reply", "strict": True, "schema": SCHEMA.schema},
        },
    }


def test_an_openai_compatible_model_gets_max_tokens_and_tools_on_chat_completions() -> None:
    api, sent = request("openai-compatible", ALL, Prompt(CALLING, (TOOL,)))
    assert api == "chat.completions"
    assert sent["max_tokens"] == 8_000
    assert "max_completion_tokens" not in sent
    assert sent["tools"][0]["function"]["name"] == "shell"


def test_only_supported_parameters_are_sent() -> None:
    bare = Capabilities(supports_completions=True)
    _, sent = request("openai", bare, Prompt(CALLING[:2], (TOOL,), SCHEMA))
    assert set(sent) == {"model", "messages", "max_completion_tokens"}
    system = sent["messages"][0]["content"]
    assert system.startswith("be brief\n\nReply with one JSON object")
    assert "judge_reply" in system
    assert json.dumps(SCHEMA.schema, sort_keys=True, separators=(",", ":")) in system


def test_a_shape_asked_for_in_words_needs_no_system_message() -> None:
    bare = Capabilities(supports_completions=True)
    _, sent = request("openai", bare, Prompt(CALLING[1:2], (), SCHEMA))
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]


def test_no_temperature_is_sent_when_none_is_wanted_or_supported() -> None:
    assert "temperature" not in request("openai", ALL, Prompt(CALLING[:2]), temperature=None)[1]
    silent = Capabilities(supports_completions=True, supports_reasoning=True)
    sent = request("openai", silent, Prompt(CALLING[:2]))[1]
    assert "temperature" not in sent
    assert "reasoning_effort" not in sent


def test_the_output_limit_is_at_most_the_models_own() -> None:
    small = Capabilities(supports_completions=True, maximum_output_tokens=500)
    assert request("openai", small, Prompt(CALLING[:2]))[1]["max_completion_tokens"] == 500


def test_the_digest_covers_where_what_and_which_sample_but_no_alias() -> None:
    prompt = Prompt(CALLING[:2])
    base = question(endpoint("openai", ALL), prompt, sample=0, output_limit=9)
    renamed = Endpoint(
        model=Model(alias="other", connection="c", model="the-model", capabilities=ALL),
        connection=Connection(name="other", provider="openai", base_url="https://api.example/v1", api_key_env="K"),
    )
    assert question(renamed, prompt, sample=0, output_limit=9) == base
    elsewhere = question(endpoint("openai", ALL, "https://api.example/v2"), prompt, sample=0, output_limit=9)
    others = {
        base.digest,
        elsewhere.digest,
        question(endpoint("openai", ALL), prompt, sample=1, output_limit=9).digest,
        question(endpoint("openai", ALL), prompt, sample=0, output_limit=8).digest,
        question(endpoint("openai", ALL), Prompt(CALLING[1:2]), sample=0, output_limit=9).digest,
    }
    assert len(others) == 5


def test_a_model_is_not_asked_for_what_it_cannot_do() -> None:
    with pytest.raises(ModelCannot):
        question(endpoint("openai", Capabilities()), Prompt(CALLING[:2]), sample=0, output_limit=1)
    with pytest.raises(ModelCannot):
        embedding_question(endpoint("openai", ALL), "text")


def test_the_address_is_the_base_url_and_the_interface() -> None:
    made = question(endpoint("openai", ALL), Prompt(CALLING, (TOOL,)), sample=0, output_limit=9)
    assert url(asked(made.body)) == "https://api.example/v1/responses"
    assert output_limit(asked(made.body)) == 9
    embedder = endpoint("embedded", Capabilities(supports_embeddings=True), None)
    assert asked(embedding_question(embedder, "x").body).base_url == "embedded:"


def test_a_text_is_sent_as_it_is_and_told_apart_by_its_identity() -> None:
    text = '{"model":"m", "temperature":0.5,"max_tokens":7}'
    one = text_question(endpoint("openai", ALL), "chat.completions", text, request_id="1")
    other = text_question(endpoint("openai", ALL), "chat.completions", text, request_id="2")
    assert one.digest != other.digest
    assert wire_body(asked(one.body)) == text.encode()
    assert output_limit(asked(one.body)) == 7
    assert output_limit(asked(text_question(endpoint("openai", ALL), "responses", "not json").body)) is None


def test_a_question_is_restored_from_its_bytes() -> None:
    made = Question.of({"api": "responses", "x": 1})
    assert restored(made.body) == made
    assert api_of(made) == "responses"
