"""A provider that says exactly what a test wants it to, byte for byte, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

Piece = bytes | float | None  # bytes to write, seconds to wait, None to cut the connection
CUT: Piece = None


class Asked:
    """One request as it came."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


Script = Callable[[Asked, int], Sequence[Piece]]


def http(
    status: int, body: bytes, *, kind: str = "application/json", headers: dict[str, str] | None = None
) -> list[Piece]:
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return [head.encode() + body]


def completion(text: str = "ready", **fields: Any) -> bytes:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", "logprobs": None}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return json.dumps(body | fields, ensure_ascii=False).encode()


def chunked(*pieces: Piece, ends: bool = True) -> list[Piece]:
    """A streamed answer; bytes become chunks, waits and cuts stay."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    parts = [b"%x\r\n%b\r\n" % (len(piece), piece) if isinstance(piece, bytes) else piece for piece in pieces]
    return [head, *parts, *([b"0\r\n\r\n"] if ends else [])]


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(body | fields, ensure_ascii=False).encode() + b"\n\n"


USAGE = chunk(choices=[], usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
DONE = b"data: [DONE]\n\n"


def said(*words: str) -> list[Piece]:
    return [chunk({"role": "assistant", "content": ""}), *(chunk({"content": word}) for word in words)]


def stream(*words: str) -> list[Piece]:
    return chunked(*said(*words), chunk({}, "stop"), USAGE, DONE)


def ordinary(asked: Asked, count: int) -> Sequence[Piece]:
    return stream("re", "ady") if asked.json.get("stream") else http(200, completion())


class Provider:
    """A server on loopback, in a thread of its own."""

    def __init__(self, script: Script | None = None) -> None:
        self.script: Script = script or ordinary
        self.asked: list[Asked] = []
        self.left = 0
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 10
        while len(self.asked) < count and time.monotonic() < deadline:
            time.sleep(0.005)
        assert len(self.asked) >= count

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**26)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        asked = Asked(head[0].split(" ")[1], headers, body)
        self.asked.append(asked)
        for piece in self.script(asked, len(self.asked)):
            if piece is None:
                writer.transport.abort()
                return False
            if isinstance(piece, bytes):
                writer.write(piece)
                await writer.drain()
            elif await self._left(reader, piece):
                return False
        return True

    async def _left(self, reader: asyncio.StreamReader, seconds: float) -> bool:
        """Wait, or notice that the caller left."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(seconds):
                await reader.read(1)
            self.left += 1
            return True
        return False
