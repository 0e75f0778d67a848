"""Canonical JSON: one value, one sequence of bytes, on every machine.

Sorted ASCII keys, UTF-8, no insignificant space, integers within +-(2^53 - 1), no floats, no lone surrogates.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

GREATEST_INTEGER = 2**53 - 1
_AS_THEY_ARE = frozenset({str, bool, type(None)})
_encoder = msgspec.json.Encoder(order="sorted")


class NotCanonical(ValueError):
    """The value has no canonical form; the text says what and where (a JSON pointer)."""


def encode(value: object) -> bytes:
    """Return the canonical bytes of a JSON value or msgspec Struct.

    Raises NotCanonical for floats, integers beyond 2^53 - 1, keys that aren't ASCII text, and lone surrogates.
    """
    if not _is_plain(value):  # most values are, and every event that is written comes by
        value = msgspec.to_builtins(value, order="sorted")
        _refuse_uncanonical(value, "")
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise NotCanonical("a lone surrogate in a string") from error


def digest_input(*parts: object) -> bytes:
    """Return canonical bytes of a list of parts: the usual way to name a thing by its frozen inputs."""
    return encode(list(parts))


def _is_plain(value: object) -> bool:
    """Tell whether a value is made of what has one form only: text, small integers, and structs and lists of them.

    Whatever else there is may have a canonical form too, once it is made plain.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return True
    if kind is int:
        return -GREATEST_INTEGER <= cast("int", value) <= GREATEST_INTEGER
    items: Iterable[object]
    if issubclass(kind, msgspec.Struct):
        items = [getattr(value, name) for name in kind.__struct_fields__]
    elif kind is tuple or kind is list:
        items = cast("list[object]", value)
    else:
        return False
    return all([type(item) in _AS_THEY_ARE or _is_plain(item) for item in items])  # noqa: C419 - faster than a generator


def _refuse_uncanonical(value: object, pointer: str) -> None:
    if value is None or isinstance(value, (str, bool)):
        return
    if isinstance(value, int):
        if not -GREATEST_INTEGER <= value <= GREATEST_INTEGER:
            raise NotCanonical(f"integer out of range at {pointer or '/'}")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise NotCanonical(f"key that is not ASCII text at {pointer or '/'}")
            _refuse_uncanonical(item, f"{pointer}/{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_uncanonical(item, f"{pointer}/{index}")
    else:
        raise NotCanonical(f"{type(value).__name__} at {pointer or '/'}")
