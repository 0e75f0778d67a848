"""Messages in the forms of providers and frameworks, each to the parts that the conventions name.

OpenAI's chat and responses, Anthropic's blocks, Gemini's parts, LangChain's messages (as objects and as serialized
constructors) and the AI SDK's parts. What is said of a form here holds in whatever product's export it is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from projections.normal_form.lines import Unreadable, parsed
from projections.normal_form.messages import written

Message = dict[str, Any]
Part = dict[str, Any]

MOST_ENCODED = 3  # times that one value may be encoded in another's text
MOST_NESTED = 50  # levels in what a text encodes; deeper, it is a text
_ODD = re.compile(r"\\u[dD]|\d{19}")  # what may spell out a surrogate, or an integer beyond 64 bits
_ROLES = {
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "user": "user",
    "input": "user",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "systemmessage": "system",
    "developer": "system",
    "tool": "tool",
    "toolmessage": "tool",
    "toolmessagechunk": "tool",
    "gpt": "assistant",
    "observation": "tool",
    "function": "tool",
    "functionmessage": "tool",
}
_TYPES = frozenset(_ROLES) - {
    "function",
    "tool",
    "input",
    "gpt",
    "observation",
    "model",
}  # as a ``type``, what these name may be something else
_TEXTS = frozenset({"text", "input_text", "output_text"})
_THOUGHTS = frozenset({"thinking", "reasoning", "redacted_thinking", "thought"})
_CALLS = frozenset(
    {"tool_call", "tool_use", "function_call", "tool-call", "server_tool_use", "mcp_call", "mcp_tool_use"}
)
_RESULTS = frozenset(
    {"tool_call_response", "tool_result", "tool-result", "function_call_output", "mcp_tool_result", "tool-error"}
)
_BLOCKS = _TEXTS | _THOUGHTS | _CALLS | _RESULTS | {"image", "image_url", "input_image", "document", "file"}
_ITEMS = frozenset({"message", "function_call", "function_call_output", "mcp_call"})  # each a message by itself
_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "call_id", "id")
_GIVEN = ("arguments", "args", "input", "toolArgs")
_BACK = ("response", "result", "output", "content", "error")
_SAYS = ("input", "question", "query", "prompt", "text", "output", "answer", "result", "content", "message")
_PLAIN = (*_SAYS, "args")  # the arguments of a function: what it was given, and no message
_SYSTEM = ("system", "system_prompt", "instructions", "systemInstruction", "system_instruction")


def decoded(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that a text encodes, however often; a text that encodes no object, list or text is itself."""
    for _ in range(MOST_ENCODED):
        if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
            break
        try:
            inner = parsed(value.encode(errors="replace"))[0]
        except Unreadable:
            break
        odd = _ODD.search(value) or value.count("[") + value.count("{") > MOST_NESTED
        try:
            value = _clean(inner, 0) if odd else inner
        except Unreadable:
            break
    return value


def _clean(value: Any, depth: int) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value that a text spelled out as it would be had it stood there itself: it can be hashed and walked."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict | list) and depth == MOST_NESTED:
        raise Unreadable("nested-too-deeply")
    if isinstance(value, dict):
        return {_clean(name, depth): _clean(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner, depth + 1) for inner in value]
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def conversation(value: Any, role: str) -> list[Message]:  # noqa: ANN401 - any JSON value
    """Return the messages that a value holds, none when it has the form of none; a plain text is one of ``role``."""
    value = decoded(value)
    if isinstance(value, str):
        return [_said(role, [value])] if value else []
    if isinstance(value, list):
        return _listed(value, role)
    return _within(value, role) if isinstance(value, dict) else []


def spoken(value: Any, role: str) -> list[Message]:  # noqa: ANN401 - any JSON value
    """Return the messages that a value holds, or the value itself, as JSON, in one of ``role``."""
    found = conversation(value, role)
    if not found and value not in (None, "", [], {}):
        found = [_said(role, [written(plain(value))])]
    return found


def plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the one text in an object or list that holds nothing else, and any other value as it is."""
    value = decoded(value)
    if isinstance(value, dict):
        held = {name: inner for name, inner in value.items() if inner not in (None, "", [], {})}
        if len(held) == 1 and (name := next(iter(held))) in _PLAIN:
            inner = decoded(held[name])
            if isinstance(inner, list) and len(inner) == 1:
                inner = inner[0]
            return inner if isinstance(inner, str) else value
    return value


def result(value: Any) -> tuple[Any, str, bool]:  # noqa: ANN401 - any JSON value
    """Return what a tool gave back, the id of its call where it says so, and whether it calls itself an error.

    Texts in content blocks are the texts; a tool's message is what is in it.
    """
    opened = decoded(value)
    if isinstance(opened, dict):
        inner = _constructed(opened)
        failed = inner.get("isError") is True or inner.get("is_error") is True or inner.get("status") == "error"
        if isinstance(inner.get("content"), str) and (inner.get("type") == "tool" or "tool_call_id" in inner):
            return inner["content"], written(inner.get("tool_call_id")), failed
        blocks = _texts(inner.get("content"))
        if blocks is not None and set(inner) <= {"content", "isError", "is_error", "role", "type", "structuredContent"}:
            return blocks, "", failed
        return opened, "", failed
    blocks = _texts(opened)
    if blocks is not None:
        return blocks, "", False
    return opened if isinstance(opened, str) else value, "", False


def calls(messages: Iterable[Message]) -> list[Part]:
    """Return the calls in messages, in their order."""
    return [part for message in messages for part in message["parts"] if part.get("type") == "tool_call"]


def definitions(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
    """Return definitions of tools, each decoded."""
    value = decoded(value)
    if isinstance(value, dict):
        named = [(name, decoded(one)) for name, one in value.items()]
        return [{"name": name, **one} if isinstance(one, dict) else {"name": name} for name, one in named]
    return [one for one in map(decoded, value) if isinstance(one, dict)] if isinstance(value, list) else []


def assembled(deltas: Iterable[Any]) -> dict[str, Any] | None:
    """Return the message that the pieces of a stream make, None when they say nothing."""
    words: list[str] = []
    made: dict[str, dict[str, str]] = {}
    for delta in deltas:
        piece = {"content": delta} if isinstance(delta, str) else delta if isinstance(delta, dict) else {}
        said, listed = piece.get("content"), piece.get("tool_calls")
        words.append(said if isinstance(said, str) else "")
        for part in listed if isinstance(listed, list) else ():
            if isinstance(part, dict):
                _extend(made.setdefault(written(part.get("index")), {"id": "", "name": "", "arguments": ""}), part)
    if not any(words) and not made:
        return None
    return {"role": "assistant", "content": "".join(words), "tool_calls": list(made.values())}


def _extend(call: dict[str, str], piece: dict[str, Any]) -> None:
    """Add a piece to a call: its id comes once, its name and arguments in parts."""
    function = piece.get("function")
    named = function if isinstance(function, dict) else {}
    for name, value in (("id", piece.get("id")), ("name", named.get("name")), ("arguments", named.get("arguments"))):
        if isinstance(value, str) and (name != "id" or not call["id"]):
            call[name] += value


def answered(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return what a model was given, and its answer: the last message, where that is the assistant's."""
    if messages and messages[-1]["role"] == "assistant":
        return [*messages[:-1]], [messages[-1]]
    return [*messages], []


def _said(role: str, texts: Iterable[str]) -> Message:
    return {"role": role, "parts": [{"type": "text", "content": text} for text in texts]}


