"""Conversations as JSON: files for fine-tuning, lists of messages, and logs of requests with their responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.sources import Row, Source, chats
from projections.normal_form.sources.measures import annotation, nano_usd, nanoseconds, usage
from projections.normal_form.sources.nodes import (
    CHAT,
    Node,
    derived,
    excerpt,
    first,
    identifier,
    opened,
    spans,
    stated,
    text,
)
from projections.normal_form.spans import Span

_NAMES = ("trace_id", "conversation_id", "session_id", "thread_id", "chat_id")
_ASKED = ("messages", "input", "prompt", "contents")
_ANSWERED = ("choices", "output", "content", "candidates", "error")
_OTHERS = frozenset(
    {
        "run_type",
        "dotted_order",
        "root_span_id",
        "traceId",
        "trace",
        "event",
        "epoch",
        "spans",
        "resourceSpans",
        "span_id",
    }
)
_DERIVED = "chat-"  # what names begin with that only stand for how a conversation began
_SHARE = frozenset({"from", "value"})


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is a conversation, or a request with its response."""
    if isinstance(document, list):
        if document and all(map(_is_message, document[:10])):
            return "a list of messages, each with its role"
        return next((why for one in document[:10] if (why := recognises(one))), "")
    if not isinstance(document, dict) or _OTHERS & set(document):
        return ""
    if _is_exchange(document):
        return "a request with messages, and its response"
    if _is_conversation(document):
        return "an object with a list of messages, each with its role"
    if isinstance(document.get("prompt"), str) and isinstance(document.get("completion"), str):
        return "a prompt with its completion"
    return ""


def _is_message(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict):
        return False
    spoken = isinstance(value.get("role"), str) and bool(
        {"content", "tool_calls", "function_call", "parts"} & set(value)
    )
    return spoken or (set(value) >= _SHARE and isinstance(value.get("from"), str))


def _is_conversation(value: dict[str, Any]) -> bool:
    listed = _conversation(value)
    return bool(listed) and all(map(_is_message, listed[:10]))


def _conversation(value: dict[str, Any]) -> list[Any]:
    """Return the list of messages of an object, also where it stands under an input with the preferred answer."""
    for name in ("messages", "conversations", "conversation", "chat"):
        if isinstance(listed := chats.decoded(value.get(name)), list):
            return listed
    inner, answer = value.get("input"), value.get("preferred_output")
    if isinstance(inner, dict) and isinstance(inner.get("messages"), list) and isinstance(answer, list):
        return [*inner["messages"], *answer]
    return []


def _is_exchange(value: dict[str, Any]) -> bool:
    request = _body(value.get("request"))
    if "response" not in value and "error" not in value:
        return False
    return any(isinstance(request.get(name), list | str) for name in _ASKED)


