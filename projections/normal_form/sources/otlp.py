"""OpenTelemetry: OTLP envelopes and flat spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.sources import Row, Source
from projections.normal_form.spans import Span


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say what of a document is OpenTelemetry's."""
    if not isinstance(document, dict):
        return ""
    if "resourceSpans" in document or "resource_spans" in document:
        return "it has resourceSpans"
    flat = {"traceId", "spanId", "startTimeUnixNano"} <= set(document)
    return "it has traceId, spanId and startTimeUnixNano" if flat else ""


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield each span with its resource and scope."""
    raise NotImplementedError


def spans(given: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield the spans of a trace."""
    raise NotImplementedError


SOURCE = Source("otlp", recognises, rows, spans)
SOURCES = {name: SOURCE._replace(name=name) for name in ("otel-genai", "openinference", "phoenix", "traceloop")}
