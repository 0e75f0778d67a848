"""Messages of generative models: the GenAI conventions' parts, and the forms in which providers take and give them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

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
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
    "tool_use": "assistant",
}
_OPENING = frozenset(("{", "[", '"'))
_ROLE_KINDS = frozenset(("human", "ai", "system", "tool"))
_IDENTITIES = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "toolUseId", "id")
_NAMES = ("name", "toolName", "tool_name")
_ARGUMENTS = ("arguments", "args", "input")
_GIVEN = ("response", "result", "output", "content")
_CALLS = frozenset(("tool_call", "tool_use", "function_call", "function", "tool-call", "server_tool_use"))
_RESULTS = frozenset(("tool_call_response", "tool_result", "function_call_output", "tool-result"))
_ITEMS = _CALLS | _RESULTS
_TEXTS = frozenset((None, "text", "input_text", "output_text", "refusal"))


_encode = msgspec.json.Encoder().encode


class Call(msgspec.Struct, frozen=True):
    """A tool call that a model made."""

    id: str
    name: str
    arguments: str


class Result(msgspec.Struct, frozen=True):
    """What a tool gave back; ``text`` is None when that isn't said, which isn't the same as nothing."""

    id: str
    text: str | None
    name: str = ""
    error: bool = False


class Message(msgspec.Struct):
    """A message: what is said in it, called in it, and given back in it."""

    role: str
    texts: list[str] = msgspec.field(default_factory=list)
    calls: list[Call] = msgspec.field(default_factory=list)
    results: list[Result] = msgspec.field(default_factory=list)

    @property
    def text(self) -> str:
        """All that is said."""
        texts = self.texts
        return texts[0] if len(texts) == 1 else "\n".join(filter(None, texts))


def inputs(span: Span) -> list[Message]:
    """Return what a model was given."""
    found = [message for value in _values(span, INPUT) for message in messages(value, "user")]
    if not found and span.events:
        for name, attributes in span.events:
            if name in _EVENT_ROLES:
                found += messages([{"role": _EVENT_ROLES[name], **_of_event(attributes)}], _EVENT_ROLES[name])
    return found


def outputs(span: Span) -> list[Message]:
    """Return what a model said."""
    found = [message for value in _values(span, OUTPUT) for message in messages(value, "assistant")]
    if not found and span.events:
        for name, attributes in span.events:
            if name == "gen_ai.choice":
                said = _of_event(attributes)
                inner = opened(said.get("message"))
                found += messages([{"role": "assistant", **(inner if isinstance(inner, dict) else said)}], "assistant")
    return found


def written(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a text as it is, nothing as nothing, and any other value as JSON."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) is dict and all([type(item) is str for item in value.values()]):  # noqa: C419 - faster than a generator
        try:
            return _encode(value).decode()  # the same text, sooner
        except UnicodeEncodeError:  # a lone surrogate
            pass
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def opened(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON object or list that a text holds, also when it holds it as a JSON text, or the value itself."""
    if type(value) is str and value.lstrip()[:1] in _OPENING:
        try:
            inner = parsed(value.encode())[0]
        except Unreadable:
            return value
        if isinstance(inner, str):
            further = opened(inner)
            return value if isinstance(further, str) else further
        return inner
    return value


def _values(span: Span, names: tuple[str, ...]) -> Iterator[Any]:
    """Yield the first of the attributes that is there, or what an event with the details holds of them."""
    details = [attributes for name, attributes in span.events if name == DETAILS] if span.events else []
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


def messages(value: Any, role: str) -> list[Message]:  # noqa: ANN401 - any JSON value
    """Return the messages in a value; what names no role is said by ``role``."""
    if type(value) is str and value.startswith("["):
        try:
            return [_in_parts(one) for one in _decode(value)]
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass  # in another form, or none of the conventions'
    value = opened(value)
    if isinstance(value, dict):
        value = _listed(value)
    if isinstance(value, str):
        return [Message(role=role, texts=[value])]
    listed = value if isinstance(value, list) else []
    if len(listed) == 1 and isinstance(listed[0], list):  # a batch of one
        listed = listed[0]
    return [_message(one, role) if isinstance(one, dict) else Message(role, [written(one)]) for one in listed]


