"""Spans: what every source's rows become before they are a trace."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger import digests

_encode = msgspec.json.Encoder(order="sorted").encode
REAL_TIME = 10**15  # nanoseconds since 1970: 12 days. What is less numbers spans and isn't when they were


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


def digest_of(raw: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return what names the content of the JSON value that a span is read from."""
    return digests.content_digest(_encode(raw))


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
        digest=digest_of(raw),
        place=place,
        parent=parent,
        merged=merged,
    )
