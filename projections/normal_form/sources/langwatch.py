"""LangWatch: bodies for its collector, traces as it downloads them, spans of command-line agents, and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.sources import Row, Source, chats, otlp
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

_KINDS = {"llm": CHAT, "tool": TOOL, "agent": AGENT, "function": TOOL}
_OPERATIONS = {"chat": CHAT, "llm_call": CHAT, "text_completion": CHAT, "generate_content": CHAT, "execute_tool": TOOL}
_ENVELOPES = ("resourceSpans", "resource_spans")
_TYPED = frozenset({"text", "raw", "chat_messages", "json", "list", "guardrail_result", "evaluation_result"})
_GIVEN = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages", "ai.prompt", "ai.toolCall.args")
_BACK = ("gen_ai.output.messages", "gen_ai.completion", "ai.toolCall.result")
_CONVERSATION = (
    "gen_ai.conversation.id",
    "session.id",
    "ai.telemetry.metadata.sessionId",
    "thread.id",
    "langwatch.thread.id",
)


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is LangWatch's."""
    if isinstance(document, list):
        return next((why for one in document[:10] if (why := recognises(one))), "")
    if not isinstance(document, dict):
        return ""
    if "spanName" in document and "scopeName" in document and isinstance(document.get("attributes"), dict):
        return "a span by scope and name, with plain attributes"
    if _is_trace(document):
        return "a trace with spans that have LangWatch's types and timestamps"
    if any(map(_is_trace, _traces(document)[:10])):
        return "a page of traces with spans that have LangWatch's types and timestamps"
    return ""


