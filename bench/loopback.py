"""Loopback: a provider that answers at once and clients that wait for each answer, both as cheap as can be.

``python -m bench.loopback`` is the provider: a first line with its address, then answers until it is told to stop. It
streams where the request says so: at once, or paced where the model's name says ``paced``.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import uvloop

CHUNKS = 50
PACED_CHUNKS, PACE = 20, 0.01
_HEAD_END = b"\r\n\r\n"


def _answer() -> bytes:
    message = {"role": "assistant", "content": "Ready. " * 110}
    body = json.dumps(
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 300, "completion_tokens": 200, "total_tokens": 500},
        },
        separators=(",", ":"),
    ).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _frame(choices: list[dict[str, object]], **more: object) -> bytes:
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    data = b"data: " + json.dumps({**head, "choices": choices, **more}, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def _frames(words: int) -> list[bytes]:
    frames = [_frame([{"index": 0, "delta": {"content": "ready "}, "finish_reason": None}])] * (words - 1)
    end = _frame([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    usage = _frame([], usage={"prompt_tokens": 300, "completion_tokens": 50, "total_tokens": 350})
    return [*frames, end, usage, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]


_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_ANSWER = _answer()
_AT_ONCE = _STREAM_HEAD + b"".join(_frames(CHUNKS))
_PACED = _frames(PACED_CHUNKS)


class _Provider(asyncio.Protocol):
    def __init__(self) -> None:
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's don't inherit from it

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, rest = self._got.partition(_HEAD_END)
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        if len(rest) < length:
            return
        self._got = rest[length:]
        self._reply(rest[:length])

    def _reply(self, body: bytes) -> None:
        transport = self._transport
        if b'"stream":true' not in body:
            transport.write(_ANSWER)
        elif b"paced" not in body:
            transport.write(_AT_ONCE)
        else:
            transport.write(_STREAM_HEAD + _PACED[0])
            for number, frame in enumerate(_PACED[1:], 1):
                asyncio.get_running_loop().call_later(number * PACE, transport.write, frame)


async def _provide() -> None:
    server = await asyncio.get_running_loop().create_server(_Provider, "127.0.0.1", 0)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n")
    sys.stdout.flush()
    await server.serve_forever()


class Load(NamedTuple):
    """What many requests took: wall seconds of all, and of each until its first content and until its end."""

    wall: float
    first: list[float]
    whole: list[float]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.whole) / self.wall


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class _Client(asyncio.Protocol):
    """Asks one request after the other."""

    def __init__(self, number: int, count: int, request: Callable[[int, int], bytes], load: Load) -> None:
        self._number, self._left, self._request, self._load = number, count, request, load
        self._asked = 0
        self._got = b""
        self._first = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's don't inherit from it
        self._ask()

    def _ask(self) -> None:
        transport = self._transport
        if not self._left:
            transport.close()
            self.done.set_result(None)
            return
        self._left -= 1
        self._first = 0.0
        self._begun = time.perf_counter()
        transport.write(self._request(self._number, self._asked))
        self._asked += 1

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._first and b'"content"' in self._got:
            self._first = time.perf_counter() - self._begun
        head, found, rest = self._got.partition(_HEAD_END)
        if not found or not self._is_whole(head, rest):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._fail(self._got)
            return
        self._load.first.append(self._first)
        self._load.whole.append(time.perf_counter() - self._begun)
        self._got = b""
        self._ask()

    def _is_whole(self, head: bytes, rest: bytes) -> bool:
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        return len(rest) >= int(length) if length else rest.endswith(b"0\r\n\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._fail(repr(exc).encode())

    def _fail(self, said: bytes) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(f"a request failed: {said[:500]!r}"))


def _same(client: _Client) -> _Client:
    return client


def load(port: int, clients: int, requests: int, request: Callable[[int, int], bytes], *, spread: float = 0.0) -> Load:
    """Let clients ask, each its share of the requests; ``request`` gives the bytes of a client's nth one.

    They begin all at once, or one after the other over ``spread`` seconds.
    """
    figures = Load(0.0, [], [])

    async def run() -> float:
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        asking = [_Client(number, requests // clients, request, figures) for number in range(clients)]
        for client in asking:
            await asyncio.sleep(spread / clients)
            await loop.create_connection(functools.partial(_same, client), "127.0.0.1", port)
        await asyncio.gather(*(client.done for client in asking))
        return time.perf_counter() - started

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        wall = runner.run(run())
    return figures._replace(wall=wall)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as provider:
        provider.run(_provide())
