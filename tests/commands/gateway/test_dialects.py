from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn

from commands.embedded.server import App, Settings
from commands.gateway import responses
from commands.gateway.dialects import outgoing
from commands.gateway.problems import Problem
from commands.gateway.requests import read_chat
from ledger.families import serving
from ledger.families.providers import Endpoint, Providers, evolve
from ledger.families.providers import decide as configure
from tests.commands.gateway.provider_double import Provider
from tests.commands.gateway.running import HELLO, Gateway, configured, models, streamed

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "shell",
            "description": "Run a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    }
]


def endpoint(alias: str) -> Endpoint:
    state = Providers()
    for change in configure(models("http://here/v1"), state, lambda kind, key: None):
        state = evolve(state, change)
    return state.endpoint(alias)


def sent(alias: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    out = outgoing(endpoint(alias), read_chat(json.dumps({**HELLO, **fields}).encode()))
    return out.url, json.loads(out.body)


@pytest.mark.parametrize(
    ("alias", "given", "name"),
    [
        ("plain", "max_completion_tokens", "max_tokens"),
        ("plain", "max_tokens", "max_tokens"),
        ("modern", "max_tokens", "max_completion_tokens"),
        ("modern", "max_completion_tokens", "max_completion_tokens"),
    ],
)
def test_the_output_limit_goes_under_the_name_that_the_provider_knows(alias: str, given: str, name: str) -> None:
    url, body = sent(alias, **{given: 7})
    assert url == "http://here/v1/chat/completions"
    assert {key: value for key, value in body.items() if "tokens" in key} == {name: 7}


def test_the_developer_is_called_system_where_the_provider_does_not_know_him() -> None:
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "a", "name": "x"}]
    assert sent("plain", messages=messages)[1]["messages"] == [{"role": "system", "content": "be brief"}, messages[1]]
    assert sent("modern", messages=messages)[1]["messages"] == messages


def test_a_configured_reasoning_effort_is_sent_unless_the_client_chose_one() -> None:
    assert sent("thinker")[1]["reasoning_effort"] == "high"
    assert sent("thinker", reasoning_effort="low")[1]["reasoning_effort"] == "low"
    assert "reasoning_effort" not in sent("plain")[1]


def test_a_reasoning_model_with_tools_is_asked_through_responses() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "assistant", "content": "let me", "tool_calls": [_call()]},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "out"}, {"type": "text", "text": "put"}],
        },
    ]
    shape = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
    url, body = sent(
        "thinker",
        messages=messages,
        tools=TOOLS,
        tool_choice={"type": "function", "function": {"name": "shell"}},
        max_tokens=50,
        response_format=shape,
        parallel_tool_calls=False,
        metadata={"a": "b"},
        n=1,
        stop=None,
    )
    assert url == "http://here/v1/responses"
    assert body == {
        "model": "gpt-think",
        "store": False,
        "input": [
            {"role": "developer", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "u"}],
            },
            {"role": "assistant", "content": "let me"},
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "output"},
        ],
        "tools": [{"type": "function", "strict": False, **TOOLS[0]["function"]}],
        "tool_choice": {"type": "function", "name": "shell"},
        "max_output_tokens": 50,
        "reasoning": {"effort": "high"},
        "text": {"format": {"type": "json_schema", "name": "r", "schema": {"type": "object"}}},
        "parallel_tool_calls": False,
        "metadata": {"a": "b"},
    }


def _call() -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}


@pytest.mark.parametrize(
    "fields", [{"seed": 1}, {"stop": ["x"]}, {"n": 2}, {"logprobs": True}, {"frequency_penalty": 0.5}, {"brand_new": 1}]
)
def test_what_has_no_place_in_responses_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(Problem) as refused:
        sent("thinker", tools=TOOLS, **fields)
    assert refused.value.status == 400
    assert refused.value.param == next(iter(fields))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "a", "name": "x"},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "mystery"}]},
    ],
)
def test_a_message_that_has_no_place_in_responses_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        sent("thinker", tools=TOOLS, messages=[message])


