"""Streams: a finished answer cut into the server-sent events that the services would have sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_PIECE = 24
DONE = b"data: [DONE]\n\n"
_UNGROWN: dict[str, dict[str, Any]] = {"message": {"content": []}, "function_call": {"arguments": ""}}
_encode = msgspec.json.Encoder().encode


def chat_frames(body: dict[str, Any], *, include_usage: bool = False) -> Iterator[bytes]:
    """Yield the frames of a chat completion; the last is ``[DONE]``.

    One id throughout; a call's id and name come once, its arguments in pieces, parallel calls interleaved.
    """
    base = {
        "id": body["id"],
        "object": "chat.completion.chunk",
        "created": body["created"],
        "model": body["model"],
        "service_tier": body["service_tier"],
        "system_fingerprint": body["system_fingerprint"],
    }
    usage = {"usage": None} if include_usage else {}
    for choice in body["choices"]:
        for delta in _deltas(choice["message"]):
            yield _frame({**base, "choices": [_part(choice, delta, None)], **usage})
        yield _frame({**base, "choices": [_part(choice, {}, choice["finish_reason"])], **usage})
    if include_usage:
        yield _frame({**base, "choices": [], "usage": body["usage"]})
    yield DONE


def response_frames(body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the frames of a response: created, each item as it grows, and the whole response as it ended."""
    for number, (kind, fields) in enumerate(_events(body)):
        event = {"type": kind, "sequence_number": number, **fields}
        yield b"event: " + kind.encode() + b"\n" + _frame(event)


def _part(choice: dict[str, Any], delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": choice["index"], "delta": delta, "logprobs": None, "finish_reason": reason}


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    calls = message.get("tool_calls") or []
    yield {"role": "assistant", "content": None if calls else "", "refusal": None}
    for piece in _pieces(message["content"] or ""):
        yield {"content": piece}
    for at, call in enumerate(calls):
        said = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": at, "id": call["id"], "type": "function", "function": said}]}
    rests = [_pieces(call["function"]["arguments"]) for call in calls]
    for turn in range(max(map(len, rests), default=0)):
        for at, pieces in enumerate(rests):
            if turn < len(pieces):
                yield {"tool_calls": [{"index": at, "function": {"arguments": pieces[turn]}}]}


def _events(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for at, item in enumerate(body["output"]):
        yield from _item_events(at, item)
    ended = "response.incomplete" if body["status"] == "incomplete" else "response.completed"
    yield ended, {"response": body}


def _item_events(at: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = item["type"]
    growing = {"status": "in_progress"} if "status" in item else {}
    empty = _UNGROWN.get(kind, {})
    yield "response.output_item.added", {"output_index": at, "item": {**item, **growing, **empty}}
    place = {"item_id": item["id"], "output_index": at}
    if kind == "message":
        part = item["content"][0]
        inside = {**place, "content_index": 0}
        yield "response.content_part.added", {**inside, "part": {**part, "text": ""}}
        for piece in _pieces(part["text"]):
            yield "response.output_text.delta", {**inside, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**inside, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**inside, "part": part}
    elif kind == "function_call":
        for piece in _pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**place, "delta": piece}
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", {**place, **done}
    yield "response.output_item.done", {"output_index": at, "item": item}


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _frame(event: dict[str, Any]) -> bytes:
    return b"data: " + _encode(event) + b"\n\n"
