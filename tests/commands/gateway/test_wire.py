"""The connections to providers: what comes back on them, however it is cut up, and which ones are kept."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from commands.gateway import wire
from commands.gateway.wire import Closed, Endless, Line, Lines, Place, Target, Unreachable
from tests.commands.gateway.provider_double import CUT, Piece, Provider, chunked, http

T = TypeVar("T")
HEAD = b"Content-Length: 2\r\n\r\n"


def talk(provider: Provider, *scripts: Sequence[Piece], timeout: float = 5.0) -> list[tuple[int, bytes, bool]]:
    """Ask once a script on kept connections; return status, body, and whether the connection was kept."""
    provider.script = lambda _asked, count: scripts[count - 1]
    found: list[tuple[int, bytes, bool]] = []

    async def run(lines: Lines) -> None:
        target = Target.of(f"{provider.url}/chat")
        for _ in scripts:
            line = await lines.line(target.place)
            try:
                line.ask(target.head + HEAD, b"{}", timeout)
                await line.answered()
                found.append((line.status, await line.read(), line.reusable))
            finally:
                lines.give_back(line)

    inside(run)
    return found


def inside(work: Callable[[Lines], Awaitable[T]]) -> T:
    async def run() -> T:
        lines = Lines()
        try:
            return await work(lines)
        finally:
            lines.close()
            await asyncio.sleep(0)

    return asyncio.run(run())


def test_a_request_is_sent_as_it_is_and_the_connection_is_kept(provider: Provider) -> None:
    assert talk(provider, http(200, b"one"), http(404, b"two")) == [(200, b"one", True), (404, b"two", True)]
    assert provider.connections == 1
    assert provider.asked[0].path == "/v1/chat"
    assert provider.asked[0].headers["host"] == f"127.0.0.1:{provider.port}"
    assert provider.asked[0].body == b"{}"


def test_an_answer_may_come_byte_by_byte(provider: Provider) -> None:
    whole = http(200, b"slow")[0]
    assert isinstance(whole, bytes)
    pieces: list[Piece] = []
    for at in range(len(whole)):
        pieces += [whole[at : at + 1], 0.0005]
    assert talk(provider, pieces) == [(200, b"slow", True)]


def test_chunks_are_put_together(provider: Provider) -> None:
    assert talk(provider, chunked(b"a", 0.01, b"b" * 70_000, b"c")) == [(200, b"a" + b"b" * 70_000 + b"c", True)]


def test_an_interim_answer_is_passed_over(provider: Provider) -> None:
    interim = b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: z\r\n\r\n"
    assert talk(provider, [interim, 0.01, *http(200, b"ok")]) == [(200, b"ok", True)]


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async def run(lines: Lines) -> tuple[bytes, bool]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"{}")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nall ")
            await asyncio.sleep(0.01)
            writer.write(b"of it")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        target = Target.of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        line = await lines.line(target.place)
        line.ask(target.head + HEAD, b"{}", 5)
        await line.answered()
        got = await line.read()
        server.close()
        return got, line.reusable

    assert inside(run) == (b"all of it", False)


def test_a_connection_that_says_it_closes_is_not_kept(provider: Provider) -> None:
    closing = http(200, b"one", headers={"Connection": "close"})
    assert talk(provider, closing, http(200, b"two")) == [(200, b"one", False), (200, b"two", True)]
    assert provider.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [
        [CUT],
        [b"HTTP/1.1 200 OK\r\nContent-Le", CUT],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", CUT],
        [*chunked(b"half", ends=False), CUT],
        [b"\x00\x01\r\n\r\n"],
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 1.0],
        [b"HTTP/1.1 200 OK\r\nX: " + b"x" * wire.LONGEST_HEAD + b"\r\nContent-Length: 0\r\n\r\n", 1.0],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 1.0],
    ],
)
def test_what_is_no_whole_answer_is_a_closed_connection(provider: Provider, pieces: Sequence[Piece]) -> None:
    with pytest.raises(Closed) as closed:
        talk(provider, pieces)
    assert not closed.value.stale


def test_only_a_kept_connection_without_a_byte_is_stale(provider: Provider) -> None:
    with pytest.raises(Closed) as closed:
        talk(provider, http(200, b"one"), [CUT])
    assert closed.value.stale
    with pytest.raises(Closed) as closed:
        talk(provider, http(200, b"x"), http(200, b"x"), http(200, b"one"), [b"H", 0.05, CUT])
    assert not closed.value.stale


def test_bytes_that_nobody_asked_for_are_no_answer_to_the_next_request(provider: Provider) -> None:
    ahead = [http(200, b"one")[0], 0.05, http(200, b"smuggled")[0]]
    provider.script = lambda _asked, count: ahead if count == 1 else http(200, b"two")

    async def run(lines: Lines) -> bytes:
        target = Target.of(f"{provider.url}/chat")
        for _ in range(2):
            line = await lines.line(target.place)
            line.ask(target.head + HEAD, b"{}", 5)
            await line.answered()
            got = await line.read()
            lines.give_back(line)
            await asyncio.sleep(0.2)
        return got

    assert inside(run) == b"two"


def test_two_answers_at_once_are_none_to_trust(provider: Provider) -> None:
    both = http(200, b"one")[0], http(200, b"two")[0]
    assert isinstance(both[0], bytes)
    assert isinstance(both[1], bytes)
    with pytest.raises(Closed):
        talk(provider, [both[0] + both[1], 0.05])


def test_silence_is_measured_from_the_last_byte(provider: Provider) -> None:
    with pytest.raises(TimeoutError):
        talk(provider, [0.5, *http(200, b"late")], timeout=0.1)
    steady: list[Piece] = []
    for _ in range(5):
        steady += [b"x", 0.06]
    provider.asked.clear()
    assert talk(provider, chunked(*steady), timeout=0.15) == [(200, b"xxxxx", True)]


def test_an_address_that_cannot_be_asked_is_unreachable() -> None:
    for address in ("ftp://host/v1", "nonsense", "http://", "http://host:99999/"):
        with pytest.raises(Unreachable):
            Target.of(address)


def test_an_address_is_asked_with_its_query_and_its_port() -> None:
    target = Target.of("https://host.example/v1/chat?api-version=1")
    assert target == (
        Place("host.example", 443, tls=True),
        b"POST /v1/chat?api-version=1 HTTP/1.1\r\nHost: host.example\r\n",
    )
    assert Target.of("http://[::1]:8000/v1").head == b"POST /v1 HTTP/1.1\r\nHost: [::1]:8000\r\n"
    assert Target.of("http://[::1]:8000/v1").place == ("::1", 8000, False)


def test_nobody_there_is_unreachable() -> None:
    async def run(lines: Lines) -> Line:
        return await lines.line(Place("127.0.0.1", 9, tls=False))

    with pytest.raises(Unreachable):
        inside(run)


def test_a_connection_that_was_kept_too_long_is_not_used(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "KEEP_ALIVE", 0.0)
    talk(provider, http(200, b"one"), http(200, b"two"))
    assert provider.connections == 2


def test_only_so_many_connections_are_kept(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_IDLE", 0)
    talk(provider, http(200, b"one"), http(200, b"two"))
    assert provider.connections == 2


@pytest.mark.parametrize("whole", [True, False])
def test_a_provider_that_is_faster_than_its_reader_is_held_back(provider: Provider, *, whole: bool) -> None:
    size = 6 * 1024 * 1024
    provider.script = lambda _asked, _count: http(200, b"x" * size)

    async def run(lines: Lines) -> tuple[int, int]:
        target = Target.of(f"{provider.url}/chat")
        line = await lines.line(target.place)
        line.ask(target.head + HEAD, b"{}", 5)
        await line.answered()
        await asyncio.sleep(0.2)
        held = line.held
        got = len(await line.read()) if whole else sum([len(part) async for part in line.parts()])
        assert line.reusable
        lines.give_back(line)
        return held, got

    held, got = inside(run)
    assert got == size
    assert held < 2 * 1024 * 1024


def test_what_comes_before_a_request_is_no_answer_to_it() -> None:
    async def run(lines: Lines) -> None:
        unforeseen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unforeseen.append(context))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        target = Target.of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        line = await lines.line(target.place)
        await asyncio.sleep(0.1)
        line.ask(target.head + HEAD, b"{}", 1)
        try:
            with pytest.raises(Closed):
                await line.answered()
        finally:
            server.close()
        assert not unforeseen

    inside(run)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to make a certificate")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    more = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(file), "-out", str(file.with_name("cert.pem"))]
    subprocess.run([openssl, *words, *more], check=True, capture_output=True, timeout=60)
    file.write_text(file.read_text() + file.with_name("cert.pem").read_text())
    return file


@pytest.mark.parametrize(
    ("host", "trusted", "reached"),
    [("localhost", True, True), ("localhost", False, False), ("127.0.0.1", True, False)],
)
def test_a_provider_behind_tls_is_asked_only_when_its_certificate_is_good(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, host: str, *, trusted: bool, reached: bool
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("cert.pem")))
    wire.trust.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"{}")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsafe")
            await reader.read()
        writer.close()

    async def run(lines: Lines) -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        try:
            target = Target.of(f"https://{host}:{server.sockets[0].getsockname()[1]}/v1")
            line = await lines.line(target.place)
            line.ask(target.head + HEAD, b"{}", 5)
            await line.answered()
            got = await line.read()
            lines.give_back(line)
            return got
        finally:
            server.close()

    try:
        if reached:
            assert inside(run) == b"safe"
        else:
            with pytest.raises(Unreachable):
                inside(run)
    finally:
        wire.trust.cache_clear()


@pytest.mark.parametrize("piece", [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 8000, b"HTTP/1.1 200 " + b"O" * 8000])
def test_a_head_without_an_end_is_given_up(provider: Provider, piece: bytes) -> None:
    endless: list[Piece] = [piece]
    for _ in range(wire.LONGEST_HEAD // 8000 + 40):
        endless += [b"x" * 8000, 0.01]
    with pytest.raises(Closed):
        talk(provider, [*endless, 20.0], timeout=8.0)


@pytest.mark.parametrize("whole", [True, False])
def test_a_body_without_an_end_is_given_up(provider: Provider, monkeypatch: pytest.MonkeyPatch, *, whole: bool) -> None:
    monkeypatch.setattr(wire, "LONGEST_BODY", 2**20)
    provider.script = lambda _asked, _count: chunked(*[b"x" * 2**17] * 16, ends=False)

    async def taken(line: Line) -> bytes:
        return b"".join([part async for part in line.parts()])

    async def run(lines: Lines) -> int:
        target = Target.of(f"{provider.url}/chat")
        line = await lines.line(target.place)
        line.ask(target.head + HEAD, b"{}", 5.0)
        await line.answered()
        with pytest.raises(Endless):
            await (line.read() if whole else taken(line))
        lines.give_back(line)
        return len(lines._idle[target.place])

    assert inside(run) == 0


def test_many_answers_on_one_connection_are_none_without_an_end(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LONGEST_BODY", 2**20)
    answers = talk(provider, *[http(200, b"x" * 2**18)] * 8)
    assert [(status, len(body), kept) for status, body, kept in answers] == [(200, 2**18, True)] * 8
    assert provider.connections == 1
