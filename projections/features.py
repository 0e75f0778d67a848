"""Features: a request as the vector that routing compares, from its last user turn and its tools only.

The prefix that all requests of one application share says nothing about which model will do, so it is left out. The
vector comes from the local hashing embedder: a router that called out to decide would cost what it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ledger.episode import Tool
from projections import hashing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Offered = Tool | Mapping[str, Any]

VERSION = "features@2"
DIMENSIONS = 512  # ten thousand fit tasks are compared with a request in about a millisecond
LONGEST = 8_000


def request_features(messages: Sequence[Mapping[str, Any]], tools: Iterable[Offered]) -> NDArray[np.int8]:
    """Return the vector of a request in the chat-completions shape."""
    return hashing.embed(feature_text(messages, tools), DIMENSIONS)


def task_features(tasks: Sequence[str], tools: Iterable[Offered]) -> NDArray[np.int8]:
    """Return one row a task: the vector of the request that a candidate would be sent for it."""
    offered = tuple(tools)
    return hashing.embed_many(
        [feature_text(({"role": "user", "content": task},), offered) for task in tasks], DIMENSIONS
    )


def feature_text(messages: Sequence[Mapping[str, Any]], tools: Iterable[Offered]) -> str:
    """Return the text that is embedded: the last user turn, elided in the middle, and the names of the tools."""
    turn = next((_content(one.get("content")) for one in reversed(messages) if one.get("role") == "user"), "")
    if len(turn) > LONGEST:
        turn = turn[: LONGEST // 2] + turn[-LONGEST // 2 :]
    return "\n".join((turn, *sorted(filter(None, map(_name, tools)))))


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "\n".join(part for part in parts if isinstance(part, str))


def _name(tool: Tool | Mapping[str, Any]) -> str:
    if isinstance(tool, Tool):
        return tool.name
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else tool.get("name")
    return name if isinstance(name, str) else ""
