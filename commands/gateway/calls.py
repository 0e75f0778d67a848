"""Calls: the life of one request, from its acceptance to the last byte of its reply.

In this order: accepted and routed, committed; asked; answered or failed, committed; then the last byte leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from urllib.parse import quote

import aiohttp
import msgspec

from commands.gateway import accounting, embedded, problems, upstream
from commands.gateway.answers import read_answer
from commands.gateway.books import Books
from commands.gateway.dialects import Outgoing, outgoing
from commands.gateway.exchange import JSON, Ceased, Exchange, Headers
from commands.gateway.frames import TERMINAL, BrokenStream, ChatStream, Splitter
from commands.gateway.problems import Problem
from commands.gateway.requests import ChatRequest
from commands.gateway.responses import ResponsesStream
from commands.gateway.routing import Directory, Route
from commands.gateway.upstream import Upstream
from ledger import digests
from ledger.event import BlobRef, Blobs
from ledger.families import serving
from ledger.replies import served_as_pinned

LINGER = 0.1
MICRO = 1_000_000
_JSON = "application/json"
_EVENTS = "text/event-stream"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
LONGEST_NAME = 200


class Desk:
    """What every call needs."""

    def __init__(self, books: Books, out: Upstream, directory: Directory, identity: str, *, ghost: bool) -> None:
        self.books = books
        self.upstream = out
        self.directory = directory
        self.identity = identity
        self.ghost = ghost
        self.process = books.journal.process
        self._count = 0

    def next_request(self) -> str:
        """Return a new request id: this process's name and a number."""
        self._count += 1
        return f"{self.process}-{self._count}"


def route_header(alias: str) -> tuple[bytes, bytes]:
    """Return the header that says which model answered."""
    return b"x-exp-route", quote(alias, safe=" /:").encode()


class Ending(msgspec.Struct):
    """What a client got, but for the content type, for others who asked the same under the same key."""

    status: int
    headers: Headers
    body: bytes
    streamed: bool


