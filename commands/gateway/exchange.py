"""Exchanges: one HTTP request and its reply, as ASGI messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from commands.gateway import problems

if TYPE_CHECKING:
    from commands.gateway.tracing import Trace

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")

LONGEST_CORRELATION = 200
MICRO = 1_000_000
_PATHS = (
    "/v1/chat/completions", "/v1/embeddings", "/v1/models", "/v1/usage", "/usage", "/health/live", "/health/ready",
)  # fmt: skip
JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
NOT_CACHED = (b"cache-control", b"no-cache")
clock = time.perf_counter


class Ceased(Exception):
    """Work was cut short: its client left, or the gateway is told to stop."""

    def __init__(self, reason: Literal["client-left", "stopped"]) -> None:
        super().__init__(reason)
        self.reason = reason


class Exchange:
    """A request on its way in and the reply on its way out."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope.get("query_string", b"")
        self.headers: dict[bytes, bytes] = {}
        self.repeated: set[bytes] = set()
        for name, value in scope["headers"]:
            if name in self.headers:
                self.repeated.add(name)
            self.headers[name] = value
        self.request_id = ""
        self.identity = ""
        self.shown = ""
        self.model = self.alias = self.error = ""
        self.status = self.sent = 0
        self.streamed = self.replayed = False
        self.begun = clock()
        self.trace: Trace | None = None
        self.accepted = False
        self.started = False
        self.finished = False
        self._receive = receive
        self._send = send
        self._left = False
        self._working: asyncio.Task[Any] | None = None
        self._reason: Literal["client-left", "stopped"] | None = None
        self._watching: asyncio.Task[None] | None = None

    def header(self, name: bytes) -> str | None:
        """Return a header's value."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def route(self) -> str:
        """The path, as far as it is one that the gateway has."""
        path = self.path
        return "/v1/models/{model}" if path.startswith("/v1/models/") else path if path in _PATHS else "{other}"

    def elapsed(self) -> int:
        """Return the microseconds since the request came."""
        return int((clock() - self.begun) * MICRO)

    @property
    def correlation(self) -> str | None:
        """The client's own name for the request: recorded, and never a reason to answer it otherwise."""
        value = self.header(b"x-client-request-id")
        return value[:LONGEST_CORRELATION] if value and value.isascii() and value.isprintable() else None

    async def body(self, limit: int) -> bytes:
        """Return the whole body; a Problem when it is too large, Ceased when the client leaves before its end."""
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > limit:
            raise problems.too_large(limit)
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Ceased("client-left")
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise problems.too_large(limit)
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def watch(self) -> None:
        """From now on, notice when the client leaves. Only after the body was read."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def work(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that ends early, as Ceased, when the client leaves (if watched) or :meth:`stop` is called."""
        if self._left:
            work.close()
            raise Ceased("client-left")
        task = asyncio.current_task()
        self._working = task
        try:
            return await work
        except asyncio.CancelledError:
            if self._reason is None or task is None:
                raise
            task.uncancel()
            raise Ceased(self._reason) from None
        finally:
            self._working = None

    def stop(self, reason: Literal["client-left", "stopped"] = "stopped") -> None:
        """End the work that goes on now."""
        if self._working is not None and self._reason is None:
            self._reason = reason
            self._working.cancel()

    async def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole reply."""
        self.started = self.finished = True
        self.status, self.sent = status, len(body)
        length = (b"content-length", b"%d" % len(body))
        headers = [*headers, length, *self._named()]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, headers: Headers) -> None:
        """Begin a streamed reply."""
        self.started = self.streamed = True
        self.status = 200
        headers = [EVENTS, NOT_CACHED, *headers, *self._named()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def pass_on(self, part: bytes) -> None:
        """Send a part of a streamed reply."""
        self.sent += len(part)
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def finish(self, part: bytes) -> None:
        """Send the last part of a streamed reply."""
        self.finished = True
        self.sent += len(part)
        await self._send({"type": "http.response.body", "body": part})

    async def problem(self, problem: problems.Problem, headers: Headers | None = None) -> None:
        """Say what is wrong: as a reply, or as the last event of a stream that has begun."""
        if self.finished:
            return
        self.error = problems.name_of(problem)
        if self.started:
            await self.finish(b"data: " + problem.envelope() + b"\n\n")
            return
        named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()]
        await self.reply(problem.status, [JSON, *named, *(headers or ())], problem.envelope())

    def _named(self) -> Headers:
        return [(b"x-request-id", self.request_id.encode())] if self.request_id else []

    async def _watch(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._left = True
                self.stop("client-left")
                return