def _traces(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the traces of a page, those in groups included."""
    found = objects(document.get("traces")) + objects(document.get("data"))
    groups = document.get("groups")
    for group in groups if isinstance(groups, list) else ():
        found += objects(group)
    return found


def _is_trace(value: dict[str, Any]) -> bool:
    listed = objects(value.get("spans"))
    if "trace_id" not in value and not any("trace_id" in one for one in listed):
        return False
    typed = any("span_id" in one and ("timestamps" in one or _is_typed(one.get("input"))) for one in listed)
    return typed or ("trace_id" in value and _is_typed(value.get("input")) and "timestamps" in value)


def _is_typed(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return (
        isinstance(value, dict) and "value" in value and (text(value.get("type")) in _TYPED or set(value) <= {"value"})
    )


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each trace and span."""
    if isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, item {index}")
    elif not isinstance(document, dict):
        yield Exclusion(place=place, reason="not-a-span", units=1, detail=excerpt(document))
    elif any(isinstance(document.get(name), list) for name in _ENVELOPES):
        yield from otlp.SOURCE.rows(document, place)
    elif isinstance(document.get("spans"), list) or ("trace_id" in document and "span_id" not in document):
        yield from _of_trace(document, place)
    elif "spanName" in document or "span_id" in document or "spanId" in document:
        yield _of_span(document, "", place)
    elif any(isinstance(document.get(name), list) for name in ("traces", "groups", "data")):
        for name in ("traces", "groups", "data"):
            if isinstance(listed := document.get(name), list):
                yield from rows(listed, f"{place}, {name}")
    else:
        yield Exclusion(place=place, reason="not-a-span", units=1, detail=excerpt(document))


def _of_trace(trace: dict[str, Any], place: str) -> Iterator[Row | Exclusion]:
    """Yield the row of a trace, and those of its spans."""
    listed = trace.get("spans")
    spans_in = listed if isinstance(listed, list) else []
    named = [one.get("trace_id") for one in spans_in if isinstance(one, dict)]
    name = identifier(trace.get("trace_id")) or next(filter(None, map(identifier, named)), "") or derived(trace)
    own = {key: value for key, value in trace.items() if key != "spans"}
    yield Row(name, {**own, "is": "trace"}, f"{place}, trace")
    for index, one in enumerate(spans_in, 1):
        where = f"{place}, span {index}"
        if isinstance(one, dict):
            yield _of_span(one, name, where)
        else:
            yield Exclusion(place=where, reason="not-a-span", units=1, detail=excerpt(one))


def _of_span(span: dict[str, Any], trace: str, place: str) -> Row:
    """Return the row of a span. One that names no trace is a trace by itself."""
    name = identifier(first(span, "trace_id", "traceId")) or trace or f"span-{derived(span)}"
    return Row(name, {**span, "is": "span"}, place)


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield the spans of one trace; evaluations and annotations of it are with its own row."""
    own = [row for row in rows if row.value.get("is") in ("trace", "span")]
    if len(own) < len(rows):
        yield from otlp.SOURCE.spans([row for row in rows if row.value.get("is") not in ("trace", "span")])
    nodes = []
    for identity, alike in folded([row for row in own if row.value["is"] == "span"], _identity).items():
        span = _merged(alike)
        nodes.append((_of_agent if isinstance(span.get("attributes"), dict) else _node)(identity, span, alike))
    whole = folded([row for row in own if row.value["is"] == "trace"], lambda _: "trace")
    nodes += [_whole(_merged(alike), alike) for alike in whole.values()]
    yield from spans(nodes)


def _identity(span: dict[str, Any]) -> str:
    return identifier(first(span, "span_id", "spanId", "id"))


def _merged(alike: Sequence[Row]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for row in alike:
        merged |= {name: value for name, value in row.value.items() if value not in (None, "", {}, [])}
    return merged


def _value(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return what an input or output holds, beside the type that it states."""
    value = chats.decoded(value)
    if _is_typed(value):
        inner = value["value"]
        return [_value(one) for one in inner] if value.get("type") == "list" and isinstance(inner, list) else inner
    if isinstance(value, list) and value and all(map(_is_typed, value)):
        return _value(value[0]) if len(value) == 1 else [_value(one) for one in value]
    return value


def _whole(trace: dict[str, Any], alike: Sequence[Row]) -> Node:
    metadata, times = opened(trace.get("metadata")), opened(trace.get("timestamps"))
    return Node(
        row=Row(alike[0].trace, trace, alike[0].place),
        span=f"trace:{alike[0].trace}",
        kind=OTHER,
        name="trace",
        given=_value(trace.get("input")),
        back=_value(trace.get("output")),
        start=nanoseconds(times.get("started_at")),
        error=_error(trace.get("error")),
        attributes=stated(
            gen_ai__conversation__id=identifier(first(metadata, "thread_id", "threadId")),
            exp__annotations=[*_evaluations(trace)],
            langwatch__expected=text(first(opened(trace.get("expected_output")), "value")),
        ),
        merged=tuple(row.place for row in alike[1:]),
    )


def _node(identity: str, span: dict[str, Any], alike: Sequence[Row]) -> Node:
    times, metrics, params = opened(span.get("timestamps")), opened(span.get("metrics")), opened(span.get("params"))
    kind = _KINDS.get(text(span.get("type")), OTHER)
    return Node(
        row=Row(alike[0].trace, span, alike[0].place),
        span=identity,
        parent=identifier(first(span, "parent_id", "parentId")),
        kind=kind,
        name=text(span.get("name")),
        given=_value(span.get("input")),
        back=_value(first(span, "output", "outputs")),
        start=nanoseconds(first(times, "started_at", "startedAt")),
        end=nanoseconds(first(times, "finished_at", "finishedAt", "ended_at")),
        error=_error(span.get("error")),
        call=identifier(first(params, "tool_call_id", "gen_ai.tool.call.id")),
        attributes=stated(
            gen_ai__request__model=text(span.get("model")),
            gen_ai__provider__name=text(span.get("vendor")),
            gen_ai__tool__definitions=chats.definitions(first(params, "tools", "functions")),
            exp__cost__nano_usd=nano_usd(metrics.get("cost")),
            exp__annotations=[*_evaluations(span)],
            **(usage(metrics) if kind == CHAT else {}),
        ),
        merged=tuple(row.place for row in alike[1:]),
    )


def _of_agent(identity: str, span: dict[str, Any], alike: Sequence[Row]) -> Node:
    """Return a span with attributes: the conventions' names, or those of the SDK that a command-line agent uses."""
    held = {name: otlp.plain(value) for name, value in span["attributes"].items()}
    operation = text(held.get("gen_ai.operation.name"))
    spoken = "ai.response.text" in held or "ai.response.toolCalls" in held or any(name in held for name in _GIVEN[:4])
    tokens = {name.rsplit(".", 1)[-1]: value for name, value in held.items() if "usage" in name}
    asked = spoken or (bool(usage(held | tokens)) and "model" in held)
    kind = _OPERATIONS.get(operation, TOOL if "ai.toolCall.name" in held else CHAT if asked else OTHER)
    back = first(held, *_BACK)
    if back is None and spoken:
        words = first(held, "ai.response.text")
        back = {"role": "assistant", "content": words, "tool_calls": chats.decoded(held.get("ai.response.toolCalls"))}
    provider = text(first(held, "gen_ai.provider.name", "gen_ai.system", "ai.model.provider"))
    return Node(
        row=Row(alike[0].trace, span, alike[0].place),
        span=identity,
        parent=identifier(first(span, "parentSpanId", "parent_id")),
        kind=kind,
        name=text(first(span, "spanName", "name")),
        given=first(held, *_GIVEN),
        back=back,
        start=nanoseconds(first(span, "startTime", "startTimeUnixMs", "started_at")),
        end=nanoseconds(first(span, "endTime", "endTimeUnixMs", "finished_at")),
        error=first(held, "error.type", "exception.message"),
        tool=text(first(held, "gen_ai.tool.name", "ai.toolCall.name")) if kind == TOOL else "",
        call=identifier(first(held, "gen_ai.tool.call.id", "ai.toolCall.id")),
        attributes=stated(
            gen_ai__request__model=text(first(held, "gen_ai.request.model", "ai.model.id", "model")),
            gen_ai__response__model=text(first(held, "gen_ai.response.model", "ai.response.model")),
            gen_ai__provider__name=provider,
            gen_ai__conversation__id=identifier(first(held, *_CONVERSATION)),
            gen_ai__system_instructions=_instructions(held.get("gen_ai.system_instructions")),
            gen_ai__tool__definitions=chats.definitions(
                _list(first(held, "gen_ai.tool.definitions", "ai.prompt.tools"))
            ),
            **(usage(held | tokens) if kind == CHAT else {}),
        ),
        merged=tuple(row.place for row in alike[1:]),
    )


def _list(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a list that is written as OpenTelemetry writes arrays, and any other value as it is."""
    if isinstance(value, dict) and isinstance(value.get("values"), list):
        return [otlp.plain(one) for one in value["values"]]
    return value


def _instructions(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    return [part for message in chats.conversation(value, "system") for part in message["parts"]]


def _error(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    error = chats.decoded(value)
    return None if isinstance(error, dict) and error.get("has_error") is False else error


def _evaluations(value: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what evaluators and people said."""
    for one in objects(value.get("evaluations")):
        status = text(one.get("status"))
        if status and status != "processed":
            continue  # an evaluation that was skipped or failed says nothing of the trace
        judged = one.get("score") if one.get("score") is not None else one.get("passed")
        name = first(one, "name", "evaluator_id", "evaluation_id")
        yield annotation(name, judged, "model", label=one.get("label"), comment=one.get("details"))
    for one in objects(value.get("annotations")):
        thumbs = one.get("isThumbsUp", one.get("is_thumbs_up"))
        yield annotation(
            "thumbs-up" if thumbs is not None else "annotation", thumbs, "human", comment=one.get("comment")
        )
        for name, option in sorted(opened(first(one, "scoreOptions", "score_options")).items()):
            chosen = option.get("value") if isinstance(option, dict) else option
            yield annotation(name, chosen, "human", comment=option.get("reason") if isinstance(option, dict) else None)


SOURCE = Source("langwatch", recognises, rows, read)
