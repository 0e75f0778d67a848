"""Connections: HTTP/1.1 with clients, as uvicorn speaks it, and what it leaves open.

A client may be slow but not silent: whoever stops in the midst of a request, or stops reading, is let go. What is read
before a key was seen has a limit, and the reply to one request is never written into that to another.
"""

from __future__ import annotations

import asyncio

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from commands.gateway import problems

LONGEST_HEAD = 64 * 1024
SILENCE = 75


class _ToTheEnd(RequestResponseCycle):
    """A reply to a client that knows no chunks: a stream lasts until its connection ends."""

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            if all(name != b"content-length" for name, _ in message.get("headers", ())):
                self.chunked_encoding = False
        elif message["type"] == "http.response.body" and self.expected_content_length == 0:
            self.expected_content_length = len(message["body"])
        await super().send(message)


class Connection(HttpToolsProtocol):
    """One client's connection."""

    _in_head = False
    _head = 0
    _stalled: asyncio.TimerHandle | None = None
    _unwritten = 0

    @property
    def _last(self) -> RequestResponseCycle | None:
        """The exchange that came last, if there was one."""
        return self.cycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._wait_for_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        self._read_again()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        in_head = self._in_head
        super().data_received(data)
        if self.transport.is_closing():
            return
        if in_head and self._in_head:
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self._refuse(problems.head_too_large())
                return
        cycle = self._last
        if cycle is None or cycle.response_complete or cycle.more_body:
            self._wait_for_more()

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head = 0
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0":
            self.cycle.__class__ = _ToTheEnd  # before it runs: uvicorn has no other place to choose it

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        self._refuse(problems.no_http())

    def _refuse(self, problem: problems.Problem) -> None:
        """Say what is wrong, where no reply to an earlier request is on its way, and read no more."""
        cycle = self._last
        if self.pipeline:
            self.transport.close()
        elif cycle is not None and not cycle.response_complete and not cycle.more_body:
            cycle.keep_alive = False
        else:
            body = problem.envelope()
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[problem.status] + head + body)
            self.transport.close()

    def _wait_for_more(self) -> None:
        """Let a client go that says nothing for too long, though it is its turn."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(SILENCE, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        cycle = self._last
        if self.transport.get_write_buffer_size():  # a reply is still being read
            if self._stalled is None:
                self._watch_writing()
            self._wait_for_more()
        elif self._in_head or (cycle is not None and not cycle.response_complete):
            self._refuse(problems.too_slow())
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        self._read_again()
        super().resume_writing()

    def _read_again(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch_writing(self) -> None:
        self._unwritten = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(SILENCE, self._still_stalled)

    def _still_stalled(self) -> None:
        """End the connection of a client that took nothing since it was last looked at."""
        if self.transport.get_write_buffer_size() >= self._unwritten:
            self.transport.abort()
        else:
            self._watch_writing()