class _Text(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    content: str


class _Called(msgspec.Struct, tag_field="type", tag="tool_call", forbid_unknown_fields=True):
    id: str
    name: str
    arguments: Any


class _Answered(msgspec.Struct, tag_field="type", tag="tool_call_response", forbid_unknown_fields=True):
    id: str
    response: str


class _InParts(msgspec.Struct, forbid_unknown_fields=True):
    """A message exactly as the conventions say, which is read in one go; whatever else there is, is looked through."""

    role: Literal["user", "assistant", "system"]
    parts: list[_Text | _Called | _Answered]
    finish_reason: str = ""


_decode = msgspec.json.Decoder(list[_InParts]).decode


def _in_parts(given: _InParts) -> Message:
    message = Message(given.role)
    for part in given.parts:
        if isinstance(part, _Text):
            message.texts.append(part.content)
        elif isinstance(part, _Called):
            message.calls.append(Call(part.id, part.name, written(part.arguments)))
        else:
            message.results.append(Result(part.id, part.response))
    return message


def _listed(value: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the list of messages in an object, or the object as a text."""
    if isinstance(inner := opened(value.get("messages")), list):
        return inner
    if _is_message(value):
        return [value]
    if isinstance(value.get("choices"), list):
        return [one["message"] for one in value["choices"] if isinstance(one, dict) and "message" in one]
    return written(value)


def _is_message(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    item = isinstance(kind, str) and kind in _ITEMS
    return item or "role" in value or "parts" in value or "kwargs" in value


def _message(value: dict[str, Any], role: str) -> Message:
    if isinstance(inner := value.get("message"), dict) and "role" not in value:
        value = inner
    if isinstance(inner := value.get("kwargs"), dict):  # what LangChain calls a constructor
        value = inner
    kind = value.get("type")
    named = value.get("role", kind if isinstance(kind, str) and kind in _ROLE_KINDS else None)
    named = named if isinstance(named, str) else role
    message = Message(role=_ROLES.get(named, named))
    if isinstance(kind, str) and kind in _ITEMS:  # an item of its own
        message.role = "assistant" if kind in _CALLS else "tool"
        _take_part(message, value)
        return message
    parts = value.get("parts")
    content = value.get("content") if parts is None else parts
    if isinstance(content, str) and content.lstrip()[:1] == "[":
        content = _parts_in(content)
    if message.role == "tool" and not _holds_results(content):
        message.results.append(_result(value, value.get("content") if parts is None else parts))
    elif isinstance(content, list):
        for part in content:
            _take_part(message, part)
    else:
        message.texts.append(written(content))
    calls = opened(value.get("tool_calls"))
    for call in calls if isinstance(calls, list) else ():
        _take_part(message, {**call, "type": "tool_call"} if isinstance(call, dict) else None)
    if isinstance(call := opened(value.get("function_call")), dict):
        _take_part(message, {**call, "type": "tool_call"})
    return message


def _parts_in(content: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the parts that a text holds as JSON; a text that merely is a JSON list stays a text."""
    inner = opened(content)
    typed = isinstance(inner, list) and inner and all(isinstance(one, dict) and "type" in one for one in inner)
    return inner if typed else content


def _kind(part: dict[str, Any]) -> str | None:
    kind = part.get("type", part.get("kind"))
    return kind if isinstance(kind, str) else None


def _holds_results(content: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(content, list) and any(
        isinstance(part, dict) and (_kind(part) in _RESULTS or _nested(part, _RESULT_MEMBERS) is not None)
        for part in content
    )


_CALL_MEMBERS = ("functionCall", "function_call", "toolUse")
_RESULT_MEMBERS = ("functionResponse", "function_response", "toolResult")


def _nested(part: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    return next((part[name] for name in names if isinstance(part.get(name), dict)), None)


def _take_part(message: Message, part: Any) -> None:  # noqa: ANN401 - any JSON value
    if isinstance(part, str):
        message.texts.append(part)
    if not isinstance(part, dict):
        return
    kind = _kind(part)
    if kind == "text":
        message.texts.append(written(part.get("content", part.get("text"))))
        return
    call = part if kind in _CALLS else _nested(part, _CALL_MEMBERS) if kind is None else None
    result = part if kind in _RESULTS else _nested(part, _RESULT_MEMBERS) if kind is None else None
    if call is not None:
        inner = call.get("function")
        named = inner if isinstance(inner, dict) else call
        message.calls.append(
            Call(id=_identity(call), name=written(_first(named, _NAMES)), arguments=written(_first(named, _ARGUMENTS)))
        )
    elif result is not None:
        message.results.append(_result(result, _first(result, _GIVEN)))
    elif kind in _TEXTS:
        message.texts.append(written(part.get("content", part.get("text"))))


def _result(value: dict[str, Any], given: Any) -> Result:  # noqa: ANN401 - any JSON value
    failed = value.get("is_error") is True or value.get("isError") is True or value.get("status") == "error"
    text = None if given is None else said(given)
    return Result(id=_identity(value), text=text, name=written(_first(value, _NAMES)), error=failed)


def said(given: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return what a tool gave back as a text: the texts of a list of text parts, or any other value as JSON."""
    if isinstance(given, list) and given and all(_is_text(part) for part in given):
        return "\n".join(written(part.get("text", part.get("content"))) for part in given)
    return written(given)


def _is_text(part: Any) -> bool:  # noqa: ANN401 - any JSON value
    return (
        isinstance(part, dict)
        and _kind(part) in (None, "text", "input_text", "output_text")
        and isinstance(part.get("text", part.get("content")), str)
        and len(part) <= 4  # noqa: PLR2004 - a part says little more than its text; an object of a tool does
    )


def _identity(part: dict[str, Any]) -> str:
    for name in _IDENTITIES:
        if value := part.get(name):
            return written(value)
    return ""


def _first(value: dict[str, Any], names: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
    for name in names:
        if (found := value.get(name)) is not None:
            return found
    return None
