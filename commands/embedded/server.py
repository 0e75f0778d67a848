"""The stand-in over HTTP: an OpenAI-compatible server on loopback, plain ASGI under uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import uvicorn

from commands.embedded import answer as answers
from commands.embedded import conversation, faults, streaming
from commands.embedded.answer import CHAT, EMBEDDINGS, MODELS, RESPONSES, Knobs
from commands.embedded.envelope import error_body
from commands.embedded.faults import Fault, Faults

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

LARGEST_BODY = 64 * 1024 * 1024
_ROUTES = {"/chat/completions": CHAT, "/responses": RESPONSES, "/embeddings": EMBEDDINGS}
_MODELS = "/models"
_COUNTS = "/stand-in/requests"
_JSON: Headers = [(b"content-type", b"application/json")]
_STREAM: Headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Settings(msgspec.Struct, frozen=True):
    """How a server behaves: the stand-in's knobs, latency before each answer, and faults.

    ``fresh_ids`` gives every answer an id of its own, as the services do; otherwise equal requests get equal bytes.
    """

    knobs: Knobs = answers.PLAIN
    latency_ms: int = 0
    faults: tuple[Fault, ...] = ()
    fresh_ids: bool = False


class Refused(Exception):
    """A request that is turned away before it is read as a question."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(status)
        self.status, self.body = status, body


class App:
    """The ASGI application."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.faults = Faults(settings.faults)
        self.answered = 0
        self.counts: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._route(scope, receive, send)
        except Refused as refused:
            await _reply(send, refused.status, _encode(refused.body))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"].removeprefix("/v1")
        method: str = scope["method"]
        api = _ROUTES.get(path)
        if api is None:
            await self._look_up(path, method, send)
            return
        if method != "POST":
            raise Refused(405, error_body(f"Not allowed to {method} on {scope['path']} (HINT: use POST)."))
        _refuse_without_key(scope["headers"])
        _refuse_other_content(scope["headers"])
        request = _parsed(await _body(receive))
        await self._answer(api, request, receive, send)

    async def _look_up(self, path: str, method: str, send: Send) -> None:
        """Answer the routes that need no key."""
        known = path in {_MODELS, _COUNTS, "/health"} or path.startswith(_MODELS + "/")
        if not known:
            raise Refused(404, error_body(f"Invalid URL ({method} {path})"))
        if method not in {"GET", "HEAD"}:
            raise Refused(405, error_body(f"Not allowed to {method} on {path} (HINT: use GET)."))
        if path == _COUNTS:
            body: dict[str, Any] = {"POST": sum(self.counts.values()), "roles": self.counts}
        elif path == "/health":
            body = {"status": "ok"}
        else:
            named = {"model": path[len(_MODELS) + 1 :]} if path != _MODELS else {}
            _, body = answers.answer(MODELS, named, self.settings.knobs)
        await _reply(send, 200, b"" if method == "HEAD" else _encode(body))

    async def _answer(self, api: str, request: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401 - any JSON
        status, body = answers.answer(api, request, self.settings.knobs)
        role = _role(api, request) if status == 200 else "refused"  # noqa: PLR2004 - HTTP
        self.counts[role] = self.counts.get(role, 0) + 1
        if self.settings.latency_ms:
            await asyncio.sleep(self.settings.latency_ms / 1000)
        if role == "refused":
            await _reply(send, status, _encode(body))
            return
        self.answered += 1
        if self.settings.fresh_ids and "id" in body:
            body["id"] = f"{body['id']}-{self.answered}"
        fault = self.faults.struck(role)
        if fault is not None and fault.kind in faults.STATUSES:
            refusal, told, headers = faults.status_of(fault)
            await _reply(send, refusal, _encode(told), headers)
            return
        if fault is not None and fault.kind in faults.IN_ANSWER:
            body = faults.spoiled(fault, body)
        frames = _frames(api, request, body)
        wire = fault.kind if fault is not None and fault.kind in faults.ON_THE_WIRE else None
        if wire is not None:
            await _misbehave(wire, body, frames, receive, send)
        elif frames is not None:
            await _stream(send, frames)
        else:
            await _reply(send, 200, _encode(body))


def _role(api: str, request: dict[str, Any]) -> str:
    """Return who was asked, for faults and counts."""
    if api == EMBEDDINGS:
        return "embedder"
    return (conversation.from_chat if api == CHAT else conversation.from_responses)(request).role


def _frames(api: str, request: dict[str, Any], body: dict[str, Any]) -> Iterator[bytes] | None:
    """Return the frames of a streamed answer; None when a plain one is wanted (or a fault left nothing to stream)."""
    if not request.get("stream"):
        return None
    if api == CHAT and "choices" in body:
        options = request.get("stream_options") or {}
        return streaming.chat_frames(body, include_usage=bool(options.get("include_usage")) and "usage" in body)
    if api == RESPONSES and "output" in body:
        return streaming.response_frames(body)
    return None


async def _stream(send: Send, frames: Iterator[bytes]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _STREAM})
    for frame in frames:
        await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _misbehave(
    kind: str, body: dict[str, Any], frames: Iterator[bytes] | None, receive: Receive, send: Send
) -> None:
    """Fail in a way that only the wire can: never answer, stop in the middle, or send what isn't JSON."""
    if kind == "hang":
        await _until_left(receive)
        return
    if kind == "html":
        await _reply(send, 200, _HTML, [(b"content-type", b"text/html")])
        return
    whole = list(frames) if frames is not None else [_encode(body)]
    if kind == "not-json":
        text = b"data: {oops\n\n" if frames is not None else whole[0][:-1]
        await _reply(send, 200, text, _STREAM if frames is not None else _JSON)
        return
    await _begin_and_stop(whole, receive, send, streamed=frames is not None, stalls=kind == "stall")


