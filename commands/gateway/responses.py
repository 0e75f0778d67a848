"""Responses: a chat completion asked through OpenAI's /responses, and its reply or stream put back into chat's words.

What has no place in the other interface is refused by name; nothing is dropped in silence.
"""

from __future__ import annotations

from typing import Any

import msgspec

from commands.gateway import problems
from commands.gateway.frames import BrokenStream, without_lone_surrogates
from commands.gateway.requests import ChatRequest
from ledger.families.providers import Endpoint

_AS_THEY_ARE = frozenset(
    {
        "metadata",
        "user",
        "service_tier",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "store",
    }
)
_MAPPED = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "reasoning_effort",
        "response_format",
        "verbosity",
    }
)
_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "refusal"})
_LENGTH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def request_body(endpoint: Endpoint, request: ChatRequest) -> bytes:
    """Return the body for /responses; a Problem names what can't be said there."""
    plain = request.plain
    body: dict[str, Any] = {
        "model": endpoint.model.model,
        "input": [item for message in plain["messages"] for item in _items(message)],
        "store": False,
        "tools": [_tool(tool) for tool in plain["tools"]],
    }
    for name, value in plain.items():
        if name in _AS_THEY_ARE:
            body[name] = request.parts[name]
        elif name not in _MAPPED and value is not None and not (name == "n" and value == 1):
            raise _no_place(name)
    if plain.get("tool_choice") is not None:
        body["tool_choice"] = _tool_choice(plain["tool_choice"])
    if request.output_limit is not None:
        body["max_output_tokens"] = request.output_limit
    effort = request.chat.reasoning_effort or endpoint.capabilities.reasoning_effort
    if effort is not None:
        body["reasoning"] = {"effort": effort}
    if text := _text_options(plain):
        body["text"] = text
    if request.streamed:
        body["stream"] = True
    return msgspec.json.encode(body)


def _no_place(name: str) -> problems.Problem:
    return problems.Problem(
        400,
        f"{name} can't be passed on: this model reasons and is given tools, so it is asked through /responses, "
        f"which has no place for it. Leave {name} out, or ask another model",
        code="unsupported_parameter",
        param=name,
    )


def _text_options(plain: dict[str, Any]) -> dict[str, Any]:
    text: dict[str, Any] = {}
    shape = plain.get("response_format")
    if shape is not None:
        nested = shape.get("json_schema") or {}
        text["format"] = {"type": shape.get("type"), **nested}
    if plain.get("verbosity") is not None:
        text["verbosity"] = plain["verbosity"]
    return text


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    kind = tool.get("type")
    nested = tool.get(kind) if kind in {"function", "custom"} else None
    if not isinstance(nested, dict):
        raise _no_place("tools")
    return {"type": kind, "strict": False, **nested} if kind == "function" else {"type": kind, **nested}


