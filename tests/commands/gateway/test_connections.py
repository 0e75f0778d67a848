"""Clients that are slow, silent, old-fashioned or talk nonsense."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from commands.gateway import connections
from commands.gateway.connections import LONGEST_HEAD, Connection
from commands.gateway.exchange import Ceased, Exchange, Receive, Scope, Send
from ledger.families import serving
from tests.commands.gateway.provider_double import DONE, USAGE, Asked, Piece, Provider, chunk, chunked, http, said
from tests.commands.gateway.provider_double import completion as completed
from tests.commands.gateway.running import HELLO, Gateway, streamed

PLAIN, STREAM = json.dumps(HELLO).encode(), json.dumps(streamed()).encode()


def request(
    gateway: Gateway, body: bytes = b"", *, path: str = "/v1/chat/completions", version: str = "1.1", more: str = ""
) -> bytes:
    method = "POST" if body else "GET"
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    head = f"{method} {path} HTTP/{version}\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n{more}{length}\r\n"
    return head.encode() + body


def said_to(port: int, *sent: bytes, seconds: float = 10) -> bytes:
    """Send, and return what came until the connection ended."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as raw:
        got = b""
        try:
            for part in sent:
                raw.sendall(part)
            while part := raw.recv(65_536):
                got += part
        except ConnectionError:
            pass
        return got


def test_an_old_client_gets_a_stream_without_chunks_that_ends_with_its_connection(shared_gateway: Gateway) -> None:
    head, _, body = said_to(shared_gateway.port, request(shared_gateway, STREAM, version="1.0")).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head
    assert body.startswith(b"data: {")
    assert body.endswith(b"\n\ndata: [DONE]\n\n")


