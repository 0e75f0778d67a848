"""Upstream: the way out to providers: what is sent, and what a client is told when no answer comes back.

One dispatch is one physical request. There is no retry here but one: a kept connection that turned out to be closed,
when no byte had come back on it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from commands.gateway import problems
from commands.gateway.dialects import Outgoing
from commands.gateway.frames import BrokenStream
from commands.gateway.wire import Closed, Endless, Line, Lines, Target, Unreachable
from commands.perform.credentials import CredentialMissing, credential
from ledger.families.providers import Connection
from ledger.redaction import Redactor

OK = 200
UNAUTHORIZED, FORBIDDEN, TIMED_OUT, TOO_MANY = 401, 403, 408, 429
SERVER_ERRORS = 500
UNAVAILABLE = 503
LONGEST_HEADER = 64
_SENT_HEADERS = "Content-Type: application/json\r\nAccept-Encoding: identity\r\nUser-Agent: exp-gateway\r\n"
_KEPT_HEADERS = ("Retry-After", "retry-after-ms")

Retried = Callable[[str], Awaitable[None]]


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
    trace: str = ""


class Upstream:
    """Asks providers. Credentials are read when a call needs them, and never leave in any text."""

    def __init__(self) -> None:
        self._lines: Lines | None = None
        self._targets: dict[str, Target] = {}
        self._secrets: set[str] = set()
        self.redactor = Redactor()

    async def open(self) -> None:
        """Get ready; only inside the loop that will ask."""
        self._lines = Lines()

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._lines is not None:
            self._lines.close()

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
    async def ask(self, dispatch: Dispatch, *, retried: Retried) -> AsyncIterator[Line]:
        """Yield the connection on which an answer with status 200 comes; an UpstreamProblem otherwise."""
        if self._lines is None:
            raise RuntimeError("nothing can be asked before this is open")
        line = await self._answering(self._lines, dispatch, retried)
        try:
            if line.status != OK:
                raise await self._refused(line)
            yield line
        except TimeoutError as error:
            raise _timed_out() from error
        except Closed as error:
            raise _cut() from error
        except Endless as error:
            raise unreadable("the provider's answer doesn't end") from error
        finally:
            self._lines.give_back(line)

    async def _answering(self, lines: Lines, dispatch: Dispatch, retried: Retried) -> Line:
        """Return a connection on which the head of an answer has come."""
        head = self._head(dispatch)
        for last in (False, True):
            try:
                target = self._target(dispatch.outgoing.url)
                line = await lines.line(target.place)
                return await self._sent(line, target.head + head, dispatch)
            except TimeoutError as error:
                raise _timed_out() from error
            except Unreachable as error:
                raise _unreachable(never_sent=True) from error
            except Closed as error:
                if last or not error.stale:
                    raise _unreachable(never_sent=False) from error
            await retried("stale-connection")
        raise AssertionError

    async def _sent(self, line: Line, head: bytes, dispatch: Dispatch) -> Line:
        try:
            line.ask(head, dispatch.outgoing.body, dispatch.timeout)
            await line.answered()
        except BaseException:
            line.abort()
            raise
        return line

    def _target(self, url: str) -> Target:
        target = self._targets.get(url)
        if target is None:
            target = self._targets[url] = Target.of(url)
        return target

    def _head(self, dispatch: Dispatch) -> bytes:
        """Return the head of a request but for its first lines."""
        credential = self.credential(dispatch.connection)
        shown = "" if credential is None else f"Authorization: Bearer {credential}\r\n"
        key = "" if dispatch.key is None else f"Idempotency-Key: {dispatch.key}\r\n"
        length = len(dispatch.outgoing.body)
        return f"{_SENT_HEADERS}{shown}{key}{dispatch.trace}Content-Length: {length}\r\n\r\n".encode("ascii")

    async def _refused(self, line: Line) -> UpstreamProblem:
        """Return what a client is told of a provider's error."""
        status = line.status
        body = await line.read()
        headers = {name: value for name in _KEPT_HEADERS if (value := _plain(line.headers.get(name.lower().encode())))}
        return refused(status, body, headers, self.redactor)


def _plain(value: bytes | None) -> str | None:
    """Return a header's value when it is short and plain enough to be passed on."""
    if not value or len(value) > LONGEST_HEADER or not value.isascii():
        return None
    text = value.decode()
    return text if text.isprintable() else None


class ErrorFacts(msgspec.Struct):
    """The envelope's fields, as far as the provider fills them in."""

    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    param: str | None = None


class ErrorBody(msgspec.Struct):
    """An error as most providers write it."""

    error: ErrorFacts | str


class Complaint(msgspec.Struct):
    """What is wrong with one field of a request."""

    msg: str


class Detailed(msgspec.Struct):
    """An error as a common framework writes it."""

    detail: str | list[Complaint]


_error_body = msgspec.json.Decoder(ErrorBody)
_bare_error = msgspec.json.Decoder(ErrorFacts)
_detailed = msgspec.json.Decoder(Detailed)


def error_facts(body: bytes) -> ErrorFacts:
    """Return what a provider's error says; nothing when it isn't in a known form."""
    for read in (_enveloped, _bare_error.decode, _in_detail):
        with contextlib.suppress(ValueError, RecursionError):
            facts = read(body)
            if facts.message or facts.type or facts.code:
                return facts
    return ErrorFacts()


def _enveloped(body: bytes) -> ErrorFacts:
    error = _error_body.decode(body).error
    return ErrorFacts(message=error) if isinstance(error, str) else error


def _in_detail(body: bytes) -> ErrorFacts:
    detail = _detailed.decode(body).detail
    return ErrorFacts(message=detail if isinstance(detail, str) else "; ".join(one.msg for one in detail))


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


def _unreachable(*, never_sent: bool) -> UpstreamProblem:
    """Tell a connection that couldn't be made, and cost nothing, from one that closed, and may have."""
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
