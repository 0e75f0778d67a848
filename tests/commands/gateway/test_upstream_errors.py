from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from commands.gateway.problems import Problem
from commands.gateway.upstream import Upstream
from ledger.families import serving
from ledger.families.providers import Connection
from tests.commands.gateway.provider_double import CUT, Piece, Provider, chunked, completion, http
from tests.commands.gateway.provider_double import stream as stream_of
from tests.commands.gateway.running import HELLO, SECRET, Gateway, configured, streamed

PAGE = b"<html><body>502</body></html>"
CASES: dict[str, tuple[list[Piece], int]] = {
    "429": (http(429, b'{"error":{"message":"slow down"}}', headers={"Retry-After": "7"}), 429),
    "400": (http(400, b'{"error":{"message":"bad","type":"invalid_request_error","param":"seed","code":"nope"}}'), 400),
    "404": (http(404, b'{"error":{"message":"no such model","code":"model_not_found"}}'), 404),
    "413": (http(413, b"too big", kind="text/plain"), 413),
    "401": (http(401, b'{"error":{"message":"Incorrect API key"}}'), 502),
    "403": (http(403, b'{"error":{"message":"Not allowed"}}'), 502),
    "408": (http(408, b""), 504),
    "500": (http(500, b'{"error":{"message":"oops"}}'), 502),
    "502 as a page": (http(502, PAGE, kind="text/html"), 502),
    "503": (http(503, b'{"error":{"message":"busy"}}', headers={"Retry-After": "7"}), 503),
    "529": (http(529, b'{"error":"overloaded"}'), 502),
    "a page with 200": (http(200, PAGE, kind="text/html"), 502),
    "an error with 200": (http(200, b'{"error":{"message":"odd"}}'), 502),
    "nothing with 200": (http(200, b""), 502),
    "no choices": (http(200, b'{"id":"x","choices":[]}'), 502),
    "a redirect": (http(302, b"", headers={"Location": "http://127.0.0.1:1/"}), 502),
    "half an answer": ([b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", CUT], 502),
    "a closed connection": ([CUT], 502),
    "no HTTP": ([b"\x00\x01\x02\r\n\r\n", CUT], 502),
}


@pytest.mark.parametrize(("pieces", "status"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_an_upstream_failure_becomes_the_right_status_in_the_envelope(
    shared_gateway: Gateway, shared_provider: Provider, pieces: list[Piece], status: int, body: dict[str, object]
) -> None:
    shared_provider.script = lambda asked, count: pieces
    response = shared_gateway.ask(body)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert len(shared_provider.asked) == 1, "the gateway doesn't retry: its clients do"
    failed = shared_gateway.events(serving.RequestFailed)[-1]
    assert json.loads(shared_gateway.blob(failed.error.blob)) == response.json()
    assert response.headers.get("retry-after") == ("7" if b"Retry-After" in (pieces[0] or b"") else None)  # type: ignore[operator]


def test_a_providers_own_words_about_a_bad_request_reach_the_client(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: CASES["400"][0]
    assert gateway.ask().json()["error"] == {
        "message": "bad",
        "type": "invalid_request_error",
        "param": "seed",
        "code": "nope",
    }


@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_a_provider_that_says_nothing_is_a_504(root: Path, provider: Provider, body: dict[str, object]) -> None:
    provider.script = lambda asked, count: [10.0]
    with Gateway(root, "--upstream-timeout", "0.3") as gateway:
        response = gateway.ask(body)
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "upstream_timeout"
        (failed,) = gateway.events(serving.RequestFailed)
        assert failed.cost is None


def test_a_provider_that_is_not_there_is_a_502_that_cost_nothing(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with Gateway(configured(tmp_path / "root", url)) as gateway:
            response = gateway.ask()
            assert response.status_code == 502
            (failed,) = gateway.events(serving.RequestFailed)
            assert failed.cost == 0


def test_a_missing_credential_is_named_and_nothing_is_asked(gateway: Gateway, provider: Provider) -> None:
    response = gateway.ask({**HELLO, "model": "keyless"})
    assert response.status_code == 502
    assert "NOT_SET_ANYWHERE" in response.json()["error"]["message"]
    assert not provider.asked


def test_a_connection_without_a_credential_sends_none(gateway: Gateway, provider: Provider) -> None:
    assert gateway.ask({**HELLO, "model": "pinned"}).status_code == 200
    assert "authorization" not in provider.asked[0].headers


def test_a_kept_connection_that_went_stale_is_tried_once_more_and_both_dispatches_are_recorded(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = lambda asked, count: [CUT] if count == 2 else http(200, completion())
    assert gateway.ask().status_code == 200
    assert gateway.ask().status_code == 200
    assert len(provider.asked) == 3
    (retried,) = gateway.events(serving.AttemptFailed)
    assert retried.reason == "stale-connection"
    assert retried.cost is None, "the provider may have done it all the same"


def test_a_kept_connection_that_breaks_after_a_byte_is_not_tried_again(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: [b"HTTP/1.1 200", 0.05, CUT] if count == 2 else http(200, completion())
    gateway.ask()
    assert gateway.ask().status_code == 502
    assert len(provider.asked) == 2


@pytest.fixture
def leaky(gateway: Gateway, provider: Provider) -> Gateway:
    provider.script = lambda asked, count: http(
        400, json.dumps({"error": {"message": f"key {SECRET} and sk-abcdefghijklmnopqrstu", "param": SECRET}}).encode()
    )
    return gateway


def test_an_error_loses_whatever_looks_like_a_key(leaky: Gateway) -> None:
    response = leaky.ask()
    assert SECRET not in response.text
    assert "sk-abcdefghij" not in response.text
    assert "[redacted]" in response.text


def test_no_credential_reaches_the_journal(gateway: Gateway, provider: Provider) -> None:
    body = {**HELLO, "messages": [{"role": "user", "content": f"my key is {SECRET} and {gateway.key}"}]}
    provider.script = lambda asked, count: http(200, completion(f"you said {SECRET}"))
    first = gateway.ask(body, "k")
    assert SECRET not in first.text
    assert gateway.ask(body, "k").content == first.content
    assert SECRET in provider.asked[0].body.decode(), "what the client sends is its own business"
    gateway.stop()
    (answered,) = gateway.events(serving.RequestAnswered)
    assert answered.redacted
    for path in gateway.root.rglob("*"):
        if path.is_file() and path != gateway.key_file:
            assert SECRET.encode() not in path.read_bytes()
            assert gateway.key.encode() not in path.read_bytes()
    (accepted,) = gateway.events(serving.RequestAccepted)
    assert b"[redacted]" in gateway.blob(accepted.body.blob)


def test_another_model_than_the_one_pinned_by_its_served_id_is_a_failure(gateway: Gateway, provider: Provider) -> None:
    assert gateway.ask({**HELLO, "model": "pinned"}).status_code == 200
    for body in ({**HELLO, "model": "elsewhere"}, streamed(model="elsewhere")):
        response = gateway.ask(body)
        assert response.status_code == 502
        assert response.json()["error"]["code"] == "upstream_model_differs"


def test_an_answer_without_an_id_is_given_one_and_halves_of_characters_are_replaced(
    gateway: Gateway, provider: Provider
) -> None:
    raw = completion().replace(b'"id": "chatcmpl-1", ', b"").replace(b"ready", b"cut \\ud83d")
    provider.script = lambda asked, count: http(200, raw)
    response = gateway.ask()
    assert response.json()["id"].startswith("chatcmpl-")
    assert response.json()["choices"][0]["message"]["content"] == "cut \ufffd"


@pytest.mark.parametrize(
    "usage",
    [{"prompt_tokens": 2**60, "completion_tokens": 1}, {"prompt_tokens": "many"}, {"prompt_tokens": 1.5}, 7, None],
)
def test_usage_that_cannot_be_counted_is_unknown_and_the_answer_is_passed_on(
    shared_gateway: Gateway, shared_provider: Provider, usage: object
) -> None:
    shared_provider.script = lambda asked, count: http(200, completion(usage=usage))
    assert shared_gateway.ask().status_code == 200
    answered = shared_gateway.events(serving.RequestAnswered)[-1]
    assert answered.cost is None
    assert answered.usage.input_tokens is None


def test_a_reservation_beyond_all_money_is_refused(shared_gateway: Gateway, shared_provider: Provider) -> None:
    assert shared_gateway.ask({**HELLO, "max_tokens": 2**62}).status_code == 400
    assert not shared_provider.asked


def test_a_providers_own_code_is_recorded_only_when_it_is_a_name(
    shared_gateway: Gateway, shared_provider: Provider
) -> None:
    for code, recorded in (("context_length_exceeded", "context_length_exceeded"), ("a whole sentence", "odd")):
        error = json.dumps({"error": {"message": "no", "type": "odd", "code": code}}).encode()
        shared_provider.script = lambda asked, count, error=error: http(400, error)  # type: ignore[misc]
        assert shared_gateway.ask().json()["error"]["code"] == code
        assert shared_gateway.events(serving.RequestFailed)[-1].code == recorded


def test_a_key_file_that_is_a_pipe_holds_nothing_up(tmp_path: Path) -> None:
    pipe = tmp_path / "key"
    os.mkfifo(pipe)
    connection = Connection(
        name="piped", provider="openai-compatible", base_url="http://127.0.0.1:9/v1", api_key_file=str(pipe)
    )
    with pytest.raises(Problem, match="regular file"):
        Upstream().credential(connection)


@pytest.mark.parametrize(("body", "words"), [
    (b'{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}', "too long"),
    (b'{"detail":"not here"}', "not here"),
    (b'{"detail":[{"loc":["body","n"],"msg":"no number","type":"int"},{"msg":"nor this"}]}', "no number; nor this"),
    (b'{"error":{"message":"inner"},"message":"outer"}', "inner"),
    (b'{"detail":[1]}', "the provider answered with status 422"),
])  # fmt: skip
def test_a_providers_words_are_found_in_other_forms_too(
    shared_gateway: Gateway, shared_provider: Provider, body: bytes, words: str
) -> None:
    shared_provider.script = lambda asked, count: http(422, body)
    assert shared_gateway.ask().json()["error"]["message"] == words


@pytest.mark.parametrize(("body", "code", "words"), [
    (b'{"error":{"message":"overloaded"}}', "upstream_error", "overloaded"),
    (b' \n{"message":"overloaded"}', "upstream_error", "overloaded"),
    (completion(), "upstream_unreadable", "the provider's answer is not what was asked for"),
    (PAGE, "upstream_unreadable", "the provider's answer is not what was asked for"),
])  # fmt: skip
def test_what_comes_whole_where_a_stream_was_asked_for_is_said_in_the_providers_words(
    shared_gateway: Gateway, shared_provider: Provider, body: bytes, code: str, words: str
) -> None:
    shared_provider.script = lambda asked, count: http(200, body)
    response = shared_gateway.ask(streamed())
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["message"]) == (502, code, words)


@pytest.mark.parametrize("stream", [False, True])
def test_bytes_that_are_no_characters_never_reach_a_client(
    shared_gateway: Gateway, shared_provider: Provider, *, stream: bool
) -> None:
    shared_provider.script = lambda asked, count: [
        piece.replace(b"WORD", b"\xff\xfeRD") if isinstance(piece, bytes) else piece
        for piece in (stream_of("WORD") if stream else http(200, completion("WORD")))
    ]
    response = shared_gateway.ask(streamed() if stream else HELLO)
    assert response.status_code == 200
    assert "\ufffd\ufffdRD" in response.content.decode()


def test_an_error_instead_of_a_stream_may_come_in_parts(shared_gateway: Gateway, shared_provider: Provider) -> None:
    whole = http(200, b'{"error":{"message":"overloaded"}}')[0]
    assert isinstance(whole, bytes)
    shared_provider.script = lambda asked, count: [whole[:-10], 0.1, whole[-10:]]
    assert shared_gateway.ask(streamed()).json()["error"]["message"] == "overloaded"


def test_an_event_may_come_in_parts_that_look_like_json(shared_gateway: Gateway, shared_provider: Provider) -> None:
    pieces = [piece for piece in stream_of("ready") if isinstance(piece, bytes)]
    events = b"".join(piece.partition(b"\r\n")[2].removesuffix(b"\r\n") for piece in pieces[1:-1])
    parts: list[Piece] = []
    for event in events.split(b"data: ")[1:]:
        parts += [b"data: ", 0.02, event, 0.02]
    shared_provider.script = lambda asked, count: chunked(*parts)
    response = shared_gateway.ask(streamed())
    assert response.status_code == 200
    assert "ready" in response.text
