"""Calls: the life of one request, from its acceptance to the last byte of its reply.

In this order: accepted and routed, committed; asked; answered or failed, committed; then the last byte leaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from urllib.parse import quote

import msgspec

from commands.gateway import accounting, admission, embedded, problems, upstream
from commands.gateway.answers import Answer, no_answer, read_answer
from commands.gateway.books import Books
from commands.gateway.dispatching import Dispatching
from commands.gateway.exchange import JSON, Ceased, Exchange, Headers
from commands.gateway.frames import TERMINAL, BrokenStream, ChatStream, Splitter
from commands.gateway.problems import Problem
from commands.gateway.requests import ChatRequest, Request
from commands.gateway.responses import ResponsesStream
from commands.gateway.routing import Directory, Route
from commands.gateway.upstream import Dispatch, Upstream
from commands.gateway.wire import Line
from commands.gateway.wishes import Wishes, read_wishes
from ledger.event import BlobRef, Blobs
from ledger.families import serving
from ledger.families.providers import Endpoint
from ledger.replies import served_as_pinned

LINGER = 0.1
MICRO = 1_000_000
_JSON = "application/json"
_EVENTS = "text/event-stream"
LONGEST_NAME = 200
Stream = ChatStream | ResponsesStream
T = TypeVar("T")


class Desk:
    """What every call needs."""

    def __init__(self, books: Books, out: Upstream, directory: Directory, *, ghost: bool) -> None:
        self.books = books
        self.upstream = out
        self.directory = directory
        self.ghost = ghost
        self.process = books.journal.process
        self._count = 0

    def next_request(self) -> str:
        """Return a new request id: this process's name and a number."""
        self._count += 1
        return f"{self.process}-{self._count}"

    def names(self, identity: str) -> tuple[str, ...]:
        """Return what a client may ask for."""
        state: serving.Serving = self.books.journal.state(serving.FAMILY)
        aliases = state.account(identity).limits.aliases
        return self.directory.names if aliases is None else tuple(n for n in self.directory.names if n in aliases)

    def route(self, request: Request, wishes: Wishes, identity: str) -> Route:
        """Return where a request of this client goes."""
        names = self.names(identity)
        if request.model not in names:
            raise problems.unknown_model(request.model, names)
        if names is not self.directory.names:
            wishes = self.directory.within(names, request.model, wishes)
        if isinstance(request, ChatRequest):
            return self.directory.route(request, wishes, identity)
        endpoint = self.directory.named(request.model, wishes)
        if not endpoint.capabilities.supports_embeddings:
            raise problems.other_interface(endpoint.alias, "/v1/chat/completions")
        return self.directory.direct(endpoint)


def route_headers(alias: str, reason: str | None, decision: str | None) -> Headers:
    """Return the headers that say which model answered, and by which decision."""
    headers = [(b"x-exp-route", quote(alias, safe=" /:").encode())]
    if reason is not None:
        headers.append((b"x-exp-route-reason", reason.encode()))
    if decision is not None:
        headers.append((b"x-exp-route-decision", decision.encode()))
    return headers


class Ending(msgspec.Struct):
    """What a client got, but for the content type, for others who asked the same under the same key."""

    status: int
    headers: Headers
    body: bytes
    streamed: bool


