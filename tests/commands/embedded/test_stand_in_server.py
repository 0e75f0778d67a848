"""The stand-in over HTTP: the official client against a live server, and the wire itself."""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from commands.embedded import faults
from commands.embedded.answer import Knobs
from commands.embedded.server import Settings
from tests.commands.embedded.asking import (
    BASH,
    COMMAND,
    TASK,
    agent,
    chat,
    embeddings,
    example,
    judgment,
    responses,
    simulation,
    turn,
)
from tests.commands.embedded.serving import stand_in

FETCH_TWO = "Use curl to fetch https://example.org/a and https://example.org/b from the API"
KEYED = {"authorization": "Bearer any-key"}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with stand_in(Settings(knobs=Knobs(serves={"dated/Name-0731": "plain-name"}))) as url:
        yield url


@pytest.fixture(scope="module")
def client(base: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="any-key", max_retries=0, timeout=10) as one:
        yield one


def post(url: str, request: Any, **headers: str) -> httpx.Response:
    return httpx.post(url, json=request, headers={**KEYED, **headers}, timeout=10)


def test_the_official_client_gets_a_completion(client: openai.OpenAI) -> None:
    got = client.chat.completions.create(**agent())
    assert got.choices[0].finish_reason == "tool_calls"
    assert got.system_fingerprint is not None
    assert got.system_fingerprint.startswith("exp-stand-in")
    assert got.usage is not None
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens


def test_the_official_client_goes_through_a_whole_episode(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    first = client.chat.completions.create(model="embedded-large", messages=messages, tools=[BASH])  # type: ignore[list-item]
    said = first.choices[0].message
    assert said.tool_calls
    messages += [said, {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "3.1.0"}]
    second = client.chat.completions.create(model="embedded-large", messages=messages, tools=[BASH])  # type: ignore[list-item]
    assert second.choices[0].finish_reason == "stop"
    assert "3.1.0" in (second.choices[0].message.content or "")


@pytest.mark.parametrize("request_", [chat(), agent(), agent(FETCH_TWO)], ids=["text", "one call", "two calls"])
def test_a_stream_says_what_the_plain_answer_says(client: openai.OpenAI, request_: dict[str, Any]) -> None:
    plain = client.chat.completions.create(**request_)
    chunks = list(client.chat.completions.create(**request_, stream=True, stream_options={"include_usage": True}))
    assert len({(chunk.created, chunk.model, chunk.system_fingerprint) for chunk in chunks}) == 1
    assert len({chunk.id for chunk in chunks}) == 1
    *body, last = chunks
    assert (last.choices, last.usage) == ([], plain.usage)
    assert all(chunk.usage is None and len(chunk.choices) == 1 for chunk in body)
    assert [chunk.choices[0].finish_reason for chunk in body if chunk.choices[0].finish_reason] == [
        plain.choices[0].finish_reason
    ]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in body)
    assert text == (plain.choices[0].message.content or "")
    calls: dict[int, list[str]] = {}
    names: dict[int, str | None] = {}
    for piece in (piece for chunk in body for piece in chunk.choices[0].delta.tool_calls or ()):
        assert piece.function is not None
        calls.setdefault(piece.index, []).append(piece.function.arguments or "")
        if piece.id is not None:
            assert piece.index not in names
            names[piece.index] = piece.function.name
    expected = [
        call.function.arguments for call in plain.choices[0].message.tool_calls or () if call.type == "function"
    ]
    assert ["".join(calls[index]) for index in sorted(calls)] == expected
    assert all(name == "bash" for name in names.values())


def test_parallel_calls_are_interleaved_in_a_stream(client: openai.OpenAI) -> None:
    chunks = client.chat.completions.create(**agent(FETCH_TWO), stream=True)
    order = [piece.index for chunk in chunks for piece in chunk.choices[0].delta.tool_calls or ()]
    assert order[:4] == [0, 1, 0, 1]


def test_a_stream_without_include_usage_has_none(base: str) -> None:
    frames = post(f"{base}/v1/chat/completions", {**chat(), "stream": True}).text.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    assert not any('"usage"' in frame for frame in frames)