async def _begin_and_stop(whole: list[bytes], receive: Receive, send: Send, *, streamed: bool, stalls: bool) -> None:
    """Send about half of an answer; then close the connection, or keep it open and silent."""
    length = sum(map(len, whole))
    headers = _STREAM if streamed else [*_JSON, (b"content-length", b"%d" % length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    half = b"".join(whole)[: max(1, length // 2)]
    await send({"type": "http.response.body", "body": half, "more_body": True})
    if stalls:
        await _until_left(receive)
    # Returning without the last part makes uvicorn close the connection: the cut that was asked for.


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _refuse_without_key(headers: Headers) -> None:
    given = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, key = given.partition(b" ")
    if not given:
        raise Refused(
            401,
            error_body(
                "You didn't provide an API key. You need to provide your API key in an Authorization header using "
                "Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
            ),
        )
    if scheme.lower() != b"bearer" or not key.strip():
        raise Refused(401, error_body("Incorrect API key provided.", code="invalid_api_key"))


def _refuse_other_content(headers: Headers) -> None:
    given = next((value for name, value in headers if name == b"content-type"), b"")
    if given.partition(b";")[0].strip().lower() != b"application/json":
        shown = given.decode("latin-1")
        raise Refused(
            400,
            error_body(
                f"Unsupported content type: '{shown}'. This API method only accepts 'application/json' requests.",
                code="unsupported_content_type",
            ),
        )


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, error_body("The client left before its request was whole."))
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise Refused(
                413, error_body(f"The request is larger than {LARGEST_BODY} bytes.", code="request_too_large")
            )
        if not message.get("more_body"):
            return b"".join(parts)


def _parsed(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Refused(
            400,
            error_body(f"We could not parse the JSON body of your request. The parser said: {error}"),
        ) from error


async def _reply(send: Send, status: int, body: bytes, headers: Headers | None = None) -> None:
    sent = [(b"content-length", b"%d" % len(body)), *(headers or [])]
    if not any(name == b"content-type" for name, _ in sent):
        sent += _JSON
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """A uvicorn server that ends quietly when told to: the process goes on to leave with 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self.should_exit = True


def listening(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; with port 0 the system chooses one. OSError when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(2048)
    except OSError:
        bound.close()
        raise
    return bound


def server(settings: Settings) -> uvicorn.Server:
    """Return a server that answers, once run, until SIGINT or SIGTERM or until its ``should_exit`` is set."""
    config = uvicorn.Config(
        App(settings),
        log_level="critical",
        access_log=False,
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,
        backlog=2048,
    )
    return _Server(config)
