"""Braintrust: rows of logs, with those that merge into earlier ones, as logged, fetched or queried; and span trees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.messages import written
from projections.normal_form.sources import Row, Source, chats
from projections.normal_form.sources.measures import annotation, nano_usd, nanoseconds, usage
from projections.normal_form.sources.nodes import (
    AGENT,
    CHAT,
    OTHER,
    TOOL,
    Node,
    derived,
    excerpt,
    first,
    folded,
    identifier,
    objects,
    opened,
    spans,
    stated,
    text,
)
from projections.normal_form.spans import Span

_KINDS = {"llm": CHAT, "tool": TOOL}
_MARKS = frozenset(
    {"span_attributes", "span_parents", "_is_merge", "log_id", "project_id", "experiment_id", "_xact_id"}
)
_SHORT = frozenset(
    {"name", "type", "input", "output", "metadata", "metrics", "error", "scores", "expected", "tags", "children", "id"}
)
_TYPES = (None, "task", "llm", "tool", "function", "score", "eval", "automation", "facet", "preprocessor")
_LISTS = ("events", "rows", "data", "objects", "span_tree")
_PLACEHOLDER = re.compile(r"<[^<>]*>")
_IDS = frozenset({"id", "tool_call_id", "tool_use_id", "call_id", "toolCallId"})
_RAW_NAMES = ("claude_agent_sdk.raw_tool_name", "gen_ai.tool.name", "tool_name", "toolName")
_DEPTH = 64


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is Braintrust's."""
    if isinstance(document, list):
        found = [recognises(one) for one in document[:10]]
        return next((why for why in found if why), "") or _all_short(document)
    if not isinstance(document, dict):
        return ""
    if isinstance(tree := document.get("span_tree"), list) and any(_is_short(one) for one in objects(tree)[:10]):
        return "a tree of spans with children"
    if _is_row(document):
        return "a log's row: it has a root span id and what Braintrust adds to it"
    for name in _LISTS[:4]:
        if any(map(_is_row, objects(document.get(name))[:10])):
            return "a page of log rows with root span ids"
    return ""


def _all_short(listed: list[Any]) -> str:
    short = bool(listed) and all(isinstance(one, dict) and _is_short(one) for one in listed)
    typed = any(isinstance(one, dict) and one.get("type") in ("task", "llm") for one in listed)
    return "a list of log rows by name and type, without ids" if short and typed else ""


def _is_row(value: dict[str, Any]) -> bool:
    return ("root_span_id" in value and bool(_MARKS & set(value))) or ("_is_merge" in value and "id" in value)


