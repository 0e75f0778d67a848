"""Wire: HTTP/1.1 to providers, over connections that are kept. One request at a time on each, nothing ahead of another.

A protocol of its own rather than a client library: what a gateway needs of HTTP is little, and a library's request is
the largest single cost of serving one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import cache
from typing import NamedTuple, cast

import httptools
from yarl import URL

CONNECT_TIMEOUT = 10.0
KEEP_ALIVE = 60.0
MOST_IDLE = 256
BUFFERED = 256 * 1024
LONGEST_HEAD = 64 * 1024
LONGEST_BODY = 256 * 1024 * 1024
FIRST_FINAL = 200


class Unreachable(Exception):
    """No connection could be made: nothing was sent."""


class Closed(Exception):
    """The connection ended, or what came on it isn't HTTP, before the answer did.

    ``stale`` tells of a kept connection on which not a byte came back: the request may be sent once more.
    """

    def __init__(self, *, stale: bool) -> None:
        super().__init__()
        self.stale = stale


class Endless(Exception):
    """The answer is longer than any that was asked for."""


class Place(NamedTuple):
    """Where connections go."""

    host: str
    port: int
    tls: bool


class Target(NamedTuple):
    """An address, ready to be asked: the place, and what a request's head begins with."""

    place: Place
    head: bytes

    @classmethod
    def of(cls, address: str) -> Target:
        """Return the target of an address; Unreachable when nothing can be asked there."""
        try:
            url = URL(address)
            host, port = url.raw_host, url.port
        except ValueError as error:
            raise Unreachable from error
        if not host or port is None or url.scheme not in {"http", "https"}:
            raise Unreachable
        start = f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
        return cls(Place(host, port, url.scheme == "https"), start.encode("ascii"))


class Line(asyncio.Protocol):
    """A connection, and the answer that comes on it now."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.uses = 0
        self.idle_since = 0.0
        self.lost = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.whole = False
        self._heard = self._broken = self._kept = False
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._size = self._total = self._head_size = self._unread = 0
        self._paused = False
        self._timeout = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's don't inherit from it

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if not self.uses:  # nothing was asked, so nothing that comes is an answer
            self._break()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._break()
        if not self.status:
            self._unread += len(data)
            if self._unread > LONGEST_HEAD:
                self._break()
        self._wake()

    def eof_received(self) -> bool:
        if self.status and not self.whole and self._lasts_until_end:
            self.whole = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why it was lost changes nothing
        self.lost = True
        self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.whole:
            self._break()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > LONGEST_HEAD:
            self._break()
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < FIRST_FINAL:
            self.headers.clear()
            return
        self._kept = self._parser.should_keep_alive()
        self.status = status

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        self._total += len(body)
        if self._total > LONGEST_BODY:
            self._break()
        if self._size > BUFFERED and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status:
            self.whole = True

    # What a request needs.

    def ask(self, head: bytes, body: bytes, timeout: float) -> None:
        """Send a request; what came of an earlier one is forgotten."""
        self.uses += 1
        self.status, self._timeout = 0, timeout
        self.whole = self._heard = self._kept = False
        self.headers = {}
        self._parts.clear()
        self._size = self._total = self._head_size = self._unread = 0
        self._parser = httptools.HttpResponseParser(self)
        self._transport.writelines((head, body))

    async def answered(self) -> None:
        """Wait for the head of the answer; Closed when there is none, TimeoutError after too long a silence."""
        while not self.status:
            self._check()
            await self._news()
        if self._broken:
            raise Closed(stale=False)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        while True:
            if self._parts:
                yield self._taken()
            elif self.whole:
                return
            else:
                self._check()
                await self._news()

    async def read(self) -> bytes:
        """Return the whole body."""
        got: list[bytes] = []
        while not self.whole:
            self._check()
            if self._paused:
                got.append(self._taken())
            else:
                await self._news()
        got.append(self._taken())
        return got[0] if len(got) == 1 else b"".join(got)

    async def ends(self, seconds: float) -> None:
        """Wait a little for the end of the answer, so that the connection can be kept."""
        self._timeout = seconds
        with contextlib.suppress(TimeoutError, Closed, Endless):
            while not self.whole:
                self._check()
                self._taken()
                await self._news()

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return self.whole and self._kept and not (self.lost or self._broken or self._paused)

    @property
    def held(self) -> int:
        """The bytes that came and weren't taken yet."""
        return self._size

    def abort(self) -> None:
        """End the connection now."""
        self._transport.abort()

    def _taken(self) -> bytes:
        taken = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            if not self.lost:
                self._transport.resume_reading()
        return taken

    @property
    def _lasts_until_end(self) -> bool:
        return b"content-length" not in self.headers and b"transfer-encoding" not in self.headers

    def _check(self) -> None:
        if self._total > LONGEST_BODY:
            raise Endless
        if self._broken or self.lost:
            raise Closed(stale=self.uses > 1 and not self._heard)

    def _break(self) -> None:
        self._broken = True
        self._transport.abort()

    async def _news(self) -> None:
        """Wait until something came; TimeoutError after too long a silence."""
        waiter = self._waiter = self._loop.create_future()
        self._timer = self._loop.call_later(self._timeout, self._too_long)
        try:
            await waiter
        finally:
            self._timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _too_long(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())


class Lines:
    """The connections that are kept, the last used first."""

    def __init__(self) -> None:
        self._idle: dict[Place, list[Line]] = {}
        self._loop = asyncio.get_running_loop()

    async def line(self, place: Place) -> Line:
        """Return a connection; Unreachable when none can be made, TimeoutError when that takes too long."""
        idle = self._idle.get(place)
        while idle:
            line = idle.pop()
            if not line.lost and self._loop.time() - line.idle_since < KEEP_ALIVE:
                return line
            line.abort()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, line = await self._loop.create_connection(
                    lambda: Line(place), place.host, place.port, ssl=trust() if place.tls else None
                )
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            raise Unreachable from error
        return line

    def give_back(self, line: Line) -> None:
        """Keep a connection for the next request, if it can have one."""
        idle = self._idle.setdefault(line.place, [])
        if not line.reusable or len(idle) >= MOST_IDLE:
            line.abort()
            return
        line.idle_since = self._loop.time()
        idle.append(line)

    def close(self) -> None:
        """End the connections that are kept."""
        for idle in self._idle.values():
            for line in idle:
                line.abort()
        self._idle.clear()


@cache
def trust() -> ssl.SSLContext:
    """Return what certificates are checked by: the system's authorities, or SSL_CERT_FILE's."""
    return ssl.create_default_context()