def test_an_old_client_gets_a_plain_answer_with_its_length(shared_gateway: Gateway) -> None:
    head, _, body = said_to(shared_gateway.port, request(shared_gateway, PLAIN, version="1.0")).partition(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % len(body) in head
    assert json.loads(body)["choices"]


def test_a_head_request_tells_the_length_that_a_get_would_have(shared_gateway: Gateway) -> None:
    with shared_gateway.client() as client:
        got, asked = client.get("/v1/models"), client.head("/v1/models")
        assert asked.headers["content-length"] == got.headers["content-length"] == str(len(got.content))
        assert not asked.content
        assert client.get("/health/live").status_code == 200


@pytest.mark.parametrize("body", [PLAIN, STREAM])
def test_nonsense_after_a_request_spoils_nothing_of_its_answer(shared_gateway: Gateway, body: bytes) -> None:
    got = said_to(shared_gateway.port, request(shared_gateway, body), b"NONSENSE\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200 ")
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"invalid_http" not in got
    assert got.endswith((b"}", b"0\r\n\r\n"))


def test_many_requests_in_one_packet_are_answered_and_nonsense_after_them_ends_the_connection(
    shared_gateway: Gateway,
) -> None:
    models = request(shared_gateway, path="/v1/models")
    assert (
        said_to(shared_gateway.port, models * 20 + request(shared_gateway, PLAIN, more="Connection: close\r\n")).count(
            b"HTTP/1.1 200 "
        )
        == 21
    )
    got = said_to(shared_gateway.port, request(shared_gateway, PLAIN) * 2 + b"NONSENSE\r\n\r\n")
    assert b" 400 " not in got


@pytest.mark.parametrize("kind", ["one header", "many headers", "address"])
def test_a_head_without_an_end_is_given_up(shared_gateway: Gateway, kind: str) -> None:
    begun = {"one header": b"GET / HTTP/1.1\r\nX: ", "many headers": b"GET / HTTP/1.1\r\n", "address": b"GET /"}[kind]
    more = b"X-A: b\r\n" * 1000 if kind == "many headers" else b"x" * 8000
    with socket.create_connection(("127.0.0.1", shared_gateway.port), timeout=10) as raw:
        raw.sendall(begun)
        for _ in range(LONGEST_HEAD // len(more) + 3):
            raw.sendall(more)
            if select.select([raw], [], [], 0.05)[0]:
                break
        got = raw.recv(65_536)
    assert got.startswith(b"HTTP/1.1 431 ")
    assert json.loads(got.partition(b"\r\n\r\n")[2])["error"]["code"] == "head_too_large"
    assert shared_gateway.ask().status_code == 200


def test_a_long_head_that_ends_is_read(shared_gateway: Gateway) -> None:
    more = "".join(f"X-{number}: {'y' * 100}\r\n" for number in range(400))
    assert said_to(shared_gateway.port, request(shared_gateway, PLAIN, more=f"{more}Connection: close\r\n")).startswith(
        b"HTTP/1.1 200 "
    )


def test_heads_in_parts_are_counted_each_for_itself(shared_gateway: Gateway) -> None:
    more = "".join(f"X-{number}: {'y' * 100}\r\n" for number in range(400))
    one = request(shared_gateway, path="/v1/models", more=more)
    with socket.create_connection(("127.0.0.1", shared_gateway.port), timeout=10) as raw:
        for _ in range(8):
            for at in range(0, len(one), 15_000):
                raw.sendall(one[at : at + 15_000])
                time.sleep(0.02)
            assert raw.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_the_rest_of_a_body_that_was_refused_is_no_head(shared_gateway: Gateway) -> None:
    large = request(shared_gateway, b"x" * (40 * 2**20))
    got = said_to(shared_gateway.port, large, request(shared_gateway, PLAIN, more="Connection: close\r\n"))
    assert [got.count(b"HTTP/1.1 %d" % status) for status in (413, 200, 431)] == [1, 1, 0]


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(shared_gateway: Gateway) -> None:
    head = request(shared_gateway, PLAIN, more="Expect: 100-continue\r\n").partition(b"Content-Length")[0]
    with socket.create_connection(("127.0.0.1", shared_gateway.port), timeout=10) as raw:
        raw.sendall(head + b"Content-Length: 73400320\r\n\r\n")
        assert raw.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_work_is_not_begun_for_a_client_that_has_left() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(_message: dict[str, object]) -> None:
        raise AssertionError

    async def work() -> None:
        raise AssertionError

    async def run() -> None:
        exchange = Exchange({"method": "GET", "path": "/", "headers": []}, receive, send)
        exchange.watch()
        await asyncio.sleep(0.01)
        with pytest.raises(Ceased, match="client-left"):
            await exchange.work(work())

    asyncio.run(run())


def lengthy(asked: Asked, _count: int) -> list[Piece]:
    if asked.json.get("stream"):
        return chunked(*said(*["x" * 60_000] * 300), chunk({}, "stop"), USAGE, DONE)
    return http(200, completed("y" * 18_000_000))


@pytest.mark.parametrize("sent", [
    lambda gateway: b"POST /v1/chat",
    lambda gateway: request(gateway, PLAIN)[:-5],
    lambda gateway: request(gateway, PLAIN),
    lambda gateway: request(gateway, STREAM),
    lambda gateway: request(gateway, STREAM, more="Idempotency-Key: k\r\n"),
], ids=["half a head", "half a body", "no reader", "no reader of a stream", "no reader of a keyed stream"])  # fmt: skip
def test_a_client_that_stalls_holds_no_stop_up(
    root: Path, provider: Provider, sent: Callable[[Gateway], bytes]
) -> None:
    provider.script = lengthy
    with Gateway(root, "--graceful-timeout", "1") as gateway, socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", gateway.port))
        raw.sendall(sent(gateway))
        time.sleep(1)
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < 6
        assert not gateway.state().open


def test_a_client_in_the_midst_of_its_body_is_told_that_the_gateway_stops(root: Path) -> None:
    with Gateway(root, "--graceful-timeout", "0") as gateway:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as raw:
            raw.sendall(request(gateway, PLAIN)[:-5])
            time.sleep(0.3)
            assert gateway.stop() == 0
            assert b"gateway_stopping" in raw.recv(65_536)
        assert not gateway.events(serving.RequestAccepted)


# With a shorter patience, in this process.


async def replying(scope: Scope, receive: Receive, send: Send) -> None:
    size = 0
    while (message := await receive())["type"] == "http.request":
        size += len(message["body"])
        if not message["more_body"]:
            break
    else:
        return
    body = b"y" * 30_000_000 if scope["path"] == "/long" else b"%d" % size
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def served(monkeypatch: pytest.MonkeyPatch, client: Callable[[int], bytes]) -> tuple[bytes, float]:
    """Return what a client got, and how long it took."""
    monkeypatch.setattr(connections, "SILENCE", 0.3)

    async def serve() -> bytes:
        config = uvicorn.Config(replying, http=Connection, lifespan="off", log_config=None, timeout_keep_alive=1)
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
        async with server:
            return await asyncio.to_thread(client, server.sockets[0].getsockname()[1])

    began = time.monotonic()
    return asyncio.run(serve()), time.monotonic() - began


@pytest.mark.parametrize(("sent", "told"), [
    (b"", b""),
    (b"GET / HT", b"HTTP/1.1 408 "),
    (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab", b"HTTP/1.1 408 "),
])  # fmt: skip
def test_a_client_that_falls_silent_is_let_go(monkeypatch: pytest.MonkeyPatch, sent: bytes, told: bytes) -> None:
    got, took = served(monkeypatch, lambda port: said_to(port, sent))
    assert got.startswith(told)
    assert bool(got) == bool(told)
    assert 0.2 < took < 5


def test_a_client_that_is_slow_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            for part in (b"POST / HT", b"TP/1.1\r\nContent-Le", b"ngth: 5\r\n\r\n", b"ab", b"cd", b"e"):
                raw.sendall(part)
                time.sleep(0.15)
            return raw.recv(1000)

    got, _ = served(monkeypatch, slow)
    assert got.endswith(b"\r\n\r\n5")


def test_a_client_that_stops_reading_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle(port: int) -> bytes:
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(10)
            raw.connect(("127.0.0.1", port))
            raw.sendall(b"GET /long HTTP/1.1\r\n\r\n")
            time.sleep(1.5)
            got = 0
            try:
                while part := raw.recv(1_000_000):
                    got += len(part)
            except ConnectionError:
                pass
            return b"%d" % got

    got, _ = served(monkeypatch, idle)
    assert int(got) < 30_000_000


def test_a_client_that_reads_slowly_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(b"GET /long HTTP/1.1\r\nConnection: close\r\n\r\n")
            got = 0
            while part := raw.recv(2_000_000):
                got += len(part)
                time.sleep(0.05)
            return b"%d" % got

    got, _ = served(monkeypatch, slow)
    assert int(got) > 30_000_000
