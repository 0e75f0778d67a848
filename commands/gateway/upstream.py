"""Upstream: the way out to providers, over one session that keeps its connections.

One dispatch is one physical request. There is no retry here but one: a pooled connection that turned out to be closed,
when no byte had come back on it. Clients retry by themselves; a gateway that did it too would multiply.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from commands.gateway import problems
from commands.gateway.dialects import Outgoing
from commands.gateway.frames import BrokenStream
from commands.perform.credentials import CredentialMissing, credential
from ledger.families.providers import Connection
from ledger.redaction import Redactor

CONNECT_TIMEOUT = 10.0
KEEP_ALIVE = 60.0
OK = 200
UNAUTHORIZED, FORBIDDEN, TIMED_OUT, TOO_MANY = 401, 403, 408, 429
SERVER_ERRORS = 500
UNAVAILABLE = 503
LONGEST_HEADER = 64
_KEPT_HEADERS = ("Retry-After", "retry-after-ms")

Retried = Callable[[str], Awaitable[None]]
_lines: ContextVar[list[_Line]] = ContextVar("lines")


class UpstreamProblem(problems.Problem):
    """What a client is told when its provider didn't answer; ``cost`` is None when it may have been charged for."""

    upstream_status: int | None = None
    cost: int | None = 0


class Dispatch(msgspec.Struct, frozen=True):
    """One physical request: where it goes, what is sent, under which key, and how long the provider may be silent."""

    connection: Connection
    outgoing: Outgoing
    key: str | None
    timeout: float


class _Line(ResponseHandler):
    """A connection that knows whether it served before, and whether a byte came back for the request it has now."""

    uses = 0
    heard = False

    def data_received(self, data: bytes) -> None:
        self.heard = True
        super().data_received(data)

    @property
    def stale(self) -> bool:
        """Whether it was kept from an earlier request and stayed silent on this one."""
        return self.uses > 1 and not self.heard


class _Connector(aiohttp.TCPConnector):
    """Tells each request which connection it got: only a kept one may have gone stale."""

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_ALIVE)
        self._factory = functools.partial(_Line, loop=asyncio.get_running_loop())  # type: ignore[assignment]  # narrower than declared, on purpose

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ANN401, ASYNC109 - theirs
        connection = await super().connect(req, traces, timeout)
        line = connection.protocol
        if isinstance(line, _Line):
            line.uses += 1
            line.heard = False
            _lines.get().append(line)
        return connection


class Upstream:
    """Asks providers. Credentials are read when a call needs them, and never leave in any text."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._urls: dict[str, URL] = {}
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._secrets: set[str] = set()
        self.redactor = Redactor()

    async def open(self) -> None:
        """Open the session; only inside the loop that will use it."""
        self._session = aiohttp.ClientSession(
            connector=_Connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        )

    async def close(self) -> None:
        """Close the session and its connections."""
        if self._session is not None:
            await self._session.close()

    def keep_out(self, secret: str) -> None:
        """Redact a credential wherever something is recorded or passed on."""
        if secret not in self._secrets:
            self._secrets.add(secret)
            self.redactor = Redactor(self._secrets)

    def credential(self, connection: Connection) -> str | None:
        """Return a connection's credential; None when it needs none, a Problem when it isn't there."""
        try:
            value = credential(connection)
        except CredentialMissing as error:
            raise problems.upstream(502, f"{error.what} ({error.where})", "credential_missing") from error
        if value is None:
            return None
        self.keep_out(value)
        return value

    def learn_credentials(self, connections: tuple[Connection, ...]) -> None:
        """Redact what is there already; what is missing matters when a call needs it."""
        for connection in connections:
            with contextlib.suppress(problems.Problem):
                self.credential(connection)

    @contextlib.asynccontextmanager
    async def ask(self, dispatch: Dispatch, *, retried: Retried) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a response with status 200; an UpstreamProblem otherwise."""
        response = await self._response(dispatch, retried)
        try:
            if response.status != OK:
                raise await self._refused(response)
            yield response
        except TimeoutError as error:
            raise _timed_out() from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise _cut() from error
        finally:
            response.close() if not response.content.at_eof() else response.release()

    async def _response(self, dispatch: Dispatch, retried: Retried) -> aiohttp.ClientResponse:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "exp-gateway"}
        credential = self.credential(dispatch.connection)
        if credential is not None:
            headers["Authorization"] = f"Bearer {credential}"
        if dispatch.key is not None:
            headers["Idempotency-Key"] = dispatch.key
        lines: list[_Line] = []
        _lines.set(lines)
        try:
            return await self._post(dispatch, headers)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if not lines or not lines[-1].stale:
                raise _unreachable(error) from error
            await retried("stale-connection")
        except TimeoutError as error:
            raise _timed_out() from error
        except aiohttp.ClientError as error:
            raise _unreachable(error) from error
        try:
            return await self._post(dispatch, headers)
        except TimeoutError as error:
            raise _timed_out() from error
        except aiohttp.ClientError as error:
            raise _unreachable(error) from error

    async def _post(self, dispatch: Dispatch, headers: dict[str, str]) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the session isn't open")
        outgoing, timeout = dispatch.outgoing, self._timeouts.get(dispatch.timeout)
        if timeout is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=dispatch.timeout)
            self._timeouts[dispatch.timeout] = timeout
        url = self._urls.get(outgoing.url)
        if url is None:
            url = self._urls[outgoing.url] = URL(outgoing.url)
        return await self._session.post(
            url, data=outgoing.body, headers=headers, allow_redirects=False, timeout=timeout
        )

    async def _refused(self, response: aiohttp.ClientResponse) -> UpstreamProblem:
        """Return what a client is told of a provider's error."""
        status = response.status
        body = await response.read()
        headers = {name: value for name in _KEPT_HEADERS if (value := _plain(response.headers.get(name)))}
        return refused(status, body, headers, self.redactor)


