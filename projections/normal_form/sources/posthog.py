"""PostHog: events of model calls, as its clients send them in batches, as its API pages them, and as queried rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.sources import Row, Source, chats
from projections.normal_form.sources.measures import annotation, nano_usd, nanoseconds, number, usage
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
    opened,
    spans,
    stated,
    text,
)
from projections.normal_form.spans import Span

_KINDS = {"$ai_generation": CHAT, "$ai_span": OTHER, "$ai_trace": AGENT, "$ai_embedding": OTHER}
_NOTES = ("$ai_metric", "$ai_feedback", "$ai_evaluation", "$ai_evaluation_result")
_LISTS = ("batch", "results", "events", "data")
_SPANS = {"tool": TOOL, "function": TOOL, "agent": AGENT, "generation": CHAT}
_SECOND = 10**9


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is PostHog's."""
    if isinstance(document, list):
        return next((why for one in document[:10] if (why := recognises(one))), "")
    if not isinstance(document, dict):
        return ""
    if text(document.get("event")).startswith("$ai_") and "properties" in document:
        return "an event whose name begins with $ai_"
    for name in _LISTS:
        if any(text(one.get("event")).startswith("$ai_") for one in _events(document, name)):
            return f"a list of events, under {name}, some of whose names begin with $ai_"
    return ""


def _events(document: dict[str, Any], name: str) -> list[Any]:
    """Return the events of a list; a query's rows are given the names of its columns."""
    listed, columns = document.get(name), document.get("columns")
    if not isinstance(listed, list):
        return []
    if isinstance(columns, list) and all(isinstance(column, str) for column in columns):
        listed = [dict(zip(columns, one, strict=False)) if isinstance(one, list) else one for one in listed]
    return [one for one in listed if isinstance(one, dict)]


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each event of a model call; other events are exclusions."""
    if isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, item {index}")
    elif not isinstance(document, dict):
        yield Exclusion(place=place, reason="not-an-event", units=1, detail=excerpt(document))
    elif "event" in document:
        yield _row(document, place)
    elif name := next((name for name in _LISTS if isinstance(document.get(name), list)), ""):
        named = iter(_events(document, name))
        for index, one in enumerate(document[name], 1):
            usable = isinstance(one, dict) or (isinstance(one, list) and isinstance(document.get("columns"), list))
            yield _row(next(named, one) if usable else one, f"{place}, event {index}")
    else:
        yield Exclusion(place=place, reason="not-an-event", units=1, detail=excerpt(document))


def _row(event: Any, place: str) -> Row | Exclusion:  # noqa: ANN401 - any JSON value
    if not isinstance(event, dict):
        return Exclusion(place=place, reason="not-an-event", units=1, detail=excerpt(event))
    name = text(event.get("event"))
    if name not in _KINDS and name not in _NOTES:
        return Exclusion(place=place, reason="event-of-another-kind", units=1, detail=excerpt(name or event))
    properties = opened(event.get("properties"))
    trace = identifier(properties.get("$ai_trace_id"))
    if not trace and name in _NOTES:
        return Exclusion(place=place, reason="row-without-trace", units=1, detail=excerpt(event))
    return Row(trace or identifier(event.get("uuid")) or derived(event), {**event, "properties": properties}, place)


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield one span an event; metrics and feedback become annotations of their trace."""
    notes = [row for row in rows if row.value["event"] in _NOTES]
    others = folded([row for row in rows if row.value["event"] not in _NOTES], _identity)
    nodes = [_node(identity, alike) for identity, alike in others.items()]
    if not nodes:
        for row in notes:
            yield Exclusion(place=row.place, reason="score-without-trace", detail=excerpt(row.value))
        return
    root = min(nodes, key=lambda node: (node.row.value["event"] != "$ai_trace", node.start, node.span))
    for alike in folded(notes, lambda event: identifier(event.get("uuid"))).values():
        note = _note(alike[0].value["event"], alike[0].value["properties"])
        root.attributes.setdefault("exp.annotations", []).append(note)
        root.merged = (*root.merged, *(row.place for row in alike))
    yield from spans(nodes)


def _identity(event: dict[str, Any]) -> str:
    return identifier(event.get("uuid")) or identifier(first(event["properties"], "$ai_span_id", "$ai_generation_id"))


def _node(identity: str, alike: Sequence[Row]) -> Node:
    event = alike[0].value
    held = event["properties"]
    kind = _SPANS.get(text(held.get("$ai_span_type")).lower(), _KINDS[event["event"]])
    end, start = _times(event, held)
    own = identifier(first(held, "$ai_span_id", "$ai_generation_id"))
    counts = {name.removeprefix("$ai_"): value for name, value in held.items()}
    root = event["event"] == "$ai_trace"
    return Node(
        row=Row(alike[0].trace, event, alike[0].place),
        span=alike[0].trace if root else own or identity,
        parent="" if root else identifier(first(held, "$ai_parent_id", "$ai_parent_span_id")),
        kind=kind,
        name=text(first(held, "$ai_span_name", "$ai_trace_name", "$ai_model")),
        given=first(held, "$ai_input", "$ai_input_state"),
        back=first(held, "$ai_output_choices", "$ai_output", "$ai_output_state"),
        start=start,
        end=end,
        error=_error(held),
        call=identifier(held.get("$ai_tool_call_id")),
        attributes=stated(
            gen_ai__request__model=text(held.get("$ai_model")),
            gen_ai__provider__name=text(held.get("$ai_provider")),
            gen_ai__conversation__id=identifier(
                first(held, "$ai_session_id", "$ai_conversation_id", "conversation_id")
            ),
            gen_ai__tool__definitions=chats.definitions(held.get("$ai_tools")),
            exp__task__id=identifier(first(held, "task_id", "$ai_task_id")),
            exp__cost__nano_usd=nano_usd(held.get("$ai_total_cost_usd")),
            **(usage(counts, opened(held.get("$ai_usage"))) if kind == CHAT else {}),
        ),
        merged=tuple(row.place for row in alike[1:]),
    )


def _times(event: dict[str, Any], held: dict[str, Any]) -> tuple[int, int]:
    """Return when an operation ended and began: an event is sent when it is over, and says how long it took."""
    end = nanoseconds(event.get("timestamp"))
    took = number(held.get("$ai_latency"))
    if not end or took is None or not 0 <= took < 10**6:
        return 0, end
    return end, end - int(took * _SECOND)


def _error(held: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    failed = held.get("$ai_is_error") in (True, "true", "True", 1)
    return (first(held, "$ai_error") or True) if failed else None


def _note(kind: str, held: dict[str, Any]) -> dict[str, str]:
    """Return what was measured or said of a trace: feedback is a person's, an evaluation a model's."""
    if kind == "$ai_metric":
        return annotation(held.get("$ai_metric_name"), held.get("$ai_metric_value"), "unknown")
    if kind == "$ai_feedback":
        return annotation("feedback", held.get("$ai_feedback_score"), "human", comment=held.get("$ai_feedback_text"))
    value = first(held, "$ai_evaluation_result", "$ai_evaluation_score")
    value = held.get("$ai_evaluation_result") if value is None else value
    comment = held.get("$ai_evaluation_reasoning")
    return annotation(held.get("$ai_evaluation_name") or "evaluation", value, "model", comment=comment)


SOURCE = Source("posthog", recognises, rows, read)
