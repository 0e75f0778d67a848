"""Values that are too large to be held, taken apart as they are read: arrays at the top, or one level below it.

Each part has the structure of the whole with one item in place of all, so that who reads the whole reads the part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import ijson
from ijson.common import ObjectBuilder

from projections.normal_form import lines
from projections.normal_form.lines import Unreadable

ENVELOPES = {"resourceSpans": ("scopeSpans", "spans"), "resource_spans": ("scope_spans", "spans")}
ARRAYS = frozenset(
    ("data", "traces", "observations", "scores", "runs", "events", "batch", "rows", "spans", "samples", "results")
) | set(ENVELOPES)
_OVERHEAD = 16  # bytes that a value takes at least
_OPENING = frozenset({"start_map", "start_array"})
_CLOSING = frozenset({"end_map", "end_array"})

Event = tuple[str, Any]
Part = tuple[str, Any]


class _Pieces:
    """The pieces of a file, to be read by who wants a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._piece = memoryview(b"")

    def read(self, size: int) -> bytes:
        while size and not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._piece = memoryview(piece)
        given, self._piece = self._piece[:size], self._piece[size:]
        return bytes(given)


def parts(pieces: Iterable[bytes]) -> Iterator[Part]:
    """Yield the parts of a file's values, each with its place; Unreadable in place of one that can't be read."""
    number = 0
    try:
        events: Iterator[Event] = iter(ijson.basic_parse(_Pieces(pieces), multiple_values=True, use_float=True))
        for event in events:
            number += 1
            place = f"value {number}"
            if event[0] == "start_array":
                yield from ((f"{place}, item {index}", value) for index, value in enumerate(_items(events), 1))
            elif event[0] == "start_map":
                yield from _of_object(events, place)
            else:
                yield place, event[1]
    except (ijson.JSONError, UnicodeDecodeError):
        yield f"after value {number}", Unreadable("not-json")
    except RecursionError:
        yield f"after value {number}", Unreadable("nested-too-deeply")


def _of_object(events: Iterator[Event], place: str) -> Iterator[Part]:
    """Yield an object's parts: one for each item of its arrays, with the members that came before."""
    known: dict[str, Any] = {}
    divided = False
    for kind, name in events:
        if kind == "end_map":
            break
        first = next(events)
        if name not in ARRAYS or first[0] != "start_array":
            if not isinstance(value := _built(first, events), Unreadable):
                known[name] = value
            continue
        divided = True
        if name in ENVELOPES:
            yield from _of_envelope(events, name, place)
        else:
            for index, value in enumerate(_items(events), 1):
                part = value if isinstance(value, Unreadable) else {**known, name: [value]}
                yield f"{place}, {name} {index}", part
    if not divided:
        yield place, known


def _of_envelope(events: Iterator[Event], name: str, place: str) -> Iterator[Part]:
    """Yield spans, each in an envelope of its own."""
    inner, spans = ENVELOPES[name]
    count = 0
    for around, scoped in _levels(events, inner):
        if scoped is None:
            yield place, Unreadable("not-a-span")
            continue
        for scope, found in _levels(scoped, spans):
            if found is None:
                yield place, Unreadable("not-a-span")
                continue
            for value in _items(found):
                count += 1
                part = value
                if not isinstance(value, Unreadable):
                    part = {name: [{**around, inner: [{**scope, spans: [value]}]}]}
                yield f"{place}, span {count}", part


def _levels(events: Iterator[Event], name: str) -> Iterator[tuple[dict[str, Any], Iterator[Event] | None]]:
    """Yield, for each object in an array, what it says before its member of that name, and that member's events."""
    for first in events:
        if first[0] == "end_array":
            return
        if first[0] != "start_map":
            _built(first, events)
            yield {}, None
            continue
        known: dict[str, Any] = {}
        for kind, member in events:
            if kind == "end_map":
                break
            begin = next(events)
            if member == name and begin[0] == "start_array":
                yield known, events
            elif not isinstance(value := _built(begin, events), Unreadable):
                known[member] = value


def _items(events: Iterator[Event]) -> Iterator[Any]:
    """Yield the values of an array up to its end."""
    for first in events:
        if first[0] == "end_array":
            return
        yield _built(first, events)


def _built(first: Event, events: Iterator[Event]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that begins with an event, or Unreadable when it is larger or deeper than what is held."""
    if first[0] not in _OPENING:
        return first[1]
    builder = ObjectBuilder()
    builder.event(*first)
    depth, size, reason = 1, 0, ""
    while depth:
        kind, value = next(events)
        depth += (kind in _OPENING) - (kind in _CLOSING)
        size += _OVERHEAD + (len(value) if isinstance(value, str) else 0)
        if size > lines.LINE_BYTES:
            reason = reason or "value-too-large"
        elif depth > lines.MOST_DEPTH:
            reason = reason or "nested-too-deeply"
        if not reason:
            builder.event(kind, value)
    return Unreadable(reason) if reason else builder.value