def _is_short(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    known = isinstance(kind, str | None) and kind in _TYPES
    return isinstance(value.get("name"), str) and known and set(value) <= _SHORT and len(value) > 1


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each row of a log, and for each span of a tree."""
    if isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, row {index}")
    elif not isinstance(document, dict):
        yield Exclusion(place=place, reason="not-a-log-row", units=1, detail=excerpt(document))
    elif isinstance(document.get("span_tree"), list):
        for index, one in enumerate(document["span_tree"], 1):
            yield from _tree(one, f"{place}, span {index}")
    elif _is_row(document):
        yield _row(document, place)
    elif isinstance(document.get("children"), list):
        yield from _tree(document, place)
    elif _is_short(document):
        yield _loose(document, place)
    elif name := next((name for name in _LISTS if isinstance(document.get(name), list)), ""):
        yield from rows(document[name], place)
    else:
        yield Exclusion(place=place, reason="not-a-log-row", units=1, detail=excerpt(document))


def _row(row: dict[str, Any], place: str) -> Row | Exclusion:
    name = identifier(first(row, "root_span_id", "span_id", "id"))
    if not name:
        return Exclusion(place=place, reason="row-without-trace", units=1, detail=excerpt(row))
    return Row(name, row, place)


def _loose(row: dict[str, Any], place: str) -> Row | Exclusion:
    """Return a row without any id: it belongs with the rows that were given the same task."""
    given = row.get("input")
    asked = [message for message in chats.conversation(given, "user") if message["role"] == "user"]
    task: Any = [part for message in asked[:1] for part in message["parts"]] or chats.decoded(given)
    if task in (None, "", [], {}):
        return Exclusion(place=place, reason="row-without-trace", units=1, detail=excerpt(row))
    return Row(f"task-{derived(task)}", row, place)


def _tree(span: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield the rows of a tree of spans. A root that says nothing only holds traces together: each child is one."""
    if not isinstance(span, dict):
        yield Exclusion(place=place, reason="not-a-log-row", units=1, detail=excerpt(span))
        return
    children = span.get("children")
    telling = [one for one in children if _tells(one)] if isinstance(children, list) else []
    if len(telling) > 1 and not _says(span):
        yield Exclusion(place=place, reason="span-without-content", units=1, detail=excerpt(span.get("name")))
        for index, one in enumerate(children if isinstance(children, list) else (), 1):
            yield from _tree(one, f"{place}.{index}")
    else:
        yield from _walk(span, identifier(span.get("root_span_id")) or derived(span), place)


def _says(span: dict[str, Any]) -> bool:
    return any(span.get(name) not in (None, "", [], {}) for name in ("input", "output", "error"))


def _tells(span: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether a span or one within it says anything."""
    if not isinstance(span, dict):
        return False
    children = span.get("children")
    return _says(span) or (isinstance(children, list) and any(map(_tells, children)))


def _walk(root: dict[str, Any], trace: str, place: str) -> Iterator[Row | Exclusion]:
    """Yield a span and all within it, in the order in which they are written; each knows its position and parent."""
    waiting: list[tuple[Any, str, str]] = [(root, "", place)]
    position = 0
    while waiting:
        span, parent, where = waiting.pop()
        if not isinstance(span, dict):
            yield Exclusion(place=where, reason="not-a-log-row", units=1, detail=excerpt(span))
            continue
        position += 1
        identity = f"{position:06d}"
        own = {name: value for name, value in span.items() if name != "children"}
        yield Row(trace, {**own, "is": {"span": identity, "parent": parent, "position": position}}, where)
        children = span.get("children")
        listed = children if isinstance(children, list) else []
        waiting += [(one, identity, f"{where}.{index}") for index, one in reversed(list(enumerate(listed, 1)))]


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield one span a row, merging rows into those of their id."""
    yield from spans(_node(identity, alike) for identity, alike in folded(rows, _identity).items())


def _identity(row: dict[str, Any]) -> str:
    placed = row.get("is")
    if isinstance(placed, dict):
        return text(placed.get("span"))
    return identifier(first(row, "id", "span_id"))


def _node(identity: str, alike: Sequence[Row]) -> Node:
    row: dict[str, Any] = {}
    for one in sorted(alike, key=lambda one: (one.value.get("_is_merge") is True, excerpt(one.value.get("_xact_id")))):
        row = _merge(row, one.value)
    placed, named = opened(row.get("is")), opened(row.get("span_attributes"))
    metadata, metrics = opened(row.get("metadata")), opened(row.get("metrics"))
    kind = _kind(text(first(named, "type") or row.get("type")), row)
    parents = row.get("span_parents")
    counter = first(named, "exec_counter") if not placed else placed.get("position")
    start = nanoseconds(metrics.get("start"))
    return Node(
        row=Row(alike[0].trace, row, alike[0].place),
        span=text(placed.get("span")) or identifier(row.get("span_id")) or identity,
        parent=text(placed.get("parent")) or identifier(parents[0] if isinstance(parents, list) and parents else None),
        kind=kind,
        name=text(first(named, "name") or row.get("name")),
        given=_without_placeholders(row.get("input")),
        back=_without_placeholders(row.get("output")),
        start=start or nanoseconds(row.get("created")),
        end=nanoseconds(metrics.get("end")),
        error=row.get("error"),
        call=_real(first(metadata, "gen_ai.tool.call.id", "tool_call_id", "toolCallId")),
        tool=text(first(metadata, *_RAW_NAMES)) if kind == TOOL else "",
        attributes=_attributes(row, metadata, metrics),
        merged=tuple(one.place for one in alike[1:]),
        position=counter if isinstance(counter, int) and counter >= 0 else None,
    )


def _kind(kind: str, row: dict[str, Any]) -> str:
    if kind == "task" and row.get("input") not in (None, "", [], {}) and chats.conversation(row["input"], "user"):
        return AGENT if chats.conversation(row.get("output"), "assistant") else OTHER
    return _KINDS.get(kind, OTHER)


def _attributes(row: dict[str, Any], metadata: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    cost = first(metrics, "estimated_cost", "total_cost", "cost")
    origin = opened(row.get("origin"))
    asked = opened(metadata.get("invocation_params"))
    return stated(
        gen_ai__request__model=text(first(metadata, "model", "ls_model_name") or asked.get("model")),
        gen_ai__provider__name=text(metadata.get("provider")),
        gen_ai__conversation__id=_real(first(metadata, "session_id", "conversation_id", "thread_id")),
        gen_ai__tool__definitions=chats.definitions(first(metadata, "tools", "functions") or asked.get("tools")),
        exp__cost__nano_usd=nano_usd(cost) or None,
        exp__task__id=identifier(first(row, "dataset_record_id") or origin.get("id")),
        exp__annotations=[*_scores(row)],
        braintrust__expected=text(row.get("expected")),
        braintrust__operation=text(metadata.get("operation")),
        braintrust__scenario=text(metadata.get("scenario")),
        **usage(metrics),
    )


def _scores(row: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a row's scores and comments. Who gave a score isn't in it; a comment is a person's."""
    for name, score in sorted(opened(row.get("scores")).items()):
        if score is not None:
            yield annotation(name, score, "unknown")
    for one in objects(row.get("comments")):
        words = text(first(opened(one.get("comment")), "text") or one.get("comment"))
        if words:
            yield annotation("comment", None, "human", comment=words)


def _merge(into: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with another merged into it: objects by member, anything else as the other has it."""
    merged = dict(into)
    waiting: list[tuple[dict[str, Any], dict[str, Any]]] = [(merged, row)]
    while waiting:
        target, more = waiting.pop()
        for name, value in more.items():
            held = target.get(name)
            if isinstance(held, dict) and isinstance(value, dict):
                target[name] = dict(held)
                waiting.append((target[name], value))
            elif value is not None or name not in target:
                target[name] = value
    merged.pop("_is_merge", None)
    return merged


def _real(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return an id, nothing for a placeholder that stands for one: equal placeholders needn't be equal ids."""
    found = identifier(value)
    return "" if _PLACEHOLDER.fullmatch(found) else found


def _without_placeholders(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value without ids that are placeholders."""
    if depth == _DEPTH:
        return value
    if isinstance(value, dict):
        kept = {name: it for name, it in value.items() if name not in _IDS or not _PLACEHOLDER.fullmatch(written(it))}
        return {name: _without_placeholders(it, depth + 1) for name, it in kept.items()}
    if isinstance(value, list):
        return [_without_placeholders(one, depth + 1) for one in value]
    return value


SOURCE = Source("braintrust", recognises, rows, read)
