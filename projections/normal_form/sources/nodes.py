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
    _link(ordered, [held[index] for index in held if ordered[index].kind == CHAT])
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
    """Let ids say the order of operations that have a position and no time: spans of one time stand by their ids."""
    if any(node.start for node in nodes) or all(node.position is None for node in nodes):
        return
    placed = {node.span: f"{node.position or 0:08d}.{node.span}" for node in nodes}
    for node in nodes:
        node.span, node.parent = placed[node.span], placed.get(node.parent, node.parent)


def _promote(nodes: list[Node]) -> None:
    """Let a root speak for the whole: always where it holds messages, and alone where nothing else tells anything."""
    known = {node.span for node in nodes}
    plain = not any(node.kind in (CHAT, TOOL) for node in nodes)
    for node in nodes:
        root = not node.parent or node.parent not in known
        if node.kind == OTHER and root and (plain or chats.conversation(node.given, "user")):
            node.kind = AGENT
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


def _link(nodes: Sequence[Node], held: Sequence[_Held]) -> None:
    """Give a tool's run the id of its call, or the call that of its run, where they alone have that name and arguments.

    Runs that have the id of a call are paired already. Where two calls are alike, nothing here tells them apart.
    """
    spoken = [part for one in held for part in chats.calls(one.said)]
    ids = {part["id"] for part in spoken if part["id"]}
    taken = {node.call for node in nodes if node.kind == TOOL and node.call in ids}
    open_calls: dict[tuple[str, bytes], list[chats.Part]] = defaultdict(list)
    for part in spoken:
        if part["id"] not in taken:
            open_calls[_called(part)].append(part)
    runs: dict[tuple[str, bytes], list[Node]] = defaultdict(list)
    for node in nodes:
        if node.kind == OTHER and len(open_calls.get((node.name, _encode(chats.decoded(node.given))), ())) == 1:
            node.kind, node.tool = TOOL, node.name  # what ran is what was called, whatever its producer calls it
        if node.kind == TOOL and node.call not in ids:
            runs[_key(node, open_calls)].append(node)
    later = [part for one in held for part in chats.calls(one.given) if not part["id"]]
    for key, alike in runs.items():
        parts = open_calls.get(key, [])
        if len(alike) == len(parts) == 1 and bool(alike[0].call) != bool(parts[0]["id"]):
            _pair(alike[0], parts[0], [part for part in later if _called(part) == key])


def _called(part: chats.Part) -> tuple[str, bytes]:
    return part["name"], _encode(chats.decoded(part["arguments"]))


def _key(node: Node, open_calls: dict[tuple[str, bytes], list[chats.Part]]) -> tuple[str, bytes]:
    """Return what a run is known by; some writers put a tool's arguments under ``input``."""
    given = chats.decoded(node.given)
    whole = node.tool, _encode(given)
    if isinstance(given, dict) and set(given) == {"input"}:
        inner = node.tool, _encode(chats.decoded(given["input"]))
        if inner in open_calls and whole not in open_calls:
            node.given = given["input"]
            return inner
    return whole


def _pair(node: Node, part: chats.Part, repeated: Iterable[chats.Part]) -> None:
    """Make a run and a call one, also where later messages repeat the call."""
    node.call = part["id"] = node.call or part["id"]
    for one in repeated:
        one["id"] = node.call
    node.attributes = {**node.attributes, "exp.paired": "arguments"}


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
