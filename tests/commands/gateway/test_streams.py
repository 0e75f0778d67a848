from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from ledger.families import serving
from tests.commands.gateway.provider_double import (
    CUT,
    DONE,
    USAGE,
    Piece,
    Provider,
    chunk,
    chunked,
    completion,
    http,
    said,
)
from tests.commands.gateway.running import Gateway, streamed

INCLUDE = {"stream_options": {"include_usage": True}}
END = (chunk({}, "stop"), DONE)


def frames(response: httpx.Response) -> list[str]:
    return [frame.removeprefix("data: ") for frame in response.text.split("\n\n") if frame]


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in frames(response) if frame != "[DONE]"]


def text(response: httpx.Response) -> str:
    return "".join(
        choice["delta"].get("content") or "" for one in chunks(response) for choice in one.get("choices") or ()
    )


def test_a_character_split_over_two_reads_arrives_whole(gateway: Gateway, provider: Provider) -> None:
    frame = chunk({"content": "\U0001f600"})
    at = frame.index("\U0001f600".encode()) + 2
    provider.script = lambda asked, count: chunked(*said(), frame[:at], 0.05, frame[at:], *END)
    response = gateway.ask(streamed())
    assert text(response) == "\U0001f600"
    assert "\ufffd" not in response.text


def test_comments_retries_and_empty_events_are_skipped(gateway: Gateway, provider: Provider) -> None:
    noise = [b": ping\n\n", b"retry: 3000\n\n", b"data:\n\n", b"data: \n\n", b"event: ping\nid: 7\n\n", b"\n\n"]
    provider.script = lambda asked, count: chunked(*noise, *said("a"), *noise, chunk({"content": "b"}), *noise, *END)
    response = gateway.ask(streamed())
    assert text(response) == "ab"
    assert len(chunks(response)) == 4
    assert frames(response)[-1] == "[DONE]"


def test_separators_of_other_alphabets_are_content(gateway: Gateway, provider: Provider) -> None:
    words = "one\u2028two\u0085three\u2029\x0b\x0c"
    provider.script = lambda asked, count: chunked(*said(words), *END)
    assert text(gateway.ask(streamed())) == words


def test_lines_may_end_with_a_carriage_return_too(gateway: Gateway, provider: Provider) -> None:
    pieces = [piece.replace(b"\n", b"\r\n") for piece in (*said("a", "b"), *END) if isinstance(piece, bytes)]
    provider.script = lambda asked, count: chunked(*pieces)
    assert text(gateway.ask(streamed())) == "ab"


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("shape", ["apart", "in the last chunk", "in every chunk"])
def test_usage_is_accounted_and_sent_once_to_a_client_that_asked(
    gateway: Gateway, provider: Provider, *, asks: bool, shape: str
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    pieces: dict[str, list[Piece]] = {
        "apart": [*said("a"), chunk({}, "stop"), USAGE],
        "in the last chunk": [*said("a"), chunk({}, "stop", usage=usage)],
        "in every chunk": [
            chunk({"content": "a"}, usage={**usage, "completion_tokens": 1}),
            chunk({}, "stop", usage=usage),
            USAGE,
        ],
    }
    provider.script = lambda asked, count: chunked(*pieces[shape], DONE)
    response = gateway.ask(streamed(**(INCLUDE if asks else {})))
    assert text(response) == "a"
    with_usage = [one for one in chunks(response) if one.get("usage")]
    assert len(with_usage) == (1 if asks else 0)
    if asks:
        assert with_usage[0]["choices"] == []
        assert with_usage[0] == chunks(response)[-1]
        assert with_usage[0]["id"] == "chatcmpl-1"
    assert provider.asked[0].json["stream_options"] == {"include_usage": True}
    (answered,) = gateway.events(serving.RequestAnswered)
    assert answered.cost == 10 * 1000 + 5 * 2000


def test_other_stream_options_survive_the_asking_for_usage(gateway: Gateway, provider: Provider) -> None:
    gateway.ask(streamed(stream_options={"include_obfuscation": False}))
    assert provider.asked[0].json["stream_options"] == {"include_obfuscation": False, "include_usage": True}


def test_a_stream_costs_what_the_same_plain_answer_costs(gateway: Gateway, provider: Provider) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 900},
        "completion_tokens_details": {"reasoning_tokens": 40},
    }
    last = chunk(choices=[], usage=usage)
    provider.script = lambda asked, count: (
        chunked(*said("a"), chunk({}, "stop"), last, DONE)
        if "stream" in asked.json
        else http(200, completion(usage=usage))
    )
    gateway.ask(streamed())
    gateway.ask()
    costs = {event.cost for event in gateway.events(serving.RequestAnswered)}
    assert costs == {100 * 1000 + 900 * 100 + 50 * 2000}


