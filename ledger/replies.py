"""Replies: a provider's bytes, read into the same fields whichever interface they came through."""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from typing import Any

import msgspec

from ledger.families.providers import Endpoint
from ledger.prompt import Reply, ToolCall, Usage

_SURROGATES = re.compile("[\ud800-\udfff]")
_FLOAT_BYTES = 4


class UnreadableReply(Exception):
    """The bytes aren't a reply of this interface; the reason is recorded with them."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_reply(api: str, raw: bytes) -> Reply:
    """Return the reply that the bytes hold; UnreadableReply says why they hold none."""
    body = _object(raw)
    if isinstance(body.get("error"), (dict, str)):
        raise UnreadableReply("an error instead of a reply")
    return _read_responses(body) if api == "responses" else _read_chat(body)


def read_vectors(raw: bytes, count: int) -> tuple[list[bytes], str | None, Usage]:
    """Return the vectors in order (bytes of little-endian float32), the served model, and the usage."""
    body = _object(raw)
    data = body.get("data")
    if not isinstance(data, list) or len(data) != count:
        raise UnreadableReply(f"not {count} vectors")
    vectors: dict[int, bytes] = {}
    for place, item in enumerate(data):
        index = item.get("index", place) if isinstance(item, dict) else None
        if not isinstance(index, int) or not 0 <= index < count or index in vectors:
            raise UnreadableReply("vectors without their places")
        vectors[index] = _vector(item.get("embedding"))
    return [vectors[index] for index in range(count)], _text(body.get("model")), read_usage(body.get("usage"))


def served_as_pinned(endpoint: Endpoint, served: str | None) -> bool:
    """Tell whether the model that answered is the one that was configured; an answer without a name isn't."""
    model, pinned = endpoint.model.model, endpoint.model.served_model_id
    if served is None:
        return False
    if pinned is not None:
        return served == pinned
    if served == model:
        return True
    dated = re.fullmatch(re.escape(model) + r"-\d{4}-\d{2}-\d{2}", served)
    return endpoint.connection.provider == "openai" and dated is not None


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = _decoded_leniently(raw)
    except RecursionError as error:
        raise UnreadableReply("nested too deeply") from error
    if not isinstance(body, dict):
        raise UnreadableReply("not a JSON object")
    return body


def _decoded_leniently(raw: bytes) -> object:
    """Decode what the strict reader refuses for its text only: lone surrogates become U+FFFD."""
    try:
        return json.loads(_SURROGATES.sub("\ufffd", json.dumps(json.loads(raw), ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        raise UnreadableReply("not JSON") from error


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _first_count(*values: object) -> int | None:
    return next((count for count in map(_count, values) if count is not None), None)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_usage(value: object) -> Usage:
    """Return the counts that a reply or the end of a stream reports."""
    usage = _mapping(value)
    read = _mapping(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    written = _mapping(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    return Usage(
        input_tokens=_first_count(usage.get("prompt_tokens"), usage.get("input_tokens")),
        output_tokens=_first_count(usage.get("completion_tokens"), usage.get("output_tokens")),
        cached_input_tokens=_first_count(read.get("cached_tokens"), usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=_first_count(read.get("cache_write_tokens"), usage.get("cache_creation_input_tokens")),
        reasoning_tokens=_first_count(written.get("reasoning_tokens")),
    )


def _content(value: object) -> str | None:
    """Return a message's text, which may come in parts."""
    if not isinstance(value, list):
        return _text(value)
    parts = [_text(part.get("text")) for part in _objects(value)]
    return "".join(part for part in parts if part is not None)


def _call(position: int, call_id: object, name: object, arguments: object) -> ToolCall:
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode({} if arguments is None else arguments).decode()
    return ToolCall(call_id=_text(call_id) or f"call_{position}", name=_text(name) or "", arguments=arguments)


def _read_chat(body: dict[str, Any]) -> Reply:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise UnreadableReply("no choice")
    choice = _mapping(choices[0])
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnreadableReply("a choice without a message")
    calls = _objects(message.get("tool_calls"))
    return Reply(
        text=_content(message.get("content")) or _text(message.get("refusal")),
        tool_calls=tuple(
            _call(position, call.get("id"), function.get("name"), function.get("arguments"))
            for position, call in enumerate(calls)
            for function in (_mapping(call.get("function")),)
        ),
        finish_reason=_text(choice.get("finish_reason")),
        served_model=_text(body.get("model")),
        usage=read_usage(body.get("usage")),
        system_fingerprint=_text(body.get("system_fingerprint")),
    )


def _read_responses(body: dict[str, Any]) -> Reply:
    output = body.get("output")
    if not isinstance(output, list):
        raise UnreadableReply("no output")
    texts: list[str] = []
    calls: list[ToolCall] = []
    for item in output:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "function_call":
            calls.append(_call(len(calls), item.get("call_id"), item.get("name"), item.get("arguments")))
        elif kind == "message":
            parts = _objects(item.get("content"))
            texts += [text for part in parts if (text := _text(part.get("text")) or _text(part.get("refusal")))]
    return Reply(
        text="".join(texts) if texts else None,
        tool_calls=tuple(calls),
        finish_reason=_finish(body, calls=bool(calls)),
        served_model=_text(body.get("model")),
        usage=read_usage(body.get("usage")),
        system_fingerprint=_text(body.get("system_fingerprint")),
    )


def _finish(body: dict[str, Any], *, calls: bool) -> str | None:
    """Return the finish reason in the words of chat completions."""
    status = body.get("status")
    if status == "incomplete":
        reason = _text(_mapping(body.get("incomplete_details")).get("reason"))
        return "length" if reason == "max_output_tokens" else reason
    if status == "completed" or status is None:
        return "tool_calls" if calls else "stop"
    return _text(status)


def _vector(value: object) -> bytes:
    if isinstance(value, str):
        try:
            packed = base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise UnreadableReply("a vector that isn't base64") from error
        if not packed or len(packed) % _FLOAT_BYTES:
            raise UnreadableReply("a vector of broken floats")
        return packed
    if isinstance(value, list) and value and all(type(number) in {int, float} for number in value):
        try:
            return struct.pack(f"<{len(value)}f", *value)
        except (OverflowError, struct.error) as error:
            raise UnreadableReply("a vector beyond float32") from error
    raise UnreadableReply("no vector")
