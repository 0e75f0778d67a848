"""Langfuse: traces with observations, as the interface downloads them, as the API pages them, and as tables of rows."""

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

_KINDS = {
    "GENERATION": CHAT,
    "TOOL": TOOL,
    "AGENT": AGENT,
    "SPAN": OTHER,
    "EVENT": OTHER,
    "CHAIN": OTHER,
    "RETRIEVER": OTHER,
    "EVALUATOR": OTHER,
    "EMBEDDING": OTHER,
    "GUARDRAIL": OTHER,
}
_ORIGINS = {"ANNOTATION": "human", "EVAL": "model", "API": "code"}
_PARENT = ("parentObservationId", "parent_observation_id")
_TRACE = ("traceId", "trace_id")
_OF_TRACES = (
    "sessionId",
    "session_id",
    "bookmarked",
    "release",
    "observations",
    "scores",
    "htmlPath",
    "public",
    "tags",
)
_BATCHED = {
    "trace-create": "trace",
    "score-create": "score",
    "observation-create": "",
    "observation-update": "",
    "span-create": "SPAN",
    "span-update": "SPAN",
    "generation-create": "GENERATION",
    "generation-update": "GENERATION",
    "event-create": "EVENT",
}


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is Langfuse's."""
    if isinstance(document, list):
        return next((why for one in document[:10] if (why := recognises(one))), "")
    if not isinstance(document, dict):
        return ""
    trace = opened(document.get("trace"))
    if trace.get("id") is not None and isinstance(document.get("observations"), list):
        return "an object with a trace and its list of observations"
    if isinstance(document.get("data"), list):
        return next(("a page of " + why for one in document["data"][:10] if (why := recognises(one))), "")
    if isinstance(document.get("batch"), list):
        kinds = {text(one.get("type")) for one in objects(document["batch"])}
        return "a batch of ingestion events" if kinds & set(_BATCHED) else ""
    return {"trace": "a trace's row", "observation": "an observation's row", "score": "a score's row"}.get(
        _kind(document), ""
    )


def _kind(row: dict[str, Any]) -> str:
    """Return which of the tables a row is of."""
    if "id" in row and text(row.get("type")) in _KINDS and first(row, *_TRACE) is not None:
        return "observation"
    scored = "dataType" in row or "data_type" in row or text(row.get("source")) in _ORIGINS
    if "value" in row and "name" in row and scored and any(name in row for name in _TRACE):
        return "score"
    if row.get("id") is not None and "timestamp" in row and not any(name in row for name in (*_TRACE, "event", "role")):
        return "trace" if sum(name in row for name in _OF_TRACES) > 1 else ""
    return ""


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each trace, observation and score."""
    if isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, item {index}")
    elif not isinstance(document, dict):
        yield Exclusion(place=place, reason="not-an-observation", units=1, detail=excerpt(document))
    elif isinstance(document.get("data"), list):
        for index, one in enumerate(document["data"], 1):
            yield from rows(one, f"{place}, row {index}")
    elif isinstance(document.get("batch"), list):
        for index, one in enumerate(document["batch"], 1):
            yield _of_batch(one, f"{place}, event {index}")
    elif isinstance(document.get("observations"), list) and (trace := opened(document.get("trace"))):
        yield from _whole({**trace, "observations": document["observations"]}, place)
    elif objects(document.get("observations")) and _kind(document) == "trace":  # a list of ids only refers to rows
        yield from _whole(document, place)
    else:
        yield _row(document, place)


def _whole(trace: dict[str, Any], place: str) -> Iterator[Row | Exclusion]:
    """Yield the rows of a trace that holds its observations; the trace itself is one of them."""
    name = identifier(trace.get("id")) or derived(trace)
    yield Row(name, {**trace, "observations": None, "is": "trace"}, f"{place}, trace")
    for index, one in enumerate(objects(trace["observations"]), 1):
        if isinstance(first(one, "type"), str) or "id" in one:
            yield Row(name, {**one, "is": "observation"}, f"{place}, observation {index}")
        else:
            yield Exclusion(
                place=f"{place}, observation {index}", reason="not-an-observation", units=1, detail=excerpt(one)
            )
    listed = chats.decoded(trace["observations"])
    for index, one in enumerate(listed if isinstance(listed, list) else (), 1):
        if not isinstance(chats.decoded(one), dict):
            where = f"{place}, observation {index} of the list"
            yield Exclusion(place=where, reason="not-an-observation", units=1, detail=excerpt(one))


def _of_batch(event: Any, place: str) -> Row | Exclusion:  # noqa: ANN401 - any JSON value
    """Return the row of an ingestion event."""
    outer = opened(event)
    body, kind = opened(outer.get("body")), text(outer.get("type"))
    if kind not in _BATCHED or not body:
        return Exclusion(place=place, reason="not-an-observation", units=1, detail=excerpt(event))
    if _BATCHED[kind] in ("trace", "score"):
        body = {**body, "is": _BATCHED[kind]}
    else:
        body = {"type": _BATCHED[kind], **body, "is": "observation"}
    return _row(body, place)


def _row(row: dict[str, Any], place: str) -> Row | Exclusion:
    kind = text(row.get("is")) or _kind(row)
    name = identifier(row.get("id")) if kind == "trace" else identifier(first(row, *_TRACE))
    if not kind:
        return Exclusion(place=place, reason="not-an-observation", units=1, detail=excerpt(row))
    if not name:
        return Exclusion(place=place, reason="row-without-trace", units=1, detail=excerpt(row))
    return Row(name, {**row, "is": kind}, place)


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield the spans of one trace: its own row, with what was said of it, and one an observation."""
    nodes: list[Node] = []
    scores: list[tuple[Row, dict[str, Any]]] = []
    for row in rows:
        if row.value.get("is") == "score":
            scores.append((row, row.value))
        elif row.value.get("is") == "trace":
            scores += [(row, one) for one in objects(row.value.get("scores"))]
    kept = [row for row in rows if row.value.get("is") != "score"]
    for identity, alike in folded([row for row in kept if row.value["is"] == "observation"], _identity).items():
        nodes.append(_observation(identity, alike))
    nodes += [
        _trace(alike) for alike in folded([row for row in kept if row.value["is"] == "trace"], _identity).values()
    ]
    if not nodes:
        for row in rows:
            yield Exclusion(place=row.place, reason="score-without-trace", detail=excerpt(row.value))
        return
    _annotate(nodes, scores)
    yield from spans(nodes)


