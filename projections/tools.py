"""Tools: the functions that the traces' actions call, with the schema of what they were called with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from ledger.episode import Tool, Turn

MOST_TOOLS = 128
MOST_PROPERTIES = 64
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class _Seen(msgspec.Struct):
    """What calls of a tool held."""

    calls: int = 0
    objects: int = 0
    types: dict[str, set[str]] = msgspec.field(default_factory=dict)
    present: Counter[str] = msgspec.field(default_factory=Counter)


def tools(turns: Iterable[Turn]) -> tuple[Tool, ...]:
    """Return the tools by name, at most as many as providers accept: then those that are called most."""
    seen: dict[str, _Seen] = {}
    for turn in turns:
        if turn.tool:
            _take(seen.setdefault(turn.tool, _Seen()), turn.arguments)
    most = sorted(seen, key=lambda name: (-seen[name].calls, name))[:MOST_TOOLS]
    return tuple(
        Tool(
            name=name,
            description=f"{name}, as the recorded agents called it",
            parameters=_encode(_schema(seen[name])).decode(),
        )
        for name in sorted(most)
    )


def _take(seen: _Seen, arguments: str) -> None:
    seen.calls += 1
    try:
        value = _decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return
    if not isinstance(value, dict):
        return
    seen.objects += 1
    for name, item in value.items():
        seen.types.setdefault(name, set()).add(_type(item))
        seen.present[name] += 1


def _schema(seen: _Seen) -> dict[str, Any]:
    """Return a JSON Schema: properties with the types seen, required where every call had them."""
    kept = sorted(seen.types, key=lambda name: (-seen.present[name], name))[:MOST_PROPERTIES]
    properties = {name: _property(seen.types[name]) for name in sorted(kept)}
    required = [name for name in sorted(kept) if seen.present[name] == seen.objects == seen.calls]
    return {"type": "object", "properties": properties, "required": required}


def _property(types: set[str]) -> dict[str, Any]:
    """Return the schema of a property. Lists say nothing of their items, and a property of every type says nothing."""
    if "number" in types:
        types = types - {"integer"}
    found = sorted(types)
    schema: dict[str, Any] = {"type": found[0] if len(found) == 1 else found}
    if "array" in types:
        schema["items"] = {}
    return schema


def _type(value: Any) -> str:  # noqa: ANN401 - any JSON value
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"
