"""Live: questions go over HTTP to the provider that they name, or to the embedded one in this process.

One request, one outcome: nothing is retried, redirected or read from the environment here, so that every request that
leaves was reserved and is recorded.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from commands.perform.credentials import credential, redactor_for
from commands.perform.outcome import Answered, Failed, Outcome
from ledger import questions
from ledger.families.providers import Endpoint, Providers
from ledger.prompt import Question

if TYPE_CHECKING:
    import aiohttp

OK = 200
ERROR = 400
REDIRECT = 300
# Refused for what it says: the same request would be refused again.
REFUSED_FOR_GOOD = frozenset({400, 404, 405, 413, 415, 422})
MOST_SHOWN = 300
MOST_BYTES = 256 << 20


class Live:
    """Asks providers. Close it, or use it as an asynchronous context manager."""

    asks = True

    def __init__(
        self,
        providers: Providers,
        environment: Mapping[str, str] | None = None,
        *,
        connect_seconds: float = 10.0,
        total_seconds: float = 600.0,
    ) -> None:
        self.redactor = redactor_for(providers, environment)
        self._environment = environment
        self._connect_seconds = connect_seconds
        self._total_seconds = total_seconds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __call__(self, endpoint: Endpoint, question: Question) -> Outcome:
        """Ask, and return the answer's bytes or what went wrong; CredentialMissing before anything is sent."""
        asked = questions.asked(question.body)
        started = time.perf_counter_ns()
        if endpoint.connection.provider == "embedded":
            return self._embedded(asked, started)
        try:
            async with self.opened(endpoint, questions.url(asked), questions.wire_body(asked)) as response:
                body = await _whole(response)
                if body is None:
                    return Failed("too-long", charged=True, again=False)
                if response.status == OK:
                    return Answered(body, (time.perf_counter_ns() - started) // 1000)
                return self._refused(response.status, body, response.headers)
        except Exception as error:
            outcome = outcome_of(error)
            if outcome is None:
                raise
            return outcome

    @contextlib.asynccontextmanager
    async def opened(self, endpoint: Endpoint, url: str, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a body and give the response as it begins, for whoever reads it piece by piece."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        key = credential(endpoint.connection, self._environment)
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        async with self._opened_session().post(url, data=body, headers=headers, allow_redirects=False) as response:
            yield response

    def _opened_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # noqa: PLC0415 - loaded by those who ask over HTTP

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                timeout=aiohttp.ClientTimeout(total=self._total_seconds, sock_connect=self._connect_seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "exp"},
                auto_decompress=True,
            )
        return self._session

    def _embedded(self, asked: questions.Asked, started: int) -> Outcome:
        from commands.embedded.answer import answer  # noqa: PLC0415 - loaded by those who ask it

        status, reply = answer(asked.api, msgspec.json.decode(questions.wire_body(asked)))
        body = msgspec.json.encode(reply)
        if status == OK:
            return Answered(body, (time.perf_counter_ns() - started) // 1000)
        return self._refused(status, body, {})

    def _refused(self, status: int, body: bytes, headers: Mapping[str, str]) -> Failed:
        """Return the outcome of a status other than 200, with what the provider said, without anything like a key."""
        return Failed(
            f"status {status}",
            status,
            message=self.redactor.error(_message(body))[:MOST_SHOWN],
            again=status not in REFUSED_FOR_GOOD and not REDIRECT <= status < ERROR,
            retry_after=retry_after(headers.get("Retry-After")),
        )


def outcome_of(error: Exception) -> Failed | None:
    """Return the outcome of a request that broke: whether it left, whether it may be charged for; None for a bug."""
    import aiohttp  # noqa: PLC0415 - loaded already when this can happen

    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
        return Failed("unreachable", message=_words(error), sent=False)
    if isinstance(error, aiohttp.InvalidURL):
        return Failed("not an address", message="", sent=False, again=False)
    if isinstance(error, TimeoutError):
        return Failed("timed out", charged=True)
    if isinstance(error, (aiohttp.ClientError, OSError)):
        return Failed("cut off", message=_words(error), charged=True)
    return None


def retry_after(value: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for, in either of its forms; None for anything else."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds == seconds else None  # noqa: PLR0124 - only NaN differs from itself


def _words(error: Exception) -> str:
    reason = getattr(error, "os_error", None)
    return (getattr(reason, "strerror", None) or type(error).__name__)[:MOST_SHOWN]


def _message(body: bytes) -> str:
    """Return what an error's body says: its message where it has one, else its text."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return " ".join(body[:MOST_SHOWN].decode(errors="replace").split())
    error = said.get("error", said) if isinstance(said, dict) else said
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message if message is not None else said).split())


async def _whole(response: aiohttp.ClientResponse) -> bytes | None:
    """Return the body; None when it is longer than any reply."""
    if (response.content_length or 0) > MOST_BYTES:
        return None
    if response.content_length is not None:
        return await response.read()
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)
