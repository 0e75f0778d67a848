"""Mastra: spans of its own tracing, as its exporters write, its storage holds and its API lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.sources import Row, Source, chats
from projections.normal_form.sources.measures import annotation, nano_usd, nanoseconds, usage
from projections.normal_form.sources.nodes import (
    AGENT,
    CHAT,
    OTHER,
    TOOL,
    Node,
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

_KINDS = {
    "agent_run": AGENT,
    "model_generation": CHAT,
    "llm_generation": CHAT,
    "model_step": CHAT,
    "tool_call": TOOL,
    "mcp_tool_call": TOOL,
    "client_tool_call": TOOL,
}
_OTHERS = (
    "workflow_",
    "model_chunk",
    "llm_chunk",
    "generic",
    "processor_run",
    "scorer_",
    "memory_",
    "rag_",
    "workspace_",
)
_TRACE = ("traceId", "trace_id")
_LISTS = ("spans", "data", "traces", "rows", "events", "result")
_TYPE = ("spanType", "span_type", "type")


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is Mastra's."""
    if isinstance(document, list):
        return next((why for one in document[:10] if (why := recognises(one))), "")
    if not isinstance(document, dict):
        return ""
    logged = opened(document.get("data")).get("exportedSpan") or document.get("exportedSpan")
    if isinstance(logged, dict) and _is_span(logged):
        return "a tracing event with the span it exports"
    if _is_span(document):
        return "a span whose type is an operation of an agent or workflow"
    listed = [one for name in _LISTS for one in objects(document.get(name))[:10]]
    return next((f"a list: {why}" for one in listed if (why := recognises(one))), "")


def _is_span(value: dict[str, Any]) -> bool:
    kind = _type(value)
    return first(value, *_TRACE) is not None and (kind in _KINDS or kind.startswith(_OTHERS))


def _type(value: dict[str, Any]) -> str:
    return text(first(value, *_TYPE)).lower()


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each span."""
    if isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, span {index}")
    elif not isinstance(document, dict):
        yield Exclusion(place=place, reason="not-a-span", units=1, detail=excerpt(document))
    elif isinstance(inner := document.get("exportedSpan", document.get("data")), dict) and not _is_span(document):
        yield from rows(inner, place)
    elif _is_span(document):
        name = identifier(first(document, *_TRACE))
        without = Exclusion(place=place, reason="row-without-trace", units=1, detail=excerpt(document))
        yield Row(name, document, place) if name else without
    elif name := next((name for name in _LISTS if isinstance(document.get(name), list)), ""):
        shared = {key: document[key] for key in _TRACE if key in document}
        for index, one in enumerate(document[name], 1):
            known = {**shared, **one} if isinstance(one, dict) else one
            yield from rows(known, f"{place}, {name} {index}")
    else:
        reason = "not-a-span" if first(document, *_TRACE) is not None else "row-without-trace"
        yield Exclusion(place=place, reason=reason, units=1, detail=excerpt(document))


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield one span a span; what was told of it when it started and when it ended is one."""
    yield from spans(_node(identity, alike) for identity, alike in folded(rows, _identity).items())


def _identity(span: dict[str, Any]) -> str:
    return identifier(first(span, "spanId", "span_id", "id"))


def _node(identity: str, alike: Sequence[Row]) -> Node:
    span: dict[str, Any] = {}
    for one in sorted(alike, key=lambda one: bool(first(one.value, "endTime", "endedAt", "end_time", "ended_at"))):
        span |= {name: value for name, value in one.value.items() if value not in (None, "", {}, [])}
    kind = _KINDS.get(_type(span), OTHER)
    held, metadata = opened(span.get("attributes")), opened(span.get("metadata"))
    named = first(held, "toolName", "toolId", "tool_id") or (first(span, "entityName", "entity_name", "entityId"))
    return Node(
        row=Row(alike[0].trace, span, alike[0].place),
        span=identity,
        parent=identifier(first(span, "parentSpanId", "parent_span_id", "parentId")),
        kind=kind,
        name=text(span.get("name")),
        given=span.get("input"),
        back=_back(span, held),
        start=nanoseconds(first(span, "startTime", "startedAt", "start_time", "started_at")),
        end=nanoseconds(first(span, "endTime", "endedAt", "end_time", "ended_at")),
        error=_error(span, held, kind),
        call=identifier(first(held, "toolCallId", "tool_call_id") or first(metadata, "toolCallId", "tool_call_id")),
        tool=(text(named) or _quoted(text(span.get("name")))) if kind == TOOL else "",
        attributes=stated(
            gen_ai__request__model=text(held.get("model")),
            gen_ai__response__model=text(held.get("responseModel")),
            gen_ai__provider__name=text(held.get("provider")),
            gen_ai__system_instructions=_instructions(held),
            gen_ai__conversation__id=identifier(
                first(held, "conversationId")
                or first(metadata, "threadId", "thread_id", "sessionId")
                or first(span, "threadId", "thread_id", "sessionId")
            ),
            gen_ai__tool__definitions=chats.definitions(held.get("tools")),
            exp__cost__nano_usd=nano_usd(opened(held.get("costContext")).get("estimatedCost")) or None,
            exp__annotations=[*_scores(span)],
            **(usage(opened(held.get("usage"))) if kind == CHAT else {}),
        ),
        merged=tuple(one.place for one in alike[1:]),
    )


def _back(span: dict[str, Any], held: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return what came out; an error's words stand for it where a tool gave none."""
    back = span.get("output")
    return held.get("toolResult") if back is None else back


def _error(span: dict[str, Any], held: dict[str, Any], kind: str) -> Any:  # noqa: ANN401 - any JSON value
    error = first(span, "error", "errorInfo", "error_info")
    return True if error is None and kind == TOOL and held.get("success") is False else error


def _instructions(held: dict[str, Any]) -> list[dict[str, str]]:
    words = text(held.get("instructions"))
    return [{"type": "text", "content": words}] if words else []


def _quoted(name: str) -> str:
    """Return a tool's name from names such as ``tool: 'weather'``."""
    return name.split("'")[1] if name.count("'") >= 2 else ""  # noqa: PLR2004 - the two that quote it


def _scores(span: dict[str, Any]) -> Iterator[dict[str, str]]:
    for one in objects(span.get("scores")):
        name = first(one, "scorerName", "scorerId", "name")
        yield annotation(name, one.get("score"), "model", comment=first(one, "reason"))


SOURCE = Source("mastra", recognises, rows, read)