def test_the_official_client_gets_a_response_plain_and_streamed(client: openai.OpenAI) -> None:
    plain = client.responses.create(**responses())
    assert plain.output[-1].type == "function_call"
    events = list(client.responses.create(**responses(), stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert [item.type for item in events[-1].response.output] == [item.type for item in plain.output]
    assert events[-1].response.usage == plain.usage
    pieces = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert pieces == plain.output[-1].arguments


def test_a_streamed_response_that_was_cut_ends_as_incomplete(client: openai.OpenAI) -> None:
    events = list(client.responses.create(**responses(max_output_tokens=16), stream=True))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.incomplete_details.reason == "max_output_tokens"


def test_a_response_in_words_can_be_streamed(client: openai.OpenAI) -> None:
    asked = {"model": "embedded-large", "input": "Reply with the single word ready."}
    assert client.responses.create(**asked).output_text == "ready"  # type: ignore[call-overload]
    events = list(client.responses.create(**asked, stream=True))  # type: ignore[call-overload]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "ready"


def test_the_official_client_gets_vectors_of_the_length_it_wants(client: openai.OpenAI) -> None:
    got = client.embeddings.create(model="text-embedding-3-small", input=["one", "two"])
    assert [len(row.embedding) for row in got.data] == [1536, 1536]
    assert [row.index for row in got.data] == [0, 1]
    short = client.embeddings.create(model="text-embedding-3-small", input="one", dimensions=256)
    assert len(short.data[0].embedding) == 256
    assert len(client.embeddings.create(model="embedded-embedder", input="one").data[0].embedding) == 1024


def test_vectors_are_the_same_in_both_encodings_and_of_length_one(base: str) -> None:
    packed = post(f"{base}/v1/embeddings", embeddings()).json()["data"]
    plain = post(f"{base}/v1/embeddings", embeddings(encoding_format="float")).json()["data"]
    for one, other in zip(packed, plain, strict=True):
        floats = struct.unpack("<1536f", base64.b64decode(one["embedding"]))
        assert list(floats) == pytest.approx(other["embedding"], abs=1e-7)
        assert sum(number * number for number in floats) == pytest.approx(1)


def test_a_vector_does_not_depend_on_its_batch(base: str) -> None:
    alone = post(f"{base}/embeddings", embeddings(input="two")).json()["data"][0]["embedding"]
    texts = [f"text {number}" for number in range(200)] + ["two"]
    assert post(f"{base}/embeddings", embeddings(input=texts)).json()["data"][-1]["embedding"] == alone


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(
    ("path", "request_"),
    [("/chat/completions", chat()), ("/responses", responses()), ("/embeddings", embeddings())],
)
def test_every_route_is_served_with_and_without_v1(base: str, prefix: str, path: str, request_: dict[str, Any]) -> None:
    assert post(base + prefix + path, request_).status_code == 200


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_models_are_listed_without_a_key_and_any_name_is_one(base: str, prefix: str) -> None:
    listed = httpx.get(f"{base}{prefix}/models").json()
    names = {model["id"] for model in listed["data"]}
    assert {"embedded-small", "embedded-judge", "dated/Name-0731", "plain-name"} <= names
    assert httpx.get(f"{base}{prefix}/models/whatever/it-is").json()["id"] == "whatever/it-is"


def test_the_name_that_it_serves_is_reported(base: str) -> None:
    assert post(f"{base}/chat/completions", agent(model="dated/Name-0731")).json()["model"] == "plain-name"


@pytest.mark.parametrize("key", [None, "", "Bearer", "Basic abc", "any-key"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/responses", "/v1/embeddings"])
def test_a_request_without_a_bearer_key_is_refused_before_it_is_read(base: str, path: str, key: str | None) -> None:
    headers = {"content-type": "application/json"} | ({} if key is None else {"authorization": key})
    got = httpx.post(base + path, content=b"{not json", headers=headers)
    assert got.status_code == 401
    assert got.json()["error"]["type"] == "invalid_request_error"


def test_the_scheme_of_a_key_may_be_in_lower_case(base: str) -> None:
    assert post(f"{base}/chat/completions", chat(), authorization="bearer  x").status_code == 200


def test_refusals_reach_the_official_client_as_its_own_errors(base: str, client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**chat(model="gpt-5.6-luna", temperature=0))
    assert (caught.value.param, caught.value.code) == ("temperature", "unsupported_value")
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**chat(model="text-embedding-3-small"))
    with pytest.raises(openai.PermissionDeniedError):
        client.embeddings.create(model="gpt-4o", input="x")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b'{"model": NaN}', "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"[]", "application/json"),
        (b"{}", "text/plain"),
        (b"{}", ""),
    ],
)
def test_a_body_that_is_no_json_object_is_a_400(base: str, body: bytes, kind: str) -> None:
    got = httpx.post(f"{base}/chat/completions", content=body, headers={**KEYED, "content-type": kind})
    assert got.status_code == 400
    assert set(got.json()["error"]) == {"message", "type", "param", "code"}


def test_a_charset_is_accepted(base: str) -> None:
    got = post(f"{base}/chat/completions", chat(), **{"content-type": "application/json; charset=utf-8"})
    assert got.status_code == 200


def test_an_unknown_address_is_a_404_and_a_wrong_method_a_405(base: str) -> None:
    assert post(f"{base}/v1/completions", {}).status_code == 404
    assert httpx.get(f"{base}/v1/chat/completions", headers=KEYED).status_code == 405
    assert post(f"{base}/v1/models", {}).status_code == 405
    for got in (post(f"{base}/nothing", {}), httpx.get(f"{base}/v1/embeddings")):
        assert "message" in got.json()["error"]


def test_a_body_of_20_megabytes_is_read(base: str) -> None:
    padded = chat(messages=[{"role": "user", "content": "x" * 3_000_000}], user="y" * 17_000_000)
    assert post(f"{base}/chat/completions", padded).status_code == 200


def test_equal_requests_get_equal_bytes_unless_fresh_ids_are_wanted(base: str) -> None:
    once, again = (post(f"{base}/chat/completions", agent()).content for _ in range(2))
    assert once == again
    with stand_in(Settings(fresh_ids=True)) as url:
        ids = [post(f"{url}/chat/completions", agent()).json()["id"] for _ in range(2)]
        assert ids[0] != ids[1]


def test_requests_are_counted_by_role() -> None:
    with stand_in() as url:
        for path, request in (
            ("/chat/completions", agent()),
            ("/responses", responses()),
            ("/chat/completions", simulation(COMMAND, example(COMMAND, "x"))),
            ("/chat/completions", judgment(turn())),
            ("/embeddings", embeddings()),
            ("/embeddings", embeddings(input="")),
        ):
            post(url + path, request)
        counted = httpx.get(f"{url}/stand-in/requests").json()
    roles = {"candidate": 2, "world-model": 1, "judge": 1, "embedder": 1, "refused": 1}
    assert counted == {"POST": 6, "roles": roles}


def test_latency_is_waited_for() -> None:
    with stand_in(Settings(latency_ms=80)) as url:
        begun = time.monotonic()
        post(f"{url}/chat/completions", chat())
        assert time.monotonic() - begun >= 0.08


def failing(*written: str) -> Settings:
    return Settings(faults=tuple(map(faults.parse, written)))


@pytest.mark.parametrize("kind", sorted(faults.STATUSES))
def test_a_status_fault_is_that_status_with_an_error_envelope(kind: str) -> None:
    with stand_in(failing(f"{kind}:first=1")) as url:
        first, second = (post(f"{url}/chat/completions", chat()) for _ in range(2))
    assert (first.status_code, second.status_code) == (int(kind), 200)
    assert set(first.json()["error"]) == {"message", "type", "param", "code"}


def test_a_rate_limit_advises_when_to_retry() -> None:
    with stand_in(failing("429:retry-after=0.25")) as url:
        got = post(f"{url}/chat/completions", chat())
    assert got.headers["retry-after"] == "0.25"


def test_a_fault_of_one_role_leaves_the_others_alone() -> None:
    with stand_in(failing("500:role=judge")) as url:
        assert post(f"{url}/chat/completions", agent()).status_code == 200
        assert post(f"{url}/chat/completions", judgment()).status_code == 500
        assert post(f"{url}/embeddings", embeddings()).status_code == 200


def test_a_hanging_request_is_never_answered_and_the_server_goes_on() -> None:
    with stand_in(failing("hang:first=1")) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/chat/completions", json=chat(), headers=KEYED, timeout=0.3)
        assert post(f"{url}/chat/completions", chat()).status_code == 200


@pytest.mark.parametrize("streamed", [True, False])
def test_a_cut_answer_begins_and_does_not_end(*, streamed: bool) -> None:
    with stand_in(failing("cut-stream:first=1")) as url:
        with pytest.raises(httpx.RemoteProtocolError):
            post(f"{url}/chat/completions", chat(stream=streamed))
        assert post(f"{url}/chat/completions", chat(stream=streamed)).status_code == 200


def test_a_cut_stream_has_sent_something_but_no_end() -> None:
    got: list[bytes] = []
    with (
        stand_in(failing("cut-stream")) as url,
        httpx.stream("POST", f"{url}/chat/completions", json=chat(stream=True), headers=KEYED) as stream,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        got.extend(stream.iter_raw())
    whole = b"".join(got)
    assert whole.startswith(b"data: {")
    assert b"[DONE]" not in whole


def test_a_stalled_answer_begins_and_falls_silent() -> None:
    with stand_in(failing("stall")) as url, pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/chat/completions", json=chat(stream=True), headers=KEYED, timeout=0.3)


def test_what_is_not_json_or_html_comes_with_status_200() -> None:
    with stand_in(failing("not-json:first=1", "html:first=2")) as url:
        broken, page = (post(f"{url}/chat/completions", chat()) for _ in range(2))
    assert (broken.status_code, page.status_code) == (200, 200)
    assert page.headers["content-type"] == "text/html"
    for got in (broken, page):
        with pytest.raises(json.JSONDecodeError):
            got.json()


def test_another_model_and_a_spoiled_answer_can_be_streamed() -> None:
    with stand_in(failing("wrong-model:first=1", "empty:after=1")) as url:
        first, second = (post(f"{url}/chat/completions", chat(stream=True)).text for _ in range(2))
    assert '"model":"embedded-large"' not in first
    assert '"content":"' not in second.replace('"content":""', "")