def _role(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return _ROLES.get(value.lower(), "") if isinstance(value, str) else ""


def _listed(values: list[Any], role: str) -> list[Message]:
    """Return the messages of a list of messages, of pairs of role and text, of blocks, of texts, or of such lists."""
    values = [decoded(value) for value in values]
    if all(isinstance(value, list) for value in values):
        return [message for value in values for message in (_pair(value) or _listed(value, role))]
    if values and all(isinstance(value, str) for value in values):
        return [_said(role, [value for value in values if value])]
    found: list[Message] = []
    loose: list[Part] = []
    for value in values:
        if isinstance(value, dict) and _is_block(value):
            loose += _parts(value)
            continue
        if loose:
            found.append({"role": role, "parts": loose})
            loose = []
        if isinstance(value, dict) and (message := _message(value, role)) is not None:
            found.append(message)
    return [*found, {"role": role, "parts": loose}] if loose else found


def _pair(value: list[Any]) -> list[Message]:
    """Return the message of a pair such as ``["human", "Hi"]``."""
    if len(value) == 2 and all(isinstance(one, str) for one in value) and _role(value[0]):  # noqa: PLR2004 - a pair
        return [_said(_role(value[0]), [value[1]])]
    return []


def _is_block(value: dict[str, Any]) -> bool:
    if "role" in value:
        return False
    return (
        _kind(value) in _BLOCKS - _ITEMS
        or "functionCall" in value
        or "functionResponse" in value
        or _is_function_call(value)
    )


def _within(value: dict[str, Any], role: str) -> list[Message]:  # noqa: PLR0911 - one way out a form
    """Return the messages of an object: a message, or whatever of a request or response holds them."""
    value = _constructed(value)
    if isinstance(listed := decoded(value.get("messages")), list):
        return [*_instructions(value), *_listed(listed, role)]
    if isinstance(choices := value.get("choices"), list) and choices:
        return _listed([_first_choice(choices)], role)
    if isinstance(generations := value.get("generations"), list):
        return _listed(_innermost(generations)[:1], role)
    if isinstance(candidates := value.get("candidates"), list):
        return _listed([one.get("content") for one in candidates if isinstance(one, dict)][:1], role)
    if isinstance(items := value.get("output"), list) and any(map(_is_item, items)):
        return _listed(items, role)
    if isinstance(items := value.get("input"), list) and _listed(items, role) and ("model" in value or len(value) == 1):
        return [*_instructions(value), *_listed(items, role)]
    if isinstance(prompt := value.get("prompt"), str | list) and _instructions(value):
        return [*_instructions(value), *conversation(prompt, "user")]
    message = _message(value, role)
    if message is None:
        text = None if "args" in value else plain(value)
        return [_said(role, [text])] if isinstance(text, str) and text else []
    return [message]


def _instructions(value: dict[str, Any]) -> list[Message]:
    texts = [_flat(value.get(name)) for name in _SYSTEM]
    return [_said("system", [text]) for text in texts if text]


def _flat(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a text, or the texts of blocks."""
    if isinstance(value, dict):
        value = value.get("parts", value.get("content"))
    return value if isinstance(value, str) else _texts(value) or ""


def _first_choice(choices: list[Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the choice that was used: the one of the lowest index."""
    named = [one for one in choices if isinstance(one, dict)]
    return min(named, key=lambda one: one["index"] if isinstance(one.get("index"), int) else 0, default=None)


def _innermost(values: list[Any]) -> list[Any]:
    while values and isinstance(values[0], list):
        values = values[0]
    return values


def _kind(value: dict[str, Any]) -> str:
    kind = value.get("type")
    return kind if isinstance(kind, str) else ""


def _is_item(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(value, dict) and (_kind(value) in _ITEMS or "role" in value)


def _constructed(value: dict[str, Any]) -> dict[str, Any]:
    """Return what a serialized constructor was called with, its class as its role; any other object is itself."""
    kwargs, names = value.get("kwargs"), value.get("id")
    if isinstance(kwargs, dict) and isinstance(names, list) and names and "lc" in value:
        role = _role(names[-1])
        return {**kwargs, "role": role} if role else kwargs
    data = value.get("data")
    if isinstance(data, dict) and "content" in data and _role(value.get("type")):
        return {**data, "role": _role(value["type"])}
    return value


def _message(value: dict[str, Any], role: str) -> Message | None:
    """Return a message in parts, None when it is none."""
    value = _constructed(value)
    inner = decoded(value.get("message"))
    if isinstance(inner, dict) and "content" not in value:
        return _message(inner, role)
    if _kind(value) in _ITEMS - {"message"} and "role" not in value:
        return {"role": _role_of_item(value, role), "parts": _parts(value)}
    kind = value.get("type")
    told = kind if isinstance(kind, str) and kind.lower() in _TYPES else None
    named = _role(value.get("role")) or _role(told) or ("tool" if "tool_call_id" in value else "")
    content = value.get("parts", value.get("content"))
    if not named and not _has_words(value, content):
        return None
    if named == "tool" and _is_definition(content):
        return {"role": "tool", "parts": []}
    parts = _content(value, content, named or role)
    return {"role": _heard(named or role, parts), "parts": parts + _calls_beside(value, parts)}


def _role_of_item(value: dict[str, Any], role: str) -> str:
    return "tool" if value["type"] == "function_call_output" else "assistant" if value["type"] != "message" else role


def _heard(role: str, parts: list[Part]) -> str:
    """Return the role, which is a tool's where a user's message only hands on what tools gave back."""
    handed = parts and all(part.get("type") == "tool_call_response" for part in parts)
    return "tool" if role == "user" and handed else role


def _has_words(value: dict[str, Any], content: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether an object without a role is a message: it has content, or a text beside calls."""
    if isinstance(content, list):
        return all(isinstance(one, str | dict) for one in content) and bool(content)
    if isinstance(content, str):
        return set(value) <= {"content", "type", "name", "id", "tool_calls", "additional_kwargs", "response_metadata"}
    return isinstance(value.get("text"), str) or isinstance(value.get("tool_calls", value.get("toolCalls")), list)


def _is_definition(content: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether what stands as a tool's message only defines a tool, as some writers put it among the messages."""
    content = decoded(content)
    return isinstance(content, dict) and content.get("type") == "function" and isinstance(content.get("function"), dict)


def _content(value: dict[str, Any], content: Any, role: str) -> list[Part]:  # noqa: ANN401 - any JSON value
    if content is None:
        content = value.get("text", value.get("refusal"))
    blocks = decoded(content) if isinstance(content, str) and content.lstrip()[:2] in ("[{", '"[') else content
    listed = isinstance(blocks, list) and all(isinstance(one, str | dict) for one in blocks)
    parts = [part for one in blocks for part in _parts(one)] if listed else []
    if role == "tool" and not any(part.get("type") == "tool_call_response" for part in parts):
        given = _texts(blocks) if listed else None
        return [_response(value, content if given is None else given)]
    if parts or content in (None, ""):
        return parts
    return [{"type": "text", "content": written(content)}]


def _calls_beside(value: dict[str, Any], parts: list[Part]) -> list[Part]:
    """Return the calls that stand beside a message's content and aren't in it."""
    known = {part.get("id") for part in parts if part.get("type") == "tool_call"}
    extra = value.get("additional_kwargs")
    for holder in (value, extra if isinstance(extra, dict) else {}):
        listed = decoded(holder.get("tool_calls", holder.get("toolCalls")))
        if isinstance(listed, list) and listed:
            made = [_call(call) for call in map(decoded, listed) if isinstance(call, dict)]
            return [call for call in made if not call["id"] or call["id"] not in known]
        legacy = decoded(holder.get("function_call"))
        if isinstance(legacy, dict):
            return [_call(legacy)]
    return []


def _parts(value: Any) -> list[Part]:  # noqa: ANN401 - any JSON value
    """Return the parts of one block."""
    if isinstance(value, str):
        return [{"type": "text", "content": value}] if value else []
    if not isinstance(value, dict):
        return []
    if isinstance(inner := value.get("functionCall", value.get("function_call")), dict):
        return [_call(inner)]
    if isinstance(inner := value.get("functionResponse", value.get("function_response")), dict):
        return [_response(inner, inner.get("response"))]
    kind = value.get("type")
    if _is_function_call(value):
        return [_call(value)]
    return _typed(value, kind) if isinstance(kind, str | None) else []


def _is_function_call(value: dict[str, Any]) -> bool:
    """Tell whether a block is a call, and no definition, of a function."""
    inner = value.get("function")
    return value.get("type") == "function" and isinstance(inner, dict) and "arguments" in inner


def _typed(value: dict[str, Any], kind: str | None) -> list[Part]:
    """Return the parts of a block that its type names; one of a type of its own is kept as it is."""
    if kind in _CALLS:
        return [_call(value)]
    if kind in _RESULTS:
        return [_response(value, next((value[name] for name in _BACK if value.get(name) is not None), None))]
    if kind in _THOUGHTS or value.get("thought") is True:
        thought = next((value[name] for name in ("thinking", "reasoning", "content", "text") if value.get(name)), "")
        return [{"type": "reasoning", "content": written(thought)}]
    if kind is None or kind in _TEXTS:
        text = value.get("text", value.get("content"))
        return [{"type": "text", "content": written(text)}] if text not in (None, "") else []
    return [value]


def _call(value: dict[str, Any]) -> Part:
    inner = value.get("function")
    named = inner if isinstance(inner, dict) else value
    name = inner if isinstance(inner, str) else named.get("name", named.get("toolName", named.get("tool_name")))
    given = next((named[key] for key in _GIVEN if named.get(key) is not None), None)
    return {"type": "tool_call", "id": _identity(value), "name": written(name), "arguments": given}


def _response(value: dict[str, Any], given: Any) -> Part:  # noqa: ANN401 - any JSON value
    if (
        isinstance(given, dict)
        and given.get("type") in ("text", "json", "error-text", "error-json")
        and "value" in given
    ):
        value = {**value, "is_error": str(given["type"]).startswith("error") or value.get("is_error")}
        given = given["value"]
    texts = _texts(given)
    part: Part = {"type": "tool_call_response", "id": _identity(value), "response": given if texts is None else texts}
    failed = value.get("error") not in (None, "", False) or value.get("status") == "error"
    if failed or value.get("is_error") is True or value.get("isError") is True or value.get("type") == "tool-error":
        part["is_error"] = True
        if given in (None, "") and isinstance(error := value.get("error"), str | dict):
            part["response"] = error.get("message", error) if isinstance(error, dict) else error
    return part


def _identity(value: dict[str, Any]) -> str:
    return next((written(value[name]) for name in _IDS if value.get(name) not in (None, "")), "")


def _texts(value: Any) -> str | None:  # noqa: ANN401 - any JSON value
    """Return the texts of a list that holds nothing but blocks of text; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    texts: list[str] = []
    for one in value:
        plain_block = isinstance(one, dict) and one.get("type") in (None, *_TEXTS)
        text = one.get("text", one.get("content")) if plain_block else one
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "\n".join(texts)