def _plain(value: str | None) -> str | None:
    """Return a header's value when it is short and plain enough to be passed on."""
    return value if value and len(value) <= LONGEST_HEADER and value.isascii() and value.isprintable() else None


class ErrorFacts(msgspec.Struct):
    """The envelope's fields, as far as the provider fills them in."""

    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    param: str | None = None


class ErrorBody(msgspec.Struct):
    """An error as most providers write it."""

    error: ErrorFacts | str


_error_body = msgspec.json.Decoder(ErrorBody)


def error_facts(body: bytes) -> ErrorFacts:
    """Return what a provider's error says; nothing when it isn't in a known form."""
    try:
        error = _error_body.decode(body).error
    except (ValueError, RecursionError):
        return ErrorFacts()
    return ErrorFacts(message=error) if isinstance(error, str) else error


def refused(status: int, body: bytes, headers: dict[str, str], redactor: Redactor) -> UpstreamProblem:
    """Return the reply for a provider's error: a client's fault as such, ours and the provider's as a gateway's."""
    facts = error_facts(body)
    words = redactor.error(facts.message or "")[:2000] or f"the provider answered with status {status}"
    told, code = _told(status)
    kept = headers if told in {TOO_MANY, UNAVAILABLE} else {}
    if told in {UNAUTHORIZED, FORBIDDEN} or status in {UNAUTHORIZED, FORBIDDEN}:
        words = f"the provider refused the gateway's credential (status {status})"
    param = None if facts.param is None else redactor.error(facts.param)
    own = redactor.error(str(facts.code)) if facts.code is not None and code is None else code
    kind = redactor.error(facts.type) if facts.type and told < SERVER_ERRORS else problems.UPSTREAM
    problem = UpstreamProblem(told, words, kind=kind, code=own, param=param, headers=kept)
    problem.upstream_status = status
    return problem


def _told(status: int) -> tuple[int, str | None]:
    """Return the status for the client, and the code where the provider's own isn't passed on."""
    if status in {UNAUTHORIZED, FORBIDDEN}:
        return 502, "upstream_authentication"
    if status == TIMED_OUT:
        return 504, "upstream_timeout"
    if status == UNAVAILABLE:
        return 503, "upstream_unavailable"
    if status >= SERVER_ERRORS:
        return 502, "upstream_error"
    if status < 400:  # noqa: PLR2004 - redirects and successes that aren't answers
        return 502, "upstream_unreadable"
    return status, None


def _timed_out() -> UpstreamProblem:
    problem = UpstreamProblem(
        504, "the provider didn't answer in time", kind=problems.UPSTREAM, code="upstream_timeout"
    )
    problem.cost = None
    return problem


def _cut() -> UpstreamProblem:
    problem = UpstreamProblem(502, "the provider's answer was cut off", kind=problems.UPSTREAM, code="upstream_cut")
    problem.cost = None
    return problem


def _unreachable(error: Exception) -> UpstreamProblem:
    """Tell a connection that couldn't be made, and cost nothing, from one that closed, and may have."""
    never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL)
    words = "the provider can't be reached" if never_sent else "the provider closed the connection without an answer"
    problem = UpstreamProblem(502, words, kind=problems.UPSTREAM, code="upstream_unreachable")
    problem.cost = 0 if never_sent else None
    return problem


def unreadable(words: str) -> UpstreamProblem:
    """Say that the provider's bytes are no answer; they may have been charged for."""
    problem = UpstreamProblem(502, words, kind=problems.UPSTREAM, code="upstream_unreadable")
    problem.cost = None
    return problem


def broken(error: BrokenStream, redactor: Redactor) -> UpstreamProblem:
    """Return the reply for a stream that can't be passed on."""
    facts = error_facts(error.error) if error.error else ErrorFacts()
    words = redactor.error(facts.message or "")[:2000] or error.message
    status = 502
    if str(facts.code) in {"429", "rate_limit_exceeded"} or facts.type == "rate_limit_error":
        status = TOO_MANY
    problem = UpstreamProblem(status, words, kind=problems.UPSTREAM, code=error.code)
    problem.cost = None
    return problem


def clock() -> float:
    """Return seconds that only grow."""
    return time.perf_counter()