def test_one_id_and_one_creation_time_throughout(gateway: Gateway, provider: Provider) -> None:
    pieces = [chunk({"content": word}, id=f"other-{word}", created=at) for at, word in enumerate("abc")]
    provider.script = lambda asked, count: chunked(*pieces, chunk({}, "stop", id="", created=9), USAGE, DONE)
    response = gateway.ask(streamed(**INCLUDE))
    assert {one["id"] for one in chunks(response)} == {"other-a"}
    assert {one["created"] for one in chunks(response)} == {0}
    assert text(response) == "abc"


def test_parallel_tool_calls_keep_index_id_and_name(gateway: Gateway, provider: Provider) -> None:
    def call(index: int, **fields: Any) -> bytes:
        return chunk({"tool_calls": [{"index": index, **fields}]})

    pieces = [
        call(0, id="c0", type="function", function={"name": "ls", "arguments": ""}),
        call(1, id="c1", type="function", function={"name": "cat", "arguments": ""}),
        call(0, function={"arguments": '{"a":'}),
        call(1, function={"arguments": '{"b":'}),
        call(0, function={"arguments": "1}"}),
        call(1, function={"arguments": "2}"}),
    ]
    provider.script = lambda asked, count: chunked(*pieces, chunk({}, "tool_calls"), DONE)
    seen: dict[int, dict[str, str]] = {}
    response = gateway.ask(streamed())
    for one in chunks(response):
        for part in one["choices"][0]["delta"].get("tool_calls") or ():
            call_seen = seen.setdefault(part["index"], {"arguments": ""})
            if "id" in part:
                assert "id" not in call_seen
                call_seen |= {"id": part["id"], "name": part["function"]["name"]}
            call_seen["arguments"] += part["function"]["arguments"]
    assert seen == {
        0: {"id": "c0", "name": "ls", "arguments": '{"a":1}'},
        1: {"id": "c1", "name": "cat", "arguments": '{"b":2}'},
    }
    assert chunks(response)[-1]["choices"][0]["finish_reason"] == "tool_calls"


FIRST_ERRORS: dict[str, list[Piece]] = {
    "an error frame": chunked(b'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n', DONE),
    "an error event": chunked(b'event: error\ndata: {"message":"overloaded"}\n\n'),
    "a plain error with status 200": http(200, b'{"error":{"message":"overloaded"}}'),
    "a page": http(200, b"<html>busy</html>", kind="text/html"),
    "nothing": chunked(),
    "only the terminal frame": chunked(DONE),
    "no JSON": chunked(b"data: {oops\n\n", DONE),
}


@pytest.mark.parametrize("pieces", FIRST_ERRORS.values(), ids=FIRST_ERRORS.keys())
def test_a_stream_that_begins_with_an_error_gets_a_status_before_any_200(
    shared_gateway: Gateway, shared_provider: Provider, pieces: list[Piece]
) -> None:
    shared_provider.script = lambda asked, count: pieces
    response = shared_gateway.ask(streamed())
    assert response.status_code == 502
    assert response.headers["content-type"] == "application/json"
    assert isinstance(response.json()["error"], dict)
    failed = shared_gateway.events(serving.RequestFailed)[-1]
    assert failed.status == 502


