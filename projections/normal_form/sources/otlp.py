"""OpenTelemetry: OTLP envelopes, and flat spans as SDKs, collectors and Phoenix write them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form import dialects
from projections.normal_form.sources import Row, Source
from projections.normal_form.spans import Span, digest_of

_ERRORS = frozenset({"STATUS_CODE_ERROR", "ERROR", "Error", "error", "2", 2})
_SINGLE = ("stringValue", "boolValue", "doubleValue", "bytesValue", "string_value", "bool_value", "double_value")
_CODES = (str, int, bool)
_MOST_DIGITS = 20
_ENVELOPES = ("resourceSpans", "resource_spans")
_ENVELOPED = frozenset(_ENVELOPES)
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_TRACE = ("traceId", "trace_id", "traceID", "context.trace_id")
_SPAN = ("spanId", "span_id", "spanID", "context.span_id")
_PARENT = ("parentSpanId", "parent_span_id", "parentSpanID", "parentId", "parent_id")
_PARENTS = frozenset(_PARENT)
_START = ("startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time")
_END = ("endTimeUnixNano", "end_time_unix_nano", "endTime", "end_time")
_COLUMN = "attributes."
_NESTED = frozenset({"llm", "openinference", "gen_ai", "input", "output", "tool", "traceloop", "session", "metadata"})
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_ORDINARY = re.compile(r"[0-9a-f]{32}|[0-9a-f]{16}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{22}==|[A-Za-z0-9+/_-]{11}=")
_SCALES = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))  # seconds, milliseconds, microseconds
_FRACTION = re.compile(r"\.(\d+)")


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say what of a document is OpenTelemetry's."""
    if isinstance(document, list):
        return next(filter(None, map(recognises, document[:10])), "")
    if not isinstance(document, dict):
        return ""
    if (named := next((name for name in _ENVELOPES if name in document), None)) is not None:
        return f"it has {named}"
    if isinstance(spans_ := document.get("spans"), list) and _either(document, *_SCOPES) is None and spans_:
        return ""
    flat = _flattened(document)
    timed = next((name for name in _START if name in flat), None)
    if _either(flat, *_TRACE) is None or _either(flat, *_SPAN) is None or timed is None:
        return ""
    if "UnixNano" in timed or "unix_nano" in timed:
        return f"it is a span with a trace id and {timed}"
    told = isinstance(flat.get("attributes"), dict | list) or any(name.startswith(_COLUMN) for name in document)
    kind = "context" in document or "context.trace_id" in document or "span_kind" in document
    return "it is a flat span with attributes and a context" if told and kind else ""


