from __future__ import annotations

import json
import socket
import timeit
from typing import Any

import pytest

from commands.gateway.app import LARGEST_BODY
from commands.gateway.requests import read_chat
from ledger.families import serving
from tests.commands.gateway.provider_double import Provider
from tests.commands.gateway.running import HELLO, Gateway

ROUTES = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/plain"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_without_its_key_every_route_answers_401_in_the_envelope(
    shared_gateway: Gateway, method: str, path: str
) -> None:
    with shared_gateway.client() as client:
        for shown in (
            "",
            "Bearer",
            "Bearer wrong",
            f"Basic {shared_gateway.key}",
            shared_gateway.key,
            f"Bearer {shared_gateway.key}x",
        ):
            response = client.request(method, path, headers={"Authorization": shown}, content=b"{not json")
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert response.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer   "])
def test_the_scheme_may_be_in_any_case_and_followed_by_blanks(shared_gateway: Gateway, scheme: str) -> None:
    assert shared_gateway.ask(Authorization=scheme + shared_gateway.key).status_code == 200


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  ",
    "an array": b"[]",
    "a string": b'"hello"',
    "null": b"null",
    "no object's end": b'{"model":"plain"',
    "two values": b"{}{}",
    "broken UTF-8": b'{"model":"plain","messages":[{"role":"user","content":"\xff"}]}',
    "a lone surrogate": b'{"model":"plain","messages":[{"role":"user","content":"\\ud800"}]}',
    "a lone low surrogate": b'{"model":"plain","messages":[{"role":"user","content":"\\udc00 x"}]}',
    "NaN": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"temperature":NaN}',
    "Infinity": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"temperature":Infinity}',
    "a number out of range": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"temperature":1e999}',
    "deep nesting": b'{"model":"plain","messages":' + b"[" * 100_000,
    "UTF-16": '{"model":"plain"}'.encode("utf-16"),
    "no model": b'{"messages":[{"role":"user","content":"a"}]}',
    "a model that is no text": b'{"model":1,"messages":[{"role":"user","content":"a"}]}',
    "no messages": b'{"model":"plain"}',
    "empty messages": b'{"model":"plain","messages":[]}',
    "messages without a role": b'{"model":"plain","messages":[{"content":"a"}]}',
    "content that is a number": b'{"model":"plain","messages":[{"role":"user","content":1}]}',
    "stream that is no flag": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"stream":"yes"}',
    "n of 0": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"n":0}',
    "model twice": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"model":"plain"}',
    "model twice, once in escapes": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"m\\u006fdel":"m"}',
    "content twice": b'{"model":"plain","messages":[{"role":"user","content":"a","content":"b"}]}',
    "a key twice that is passed on": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"x":[{"":1,"":1}]}',
    "a negative limit": b'{"model":"plain","messages":[{"role":"user","content":"a"}],"max_tokens":-1}',
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_a_body_that_is_no_request_is_refused_as_json(
    shared_gateway: Gateway, shared_provider: Provider, body: bytes
) -> None:
    response = shared_gateway.ask(body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert not shared_provider.asked
    assert shared_gateway.ask().status_code == 200


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json; charset=us-ascii",
        "text/plain",
    ],
)
def test_a_charset_that_can_be_read_is_accepted(shared_gateway: Gateway, kind: str) -> None:
    assert shared_gateway.ask(**{"Content-Type": kind}).status_code == 200


@pytest.mark.parametrize("kind", ["application/json; charset=latin-1", "application/json; charset=utf-16"])
def test_another_charset_is_refused(shared_gateway: Gateway, kind: str) -> None:
    assert shared_gateway.ask(**{"Content-Type": kind}).status_code == 400


def test_a_compressed_body_is_refused(shared_gateway: Gateway) -> None:
    assert shared_gateway.ask(**{"Content-Encoding": "gzip"}).status_code == 415