class Call:
    """One request that is answered by asking a provider."""

    def __init__(self, desk: Desk, exchange: Exchange, request: Request, claim: serving.Claim | None) -> None:
        self.desk = desk
        self.exchange = exchange
        self.request = request
        self.claim = claim
        self.id = exchange.request_id
        self.stream: Stream | None = None
        self._begun = upstream.clock()
        self._first_byte = 0.0
        self._redacted = False
        self._decision: str | None = None
        self._sent: list[bytes] = []
        self._find_way()

    def _find_way(self) -> None:
        self.wishes = read_wishes(self.exchange)
        self.route = self.desk.route(self.request, self.wishes, self.exchange.identity)
        self.way = Dispatching(self.desk.directory, self.request, self.route, ghost=self.desk.ghost)

    @property
    def headers(self) -> Headers:
        """What a reply says beside its content."""
        return route_headers(self.way.endpoint.alias, self.way.reason, self._decision)

    async def run(self) -> Ending:
        """Answer the request and return what its client got; a Problem when there is no answer."""
        while not await self._accept():
            self.desk.books.journal.refresh()
            self._find_way()
        if self.claim is None:
            self.exchange.watch()
        try:
            return await (self._streamed() if self.request.streamed else self._plain())
        except (Ceased, Problem):
            raise
        except Exception:
            await self._fail(problems.unforeseen(), cost=None)
            raise

    async def _accept(self) -> bool:
        """Accept the request; False when its session was kept with another model meanwhile."""
        blobs = Blobs()
        request, route, way = self.request, self.route, self.way
        accepted = serving.RequestAccepted(
            request=self.id,
            route=request.route,
            identity=self.exchange.identity,
            model=request.model,
            alias=way.endpoint.alias,
            streamed=request.streamed,
            ghost=self.desk.ghost,
            process=self.desk.process,
            worst_case=way.worst_case,
            correlation=self._redact_name(self.exchange.correlation),
            body=self._kept(blobs, request.body, _JSON),
            claim=self.claim,
            when=self.desk.books.clock(),
            tokens=way.tokens,
        )
        decided = serving.RouteDecided(
            request=self.id,
            alias=way.endpoint.alias,
            reason=route.reason,
            api=way.outgoing.api,
            base_url=way.outgoing.base_url,
            sent=way.sent,
            policy=route.policy,
            candidates=route.candidates,
            neighbours=() if self.desk.ghost else route.neighbours,
            session=route.session,
            dial=None if self.wishes.dial is None else str(self.wishes.dial),
            allowed=self.wishes.allowed,
        )
        kept = None
        if route.session is not None and route.keeps:
            kept = serving.SessionKept(session=route.session, alias=way.endpoint.alias, request=self.id)
        command = serving.AcceptRequest(accepted=accepted, decided=decided, kept=kept, shown=self.exchange.shown)
        try:
            self._decision = await self.desk.books.accept(command, blobs)
        except serving.SessionKeptElsewhere:
            return False
        except serving.NOT_ADMITTED as refusal:
            raise admission.problem_of(refusal, accepted.when) from refusal
        self.exchange.accepted = True
        self.exchange.alias = way.endpoint.alias
        return True

    # A whole answer.

    async def _plain(self) -> Ending:
        try:
            answer = await self.exchange.work(self._answered(self._whole))
        except Problem as problem:
            await self._fail(problem, cost=_cost_of(problem))
            raise
        except Ceased as ceased:
            await self._abandon(ceased)
            raise
        counts, cost = accounting.settled(self.way.endpoint, answer.usage)
        await self._check_pinned(answer.model, counts, cost)
        body = self._redact(answer.body)
        await self._end(body, _JSON, counts, cost, answer.model)
        headers = self.headers
        await self.exchange.reply(200, [JSON, *headers], body)
        return Ending(200, headers, body, streamed=False)

    async def _end(self, body: bytes, media: str, counts: serving.Counted, cost: int | None, model: str | None) -> None:
        blobs = Blobs()
        answered = serving.RequestAnswered(
            request=self.id,
            response=self._kept(blobs, body, media),
            usage=counts,
            cost=cost,
            served_model=self._redact_name(model),
            as_pinned=served_as_pinned(self.way.endpoint, model),
            redacted=self._redacted,
            latency_us=self._elapsed(),
            first_byte_us=self._since_first_byte(),
            alias=self.way.endpoint.alias,
            decision=self._decision,
        )
        await self.desk.books.end(answered, blobs)

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        trace, way = self.exchange.trace, self.way
        asking = ask if trace is None else partial(trace.attempt, way, self.request, ask)
        return await way.answered(self.desk.books, self.id, asking, lambda: self.exchange.started)

    async def _whole(self) -> Answer:
        way = self.way
        if way.endpoint.connection.provider == "embedded":
            raw = await embedded.whole(way.outgoing)
        else:
            async with self._asking() as response:
                self._first_byte = upstream.clock()
                raw = await response.read()
        return read_answer(way.outgoing.api, raw, f"chatcmpl-{self.id}")

    def _asking(self) -> contextlib.AbstractAsyncContextManager[Line]:
        way = self.way
        trace = "" if self.exchange.trace is None else self.exchange.trace.headers
        dispatch = Dispatch(way.endpoint.connection, way.outgoing, way.upstream_key(self.claim), way.timeout, trace)
        return self.desk.upstream.ask(dispatch, retried=lambda reason: way.stale(self.desk.books, self.id, reason))

    # A stream.

    async def _streamed(self) -> Ending:
        try:
            stream, closing = await self.exchange.work(self._answered(self._one_stream))
        except Problem as problem:
            await self._fail_stream(problem)
            raise
        except Ceased as ceased:
            await self._abandon(ceased)
            raise
        if not self.desk.ghost:
            self._sent.append(closing)
        body = b"".join(self._sent)
        counts, cost = accounting.settled(self.way.endpoint, stream.usage)
        await self._end(body, _EVENTS, counts, cost, stream.model)
        await self.exchange.finish(closing)
        return Ending(200, self.headers, body, streamed=True)

    async def _one_stream(self) -> tuple[Stream, bytes]:
        """Pass one provider's stream on, but for its last frames, which are returned."""
        kind = ResponsesStream if self.way.outgoing.api == "responses" else ChatStream
        stream = self.stream = kind(wants_usage=self.request.wants_usage, fallback_id=f"chatcmpl-{self.id}")
        try:
            await self._relay(stream)
            return stream, self._redact(stream.end() + TERMINAL)
        except BrokenStream as error:
            raise upstream.broken(error, self.desk.upstream.redactor) from error

    async def _relay(self, stream: Stream) -> None:
        """Pass the provider's frames on as they come."""
        splitter = Splitter()
        if self.way.endpoint.connection.provider == "embedded":
            for part in await embedded.frames(self.way.outgoing):
                await self._pass_on(splitter.feed(part), stream)
            return
        async with self._asking() as response:
            begun = False
            async for part in response.parts():
                if not begun and part.lstrip()[:1] in {b"{", b"[", b"<"}:  # no event begins like this
                    raise no_answer(part + await response.read())
                begun = True
                await self._pass_on(splitter.feed(part), stream)
                if stream.ended:
                    await response.ends(LINGER)
                    return
            await self._pass_on(splitter.finish(), stream)

    async def _pass_on(self, events: list[tuple[bytes, bytes]], stream: Stream) -> None:
        parts: list[bytes] = []
        try:
            for name, data in events:
                parts.append(stream.take(name, data))
        finally:  # what came before a broken frame is good
            await self._send(b"".join(parts), stream)

    async def _send(self, part: bytes, stream: Stream) -> None:
        if not part:
            return
        part = self._redact(part)
        if not self.exchange.started:
            self._first_byte = upstream.clock()
            if stream.model is not None and not _kept_promise(self.way.endpoint, stream.model):
                raise _differs(self.way.endpoint, stream.model)
            await self.exchange.begin(self.headers)
        if not self.desk.ghost:
            self._sent.append(part)
        await self.exchange.pass_on(part)

    async def _fail_stream(self, problem: Problem) -> None:
        usage = None if self.stream is None else self.stream.usage
        counts, cost = accounting.settled(self.way.endpoint, usage)
        if usage is None:
            cost = _cost_of(problem)
        await self._fail(problem, counts=counts, cost=cost)

    # Endings.

    async def _check_pinned(self, served: str | None, counts: serving.Counted, cost: int | None) -> None:
        if not _kept_promise(self.way.endpoint, served):
            problem = _differs(self.way.endpoint, served)
            await self._fail(problem, counts=counts, cost=cost)
            raise problem

    async def _fail(self, problem: Problem, *, cost: int | None, counts: serving.Counted | None = None) -> None:
        blobs = Blobs()
        await self.desk.books.end(
            serving.RequestFailed(
                request=self.id,
                status=problem.status,
                code=problems.name_of(problem),
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

    async def _abandon(self, ceased: Ceased) -> None:
        usage = None if self.stream is None else self.stream.usage
        counts, cost = accounting.settled(self.way.endpoint, usage)
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


def _cost_of(problem: Problem) -> int | None:
    return problem.cost if isinstance(problem, upstream.UpstreamProblem) else 0


def _kept_promise(endpoint: Endpoint, served: str | None) -> bool:
    """Tell whether the model is the one that the configuration pins by its served id; without a pin any will do."""
    return endpoint.model.served_model_id is None or served_as_pinned(endpoint, served)


def _differs(endpoint: Endpoint, served: str | None) -> upstream.UpstreamProblem:
    named = "without a name" if served is None else f"named {served[:200]!r}"
    problem = upstream.UpstreamProblem(
        502,
        f"a model {named} answered for {endpoint.alias}, which is pinned to another",
        kind=problems.UPSTREAM,
        code="upstream_model_differs",
    )
    problem.cost = None
    return problem
