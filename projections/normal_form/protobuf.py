"""OTLP as protobuf: one message, or messages each with its length before it, as OTLP JSON would say the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from ledger.families.traces import Exclusion
from projections.normal_form.lines import Unreadable

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

    from projections.normal_form.lines import Cleaner, Document

MOST_BYTES = 32 << 20  # of one message of resource spans
_FIELD = 0x0A  # the first field, which has a length: resource_spans in every message that holds them
_WITHIN = (0x0A, 0x12, 0x1A)  # resource, scope_spans, schema_url
_MOST_SHIFT = 63
_FIXED = {1: 8, 5: 4}  # kinds of fields, and their bytes
_LENGTH = 2  # the kind that says its bytes
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f")


class Stream(Protocol):
    """Bytes, read once."""

    def read(self, size: int) -> bytes:
        """Return that many bytes, fewer only at the end."""
        ...


def is_protobuf(head: bytes) -> bool:
    """Tell whether bytes begin as OTLP protobuf does, with or without lengths before its messages."""
    return bool(head.translate(None, bytes(set(range(256)) - set(_CONTROL)))) and _framing(head) is not None


def _framing(head: bytes) -> str | None:
    if len(head) > 5 and head[4] == _FIELD and head[0] == 0 and _fits(head[5:]):  # noqa: PLR2004 - 4 bytes of length
        return "fixed"
    if head[:1] == bytes([_FIELD]) and _fits(head[1:]):
        return "none"
    length, rest = _number(head)
    return "varint" if length and rest[:1] == bytes([_FIELD]) and _fits(rest[1:]) else None


def _fits(head: bytes) -> bool:
    length, rest = _number(head)
    return length == 0 or (length is not None and rest[:1] != b"" and rest[0] in _WITHIN)


def _number(head: bytes) -> tuple[int | None, bytes]:
    """Return the number that bytes begin with, and the rest."""
    value = 0
    for at, byte in enumerate(head[:10]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no high bit
            return value, head[at + 1 :]
    return None, b""


class _Reader:
    """A stream whose place is known."""

    def __init__(self, stream: Stream, head: bytes = b"") -> None:
        self._stream = stream
        self._head = head
        self.at = 0

    def read(self, size: int) -> bytes:
        piece, self._head = self._head[:size], self._head[size:]
        if len(piece) < size:
            piece += self._stream.read(size - len(piece))
        self.at += len(piece)
        return piece

    def skip(self, size: int) -> None:
        while size > 0 and (piece := self.read(min(size, 1 << 20))):
            size -= len(piece)

    def number(self) -> int | None:
        """Return the next number, or None at the end; Unreadable when it never ends."""
        value = 0
        for shift in range(0, _MOST_SHIFT + 1, 7):
            byte = self.read(1)
            if not byte:
                if shift:
                    raise Unreadable("protobuf-broken")
                return None
            value |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:  # noqa: PLR2004 - as in _number
                return value
        raise Unreadable("protobuf-broken")


def documents(stream: Stream, cleaner: Cleaner) -> Iterator[Document | Exclusion]:
    """Yield each message of resource spans as an OTLP JSON envelope; what can't be read is an exclusion."""
    head = stream.read(64)
    framing = _framing(head)
    reader = _Reader(stream, head)
    try:
        for place, content in _resource_spans(reader, framing):
            if content is None:
                yield Exclusion(place=place, reason="message-too-long", units=1)
                continue
            try:
                value = _envelope(content)
            except Unreadable as unreadable:
                yield Exclusion(place=place, reason=unreadable.reason, units=1)
                continue
            yield place, cleaner.value(value), False
    except Unreadable as unreadable:
        yield Exclusion(place=f"byte {reader.at}", reason=unreadable.reason, units=1)


def _resource_spans(reader: _Reader, framing: str | None) -> Iterator[tuple[str, bytes | None]]:
    """Yield the place and bytes of each message of resource spans; None for one that is longer than what is held."""
    while True:
        end: int | None = None
        if framing == "fixed":
            length = reader.read(4)
            if not length:
                return
            end = reader.at + int.from_bytes(length, "big")
        elif framing == "varint":
            if (size := reader.number()) is None:
                return
            end = reader.at + size
        yield from _fields(reader, end)
        if end is None:
            return


def _fields(reader: _Reader, end: int | None) -> Iterator[tuple[str, bytes | None]]:
    """Yield the resource spans among the fields of a message that ends there, or with the stream."""
    while end is None or reader.at < end:
        place = f"byte {reader.at}"
        tag = reader.number()
        if tag is None:
            if end is None:
                return
            raise Unreadable("protobuf-broken")
        size = _size(reader, tag & 7)
        if tag != _FIELD:
            reader.skip(size)
        elif size > MOST_BYTES:
            reader.skip(size)
            yield place, None
        else:
            content = reader.read(size)
            if len(content) < size:
                raise Unreadable("protobuf-broken")
            yield place, content


def _size(reader: _Reader, kind: int) -> int:
    """Return how many bytes follow of a field."""
    if kind in _FIXED:
        return _FIXED[kind]
    number = reader.number() if kind in (0, _LENGTH) else None
    if number is None:
        raise Unreadable("protobuf-broken")
    return number if kind == _LENGTH else 0


def _envelope(content: bytes) -> dict[str, Any]:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - few inputs need it
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans as Message  # noqa: PLC0415 - as above

    try:
        found = Message.FromString(content)
    except DecodeError:
        raise Unreadable("protobuf-broken") from None
    return {"resourceSpans": [_resource(found)]}


def _resource(found: ResourceSpans) -> dict[str, Any]:
    attributes = _attributes(found.resource.attributes)
    value: dict[str, Any] = {"resource": {"attributes": attributes}} if attributes else {}
    return {**value, "scopeSpans": [_scope(one) for one in found.scope_spans]}


def _scope(found: ScopeSpans) -> dict[str, Any]:
    return {"scope": {"name": found.scope.name}, "spans": [_span(one) for one in found.spans]}


def _span(found: Span) -> dict[str, Any]:
    value: dict[str, Any] = {
        "traceId": found.trace_id.hex(),
        "spanId": found.span_id.hex(),
        "parentSpanId": found.parent_span_id.hex(),
        "name": found.name,
        "kind": found.kind,
        "startTimeUnixNano": str(found.start_time_unix_nano),
        "endTimeUnixNano": str(found.end_time_unix_nano),
        "attributes": _attributes(found.attributes),
        "status": {"code": found.status.code, "message": found.status.message},
    }
    if found.events:
        value["events"] = [
            {"name": one.name, "timeUnixNano": str(one.time_unix_nano), "attributes": _attributes(one.attributes)}
            for one in found.events
        ]
    return value


def _attributes(pairs: Iterable[KeyValue]) -> list[dict[str, Any]]:
    return [{"key": one.key, "value": _any(one.value)} for one in pairs]


def _any(value: AnyValue) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    if kind is None:
        return {}
    if kind == "array_value":
        return {"arrayValue": {"values": [_any(one) for one in value.array_value.values]}}
    if kind == "kvlist_value":
        return {"kvlistValue": {"values": _attributes(value.kvlist_value.values)}}
    if kind == "int_value":
        return {"intValue": str(value.int_value)}
    if kind == "bytes_value":
        return {"bytesValue": value.bytes_value.hex()}
    name = {"string_value": "stringValue", "bool_value": "boolValue", "double_value": "doubleValue"}.get(kind)
    return {name: getattr(value, kind)} if name else {}
