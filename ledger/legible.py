"""Legible: whether stored bytes are one event in canonical JSON, told by reading them and writing them again.

Writing gives the only form there is, so bytes that differ from it have spaces, another order, a member twice or a
needless escape. What reading and writing leave as it is, such as a great integer, is looked for in what was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

from ledger.canonical import GREATEST_INTEGER

DEEPEST = 100  # arrays and objects within each other, the event being the first
ILLEGIBLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_Integer = Annotated[int, msgspec.Meta(ge=-GREATEST_INTEGER, le=GREATEST_INTEGER)]
_is_name = re.compile("b3:[0-9a-f]{64}").fullmatch


class Whole(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An event as its bytes say it, the members in their order."""

    actor: str
    at: _Integer
    body: dict[str, Any]
    cause: str | None
    key: str | None
    kind: str
    stream: str
    version: _Integer


def _no_float(text: str) -> object:
    raise ValueError(text)


_decoder = msgspec.json.Decoder(Whole, float_hook=_no_float)
_encoder = msgspec.json.Encoder(order="sorted")


def legible(stored: bytes) -> tuple[Whole, list[str]] | None:
    """Return the event in stored bytes and the contents it names; None when they are no event in canonical JSON."""
    try:
        event = _decoder.decode(stored)
    except ILLEGIBLE:
        return None
    named: list[str] = []
    return (event, named) if _encoder.encode(event) == stored and _is_exact(event, stored, named) else None


def columns_hold(rows: Iterable[Sequence[Any]], named: list[tuple[int, list[str]]]) -> bool:
    """Tell whether all bytes are legible and say what the columns beside them say; note the contents they name.

    Rows are seq, kind, stream, version, key and bytes.
    """
    written = bytearray()  # made once: most of what writing costs is room
    decode, encode_into, is_exact = _decoder.decode, _encoder.encode_into, _is_exact
    for seq, kind, stream, version, key, stored in rows:
        try:
            event = decode(stored)
        except ILLEGIBLE:
            return False
        if kind != event.kind or stream != event.stream or version != event.version or key != event.key:
            return False
        encode_into(event, written)
        names: list[str] = []
        if written != stored or not is_exact(event, stored, names):
            return False
        if names:
            named.append((seq, names))
    return True


def is_name(text: object) -> bool:
    """Tell whether something is the digest of a content, as text."""
    return isinstance(text, str) and _is_name(text) is not None


def _is_exact(event: Whole, stored: bytes, named: list[str]) -> bool:
    return _is_plain(event.body, DEEPEST - 1, named) and (stored.isascii() or _has_plain_names(event.body))


def _is_plain(value: dict[str, Any] | list[Any], depth: int, named: list[str]) -> bool:
    """Tell whether integers are within bounds, and nothing is too deep; note what members ``blob`` name.

    ``depth`` is how far the value is from the deepest. The bytes have ``"blob":`` for a member only, never in a string.
    """
    if not depth:
        return False
    items: Iterable[Any] = value
    if type(value) is dict:
        if "blob" in value and is_name(value["blob"]):
            named.append(value["blob"])
        items = value.values()
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if not -GREATEST_INTEGER <= item <= GREATEST_INTEGER:
                return False
        elif not _is_plain(item, depth - 1, named):
            return False
    return True


def _has_plain_names(value: object) -> bool:
    """Tell whether the names of all members within a value, which isn't too deep, are ASCII."""
    if isinstance(value, dict):
        return "".join(value).isascii() and all(map(_has_plain_names, value.values()))
    return not isinstance(value, list) or all(map(_has_plain_names, value))