def test_bodies_of_16_mib_are_accepted_and_larger_ones_refused_while_the_next_request_is_fine(
    gateway: Gateway, provider: Provider
) -> None:
    def sized(size: int) -> dict[str, Any]:
        return {**HELLO, "messages": [{"role": "user", "content": "x" * size}]}

    for size in (2**20, 9 * 2**20, 16 * 2**20):
        assert gateway.ask(sized(size)).status_code == 200
    for size in (LARGEST_BODY, 66 * 2**20):
        response = gateway.ask(sized(size))
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "body_too_large"
        assert gateway.ask().status_code == 200
    assert max(len(asked.body) for asked in provider.asked) > 16 * 2**20


def test_a_body_that_grows_past_the_limit_without_saying_so_is_refused(gateway: Gateway) -> None:
    with gateway.client() as client:
        parts = (b" " * 2**20 for _ in range(40))
        response = client.post("/v1/chat/completions", content=parts, headers={"Content-Type": "application/json"})
        assert response.status_code == 413
        assert client.get("/v1/models").status_code == 200


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/nowhere", 404), ("GET", "/v1/models/none", 404), ("POST", "/v1/models", 405),
    ("GET", "/v1/chat/completions", 405),
    ("DELETE", "/health/live", 405),
])  # fmt: skip
def test_what_is_not_served_is_refused_in_the_envelope(
    shared_gateway: Gateway, method: str, path: str, status: int
) -> None:
    with shared_gateway.client() as client:
        response = client.request(method, path)
        assert response.status_code == status
        assert response.json()["error"]["message"]


def test_an_unknown_model_is_refused_by_name_and_recorded(gateway: Gateway, provider: Provider) -> None:
    response = gateway.ask({**HELLO, "model": "gpt-nothing"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert "gpt-nothing" in response.json()["error"]["message"]
    (refused,) = gateway.events(serving.RequestRefused)
    assert (refused.status, refused.code) == (404, "model_not_found")
    assert not gateway.events(serving.RequestAccepted)


def test_bytes_that_are_no_http_do_not_disturb_the_next_client(gateway: Gateway) -> None:
    for bytes_sent in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as raw:
            raw.sendall(bytes_sent)
            raw.shutdown(socket.SHUT_WR)
            raw.recv(1000)
    assert gateway.ask().status_code == 200


def _said(gateway: Gateway, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as raw:
        raw.sendall(request)
        raw.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: raw.recv(1000), b""))


@pytest.mark.parametrize("request_", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_no_http_is_refused_in_the_envelope(shared_gateway: Gateway, request_: bytes) -> None:
    head, _, body = _said(shared_gateway, request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    error = json.loads(body)["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_http", None)


def test_what_strangers_send_puts_nothing_on_stderr(gateway: Gateway) -> None:
    upgrade = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert _said(gateway, b"GET\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert _said(gateway, upgrade).startswith(b"HTTP/1.1 401 ")
    assert gateway.stop() == 0
    assert gateway.process.stderr is not None
    assert not gateway.process.stderr.read()


def test_a_key_that_is_there_twice_is_named(shared_gateway: Gateway) -> None:
    error = shared_gateway.ask(BROKEN["model twice"]).json()["error"]
    assert (error["code"], error["param"]) == ("invalid_body", "model")
    assert "'model' is there twice" in error["message"]


def test_equal_keys_of_different_objects_are_fine(shared_gateway: Gateway) -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    assert shared_gateway.ask({"model": "plain", "messages": messages}).status_code == 200


def test_finding_keys_that_are_there_twice_costs_less_than_a_tenth_of_a_millisecond() -> None:
    asked = [{"role": "user", "content": "word " * 40} for _ in range(6)]
    body = json.dumps({"model": "plain", "messages": asked}).encode()
    assert len(body) > 1_400
    assert min(timeit.repeat(lambda: read_chat(body), number=100, repeat=5)) / 100 < 0.0001


def test_a_request_cut_in_its_body_is_forgotten(gateway: Gateway, provider: Provider) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as raw:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n"
        raw.sendall(head.encode() + b'Content-Length: 500\r\n\r\n{"model":')
    assert gateway.ask().status_code == 200
    assert len(provider.asked) == 1
    assert len(gateway.events(serving.RequestAccepted)) == 1


def test_only_loopback_is_listened_on(gateway: Gateway) -> None:
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", gateway.port))