def test_a_response_is_read_as_the_completion_that_says_the_same() -> None:
    raw = {
        "id": "resp_1",
        "created_at": 7.0,
        "model": "gpt-think",
        "status": "completed",
        "output": [
            {"type": "reasoning", "summary": []},
            {
                "type": "message",
                "content": [{"type": "output_text", "text": "let me"}, {"type": "refusal", "refusal": "no"}],
            },
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
        ],
        "usage": {
            "input_tokens": 9,
            "output_tokens": 4,
            "total_tokens": 13,
            "input_tokens_details": {"cached_tokens": 8},
            "output_tokens_details": {"reasoning_tokens": 3},
        },
    }
    read = json.loads(responses.chat_completion(json.dumps(raw).encode()))
    assert read == {
        "id": "resp_1",
        "object": "chat.completion",
        "created": 7,
        "model": "gpt-think",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "let me", "refusal": "no", "tool_calls": [_call()]},
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
    }
    cut = {**raw, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert json.loads(responses.chat_completion(json.dumps(cut).encode()))["choices"][0]["finish_reason"] == "length"
    with pytest.raises(ValueError, match="failed"):
        responses.chat_completion(json.dumps({**raw, "status": "failed"}).encode())


class StandIn:
    """The strict stand-in over HTTP, in a thread."""

    def __init__(self) -> None:
        config = uvicorn.Config(App(Settings()), port=0, log_config=None, lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve()), daemon=True)
        self.thread.start()
        while not self.server.started:
            self.thread.join(0.01)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}/v1"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Gateway]:
    stand_in = StandIn()
    with Gateway(configured(tmp_path / "root", stand_in.url)) as running:
        yield running
    stand_in.server.should_exit = True
    stand_in.thread.join()


ASKED: Any = [{"role": "user", "content": "List all files in the current folder."}]


@pytest.mark.parametrize("alias", ["plain", "modern", "thinker", "small"])
@pytest.mark.parametrize("tools", [[], TOOLS])
def test_a_stream_says_what_the_plain_answer_says_however_the_model_is_asked(
    strict: Gateway, alias: str, tools: list[Any]
) -> None:
    given: Any = {
        "model": alias,
        "messages": ASKED,
        "max_completion_tokens": 500,
        **({"tools": tools} if tools else {}),
    }
    with openai.OpenAI(base_url=f"{strict.url}/v1", api_key=strict.key, max_retries=0) as asking:
        plain = asking.chat.completions.create(**given)
        with asking.chat.completions.stream(**given, stream_options={"include_usage": True}) as stream:
            gathered = stream.get_final_completion()
    assert plain.choices[0].finish_reason == gathered.choices[0].finish_reason
    one, other = plain.choices[0].message, gathered.choices[0].message
    assert (one.content or "") == (other.content or "")
    if tools and one.tool_calls:
        assert other.tool_calls is not None
        assert [
            (call.function.name, call.function.arguments) for call in one.tool_calls if call.type == "function"
        ] == [(call.function.name, call.function.arguments) for call in other.tool_calls]
        assert plain.choices[0].finish_reason == "tool_calls"
    assert plain.usage is not None
    assert gathered.usage is not None
    assert plain.usage.total_tokens == gathered.usage.total_tokens
    asked = strict.events(serving.RouteDecided)
    assert {event.api for event in asked} == {"responses" if alias == "thinker" and tools else "chat.completions"}
    costs = [event.cost for event in strict.events(serving.RequestAnswered)]
    assert costs[0] == costs[1] > 0


def test_a_stream_through_responses_is_repeated_and_broken_ones_fail(root: Path, provider: Provider) -> None:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\n".encode() + b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"

    head = {"id": "resp_1", "created_at": 1, "model": "gpt-think", "status": "in_progress", "output": []}
    begun = event("response.created", response=head)
    told = event("response.output_text.delta", output_index=0, delta="ready")
    done = event("response.completed", response={**head, "status": "completed"})
    failed = event("response.failed", response={**head, "status": "failed"})
    from tests.commands.gateway.provider_double import chunked  # noqa: PLC0415

    with Gateway(root) as gateway:
        body = streamed(model="thinker", tools=TOOLS)
        provider.script = lambda asked, count: chunked(begun, told, done)
        first = gateway.ask(body, "k")
        assert '"content":"ready"' in first.text
        assert first.text.endswith("data: [DONE]\n\n")
        assert gateway.ask(body, "k").content == first.content
        for broken in ([begun, told], [begun, told, failed]):
            provider.script = lambda asked, count, broken=broken: chunked(*broken)  # type: ignore[misc]
            response = gateway.ask(body)
            assert response.status_code == 200
            assert "[DONE]" not in response.text
            assert '"error":{' in response.text
        provider.script = lambda asked, count: chunked(event("error", message="busy"))
        assert gateway.ask(body).status_code == 502


def test_an_embedded_model_answers_in_the_process_itself(gateway: Gateway, provider: Provider) -> None:
    plain = gateway.ask({**HELLO, "model": "small"}, "k")
    assert plain.status_code == 200
    assert plain.json()["system_fingerprint"].startswith("exp-stand-in")
    assert gateway.ask({**HELLO, "model": "small"}, "k").content == plain.content
    assert gateway.ask({**HELLO, "model": "small", "nonsense": 1}).status_code == 400
    assert not provider.asked