@pytest.mark.parametrize("status", [429, 503])
def test_a_refused_stream_keeps_its_status_and_when_to_retry(gateway: Gateway, provider: Provider, status: int) -> None:
    provider.script = lambda asked, count: http(status, b'{"error":{"message":"busy"}}', headers={"Retry-After": "3"})
    response = gateway.ask(streamed())
    assert (response.status_code, response.headers["retry-after"]) == (status, "3")


BREAKS: dict[str, list[Piece]] = {
    "cut between frames": chunked(*said("a", "b"), CUT, ends=False),
    "cut inside a frame": chunked(*said("a", "b"), chunk({"content": "never"})[:40], CUT, ends=False),
    "ended inside a frame": chunked(*said("a", "b"), chunk({"content": "never"})[:40]),
    "ended without a finish reason": chunked(*said("a", "b")),
    "done without a finish reason": chunked(*said("a", "b"), DONE),
    "an error frame": chunked(*said("a", "b"), b'data: {"error":{"message":"gone"}}\n\n', DONE),
    "an error in the same read": chunked(
        b"".join(p for p in said("a", "b") if isinstance(p, bytes)) + b'data: {"error":"gone"}\n\n'
    ),
    "no JSON": chunked(*said("a", "b"), b"data: {oops\n\n", *END),
    "one of two choices unfinished": chunked(
        *said("a", "b"), chunk(choices=[{"index": 1, "delta": {"content": ""}}]), *END
    ),
}


@pytest.mark.parametrize("pieces", BREAKS.values(), ids=BREAKS.keys())
def test_a_stream_that_breaks_ends_with_an_error_event_and_is_recorded_as_failed(
    shared_gateway: Gateway, shared_provider: Provider, request: pytest.FixtureRequest, pieces: list[Piece]
) -> None:
    shared_provider.script = lambda asked, count: pieces
    response = shared_gateway.ask(streamed(), request.node.name)
    assert response.status_code == 200
    assert text(response) == "ab"
    assert "never" not in response.text
    last = json.loads(frames(response)[-1])
    assert isinstance(last["error"], dict)
    assert last["error"]["message"]
    assert "[DONE]" not in response.text
    failed = shared_gateway.events(serving.RequestFailed)[-1]
    assert shared_gateway.blob(failed.partial.blob).decode() == response.text.removesuffix(
        "data: " + frames(response)[-1] + "\n\n"
    )
    assert failed.cost is None
    shared_provider.script = lambda asked, count: chunked(*said("ok"), *END)
    assert text(shared_gateway.ask(streamed(), request.node.name)) == "ok"


def test_a_stream_without_a_terminal_frame_gets_one_when_its_choices_are_finished(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), chunk({}, "stop"))
    assert frames(gateway.ask(streamed()))[-1] == "[DONE]"


def test_the_last_event_may_lack_its_blank_line(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), chunk({}, "stop"), b"data: [DONE]")
    assert frames(gateway.ask(streamed()))[-1] == "[DONE]"


def test_frames_leave_as_they_come(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), 10.0, chunk({"content": "b"}), *END)
    with gateway.client() as client, client.stream("POST", "/v1/chat/completions", json=streamed()) as response:
        begun = time.monotonic()
        assert any('"a"' in text for text in response.iter_text())
        assert time.monotonic() - begun < 8  # long before the next chunk, on any machine


def test_the_connection_of_a_stream_is_kept_for_the_next(gateway: Gateway, provider: Provider) -> None:
    for _ in range(5):
        gateway.ask(streamed())
    assert provider.connections == 1


def test_what_comes_after_the_terminal_frame_is_not_passed_on(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), *END, chunk({"content": "late"}))
    assert "late" not in gateway.ask(streamed()).text
