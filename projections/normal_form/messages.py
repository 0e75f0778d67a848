"""Messages of generative models in spans: the GenAI conventions' parts, the older chat form, and span events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from projections.normal_form.lines import Unreadable, parsed
from projections.normal_form.spans import Span

INPUT = ("gen_ai.input.messages", "gen_ai.prompt")
OUTPUT = ("gen_ai.output.messages", "gen_ai.completion")
DETAILS = "gen_ai.client.inference.operation.details"
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


class Call(msgspec.Struct, frozen=True):
    """A tool call that a model made."""

    id: str
    name: str
    arguments: str


class Result(msgspec.Struct, frozen=True):
    """What a tool gave back."""

    id: str
    text: str


class Message(msgspec.Struct):
    """A message: what is said in it, called in it, and given back in it."""

    role: str
    texts: list[str] = msgspec.field(default_factory=list)
    calls: list[Call] = msgspec.field(default_factory=list)
    results: list[Result] = msgspec.field(default_factory=list)

    @property
    def text(self) -> str:
        """All that is said."""
        return "\n".join(filter(None, self.texts))


def inputs(span: Span) -> list[Message]:
    """Return what a model was given."""
    found = [message for value in _values(span, INPUT) for message in _messages(value, "user")]
    if not found:
        for name, attributes in span.events:
            if name in _EVENT_ROLES:
                found += _messages([{"role": _EVENT_ROLES[name], **_of_event(attributes)}], _EVENT_ROLES[name])
    return found


def outputs(span: Span) -> list[Message]:
    """Return what a model said."""
    found = [message for value in _values(span, OUTPUT) for message in _messages(value, "assistant")]
    if not found:
        for name, attributes in span.events:
            if name == "gen_ai.choice":
                said = _of_event(attributes)
                inner = opened(said.get("message"))
                found += _messages([{"role": "assistant", **(inner if isinstance(inner, dict) else said)}], "assistant")
    return found


def written(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a text as it is, nothing as nothing, and any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def opened(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON object or list that a text holds, and any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parsed(value.encode())[0]
        except Unreadable:
            return value
    return value


def _values(span: Span, names: tuple[str, ...]) -> Iterator[Any]:
    """Yield the first of the attributes that is there, or what an event with the details holds of them."""
    details = [attributes for name, attributes in span.events if name == DETAILS]
    for attributes in (span.attributes, *details):
        for name in names:
            if attributes.get(name) not in (None, ""):
                yield attributes[name]
                return


def _of_event(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the attributes of an event; some writers put it in ``gen_ai.event.content``."""
    inner = opened(attributes.get("gen_ai.event.content"))
    named = {name.removeprefix("gen_ai."): opened(value) for name, value in attributes.items()}
    return inner if isinstance(inner, dict) else named


def _messages(value: Any, role: str) -> list[Message]:  # noqa: ANN401 - any JSON value
    value = opened(value)
    if isinstance(value, dict):
        value = value.get("messages", [value]) if "role" in value or "messages" in value else written(value)
    if isinstance(value, str):
        return [Message(role=role, texts=[value])]
    listed = value if isinstance(value, list) else []
    return [_message(one, role) for one in listed if isinstance(one, dict)]


def _message(value: dict[str, Any], role: str) -> Message:
    named = value.get("role")
    message = Message(role=named if isinstance(named, str) else role)
    parts = value.get("parts")
    content = opened(value.get("content")) if parts is None else parts
    if message.role == "tool" and not isinstance(parts, list):
        identity = value.get("tool_call_id", value.get("id"))
        message.results.append(Result(id=written(identity), text=written(value.get("content"))))
    elif isinstance(content, list):
        for part in content:
            _take_part(message, part)
    else:
        message.texts.append(written(value.get("content")))
    calls = opened(value.get("tool_calls"))
    for call in calls if isinstance(calls, list) else ():
        _take_part(message, {**call, "type": "tool_call"} if isinstance(call, dict) else None)
    return message


def _take_part(message: Message, part: Any) -> None:  # noqa: ANN401 - any JSON value
    if isinstance(part, str):
        message.texts.append(part)
    if not isinstance(part, dict):
        return
    kind = part.get("type")
    if kind in ("tool_call", "tool_use", "function_call", "function"):
        inner = part.get("function")
        named = inner if isinstance(inner, dict) else part
        given = next((named[name] for name in ("arguments", "input") if named.get(name) is not None), None)
        message.calls.append(Call(id=_identity(part), name=written(named.get("name")), arguments=written(given)))
    elif kind in ("tool_call_response", "tool_result"):
        given = next((part[name] for name in ("response", "result", "content") if part.get(name) is not None), None)
        message.results.append(Result(id=_identity(part), text=written(given)))
    elif kind in (None, "text", "input_text", "output_text"):
        message.texts.append(written(part.get("content", part.get("text"))))


def _identity(part: dict[str, Any]) -> str:
    return written(
        next((part[name] for name in ("id", "tool_call_id", "tool_use_id", "call_id") if part.get(name)), None)
    )
