"""What the chat completions service refuses, in its words."""

from __future__ import annotations

import re
from typing import Any

from commands.embedded import schemas
from commands.embedded.envelope import Rejected, missing, wrong_type, wrong_value
from commands.embedded.parameters import (
    EFFORTS,
    Check,
    anything,
    boolean,
    filled_list,
    integer,
    is_classic,
    labels,
    listing,
    mapping,
    named,
    number,
    one_of,
    only_embeds,
    reasons,
    refuse_unknown,
    required,
    seed,
    text,
    unavailable,
)

_MOST_TOOLS = 128
_MOST_STOPS = 4
_LONGEST_REPLY_REASONING, _LONGEST_REPLY_CLASSIC = 128_000, 32_768
_NO_LOGPROBS = unavailable("it computes no probabilities")
_NO_SOUND = unavailable("it reads and writes text only")
_LEGACY = unavailable("functions are offered as 'tools'")


def _stop(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return
    filled_list(value, name, _MOST_STOPS)
    for index, entry in enumerate(value):
        text(entry, f"{name}[{index}]")


def _modalities(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    listing(value, name)
    if value != ["text"]:
        _NO_SOUND(value, name)


def _log_probabilities(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    boolean(value, name)
    if value:
        _NO_LOGPROBS(value, name)


CHECKS: dict[str, Check] = {
    "audio": _NO_SOUND,
    "frequency_penalty": number(-2, 2),
    "function_call": _LEGACY,
    "functions": _LEGACY,
    "logit_bias": mapping,
    "logprobs": _log_probabilities,
    "max_completion_tokens": integer(1, 2**31),
    "max_tokens": integer(1, 2**31),
    "messages": listing,
    "metadata": labels,
    "modalities": _modalities,
    "model": text,
    "n": integer(1, 128),
    "parallel_tool_calls": boolean,
    "prediction": mapping,
    "presence_penalty": number(-2, 2),
    "prompt_cache_key": text,
    "prompt_cache_retention": one_of("in-memory", "24h"),
    "reasoning_effort": one_of(*EFFORTS),
    "response_format": mapping,
    "safety_identifier": text,
    "seed": seed,
    "service_tier": one_of("auto", "default", "flex", "scale", "priority"),
    "stop": _stop,
    "store": boolean,
    "stream": boolean,
    "stream_options": mapping,
    "temperature": number(0, 2),
    "tool_choice": anything,
    "tools": anything,
    "top_logprobs": _NO_LOGPROBS,
    "top_p": number(0, 1),
    "user": text,
    "verbosity": one_of("low", "medium", "high"),
    "web_search_options": unavailable("it searches nothing"),
}

_MESSAGE_FIELDS: dict[str, dict[str, Check]] = {
    "system": {"role": text, "content": anything, "name": text},
    "developer": {"role": text, "content": anything, "name": text},
    "user": {"role": text, "content": anything, "name": text},
    "assistant": {
        "role": text,
        "content": anything,
        "name": text,
        "refusal": text,
        "tool_calls": anything,
        "annotations": listing,
        "audio": _NO_SOUND,
        "function_call": _LEGACY,
    },
    "tool": {"role": text, "content": anything, "tool_call_id": text},
}
_MENTIONS_JSON = re.compile("json", re.IGNORECASE)


def refuse(request: dict[str, Any]) -> None:
    """Raise Rejected for the first thing that the service would refuse."""
    required(request, "model")
    text(request["model"], "model")
    refuse_unknown(request, CHECKS)
    required(request, "messages")
    model: str = request["model"]
    if only_embeds(model):
        raise Rejected(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
            param="model",
            status=404,
        )
    _refuse_messages(request["messages"])
    _refuse_tools(request)
    _refuse_format(request)
    _refuse_limits(request, model)
    if reasons(model):
        _refuse_for_reasoning(request, model)
    elif is_classic(model):
        _refuse_for_classic(request)
    if request.get("stream_options") is not None:
        _refuse_stream_options(request)


def _refuse_limits(request: dict[str, Any], model: str) -> None:
    if request.get("max_tokens") is not None and request.get("max_completion_tokens") is not None:
        raise Rejected(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            param="max_tokens",
            code="invalid_parameter_combination",
        )
    longest = _LONGEST_REPLY_REASONING if reasons(model) else _LONGEST_REPLY_CLASSIC if is_classic(model) else None
    for name in ("max_tokens", "max_completion_tokens"):
        asked = request.get(name)
        if asked is not None and longest is not None and asked > longest:
            raise Rejected(
                f"{name} is too large: {asked}. This model supports at most {longest} completion tokens, "
                f"whereas you provided {asked}.",
                param=name,
                code="invalid_value",
            )


def unsupported(name: str, instead: str = "") -> Rejected:
    """Say that a model doesn't take a parameter at all."""
    hint = f" Use '{instead}' instead." if instead else ""
    return Rejected(
        f"Unsupported parameter: '{name}' is not supported with this model.{hint}",
        param=name,
        code="unsupported_parameter",
    )


def _refuse_for_reasoning(request: dict[str, Any], model: str) -> None:
    if request.get("max_tokens") is not None:
        raise unsupported("max_tokens", "max_completion_tokens")
    for name in ("temperature", "top_p"):
        value = request.get(name)
        if value is not None and value != 1:
            raise Rejected(
                f"Unsupported value: '{name}' does not support {value} with this model. "
                "Only the default (1) value is supported.",
                param=name,
                code="unsupported_value",
            )
    for name in ("presence_penalty", "frequency_penalty"):
        if request.get(name):
            raise unsupported(name)
    for name in ("logit_bias", "stop"):
        if request.get(name) is not None:
            raise unsupported(name)
    effort = request.get("reasoning_effort")
    if request.get("tools") and effort not in {None, "none"}:
        raise Rejected(
            f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            param="reasoning_effort",
        )


def _refuse_for_classic(request: dict[str, Any]) -> None:
    if request.get("reasoning_effort") is not None:
        raise Rejected("Unrecognized request argument supplied: reasoning_effort", param=None)
    if request.get("verbosity") not in {None, "medium"}:
        raise Rejected(
            f"Unsupported value: 'verbosity' does not support '{request['verbosity']}' with this model. "
            "Supported values are: 'medium'.",
            param="verbosity",
            code="unsupported_value",
        )


def _refuse_stream_options(request: dict[str, Any]) -> None:
    if not request.get("stream"):
        raise Rejected(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    checks: dict[str, Check] = {"include_usage": boolean, "include_obfuscation": boolean}
    refuse_unknown(request["stream_options"], checks, "stream_options.")


def _refuse_messages(messages: list[Any]) -> None:
    if not messages:
        raise Rejected(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            param="messages",
            code="empty_array",
        )
    owed: dict[str, None] = {}
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        mapping(message, place)
        role = message.get("role")
        if role is None:
            raise missing(f"{place}.role")
        fields = _MESSAGE_FIELDS.get(role) if isinstance(role, str) else None
        if fields is None:
            raise wrong_value(f"{place}.role", role, tuple(_MESSAGE_FIELDS))
        refuse_unknown(message, fields, f"{place}.")
        if role == "tool":
            _refuse_tool_message(message, place, owed)
            continue
        _refuse_unanswered(owed, index)
        if role == "assistant":
            owed = _refuse_assistant(message, place)
        else:
            refuse_content(message.get("content"), f"{place}.content", ("text",))
    _refuse_unanswered(owed, len(messages))


def _refuse_tool_message(message: dict[str, Any], place: str, owed: dict[str, None]) -> None:
    call_id = message.get("tool_call_id")
    if call_id is None:
        raise missing(f"{place}.tool_call_id")
    refuse_content(message.get("content"), f"{place}.content", ("text",))
    if call_id not in owed:
        raise Rejected(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
            "with 'tool_calls'.",
            param=f"{place}.role",
        )
    del owed[call_id]


def _refuse_unanswered(owed: dict[str, None], index: int) -> None:
    if owed:
        raise Rejected(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(owed)}",
            param=f"messages.[{index}].role",
        )


def _refuse_assistant(message: dict[str, Any], place: str) -> dict[str, None]:
    """Check an assistant's message and return the ids of calls that want an answer."""
    calls = message.get("tool_calls")
    if message.get("content") is not None:
        refuse_content(message["content"], f"{place}.content", ("text", "refusal"))
    elif calls is None and message.get("refusal") is None:
        raise Rejected(f"Invalid value for '{place}.content': expected a string, got null.", param=f"{place}.content")
    if calls is None:
        return {}
    filled_list(calls, f"{place}.tool_calls", _MOST_TOOLS)
    for index, call in enumerate(calls):
        _refuse_call(call, f"{place}.tool_calls[{index}]")
    return dict.fromkeys(call["id"] for call in calls)


def _refuse_call(call: Any, place: str) -> None:  # noqa: ANN401 - any JSON
    mapping(call, place)
    refuse_unknown(call, {"id": text, "type": one_of("function"), "function": mapping}, f"{place}.")
    required(call, "id", "type", "function", place=f"{place}.")
    refuse_unknown(call["function"], {"name": named, "arguments": text}, f"{place}.function.")
    required(call["function"], "name", "arguments", place=f"{place}.function.")


def refuse_content(content: Any, place: str, kinds: tuple[str, ...]) -> None:  # noqa: ANN401 - any JSON
    """Check the content of a message: text, or parts of the given kinds."""
    if isinstance(content, str):
        return
    if content is None:
        raise Rejected(f"Invalid value for '{place}': expected a string, got null.", param=place)
    if not isinstance(content, list):
        raise wrong_type(place, "a string or an array of objects", content)
    filled_list(content, place, 2**31)
    for index, part in enumerate(content):
        where = f"{place}[{index}]"
        mapping(part, where)
        kind = part.get("type")
        if kind is None:
            raise missing(f"{where}.type")
        if kind not in kinds:
            raise wrong_value(f"{where}.type", kind, kinds)
        held = "refusal" if kind == "refusal" else "text"
        if part.get(held) is None:
            raise missing(f"{where}.{held}")
        text(part[held], f"{where}.{held}")


def _refuse_tools(request: dict[str, Any]) -> None:
    tools = request.get("tools")
    if tools is None:
        for name in ("tool_choice", "parallel_tool_calls"):
            if request.get(name) is not None and request[name] != "none":
                raise Rejected(
                    f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.", param=name
                )
        return
    filled_list(tools, "tools", _MOST_TOOLS)
    names = []
    for index, tool in enumerate(tools):
        place = f"tools[{index}]"
        mapping(tool, place)
        required(tool, "type", place=f"{place}.")
        refuse_unknown(tool, {"type": one_of("function"), "function": mapping}, f"{place}.")
        required(tool, "function", place=f"{place}.")
        names.append(refuse_function(tool["function"], f"{place}.function"))
    refuse_choice(request.get("tool_choice"), names, "function")


def refuse_function(function: dict[str, Any], place: str) -> str:
    """Check the definition of a function and return its name."""
    checks: dict[str, Check] = {
        "name": named,
        "description": text,
        "parameters": mapping,
        "strict": boolean,
        "type": text,
    }
    refuse_unknown(function, checks, f"{place}.")
    required(function, "name", place=f"{place}.")
    name: str = function["name"]

    def complain(fault: str) -> Rejected:
        return Rejected(
            f"Invalid schema for function '{name}': {fault}",
            param=f"{place}.parameters",
            code="invalid_function_parameters",
        )

    parameters = function.get("parameters")
    if function.get("strict"):
        schemas.refuse_unstrict(parameters or {}, complain)
    elif parameters is not None:
        schemas.refuse_unusable(parameters, complain)
    return name


def refuse_choice(choice: Any, names: list[str], inside: str | None) -> None:  # noqa: ANN401 - any JSON
    """Check tool_choice; ``inside`` is where its object holds the name."""
    if choice is None:
        return
    if isinstance(choice, str):
        one_of("none", "auto", "required")(choice, "tool_choice")
        return
    mapping(choice, "tool_choice")
    required(choice, "type", *((inside,) if inside else ("name",)), place="tool_choice.")
    one_of("function")(choice["type"], "tool_choice.type")
    held = choice[inside] if inside else choice
    mapping(held, f"tool_choice.{inside}")
    if held.get("name") not in names:
        raise Rejected(
            f"Tool choice 'function' '{held.get('name')}' not found in 'tools' parameter.", param="tool_choice"
        )


def _refuse_format(request: dict[str, Any]) -> None:
    wanted = request.get("response_format")
    if wanted is None:
        return
    required(wanted, "type", place="response_format.")
    one_of("text", "json_object", "json_schema")(wanted["type"], "response_format.type")
    refuse_unknown(wanted, {"type": text, "json_schema": mapping}, "response_format.")
    if wanted["type"] == "json_schema":
        required(wanted, "json_schema", place="response_format.")
        refuse_schema(wanted["json_schema"], "response_format.json_schema", "response_format")
    elif wanted["type"] == "json_object" and not _MENTIONS_JSON.search(str(request["messages"])):
        raise Rejected(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            param="messages",
        )


def refuse_schema(wanted: dict[str, Any], place: str, named_for: str) -> None:
    """Check a structured output: its name, and its schema as strictly as it says."""
    checks: dict[str, Check] = {
        "type": text,
        "name": named,
        "description": text,
        "schema": mapping,
        "strict": boolean,
    }
    if named_for == "response_format":
        del checks["type"]
    refuse_unknown(wanted, checks, f"{place}.")
    required(wanted, "name", place=f"{place}.")
    if not wanted.get("strict"):
        return
    required(wanted, "schema", place=f"{place}.")

    def complain(fault: str) -> Rejected:
        return Rejected(
            f"Invalid schema for {named_for} '{wanted['name']}': {fault}",
            param=named_for,
            code="invalid_json_schema",
        )

    schemas.refuse_unstrict(wanted["schema"], complain)