def _identity(row: dict[str, Any]) -> str:
    return identifier(row.get("id"))


def _merged(alike: Sequence[Row]) -> dict[str, Any]:
    """Return the row that rows of one id make together: later updates say more, and never less."""
    merged: dict[str, Any] = {}
    for row in sorted(alike, key=lambda row: text(first(row.value, "updatedAt", "updated_at"))):
        merged |= {name: value for name, value in row.value.items() if value not in (None, "", {}, [])}
    return merged


def _trace(alike: Sequence[Row]) -> Node:
    row = _merged(alike)
    return Node(
        row=Row(alike[0].trace, row, alike[0].place),
        span=f"trace:{alike[0].trace}",
        kind=OTHER,
        name=text(row.get("name")),
        given=row.get("input"),
        back=row.get("output"),
        start=nanoseconds(row.get("timestamp")),
        attributes=stated(
            gen_ai__conversation__id=identifier(first(row, "sessionId", "session_id")),
            langfuse__trace__name=text(row.get("name")),
            langfuse__environment=text(row.get("environment")),
            langfuse__release=text(row.get("release")),
        ),
        merged=tuple(one.place for one in alike[1:]),
    )


def _observation(identity: str, alike: Sequence[Row]) -> Node:
    row = _merged(alike)
    level = text(row.get("level"))
    metadata = opened(row.get("metadata"))
    declared = opened(metadata.get("attributes"))
    kind = _KINDS.get(text(row.get("type")), OTHER)
    inner = chats.decoded(row.get("output"))
    if kind == OTHER and isinstance(inner, dict) and inner.get("type") == "tool" and "tool_call_id" in inner:
        kind = TOOL  # a tool's own message, however its observation is called
    tokens = usage(opened(first(row, "usageDetails", "usage_details")), opened(row.get("usage")), row)
    return Node(
        row=Row(alike[0].trace, row, alike[0].place),
        span=identity,
        parent=identifier(first(row, *_PARENT)),
        kind=kind,
        name=text(row.get("name")),
        given=row.get("input"),
        back=_said(row),
        start=nanoseconds(first(row, "startTime", "start_time")),
        end=nanoseconds(first(row, "endTime", "end_time")),
        error=(text(first(row, "statusMessage", "status_message")) or level) if level == "ERROR" else None,
        call=identifier(first(declared, "gen_ai.tool.call.id", "toolCallId", "tool_call_id")),
        tool=text(declared.get("gen_ai.tool.name")) if kind == TOOL else "",
        attributes=stated(
            gen_ai__request__model=text(first(row, "model", "providedModelName", "provided_model_name")),
            gen_ai__provider__name=text(first(declared, "gen_ai.provider.name", "gen_ai.system")),
            gen_ai__conversation__id=identifier(first(row, "sessionId", "session_id")),
            exp__cost__nano_usd=nano_usd(_cost(row)) or None,
            gen_ai__tool__definitions=chats.definitions(first(row, "toolDefinitions", "tool_definitions")),
            **tokens,
        ),
        merged=tuple(one.place for one in alike[1:]),
    )


def _said(row: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return an observation's output; calls that stand only in a column of their own are added to it."""
    back, listed = row.get("output"), objects(first(row, "toolCalls", "tool_calls"))
    if not listed or chats.calls(chats.conversation(back, "assistant")):
        return back
    names = chats.decoded(first(row, "toolCallNames", "tool_call_names"))
    for index, call in enumerate(listed):
        if "name" not in call and isinstance(names, list) and index < len(names):
            listed[index] = {**call, "name": names[index]}
    words = chats.plain(back)
    return {"role": "assistant", "content": words if isinstance(words, str) else None, "tool_calls": listed}


def _cost(row: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    details = opened(first(row, "costDetails", "cost_details"))
    return first(row, "totalCost", "total_cost", "calculatedTotalCost") or details.get("total")


def _annotate(nodes: list[Node], scores: list[tuple[Row, dict[str, Any]]]) -> None:
    """Give each score to the observation it is about, or to the trace; a score given twice is one."""
    by_span = {node.span: node for node in nodes}
    whole = next((node for node in nodes if node.span.startswith("trace:")), min(nodes, key=lambda node: node.span))
    for row, score in sorted(scores, key=lambda one: (excerpt(one[1].get("id")), one[0].place)):
        about = by_span.get(identifier(first(score, "observationId", "observation_id")), whole)
        value = first(score, "stringValue", "string_value", "longStringValue")
        noted = annotation(
            score.get("name"),
            score.get("value") if score.get("value") is not None else value,
            _ORIGINS.get(text(score.get("source")), "unknown"),
            label=value,
            comment=score.get("comment"),
        )
        held = about.attributes.setdefault("exp.annotations", [])
        if noted not in held:
            held.append(noted)
        if score is row.value and row.place not in about.merged and row.place != about.row.place:
            about.merged = (*about.merged, row.place)


SOURCE = Source("langfuse", recognises, rows, read)
