"""OTLP JSON to spans: flat spans, one a line, or in ``resourceSpans`` envelopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ledger import digests
from ledger.families.traces import Exclusion

_encode = msgspec.json.Encoder(order="sorted").encode
_ERRORS = frozenset({"STATUS_CODE_ERROR", "ERROR", "2", 2})
_SINGLE = ("stringValue", "boolValue", "doubleValue", "bytesValue", "string_value", "bool_value", "double_value")
_MOST_DIGITS = 20

Attributes = Mapping[str, Any]


class Span(msgspec.Struct, frozen=True):
    """A span, read. ``digest`` names its content; ``place`` says where in the export it is.

    ``merged`` are the places of further rows that went into it.
    """

    trace: str
    span: str
    name: str
    start: int
    end: int
    error: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: tuple[tuple[str, dict[str, Any]], ...]
    digest: str
    place: str
    parent: str = ""
    merged: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[int, int, str, str]:
        """What spans of a trace are sorted by, wherever they stand in the export."""
        return self.start, self.end, self.span, self.digest


def made(  # noqa: PLR0913 - a span has this many parts, and all but five have a usual value
    *,
    trace: str,
    span: str,
    name: str,
    place: str,
    raw: Any,  # noqa: ANN401 - any JSON value
    parent: str = "",
    start: int = 0,
    end: int = 0,
    error: bool = False,
    attributes: dict[str, Any] | None = None,
    resource: dict[str, Any] | None = None,
    events: tuple[tuple[str, dict[str, Any]], ...] = (),
    merged: tuple[str, ...] = (),
) -> Span:
    """Return a span read from the JSON value ``raw``, whose content its digest names; times are in nanoseconds."""
    return Span(
        trace=trace,
        span=span,
        name=name,
        start=start,
        end=end,
        error=error,
        attributes={} if attributes is None else attributes,
        resource={} if resource is None else resource,
        events=events,
        digest=digests.content_digest(_encode(raw)),
        place=place,
        parent=parent,
        merged=merged,
    )


def spans(value: Any, place: str) -> Iterator[Span | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield the spans of a document, and an exclusion for each part of it that isn't one."""
    if isinstance(value, list):
        for index, item in enumerate(value, 1):
            yield from spans(item, f"{place}, item {index}")
    elif isinstance(value, dict) and _either(value, "resourceSpans", "resource_spans") is not None:
        yield from _of_envelope(value, place)
    elif isinstance(value, dict) and _either(value, "traceId", "trace_id", "spanId", "span_id") is not None:
        yield _span(value, {}, place)
    else:
        yield Exclusion(place=place, reason="not-a-span")


def _of_envelope(envelope: dict[str, Any], place: str) -> Iterator[Span | Exclusion]:
    count = 0
    for resource_spans in _list(_either(envelope, "resourceSpans", "resource_spans")):
        if not isinstance(resource_spans, dict):
            yield Exclusion(place=place, reason="not-a-span")
            continue
        resource = resource_spans.get("resource")
        shared = attributes(resource.get("attributes")) if isinstance(resource, dict) else {}
        for scope in _list(_either(resource_spans, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")):
            for span in _list(scope.get("spans")) if isinstance(scope, dict) else ():
                count += 1
                yield _span(span, shared, f"{place}, span {count}")


def _span(span: Any, resource: dict[str, Any], place: str) -> Span | Exclusion:  # noqa: ANN401 - any JSON value
    if not isinstance(span, dict):
        return Exclusion(place=place, reason="not-a-span")
    trace = _identifier(_either(span, "traceId", "trace_id"))
    if not trace:
        return Exclusion(place=place, reason="span-without-trace", detail=_text(span.get("name")))
    status = span.get("status")
    own = attributes(span.get("attributes"))
    code = status.get("code") if isinstance(status, dict) else status
    return made(
        trace=trace,
        span=_identifier(_either(span, "spanId", "span_id")),
        parent=_identifier(_either(span, "parentSpanId", "parent_span_id")),
        name=_text(span.get("name")),
        start=_nanoseconds(_either(span, "startTimeUnixNano", "start_time_unix_nano")),
        end=_nanoseconds(_either(span, "endTimeUnixNano", "end_time_unix_nano")),
        error=(isinstance(code, str | int) and code in _ERRORS) or bool(own.get("error.type")),
        attributes=own,
        resource=resource,
        events=tuple(
            (_text(event.get("name")), attributes(event.get("attributes")))
            for event in _list(span.get("events"))
            if isinstance(event, dict)
        ),
        raw=span,
        place=place,
    )


def attributes(listed: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """Return attributes by name, from OTLP's list of typed values or from a plain object."""
    if isinstance(listed, dict):
        return listed
    named = {}
    for one in _list(listed):
        if isinstance(one, dict) and isinstance(one.get("key"), str):
            named[one["key"]] = plain(one.get("value"))
    return named


def plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value that an OTLP AnyValue stands for; anything else is returned as it is."""
    if not isinstance(value, dict):
        return value
    for kind in _SINGLE:
        if kind in value:
            return value[kind]
    if (integer := _either(value, "intValue", "int_value")) is not None:
        return _integer(integer)
    if isinstance(array := _either(value, "arrayValue", "array_value"), dict):
        return [plain(item) for item in _list(array.get("values"))]
    if isinstance(pairs := _either(value, "kvlistValue", "kvlist_value"), dict):
        return attributes(pairs.get("values"))
    return value or None


def _integer(value: Any) -> Any:  # noqa: ANN401 - numbers come as text, too
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and value.removeprefix("-").isdecimal():
        return int(value)
    return value


def _nanoseconds(value: Any) -> int:  # noqa: ANN401 - numbers come as text, too
    number = _integer(value)
    return number if isinstance(number, int) and not isinstance(number, bool) else 0


def _identifier(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return value.strip() if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, str) else ""


def _either(value: dict[str, Any], *names: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the first of these members that is there."""
    return next((value[name] for name in names if value.get(name) is not None), None)


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, list) else []
