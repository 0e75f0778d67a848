"""Observing: spans of requests and of the calls that they lead to, after OpenTelemetry's conventions for generative AI.

A request is a server span in the client's trace, each dispatch a client span in it; the provider gets the trace on.
Nothing of the content is in them unless that is asked for, and nothing of a key ever is.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from commands.gateway import accounting
from commands.gateway.answers import Answer
from commands.gateway.dispatching import Dispatching
from commands.gateway.exchange import Ceased, Exchange
from commands.gateway.problems import Problem, name_of
from commands.gateway.requests import ChatRequest, Request
from commands.render.plain import one_line

SERVICE = "exp-gateway"
LAST_WORDS = 0.8
SERVER_ERRORS = 500
LONGEST = 300
_CARRIED = ("traceparent", "tracestate")
_ASKED_FOR = {
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
}
_propagator = TraceContextTextMapPropagator()
T = TypeVar("T")


class _Once(logging.Handler):
    """Says once on stderr that spans can't be sent, instead of the library's warnings each time."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._told:
            self._told = True
            sys.stderr.write(f"exp: spans can't be sent: {one_line(record.getMessage())[:LONGEST]}\n")


class Observing:
    """Makes the spans; a thread of the library's own sends them, where and how the environment says."""

    def __init__(self, clean: Callable[[str], str], *, captures: bool) -> None:
        library = logging.getLogger("opentelemetry")
        library.handlers, library.propagate = [_Once()], False
        named = Resource.create()
        if str(named.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            named = named.merge(Resource({SERVICE_NAME: SERVICE}))
        self._provider = TracerProvider(resource=named, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = self._provider.get_tracer("exp-ledger")
        self.clean = clean
        self.captures = captures

    def begin(self, exchange: Exchange) -> Observed:
        """Begin a request's span, in the trace that its client says."""
        carrier = {name: value for name in _CARRIED if (value := exchange.header(name.encode()))}
        context = _propagator.extract(carrier)
        return Observed(self, self.tracer.start_span(exchange.method, context, SpanKind.SERVER))

    def close(self) -> None:
        """Send what is left, for a while: a collector that is gone must not hold the end up."""
        sending = threading.Thread(target=self._provider.force_flush, daemon=True)
        sending.start()
        sending.join(LAST_WORDS)


class Observed:
    """One request's spans."""

    def __init__(self, observing: Observing, span: Span) -> None:
        self.headers = ""
        self._observing = observing
        self._span = span
        self._context: Context = set_span_in_context(span, Context())

    async def attempt(self, way: Dispatching, request: Request, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, within a span of its own."""
        asked = self._asked(way, request)
        name = f"{asked['gen_ai.operation.name']} {asked['gen_ai.request.model']}"
        span = self._observing.tracer.start_span(name, self._context, SpanKind.CLIENT, asked)
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, set_span_in_context(span, Context()))
        self.headers = "".join(f"{name}: {value}\r\n" for name, value in carrier.items() if value.isprintable())
        try:
            brought = await ask()
        except BaseException as error:
            _fail(span, _error_of(error))
            raise
        else:
            self._answered(span, way, brought)
            return brought
        finally:
            span.end()

    def end(self, exchange: Exchange) -> None:
        """Say what became of the request."""
        span = self._span
        span.update_name(f"{exchange.method} {exchange.route}")
        said: dict[str, str | int | bool] = {
            "http.request.method": exchange.method,
            "http.route": exchange.route,
            "http.response.status_code": exchange.status,
            "exp.request": exchange.request_id,
            "exp.key": exchange.identity,
            "exp.model": self._observing.clean(exchange.model),
            "exp.alias": exchange.alias,
            "exp.replayed": exchange.replayed,
        }
        span.set_attributes({name: value for name, value in said.items() if value != ""})
        if exchange.error and (exchange.status >= SERVER_ERRORS or exchange.streamed):
            _fail(span, exchange.error)
        elif exchange.error:
            span.set_attribute("error.type", exchange.error)
        span.end()

    def _asked(self, way: Dispatching, request: Request) -> dict[str, Any]:
        endpoint = way.endpoint
        chat = isinstance(request, ChatRequest)
        place = urlsplit(way.outgoing.base_url)
        said: dict[str, Any] = {
            "gen_ai.operation.name": "chat" if chat else "embeddings",
            "gen_ai.provider.name": endpoint.connection.provider,
            "gen_ai.request.model": endpoint.model.model,
            "exp.alias": endpoint.alias,
            "exp.dispatch": way.dispatch,
        }
        if place.hostname:
            said["server.address"] = place.hostname
            said["server.port"] = place.port or (443 if place.scheme == "https" else 80)
        if isinstance(request, ChatRequest):
            given = request.plain
            said |= {attribute: given[name] for name, attribute in _ASKED_FOR.items() if _is_number(given.get(name))}
            if self._observing.captures:
                said["gen_ai.input.messages"] = self._text(given.get("messages"))
        return said

    def _answered(self, span: Span, way: Dispatching, brought: object) -> None:
        """Say what an answer says of itself: a whole one, or a stream and its last frames."""
        answer: Any = brought[0] if isinstance(brought, tuple) else brought
        counts, _ = accounting.settled(way.endpoint, answer.usage)
        said = {
            "gen_ai.response.model": answer.model,
            "gen_ai.usage.input_tokens": counts.input_tokens,
            "gen_ai.usage.output_tokens": counts.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": counts.cached_input_tokens,
        }
        span.set_attributes({name: value for name, value in said.items() if value is not None})
        if not isinstance(answer, Answer):
            if answer.id is not None:
                span.set_attribute("gen_ai.response.id", answer.id)
            return
        body = msgspec.json.decode(answer.body)
        choices = body.get("choices") or []
        reasons = [str(one["finish_reason"]) for one in choices if isinstance(one, dict) and one.get("finish_reason")]
        if reasons:
            span.set_attribute("gen_ai.response.finish_reasons", reasons)
        if isinstance(body.get("id"), str):
            span.set_attribute("gen_ai.response.id", body["id"])
        if self._observing.captures and choices:
            span.set_attribute("gen_ai.output.messages", self._text([one.get("message") for one in choices]))

    def _text(self, content: object) -> str:
        return self._observing.clean(msgspec.json.encode(content).decode())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _error_of(error: BaseException) -> str:
    """Return what an error is called, without its words: these may hold content."""
    if isinstance(error, Problem):
        return name_of(error)
    return error.reason if isinstance(error, Ceased) else type(error).__name__


def _fail(span: Span, error: str) -> None:
    span.set_status(Status(StatusCode.ERROR))
    span.set_attribute("error.type", error)
