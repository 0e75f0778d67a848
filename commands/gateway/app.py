"""App: what the gateway serves, as a bare ASGI application.

A key is required everywhere, before anything is read; then the route; then the body.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from urllib.parse import parse_qsl

import msgspec

from commands.gateway import problems, usage
from commands.gateway.access_log import AccessLog
from commands.gateway.admission import PAGE, Gate
from commands.gateway.calls import Call, Desk
from commands.gateway.exchange import JSON, NOT_CACHED, Ceased, Exchange, Receive, Scope, Send
from commands.gateway.idempotency import Repeats, check_key
from commands.gateway.requests import Request, check_content, read_chat, read_embedding
from commands.gateway.tracing import Tracer
from ledger.errors import Refusal
from ledger.families import serving

LARGEST_BODY = 32 * 1024 * 1024
_MODELS = "/v1/models"
_USAGE = "/v1/usage"
HTML = (b"content-type", b"text/html; charset=utf-8")
NO_SCRIPTS = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
_READERS: dict[str, tuple[str, Callable[[bytes], Request]]] = {
    "/v1/chat/completions": (serving.CHAT, read_chat),
    "/v1/embeddings": (serving.EMBEDDINGS, read_embedding),
}


class App:
    """The ASGI application."""

    def __init__(
        self,
        desk: Desk,
        repeats: Repeats,
        gate: Gate,
        *,
        log: AccessLog | None = None,
        tracer: Tracer | None = None,
        largest_body: int = LARGEST_BODY,
    ) -> None:
        self.desk = desk
        self.repeats = repeats
        self.stopping = False
        self._gate = gate
        self._log = log
        self._tracer = tracer
        self._largest_body = largest_body
        self._going_on: set[Exchange] = set()
        self._quiet: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; whatever happens, the client gets a reply."""
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        self._going_on.add(exchange)
        if self._tracer is not None and not exchange.path.startswith("/health/"):
            exchange.trace = self._tracer.begin(exchange)
        try:
            self._identify(exchange)
            await self._serve(exchange)
        except problems.Problem as problem:
            await exchange.problem(problem)
        except Ceased as ceased:
            if ceased.reason == "stopped":
                await exchange.problem(problems.stopping())
        except Exception as error:  # noqa: BLE001 - nobody gets a traceback
            sys.stderr.write(f"exp: a request failed in an unforeseen way: {type(error).__name__}\n")
            await exchange.problem(problems.unforeseen())
        finally:
            self._going_on.discard(exchange)
            if self._log is not None:
                self._log.note(exchange)
            if exchange.trace is not None:
                exchange.trace.end(exchange)
            if self._quiet is not None and not self._going_on:
                self._quiet.set()

    async def quiet(self) -> None:
        """Wait until no request is going on."""
        self._quiet = asyncio.Event()
        if self._going_on:
            await self._quiet.wait()

    def stop(self) -> None:
        """Cut short what is still going on."""
        for exchange in tuple(self._going_on):
            exchange.stop()

    def _identify(self, exchange: Exchange) -> None:
        try:
            self._gate.identify(exchange)
        except Refusal as refusal:
            raise problems.journal_unavailable() from refusal

    async def _serve(self, exchange: Exchange) -> None:
        path = exchange.path
        read = _READERS.get(path)
        if read is not None:
            if exchange.method != "POST":
                raise problems.wrong_method("POST")
            await self._answer(exchange, *read)
            return
        if path in {_USAGE, PAGE}:
            await self._usage(exchange)
            return
        if path not in {_MODELS, "/health/live", "/health/ready"} and not path.startswith(_MODELS + "/"):
            raise problems.not_found(path)
        if exchange.method not in {"GET", "HEAD"}:
            raise problems.wrong_method("GET")
        status, body = self._looked_up(path, exchange.identity)
        await exchange.reply(status, [JSON], msgspec.json.encode(body))

    async def _usage(self, exchange: Exchange) -> None:
        """Show what was used: its own to a client, and everybody's to who has the gateway's own key."""
        if exchange.method not in {"GET", "HEAD"}:
            raise problems.wrong_method("GET")
        now, state = self._gate.clock(), self.desk.books.journal.state(serving.FAMILY)
        query = dict(parse_qsl(exchange.query.decode("latin-1"), keep_blank_values=True))
        wanted = usage.asked(query, now, None if exchange.identity == self._gate.owner else exchange.identity)
        if exchange.path == PAGE:
            body, headers = usage.page(state, wanted, now), [HTML, NOT_CACHED, NO_SCRIPTS]
        else:
            body, headers = msgspec.json.encode(usage.document(state, wanted, now)), [JSON, NOT_CACHED]
        await exchange.reply(200, headers, b"" if exchange.method == "HEAD" else body)

    def _looked_up(self, path: str, identity: str) -> tuple[int, object]:
        if path == "/health/live":
            return 200, {"status": "live"}
        if path == "/health/ready":
            if self.stopping:
                return 503, {"status": "stopping"}
            if not self.desk.books.well:
                return 503, {"status": "journal-unavailable"}
            resting = self.desk.directory.circuits.resting()
            return 200, {"status": "ready", **({"circuits": resting} if resting else {})}
        names = self.desk.names(identity)
        if path == _MODELS:
            return 200, {"object": "list", "data": [_model(name) for name in names]}
        name = path.removeprefix(_MODELS + "/")
        if name not in names:
            raise problems.unknown_model(name, names)
        return 200, _model(name)

    async def _answer(self, exchange: Exchange, route: str, read: Callable[[bytes], Request]) -> None:
        exchange.request_id = self.desk.next_request()
        try:
            key = check_key(exchange, ghost=self.desk.ghost)
            check_content(exchange.header(b"content-type"), exchange.header(b"content-encoding"))
            request = read(await exchange.work(exchange.body(self._largest_body)))
            exchange.model = request.model
            if key is None:
                await Call(self.desk, exchange, request, None).run()
            else:
                await self.repeats.answer(exchange, request, key)
        except problems.Problem as problem:
            await self._note(exchange, route, problem)
            raise
        except Refusal as refusal:
            raise problems.journal_unavailable() from refusal

    async def _note(self, exchange: Exchange, route: str, problem: problems.Problem) -> None:
        """Record that a request wasn't accepted; one that was has its own ending."""
        if exchange.accepted or not problem.code or problem.code == "journal_unavailable":
            return
        refused = serving.RequestRefused(
            request=exchange.request_id,
            route=route,
            identity=exchange.identity,
            status=problem.status,
            code=problem.code,
        )
        await self.desk.books.record(serving.RefuseRequest(refused=refused))


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "exp"}
