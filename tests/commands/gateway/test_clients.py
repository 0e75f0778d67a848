from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import openai
import pytest

from tests.commands.gateway.provider_double import CUT, USAGE, Provider, chunk, chunked, completion, http, said
from tests.commands.gateway.running import HELLO, Gateway

MESSAGES: Any = [{"role": "user", "content": "Say ready."}]


def client(gateway: Gateway, **fields: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, **fields)


def asynchronous(gateway: Gateway, **fields: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, **fields)


def test_the_official_client_gets_a_plain_answer(gateway: Gateway) -> None:
    with client(gateway) as asking:
        answer = asking.chat.completions.create(model="plain", messages=MESSAGES)
    assert answer.choices[0].message.content == "ready"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 15
    assert answer._request_id


def test_the_official_client_gets_a_stream_with_usage_once(gateway: Gateway) -> None:
    with client(gateway) as asking:
        chunks = list(
            asking.chat.completions.create(
                model="plain", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
            )
        )
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "ready"
    assert [one.usage.total_tokens for one in chunks if one.usage] == [15]


def test_the_official_asynchronous_client_gets_plain_answers_and_streams_at_once(gateway: Gateway) -> None:
    async def main() -> list[str]:
        async with asynchronous(gateway) as asking:

            async def plain() -> str:
                answer = await asking.chat.completions.create(model="plain", messages=MESSAGES)
                return answer.choices[0].message.content or ""

            async def streamed() -> str:
                stream = await asking.chat.completions.create(model="plain", messages=MESSAGES, stream=True)
                return "".join([one.choices[0].delta.content or "" async for one in stream if one.choices])

            return await asyncio.gather(*(work() for work in [plain, streamed] * 10))

    assert asyncio.run(main()) == ["ready"] * 20


def test_the_official_client_lists_the_models_and_gets_one(gateway: Gateway) -> None:
    with client(gateway) as asking:
        names = [model.id for model in asking.models.list()]
        assert {"plain", "other", "thinker", "small"} <= set(names)
        assert "embed" in names
        assert asking.models.retrieve("plain").id == "plain"


def test_raw_responses_show_where_a_request_went_and_whether_it_was_repeated(gateway: Gateway) -> None:
    with client(gateway) as asking:
        for repeated in (None, "true"):
            raw = asking.chat.completions.with_raw_response.create(
                model="plain", messages=MESSAGES, extra_headers={"Idempotency-Key": "k"}
            )
            assert raw.headers.get("idempotent-replayed") == repeated
            assert raw.parse().choices[0].message.content == "ready"
            if repeated is None:
                assert raw.headers["x-exp-route"] == "plain"
                assert raw.headers["x-exp-route-reason"] == "named"


def test_parameters_reach_the_provider_exactly(gateway: Gateway, provider: Provider) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    sent: dict[str, Any] = {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "assistant", "content": None, "tool_calls": [_call("c1")]},
            {"role": "tool", "tool_call_id": "c1", "content": "out"},
            {"role": "assistant", "refusal": "no"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "u"}}],
            },
        ],
        "n": 2,
        "seed": 12345678901234567890,
        "stop": ["\n\n"],
        "logprobs": True,
        "temperature": 0.30000000000000004,
        "top_p": 1.0,
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": schema}},
        "tools": [{"type": "function", "function": {"name": "ls", "parameters": schema}}],
        "an_unknown_parameter": {"x": [1.50, None, True]},
        "reasoning_effort": "low",
    }
    body = json.dumps({"model": "plain", **sent}).replace("1.5,", "1.500,").encode()
    assert gateway.ask(body).status_code == 200
    received = provider.asked[0]
    assert received.json == {"model": "m", **sent}
    assert b"1.500" in received.body
    assert b'"top_p":1.0' in received.body


def _call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "ls", "arguments": "{}"}}


def test_structured_outputs_parse(gateway: Gateway, provider: Provider) -> None:
    from pydantic import BaseModel  # noqa: PLC0415

    class Reply(BaseModel):
        a: int

    provider.script = lambda asked, count: http(200, completion('{"a": 3}'))
    with client(gateway) as asking:
        parsed = asking.chat.completions.parse(model="plain", messages=MESSAGES, response_format=Reply)
    assert parsed.choices[0].message.parsed == Reply(a=3)


def test_the_official_clients_stream_helper_gathers_tool_calls(gateway: Gateway, provider: Provider) -> None:
    function = {"name": "ls", "arguments": ""}
    provider.script = lambda asked, count: chunked(
        chunk({"role": "assistant", "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]}),
        chunk({}, "tool_calls"),
        USAGE,
    )
    with client(gateway) as asking, asking.chat.completions.stream(model="plain", messages=MESSAGES) as stream:
        final = stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.arguments == '{"a":1}'


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_official_errors_are_raised_for_failures(
    gateway: Gateway, provider: Provider, status: int, error: type[openai.APIStatusError]
) -> None:
    provider.script = lambda asked, count: http(status, b'{"error":{"message":"no"}}')
    with client(gateway, max_retries=0) as asking, pytest.raises(error):
        asking.chat.completions.create(model="plain", messages=MESSAGES)


def test_a_broken_stream_raises_in_the_official_client(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), CUT, ends=False)
    with client(gateway) as asking, pytest.raises(openai.APIError, match="cut"):
        list(asking.chat.completions.create(model="plain", messages=MESSAGES, stream=True))


def test_only_the_client_retries_and_a_mismatch_is_not_retried(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: http(500, b"{}") if count < 3 else http(200, completion())
    with client(gateway, max_retries=2) as asking:
        keyed = {"Idempotency-Key": "k"}
        asking.chat.completions.create(model="plain", messages=MESSAGES, extra_headers=keyed)
        assert len(provider.asked) == 3
        with pytest.raises(openai.ConflictError):
            asking.chat.completions.create(model="plain", messages=MESSAGES, seed=1, extra_headers=keyed)
    assert len(provider.asked) == 3


def test_a_wrong_key_raises_in_the_official_client(gateway: Gateway) -> None:
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="wrong") as asking,
        pytest.raises(openai.AuthenticationError),
    ):
        asking.models.list()


def test_a_request_by_hand_over_a_raw_socket_that_waits_for_leave_to_send(gateway: Gateway) -> None:
    body = json.dumps(HELLO).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {gateway.key}\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as raw:
        raw.sendall(head.encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 100 Continue")
        raw.sendall(body)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.rpartition(b"\r\n\r\n")[2].startswith(b'{"id":"')


def test_two_requests_in_one_packet_are_both_answered_in_order(gateway: Gateway) -> None:
    head = f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n"
    both = f"{head}\r\n{head.replace('/v1/models', '/health/live')}Connection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as raw:
        raw.sendall(both.encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b'"list"') < answer.index(b'"live"')