def _tool_choice(choice: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(choice, str):
        return choice
    kind = choice.get("type") if isinstance(choice, dict) else None
    nested = choice.get(kind) if kind in {"function", "custom"} else None
    if not isinstance(nested, dict):
        raise _no_place("tool_choice")
    return {"type": kind, **nested}


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a chat message as input items."""
    for name, value in message.items():
        if name not in _MESSAGE_FIELDS and value is not None:
            raise _no_place(f"messages[].{name}")
    role, content = message["role"], message.get("content")
    if role == "tool":
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": _joined(content)}]
    items: list[dict[str, Any]] = []
    if content:
        items.append({"role": role, "content": content if isinstance(content, str) else _content(role, content)})
    if message.get("refusal"):
        items.append({"role": role, "content": [{"type": "refusal", "refusal": message["refusal"]}]})
    return items + [_call(call) for call in message.get("tool_calls") or ()]


def _joined(content: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""


def _content(role: str, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_part(role, part) for part in parts]


def _part(role: str, part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": part.get("text")}
    if kind == "refusal":
        return part
    if kind == "image_url" and isinstance(part.get("image_url"), dict):
        image = part["image_url"]
        detail = {"detail": image["detail"]} if image.get("detail") else {}
        return {"type": "input_image", "image_url": image.get("url"), **detail}
    if kind == "file" and isinstance(part.get("file"), dict):
        return {"type": "input_file", **part["file"]}
    raise _no_place(f"a message part of type {str(kind)[:40]}")


def _call(call: dict[str, Any]) -> dict[str, Any]:
    nested = call.get("function")
    if not isinstance(nested, dict):
        raise _no_place("messages[].tool_calls")
    return {
        "type": "function_call",
        "call_id": call.get("id"),
        "name": nested.get("name"),
        "arguments": nested.get("arguments"),
    }


class Details(msgspec.Struct):
    """Parts of the counts."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct):
    """Counts as /responses gives them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: Details | None = None
    output_tokens_details: Details | None = None

    def as_chat(self) -> dict[str, Any]:
        """Return the counts in chat's words."""
        read, written = self.input_tokens_details or Details(), self.output_tokens_details or Details()
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.total_tokens or self.input_tokens + self.output_tokens,
            "prompt_tokens_details": {"cached_tokens": read.cached_tokens or 0},
            "completion_tokens_details": {"reasoning_tokens": written.reasoning_tokens or 0},
        }


class Part(msgspec.Struct):
    """A part of an output message."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class Item(msgspec.Struct):
    """An output item."""

    type: str = ""
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    content: list[Part] | None = None


class Incomplete(msgspec.Struct):
    """Why a response is incomplete."""

    reason: str | None = None


class Body(msgspec.Struct):
    """A whole response."""

    id: str
    output: list[Item]
    created_at: float = 0
    model: str | None = None
    status: str | None = None
    usage: Usage | None = None
    incomplete_details: Incomplete | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None


_body = msgspec.json.Decoder(Body)


def chat_completion(raw: bytes) -> bytes:
    """Return a response as the chat completion that says the same; ValueError when the bytes are no response."""
    body = _body.decode(raw)
    if body.status in {"failed", "cancelled"}:
        raise ValueError(f"the response {body.status}")
    parts = [part for item in body.output if item.type == "message" for part in item.content or ()]
    text = "".join(part.text for part in parts if part.text) or None
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text,
        "refusal": "".join(part.refusal for part in parts if part.refusal) or None,
    }
    calls = [_chat_call(item) for item in body.output if item.type in {"function_call", "custom_tool_call"}]
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(body, calls=bool(calls))}
    whole: dict[str, Any] = {
        "id": body.id,
        "object": "chat.completion",
        "created": int(body.created_at),
        "model": body.model,
        "choices": [choice],
    }
    if body.usage is not None:
        whole["usage"] = body.usage.as_chat()
    whole |= {
        name: value for name in ("service_tier", "system_fingerprint") if (value := getattr(body, name)) is not None
    }
    return msgspec.json.encode(whole)


def _chat_call(item: Item) -> dict[str, Any]:
    if item.type == "custom_tool_call":
        return {"id": item.call_id, "type": "custom", "custom": {"name": item.name, "input": item.input}}
    return {"id": item.call_id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}}


def _finish(body: Body, *, calls: bool) -> str:
    if body.status == "incomplete":
        reason = body.incomplete_details.reason if body.incomplete_details else None
        return _LENGTH.get(reason or "", "length")
    return "tool_calls" if calls else "stop"


class StreamEvent(msgspec.Struct):
    """An event of a response's stream."""

    type: str = ""
    delta: str = ""
    output_index: int = 0
    item: Item | None = None
    response: msgspec.Raw = msgspec.Raw(b"")


class Head(msgspec.Struct):
    """What a stream says of its response at its start."""

    id: str
    created_at: float = 0
    model: str | None = None