def _body(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """Return a request or response, also one that is kept with its address and headers."""
    outer = opened(value)
    for name in ("body", "json", "data", "params"):
        inner = opened(outer.get(name))
        if any(key in inner for key in (*_ASKED, *_ANSWERED)):
            return inner
    return outer


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each conversation and each exchange."""
    if isinstance(document, list) and document and all(map(_is_message, document)):
        yield _row({"messages": document}, place)
    elif isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, item {index}")
    elif not isinstance(document, dict):
        yield Exclusion(place=place, reason="not-a-conversation", units=1, detail=excerpt(document))
    elif _is_exchange(document) or _is_conversation(document) or {"prompt", "completion"} <= set(document):
        yield _row(document, place)
    elif isinstance(listed := document.get("data"), list):
        yield from rows(listed, place)
    else:
        yield Exclusion(place=place, reason="not-a-conversation", units=1, detail=excerpt(document))


def _row(value: dict[str, Any], place: str) -> Row | Exclusion:
    """Return a row: by the id that it declares, else with those that began as it did."""
    said = _messages(value)
    if not said:
        return Exclusion(place=place, reason="conversation-without-messages", units=1, detail=excerpt(value))
    metadata = opened(value.get("metadata")) | opened(_body(value.get("request")).get("metadata"))
    name = identifier(first(value, *_NAMES) or first(metadata, *_NAMES))
    if not name and not _is_exchange(value):
        name = identifier(value.get("id"))
    if not name:
        name = _DERIVED + derived(_begun(said) if _is_exchange(value) else value)
    return Row(name, value, place)


def _begun(said: list[chats.Message]) -> list[chats.Message]:
    """Return how a conversation began, up to the first answer: all that continue it begin so."""
    answer = next((index for index, one in enumerate(said) if one["role"] == "assistant"), len(said))
    return [_kept(message) for message in said[: answer + 1]]


def _messages(value: dict[str, Any]) -> list[chats.Message]:
    """Return all that is said in a row: the request's messages, then the response's."""
    if _is_exchange(value):
        return [*_asked(value), *_answered(value)]
    if "completion" in value and "prompt" in value:
        return chats.conversation(value["prompt"], "user") + chats.conversation(value["completion"], "assistant")
    listed = _conversation(value)
    shared = [{"role": one["from"], "content": one["value"]} if set(one) >= _SHARE else one for one in _dicts(listed)]
    return chats.conversation({"messages": shared, "system": value.get("system")}, "user")


def _dicts(listed: Sequence[Any]) -> list[dict[str, Any]]:
    return [one for one in listed if isinstance(one, dict)]


def _asked(value: dict[str, Any]) -> list[chats.Message]:
    request = _body(value.get("request"))
    asked = next((request[name] for name in _ASKED if isinstance(request.get(name), list | str)), None)
    return (
        chats.conversation({"messages": asked} | _system(request), "user")
        if isinstance(asked, list)
        else [
            *chats.conversation({"messages": []} | _system(request), "user"),
            *chats.conversation(asked, "user"),
        ]
    )


def _system(request: dict[str, Any]) -> dict[str, Any]:
    names = ("system", "instructions", "systemInstruction", "system_instruction")
    return {name: request[name] for name in names if name in request}


def _answered(value: dict[str, Any]) -> list[chats.Message]:
    response = value.get("response")
    body = _body(response)
    if isinstance(chats.decoded(response), list):
        return _streamed(chats.decoded(response))
    return chats.conversation(body, "assistant") if any(body.get(name) for name in _ANSWERED[:4]) else []


def _streamed(chunks: list[Any]) -> list[chats.Message]:
    """Return the message that a stream's chunks make."""
    choices = [chunk.get("choices") for chunk in map(opened, chunks)]
    first_ones = [_dicts(one)[:1] for one in choices if isinstance(one, list)]
    made = chats.assembled(choice.get("delta") for one in first_ones for choice in one)
    return [] if made is None else chats.conversation(made, "assistant")


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield one span a row: a model's call, which was given all that was said before its answer.

    Exchanges of one conversation continue one another. One that went on otherwise, and doesn't say that it belongs
    there, is an exclusion: it was asked and answered alike only at first.
    """
    told = sorted(((_messages(row.value), row) for row in rows), key=lambda one: (-len(one[0]), derived(one[1].value)))
    longest = [_kept(message) for message in told[0][0]]
    nodes: list[Node] = []
    for said, row in told:
        if row.trace.startswith(_DERIVED) and [_kept(message) for message in said] != longest[: len(said)]:
            yield Exclusion(place=row.place, reason="conversation-continued-otherwise", detail=excerpt(row.value))
        else:
            nodes.append(_node(row, said))
    yield from spans(nodes)


def _kept(message: chats.Message) -> chats.Message:
    """Return a message as whoever continues the conversation repeats it: without what the model thought."""
    return {**message, "parts": [part for part in message["parts"] if part.get("type") != "reasoning"]}


def _node(row: Row, said: list[chats.Message]) -> Node:
    """Return a row's call, with what the row says beside the messages."""
    value = row.value
    request, response = _body(value.get("request")), _body(value.get("response"))
    metadata = opened(value.get("metadata"))
    chunks = chats.decoded(value.get("response"))
    counted = [opened(one).get("usage") for one in chunks] if isinstance(chunks, list) else [response.get("usage")]
    given, answer = chats.answered(said)
    return Node(
        row=row,
        span=derived(value),
        kind=CHAT,
        given=given,
        back=answer,
        start=nanoseconds(first(value, "timestamp", "created_at", "started_at") or response.get("created")),
        end=nanoseconds(first(value, "ended_at", "finished_at")),
        error=first(value, "error") or response.get("error"),
        position=len(said),
        attributes=stated(
            gen_ai__request__model=text(request.get("model") or value.get("model")),
            gen_ai__response__model=text(first(response, "model", "modelVersion")),
            gen_ai__tool__definitions=chats.definitions(
                first(request, "tools", "functions") or first(value, "tools", "functions")
            ),
            gen_ai__conversation__id=identifier(first(value, *_NAMES[1:]) or first(metadata, *_NAMES[1:])),
            exp__task__id=identifier(first(value, "task_id") or metadata.get("task_id")),
            exp__cost__nano_usd=nano_usd(first(value, "cost", "cost_usd") or response.get("cost")) or None,
            exp__annotations=[*_annotations(value)],
            **usage(*counted, value.get("usage"), response.get("usageMetadata")),
        ),
    )


def _annotations(value: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the scores of a row; who gave them isn't in it."""
    for name, score in sorted(opened(value.get("scores")).items()):
        if score is not None and not isinstance(score, dict | list):
            yield annotation(name, score, "unknown")
    for name in ("reward", "score", "rating"):
        if isinstance(value.get(name), int | float | str):
            yield annotation(name, value[name], "unknown")


SOURCE = Source("chat-json", recognises, rows, read)
