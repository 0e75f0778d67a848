"""What every product records alike: operations in a tree, each with what went in and what came out. They become spans.

A producer's module says which of its members is which; what an input or an output means is read here, once for all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ledger import digests
from projections.normal_form.messages import written
from projections.normal_form.sources import Row, chats
from projections.normal_form.spans import Span, made

CHAT, TOOL, AGENT, OTHER = "chat", "execute_tool", "invoke_agent", ""
TEXT_LENGTH = 200
_PREFIX = re.compile(r"(running tool|execute_tool|tool_call|tool)(:\s*|\s+)", re.IGNORECASE)
_encode = msgspec.json.Encoder(order="sorted").encode


class Node(msgspec.Struct):
    """An operation. ``error`` is whatever says that it failed; ``attributes`` are by their conventional names."""

    row: Row
    span: str
    kind: str
    name: str = ""
    parent: str = ""
    given: Any = None
    back: Any = None
    start: int = 0
    end: int = 0
    error: Any = None
    tool: str = ""
    call: str = ""
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)
    merged: tuple[str, ...] = ()
    position: int | None = None  # among the others, where no times say it


class _Held(msgspec.Struct):
    """The messages of a model's call."""

    given: list[chats.Message]
    said: list[chats.Message]


def identifier(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return an id that is text or an integer; nothing for whatever else stands in its place."""
    if isinstance(value, bool):
        return ""
    return value.strip() if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a text, nothing for whatever else stands in its place."""
    return value if isinstance(value, str) else ""


def first(value: dict[str, Any], *names: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the first of these members that says anything."""
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def objects(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    """Return the objects of a list, also of one in a text."""
    value = chats.decoded(value)
    return [one for one in map(chats.decoded, value) if isinstance(one, dict)] if isinstance(value, list) else []


def opened(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """Return an object, also one in a text; an empty one for whatever else stands in its place."""
    value = chats.decoded(value)
    return value if isinstance(value, dict) else {}


def derived(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return an id for what has none: of its content, so that it is the same wherever it stands."""
    return digests.content_digest(_encode(value)).removeprefix(digests.PREFIX)[:16]


def excerpt(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the beginning of a value, for whoever looks for it in the file."""
    return written(value)[:TEXT_LENGTH]


def stated(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON values
    """Return attributes that say something; ``__`` in a name stands for a point."""
    return {name.replace("__", "."): value for name, value in values.items() if value not in (None, "", [], {})}


def folded(rows: Sequence[Row], identity: Callable[[dict[str, Any]], str]) -> dict[str, list[Row]]:
    """Return rows by id, in an order that their places don't decide; rows without an id stand alone."""
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: _encode(row.value)):
        grouped[identity(row.value) or derived(row.value)].append(row)
    return grouped


def spans(nodes: Iterable[Node]) -> Iterator[Span]:
    """Yield the spans of one trace's operations, in the conventions' names."""
    nodes = list(nodes)
    _place(nodes)
    for node in nodes:
        _named(node)
    ordered = sorted(nodes, key=lambda node: (node.start, node.end, node.span, node.row.place))
    _promote(ordered)
    held = {index: _messages(node) for index, node in enumerate(ordered) if node.kind in (CHAT, AGENT)}
    _ran(ordered, [held[index] for index in held if ordered[index].kind == CHAT])
    results = {index: _result(node) for index, node in enumerate(ordered) if node.kind == TOOL}
    for index, node in enumerate(ordered):
        own: dict[str, Any] = {"gen_ai.operation.name": node.kind} if node.kind else {}
        failed = node.error not in (None, "", False, [], {})
        if index in held:
            own |= stated(**{"gen_ai.input.messages": held[index].given, "gen_ai.output.messages": held[index].said})
        elif index in results:
            given, failed = _arguments(node), failed or results[index][1]
            own |= {"gen_ai.tool.name": node.tool, "gen_ai.tool.call.id": node.call} if node.call else {}
            own |= {"gen_ai.tool.name": node.tool}
            own |= {} if given is None else {"gen_ai.tool.call.arguments": given}
            own |= {} if results[index][0] is None else {"gen_ai.tool.call.result": results[index][0]}
        if failed:
            own |= _failure(node.error)
        yield made(
            trace=node.row.trace,
            span=node.span,
            parent=node.parent,
            name=node.name,
            place=node.row.place,
            raw=node.row.value,
            start=node.start,
            end=node.end,
            error=failed,
            attributes=own | node.attributes,
            merged=node.merged,
        )


def _place(nodes: list[Node]) -> None:
    """Let ids say the order of operations that have a position, where times don't: equal times leave it to ids."""
    starts = {node.start for node in nodes}
    if len(starts) == len(nodes) or all(node.position is None for node in nodes):
        return
    placed = {node.span: f"{node.position or 0:08d}.{node.span}" for node in nodes}
    for node in nodes:
        node.span, node.parent = placed[node.span], placed.get(node.parent, node.parent)


def _promote(nodes: list[Node]) -> None:
    """Let a root speak for the whole: always where it holds messages, and alone where nothing else tells anything."""
    known = {node.span for node in nodes}
    plain = not any(node.kind in (CHAT, TOOL) for node in nodes)
    for node in nodes:
        if node.kind == OTHER and (not node.parent or node.parent not in known):
            told = chats.conversation(node.given, "user") or chats.conversation(node.back, "assistant")
            node.kind = AGENT if plain or told else OTHER
    if plain:
        for node in nodes:
            if node.kind == AGENT:
                node.given = chats.spoken(node.given, "user")
                node.back = chats.spoken(node.back, "assistant")


def _messages(node: Node) -> _Held:
    if node.kind == AGENT:
        return _Held(chats.conversation(node.given, "user"), chats.conversation(node.back, "assistant"))
    return _Held(chats.spoken(node.given, "user"), chats.spoken(node.back, "assistant"))


def _named(node: Node) -> None:
    """Take a tool's name from that of its operation, and the id of its call from what it gave back."""
    if node.kind == TOOL:
        node.tool = node.tool or _PREFIX.sub("", node.name, count=1)
        node.call = node.call or chats.result(node.back)[1]


def _result(node: Node) -> tuple[Any, bool]:
    """Return what a tool gave back and whether that says it failed; where it gave nothing, what its error says."""
    back, _, failed = chats.result(node.back)
    if back is None and node.error not in (None, "", False, True, [], {}):
        back = _message(node.error)
    return back, failed


def _arguments(node: Node) -> Any:  # noqa: ANN401 - any JSON value
    given = chats.decoded(node.given)
    return node.given if isinstance(node.given, str) and isinstance(given, str) else given


def _ran(nodes: Sequence[Node], held: Iterable[_Held]) -> None:
    """Tell which operations ran what models called: a tool's name and arguments are those of a call.

    Some writers put a tool's arguments under ``input``; and some don't say that an operation is a tool's.
    """
    called = {
        (part["name"], _encode(chats.decoded(part["arguments"]))) for one in held for part in chats.calls(one.said)
    }
    for node in nodes:
        if node.kind not in (TOOL, OTHER) or not called:
            continue
        name, given = node.tool or node.name, chats.decoded(node.given)
        whole = (name, _encode(given)) in called
        if node.kind == OTHER and whole:
            node.kind, node.tool = TOOL, node.name
        inner = chats.decoded(given["input"]) if isinstance(given, dict) and set(given) == {"input"} else None
        if node.kind == TOOL and not whole and inner is not None and (name, _encode(inner)) in called:
            node.given = inner


def _message(error: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the words of an error."""
    error = chats.decoded(error)
    if isinstance(error, dict):
        error = first(error, "message", "error", "detail", "type") or error
    return written(error)


def _failure(error: Any) -> dict[str, str]:  # noqa: ANN401 - any JSON value
    """Return an error's type and words in attributes."""
    opened_error = chats.decoded(error)
    kind = first(opened_error, "type", "name", "code") if isinstance(opened_error, dict) else None
    words = "" if error in (None, True, False) else _message(error)
    return {"error.type": text(kind)[:TEXT_LENGTH] or "error"} | ({"error.message": words} if words else {})