def rows(document: Any, place: str) -> Iterable[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Return each span with its resource, and an exclusion for each part that isn't one."""
    if type(document) is dict and type(trace := document.get("traceId")) is str and _ENVELOPED.isdisjoint(document):
        known = trace if _ORDINARY.fullmatch(trace) and trace.strip("0") else ""  # nearly all are
        return (Row(known, {"span": document}, place) if known else _row(document, {}, place),)
    return _rows(document, place)


def _rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    if isinstance(document, list):
        for index, item in enumerate(document, 1):
            yield from rows(item, f"{place}, item {index}")
    elif isinstance(document, dict) and _either(document, *_ENVELOPES) is not None:
        yield from _of_envelope(document, place)
    elif isinstance(document, dict) and _either(document, "spanId", "traceId") is not None:
        yield _row(document, {}, place)
    elif isinstance(document, dict) and _either(flat := _flattened(document), *_TRACE, *_SPAN) is not None:
        yield _row(flat, flat.get("resource") if isinstance(flat.get("resource"), dict) else {}, place)
    else:
        yield Exclusion(place=place, reason="not-a-span", units=1)


def _of_envelope(envelope: dict[str, Any], place: str) -> Iterator[Row | Exclusion]:
    count = unknown = 0
    for resource_spans in _list(_either(envelope, *_ENVELOPES)):
        if not isinstance(resource_spans, dict):
            unknown += 1
            continue
        resource = resource_spans.get("resource")
        for scope in _list(_either(resource_spans, *_SCOPES)):
            if not isinstance(scope, dict):
                unknown += 1
                continue
            for span in _list(scope.get("spans")):
                count += 1
                yield _row(span, resource, f"{place}, span {count}")
    if unknown:
        yield Exclusion(place=place, reason="not-a-span", count=unknown, units=unknown)


def _row(span: Any, resource: Any, place: str) -> Row | Exclusion:  # noqa: ANN401 - any JSON value
    if not isinstance(span, dict):
        return Exclusion(place=place, reason="not-a-span", units=1)
    trace = identifier(_either(span, *_TRACE)) or _conversation(span)
    if not trace:
        return Exclusion(place=place, reason="span-without-trace", detail=_text(span.get("name")), units=1)
    return Row(trace, {"span": span, "resource": resource} if resource else {"span": span}, place)


def _conversation(span: dict[str, Any]) -> str:
    """Return what a span without a trace id says it belongs to."""
    own = attributes(span.get("attributes"))
    named = next((own[name] for name in ("gen_ai.conversation.id", "session.id") if own.get(name)), None)
    return f"conversation {named}" if isinstance(named, str) else ""


def spans(given: Sequence[Row], spoken: frozenset[str] = frozenset()) -> Iterator[Span | Exclusion]:
    """Yield the spans of a trace; those of a dialect that isn't among the spoken ones are exclusions."""
    before: Any = None
    known: dict[str, Any] = {}  # of the resource before
    for row in given:
        resource = row.value.get("resource")
        if resource != before:
            known = attributes(resource.get("attributes", resource)) if isinstance(resource, dict) else {}
            before = resource
        span, dialect = _span(row.value["span"], known, row)
        if spoken and dialect and dialect not in spoken:
            yield Exclusion(place=row.place, reason="other-dialect", detail=f"{dialect}: {span.name}", units=1)
            continue
        if not span.span:
            yield Exclusion(place=row.place, reason="span-without-id", detail=span.name)
            span = _named_by_content(span)
        yield span


def _named_by_content(span: Span) -> Span:
    return Span(**{name: getattr(span, name) for name in span.__struct_fields__} | {"span": span.digest})


def _span(span: dict[str, Any], resource: dict[str, Any], row: Row) -> tuple[Span, str]:
    own, dialect = dialects.translated(_attributes(span))
    built = Span(
        trace=row.trace,
        span=identifier(_either(span, *_SPAN) if (own_id := span.get("spanId")) is None else own_id),
        parent="" if _PARENTS.isdisjoint(span) else identifier(_either(span, *_PARENT)),
        name=_text(span.get("name")),
        start=nanoseconds(span, _START),
        end=nanoseconds(span, _END),
        error=_failed(span) or bool(own.get("error.type")),
        attributes=own,
        resource=resource,
        events=_events(span["events"]) if "events" in span else (),
        digest=digest_of(span),
        place=row.place,
    )
    return built, dialect


def _failed(span: dict[str, Any]) -> bool:
    if (status := span.get("status")) is None:
        status = _either(span, "status_code", "statusCode")
    if isinstance(status, dict) and (code := status.get("code")) is None:
        code = _either(status, "status_code", "statusCode")
    elif not isinstance(status, dict):
        code = status
    return type(code) in _CODES and code in _ERRORS


def _events(listed: Any) -> tuple[tuple[str, dict[str, Any]], ...]:  # noqa: ANN401 - any JSON value
    return tuple(
        (_text(event.get("name")), attributes(event.get("attributes")))
        for event in _list(listed)
        if isinstance(event, dict)
    )


def _attributes(span: dict[str, Any]) -> dict[str, Any]:
    """Return a span's attributes by name, also from objects inside objects."""
    listed = span.get("attributes")
    own = attributes(listed)
    if isinstance(listed, dict) and any(isinstance(own.get(name), dict) for name in _NESTED):
        flat: dict[str, Any] = {}
        for name, value in own.items():
            _flatten(name, value, flat) if name in _NESTED else flat.setdefault(name, value)
        return flat
    return own


def _flatten(name: str, value: Any, flat: dict[str, Any]) -> None:  # noqa: ANN401 - any JSON value
    """Name the values in objects by their path; a list of objects is numbered, except GenAI's own."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            _flatten(f"{name}.{key}", item, flat)
    elif isinstance(value, list) and value and not name.startswith("gen_ai.") and isinstance(value[0], dict):
        for index, item in enumerate(value):
            _flatten(f"{name}.{index}", item, flat)
    else:
        flat[name] = value


def _flattened(document: dict[str, Any]) -> dict[str, Any]:
    """Return a flat span with its ids and attributes where others have them."""
    context = document.get("context", document.get("spanContext"))
    flat = {**document, **context} if isinstance(context, dict) else document
    if any(name.startswith(_COLUMN) for name in document):
        own = {name.removeprefix(_COLUMN): item for name, item in document.items() if name.startswith(_COLUMN)}
        own = {name: item for name, item in own.items() if item is not None}
        flat = {name: item for name, item in flat.items() if not name.startswith(_COLUMN)} | {"attributes": own}
    if (kind := flat.get("span_kind")) and isinstance(kind, str) and isinstance(flat.get("attributes"), dict):
        flat = {**flat, "attributes": {"openinference.span.kind": kind, **flat["attributes"]}}
    return flat


def attributes(listed: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """Return attributes by name, from OTLP's list of typed values or from a plain object."""
    if isinstance(listed, dict):
        return listed
    named = {}
    for one in _list(listed):
        if type(one) is dict and type(key := one.get("key")) is str:
            value = one.get("value")
            if type(value) is dict and "stringValue" in value:  # nearly all are
                named[key] = value["stringValue"]
            else:
                named[key] = plain(value)
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


def nanoseconds(span: dict[str, Any], names: Sequence[str]) -> int:
    """Return a time in nanoseconds, or 0 when there is none: from numbers, numbers as text, and ISO 8601."""
    told = span.get(names[0])
    if type(told) is str and told.isdecimal() and len(told) < _MOST_DIGITS:  # nearly all are
        return int(told)
    if type(told) is int and names[0].endswith("UnixNano"):
        return told
    name = next((name for name in names if span.get(name) is not None), None)
    if name is None:
        return 0
    number = _integer(span[name])
    if isinstance(number, bool):
        return 0
    return number if isinstance(number, int) and name.endswith(("Nano", "nano")) else _scaled(number)


def _scaled(number: Any) -> int:  # noqa: ANN401 - any JSON value
    """Return nanoseconds, whatever unit a number is in: its size tells."""
    if isinstance(number, list) and len(number) == 2 and all(type(one) is int for one in number):  # noqa: PLR2004 - a pair
        return int(number[0]) * 10**9 + int(number[1])  # seconds and nanoseconds, as JavaScript's SDK writes them
    if isinstance(number, float) and abs(number) < 10**30:  # neither NaN nor infinite
        number = Decimal(repr(number))
    if isinstance(number, int | Decimal):
        return int(number * next((scale for most, scale in _SCALES if -most < number < most), 1))
    return _of_text(number) if isinstance(number, str) else 0


def _of_text(text: str) -> int:
    """Return what ISO 8601 says, UTC when it doesn't say where."""
    fraction = _FRACTION.search(text)
    digits = fraction[1][:9].ljust(9, "0") if fraction else "0"
    try:
        whole = datetime.fromisoformat(_FRACTION.sub("", text.strip().replace("Z", "+00:00"), count=1))
        seconds = (whole if whole.tzinfo else whole.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0
    return int(seconds) * 10**9 + int(digits)


def identifier(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return an id as text: hexadecimal in lower case, also from base64; nothing for zeros."""
    if not isinstance(value, str):
        return str(value) if type(value) is int and value else ""
    if not value:
        return ""
    if _ORDINARY.fullmatch(value):
        return value if value.strip("0") else ""
    text = value.strip()
    if match := _HEX.fullmatch(text):
        text = match[1].lower()
    elif _BASE64.fullmatch(text):
        try:
            text = base64.b64decode(text, altchars=b"-_" if "-" in text or "_" in text else None).hex()
        except (ValueError, binascii.Error):
            return text
    return text if text.strip("0") else ""


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, str) else ""


def _either(value: dict[str, Any], *names: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the first of these members that is there."""
    for name in names:
        if (found := value.get(name)) is not None:
            return found
    return None


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, list) else []


SOURCE = Source("otlp", recognises, rows, spans)
# Traceloop's instrumentors use the current names where there are some, and Pydantic AI is an extension of them.
_SPOKEN = {
    "otel-genai": frozenset({dialects.CURRENT, "pydantic-ai"}),
    "openinference": frozenset({"openinference"}),
    "phoenix": frozenset({"openinference"}),
    "traceloop": frozenset({"traceloop", dialects.CURRENT}),
}
SOURCES = {name: Source(name, recognises, rows, partial(spans, spoken=spoken)) for name, spoken in _SPOKEN.items()}