class Call:
    """One request that is answered by asking a provider."""

    def __init__(self, desk: Desk, exchange: Exchange, request: ChatRequest, claim: serving.Claim | None) -> None:
        self.desk = desk
        self.exchange = exchange
        self.request = request
        self.claim = claim
        self.route: Route = desk.directory.route(request)
        self.outgoing: Outgoing = outgoing(self.route.endpoint, request)
        self.id = exchange.request_id
        self._worst_case = accounting.reservation(self.route.endpoint, request, self.outgoing.body)
        self._begun = upstream.clock()
        self._first_byte = 0.0
        self._redacted = False
        self._sent: list[bytes] = []

    @property
    def headers(self) -> Headers:
        """What a reply says beside its content."""
        route = self.route
        return [
            route_header(route.endpoint.alias),
            (b"x-exp-route-reason", quote(route.reason, safe=" /:").encode()),
        ]

    async def run(self) -> Ending:
        """Answer the request and return what its client got; a Problem when there is no answer."""
        await self._accept()
        if self.claim is None:
            self.exchange.watch()
        try:
            return await (self._stream() if self.request.streamed else self._plain())
        except (Ceased, Problem):
            raise
        except Exception:
            await self._fail(problems.unforeseen(), cost=None)
            raise

    async def _accept(self) -> None:
        blobs = Blobs()
        request, route, sent = self.request, self.route, self.outgoing
        accepted = serving.RequestAccepted(
            request=self.id,
            route=serving.CHAT,
            identity=self.desk.identity,
            model=request.chat.model,
            alias=route.endpoint.alias,
            streamed=request.streamed,
            ghost=self.desk.ghost,
            process=self.desk.process,
            worst_case=self._worst_case,
            correlation=self._redact_name(self.exchange.correlation),
            body=self._kept(blobs, request.body, _JSON),
            claim=self.claim,
        )
        decided = serving.RouteDecided(
            request=self.id,
            alias=route.endpoint.alias,
            reason=route.reason,
            api=sent.api,
            base_url=sent.base_url,
            sent="" if self.desk.ghost else digests.content_digest(sent.body),
            policy=route.policy,
            candidates=route.candidates,
            neighbours=() if self.desk.ghost else route.neighbours,
        )
        await self.desk.books.accept(accepted, decided, blobs)
        self.exchange.accepted = True

    # A whole answer.

    async def _plain(self) -> Ending:
        endpoint = self.route.endpoint
        try:
            raw = await self.exchange.work(self._whole())
            answer = read_answer(self.outgoing.api, raw, f"chatcmpl-{self.id}")
        except Problem as problem:
            await self._fail(problem, cost=_cost_of(problem))
            raise
        except Ceased as ceased:
            await self._abandon(ceased)
            raise
        counts, cost = accounting.settled(endpoint, answer.usage)
        await self._check_pinned(answer.model, counts, cost)
        body = self._redact(answer.body)
        blobs = Blobs()
        await self.desk.books.end(
            serving.RequestAnswered(
                request=self.id,
                response=self._kept(blobs, body, _JSON),
                usage=counts,
                cost=cost,
                served_model=self._redact_name(answer.model),
                as_pinned=served_as_pinned(endpoint, answer.model),
                redacted=self._redacted,
                latency_us=self._elapsed(),
                first_byte_us=self._since_first_byte(),
            ),
            blobs,
        )
        await self.exchange.reply(200, [JSON, *self.headers], body)
        return Ending(200, self.headers, body, streamed=False)

    async def _whole(self) -> bytes:
        if self.route.endpoint.connection.provider == "embedded":
            return await embedded.whole(self.outgoing)
        async with self._asking() as response:
            self._first_byte = upstream.clock()
            return await response.read()

    def _asking(self) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        key = None if self.claim is None else self.claim.upstream_key
        connection = self.route.endpoint.connection
        return self.desk.upstream.ask(connection, self.outgoing, key=key, retried=self._retried)

    async def _retried(self, reason: str) -> None:
        """Record that the first dispatch came back empty, before the second one leaves."""
        failed = serving.AttemptFailed(request=self.id, dispatch=0, reason=reason, worst_case=self._worst_case)
        await self.desk.books.record(serving.RetryDispatch(failed=failed))

    # A stream.

    async def _stream(self) -> Ending:
        kind = ResponsesStream if self.outgoing.api == "responses" else ChatStream
        stream = kind(wants_usage=self.request.wants_usage, fallback_id=f"chatcmpl-{self.id}")
        try:
            await self.exchange.work(self._relay(stream))
            closing = self._redact(stream.end() + TERMINAL)
        except BrokenStream as error:
            problem = upstream.broken(error, self.desk.upstream.redactor)
            await self._fail_stream(problem, stream)
            raise problem from error
        except Problem as problem:
            await self._fail_stream(problem, stream)
            raise
        except Ceased as ceased:
            await self._abandon(ceased, stream)
            raise
        if not self.desk.ghost:
            self._sent.append(closing)
        body = b"".join(self._sent)
        counts, cost = accounting.settled(self.route.endpoint, stream.usage)
        blobs = Blobs()
        await self.desk.books.end(
            serving.RequestAnswered(
                request=self.id,
                response=self._kept(blobs, body, _EVENTS),
                usage=counts,
                cost=cost,
                served_model=self._redact_name(stream.model),
                as_pinned=served_as_pinned(self.route.endpoint, stream.model),
                redacted=self._redacted,
                latency_us=self._elapsed(),
                first_byte_us=self._since_first_byte(),
            ),
            blobs,
        )
        await self.exchange.finish(closing)
        return Ending(200, self.headers, body, streamed=True)

    async def _relay(self, stream: ChatStream | ResponsesStream) -> None:
        """Pass the provider's frames on as they come."""
        splitter = Splitter()
        if self.route.endpoint.connection.provider == "embedded":
            for part in await embedded.frames(self.outgoing):
                await self._pass_on(splitter.feed(part), stream)
            return
        async with self._asking() as response:
            async for part in response.content.iter_any():
                await self._pass_on(splitter.feed(part), stream)
                if stream.ended:
                    await _until_end(response)
                    return
            await self._pass_on(splitter.finish(), stream)

    async def _pass_on(self, events: list[tuple[bytes, bytes]], stream: ChatStream | ResponsesStream) -> None:
        parts: list[bytes] = []
        try:
            for name, data in events:
                parts.append(stream.take(name, data))
        finally:  # what came before a broken frame is good
            await self._send(b"".join(parts), stream)

    async def _send(self, part: bytes, stream: ChatStream | ResponsesStream) -> None:
        if not part:
            return
        part = self._redact(part)
        if not self.exchange.started:
            self._first_byte = upstream.clock()
            if stream.model is not None and not _kept_promise(self.route, stream.model):
                raise _differs(self.route, stream.model)
            await self.exchange.begin(self.headers)
        if not self.desk.ghost:
            self._sent.append(part)
        await self.exchange.pass_on(part)

    async def _fail_stream(self, problem: Problem, stream: ChatStream | ResponsesStream) -> None:
        counts, cost = accounting.settled(self.route.endpoint, stream.usage)
        if stream.usage is None:
            cost = _cost_of(problem)
        await self._fail(problem, counts=counts, cost=cost)

    # Endings.

    async def _check_pinned(self, served: str | None, counts: serving.Counted, cost: int | None) -> None:
        if not _kept_promise(self.route, served):
            problem = _differs(self.route, served)
            await self._fail(problem, counts=counts, cost=cost)
            raise problem

    async def _fail(self, problem: Problem, *, cost: int | None, counts: serving.Counted | None = None) -> None:
        blobs = Blobs()
        await self.desk.books.end(
            serving.RequestFailed(
                request=self.id,
                status=problem.status,
                code=_name_of(problem),
                error=self._kept(blobs, problem.envelope(), _JSON),
                retry_after=problem.headers.get("Retry-After"),
                partial=self._partial(blobs),
                upstream_status=getattr(problem, "upstream_status", None),
                usage=counts or serving.Counted(),
                cost=cost,
                latency_us=self._elapsed(),
            ),
            blobs,
        )

    async def _abandon(self, ceased: Ceased, stream: ChatStream | ResponsesStream | None = None) -> None:
        counts, cost = accounting.settled(self.route.endpoint, None if stream is None else stream.usage)
        blobs = Blobs()
        await self.desk.books.end(
            serving.RequestAbandoned(
                request=self.id,
                reason=ceased.reason,
                partial=self._partial(blobs),
                usage=counts,
                cost=cost,
                latency_us=self._elapsed(),
            ),
            blobs,
        )

    def _kept(self, blobs: Blobs, content: bytes, media: str) -> BlobRef | None:
        """Return where content is recorded, without credentials; None when content isn't kept."""
        if self.desk.ghost:
            return None
        return blobs.put(self.desk.upstream.redactor.data(content)[0], media)

    def _partial(self, blobs: Blobs) -> BlobRef | None:
        return self._kept(blobs, b"".join(self._sent), _EVENTS) if self._sent else None

    def _redact(self, content: bytes) -> bytes:
        """Return an answer without credential values: what the client gets is what the journal holds."""
        content, count = self.desk.upstream.redactor.data(content)
        self._redacted = self._redacted or count > 0
        return content

    def _redact_name(self, text: str | None) -> str | None:
        return None if text is None else self.desk.upstream.redactor.text(text[:LONGEST_NAME])[0]

    def _elapsed(self) -> int:
        return int((upstream.clock() - self._begun) * MICRO)

    def _since_first_byte(self) -> int:
        return max(0, int((self._first_byte - self._begun) * MICRO))


def _name_of(problem: Problem) -> str:
    """Return what a failure is called in its event: a provider's own code only where it is a name and not a text."""
    return next((name for name in (problem.code, problem.kind) if name and _NAME.fullmatch(name)), problems.UPSTREAM)


def _cost_of(problem: Problem) -> int | None:
    return problem.cost if isinstance(problem, upstream.UpstreamProblem) else 0


def _kept_promise(route: Route, served: str | None) -> bool:
    """Tell whether the model is the one that the configuration pins by its served id; without a pin any will do."""
    return route.endpoint.model.served_model_id is None or served_as_pinned(route.endpoint, served)


def _differs(route: Route, served: str | None) -> upstream.UpstreamProblem:
    named = "without a name" if served is None else f"named {served[:200]!r}"
    problem = upstream.UpstreamProblem(
        502,
        f"a model {named} answered for {route.endpoint.alias}, which is pinned to another",
        kind=problems.UPSTREAM,
        code="upstream_model_differs",
    )
    problem.cost = None
    return problem


async def _until_end(response: aiohttp.ClientResponse) -> None:
    """Wait a little for the end of a stream whose last frame has come, so that its connection can be kept."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while await response.content.readany():
                pass