_event = msgspec.json.Decoder(StreamEvent)
_head = msgspec.json.Decoder(Head)


class ResponsesStream:
    """Puts the events of a response's stream into chat's chunks."""

    def __init__(self, *, wants_usage: bool, fallback_id: str) -> None:
        self.id: str | None = None
        self.model: str | None = None
        self.usage: bytes | None = None
        self.ended = False
        self._wants_usage = wants_usage
        self._fallback_id = fallback_id
        self._created = 0
        self._calls: dict[int, int] = {}

    def take(self, name: bytes, data: bytes) -> bytes:
        """Return the frames that one event becomes; often none."""
        if self.ended or data.strip() == b"[DONE]":
            return b""
        try:
            event = _event.decode(data)
            return self._translated(event, data)
        except (ValueError, RecursionError) as error:
            if name == b"error":
                raise BrokenStream("upstream_error", "the provider reported an error", data) from error
            repaired = without_lone_surrogates(data)
            if repaired is not None and repaired != data:
                return self.take(name, repaired)
            raise BrokenStream("upstream_unreadable", "the provider sent an event that isn't JSON") from error

    def end(self) -> bytes:
        """Return the usage chunk, for a client that asked; BrokenStream when the response wasn't completed."""
        if not self.ended:
            raise BrokenStream("upstream_cut", "the provider's stream ended before its response was complete")
        if not self._wants_usage or self.usage is None:
            return b""
        return self._frame({"choices": [], "usage": msgspec.Raw(self.usage)})

    def _translated(self, event: StreamEvent, data: bytes) -> bytes:
        kind = event.type
        if kind in {"error", "response.failed"}:
            raise BrokenStream("upstream_error", "the provider reported an error", data)
        if self.id is None and bytes(event.response):
            return self._begin(event.response)
        if kind == "response.output_text.delta":
            return self._delta({"content": event.delta})
        if kind == "response.refusal.delta":
            return self._delta({"refusal": event.delta})
        if kind == "response.output_item.added" and event.item is not None:
            return self._call_begins(event.output_index, event.item)
        if kind in {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}:
            return self._call_goes_on(event.output_index, event.delta, custom="custom" in kind)
        if kind in {"response.completed", "response.incomplete"} and bytes(event.response):
            return self._finish(_body.decode(event.response))
        return b""

    def _begin(self, response: msgspec.Raw) -> bytes:
        head = _head.decode(response)
        self.id, self.model, self._created = head.id, head.model, int(head.created_at)
        return self._delta({"role": "assistant", "content": ""})

    def _call_begins(self, place: int, item: Item) -> bytes:
        if item.type not in {"function_call", "custom_tool_call"}:
            return b""
        self._calls[place] = len(self._calls)
        call = _chat_call(item)
        nested = {"name": item.name, "arguments": item.arguments or ""}
        if item.type == "custom_tool_call":
            nested = {"name": item.name, "input": item.input or ""}
        return self._delta({"tool_calls": [{"index": self._calls[place], **call, call["type"]: nested}]})

    def _call_goes_on(self, place: int, delta: str, *, custom: bool) -> bytes:
        if place not in self._calls:
            raise BrokenStream("upstream_unreadable", "the provider sent arguments of a call that it didn't begin")
        nested = {"custom": {"input": delta}} if custom else {"function": {"arguments": delta}}
        return self._delta({"tool_calls": [{"index": self._calls[place], **nested}]})

    def _finish(self, body: Body) -> bytes:
        self.ended = True
        if body.usage is not None:
            self.usage = msgspec.json.encode(body.usage.as_chat())
        return self._delta({}, _finish(body, calls=bool(self._calls)))

    def _delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._frame({"choices": [choice]})

    def _frame(self, rest: dict[str, Any]) -> bytes:
        identity = {
            "id": self.id or self._fallback_id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.model,
        }
        return b"data: " + msgspec.json.encode(identity | rest) + b"\n\n"
