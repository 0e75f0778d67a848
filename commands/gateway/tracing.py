"""Tracing: whether spans are wanted, as OpenTelemetry's own environment variables say it. Else nothing is loaded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from commands.gateway.dispatching import Dispatching
from commands.gateway.exchange import Exchange
from commands.gateway.requests import Request
from ledger.errors import Refusal

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
T = TypeVar("T")


class TracingMissing(Refusal, name="tracing-missing", exit_code=224):
    """The environment asks for spans, and what makes them isn't installed."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"spans are asked for and can't be made: {problem}",
            where="OTEL_EXPORTER_OTLP_ENDPOINT in the environment",
            remedy="install exp-ledger[otel], or set OTEL_SDK_DISABLED=true",
        )


class Trace(Protocol):
    """One request's spans."""

    @property
    def headers(self) -> str:
        """The lines that carry the trace on to the provider."""

    async def attempt(self, way: Dispatching, request: Request, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, within a span of its own."""

    def end(self, exchange: Exchange) -> None:
        """Say what became of the request."""


class Tracer(Protocol):
    """Makes spans of requests, and sends them."""

    def begin(self, exchange: Exchange) -> Trace:
        """Begin a request's span."""

    def close(self) -> None:
        """Send what is left, for a while."""


def tracer(environment: Mapping[str, str], clean: Callable[[str], str], *, ghost: bool) -> Tracer | None:
    """Return what makes spans where the environment asks for them."""
    if not any(environment.get(name) for name in _ENDPOINTS) or _is_on(environment, "OTEL_SDK_DISABLED"):
        return None
    if environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() == "none":
        return None
    try:
        from commands.gateway.observing import Observing  # noqa: PLC0415 - an extra, loaded only when asked for
    except ImportError as error:
        raise TracingMissing(str(error)) from error
    return Observing(clean, captures=_is_on(environment, CAPTURE) and not ghost)


def _is_on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").strip().lower() == "true"
