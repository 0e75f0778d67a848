"""What the responses service refuses, in its words."""

from __future__ import annotations

from typing import Any

from commands.embedded.envelope import Rejected, wrong_type, wrong_value
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
    number,
    one_of,
    only_embeds,
    reasons,
    refuse_unknown,
    required,
    text,
    unavailable,
)
from commands.embedded.strict_chat import (
    refuse_choice,
    refuse_content,
    refuse_function,
    refuse_schema,
    unsupported,
)

_LEAST_REPLY = 16
_MOST_TOOLS = 128
_FORGETS = unavailable("it keeps nothing between requests")


def _background(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    boolean(value, name)
    if value:
        _FORGETS(value, name)


def _earlier(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    text(value, name)
    raise Rejected(f"Previous response with id '{value}' not found.", param=name, code="previous_response_not_found")


CHECKS: dict[str, Check] = {
    "background": _background,
    "conversation": _FORGETS,
    "include": listing,
    "input": anything,
    "instructions": text,
    "max_output_tokens": integer(_LEAST_REPLY, 2**31),
    "max_tool_calls": integer(1, 2**31),
    "metadata": labels,
    "model": text,
    "parallel_tool_calls": boolean,
    "previous_response_id": _earlier,
    "prompt": unavailable("it stores no prompts"),
    "prompt_cache_key": text,
    "prompt_cache_retention": one_of("in-memory", "24h"),
    "reasoning": mapping,
    "safety_identifier": text,
    "service_tier": one_of("auto", "default", "flex", "scale", "priority"),
    "store": boolean,
    "stream": boolean,
    "stream_options": mapping,
    "temperature": number(0, 2),
    "text": mapping,
    "tool_choice": anything,
    "tools": listing,
    "top_logprobs": unavailable("it computes no probabilities"),
    "top_p": number(0, 1),
    "truncation": one_of("auto", "disabled"),
    "user": text,
}

_ITEM_FIELDS: dict[str, dict[str, Check]] = {
    "message": {"type": text, "role": text, "content": anything, "id": text, "status": text, "phase": text},
    "function_call": {
        "type": text,
        "call_id": text,
        "name": text,
        "arguments": text,
        "id": text,
        "status": text,
    },
    "function_call_output": {"type": text, "call_id": text, "output": anything, "id": text, "status": text},
    "reasoning": {
        "type": text,
        "id": text,
        "summary": listing,
        "content": listing,
        "encrypted_content": text,
        "status": text,
    },
}
_ROLES = ("assistant", "system", "developer", "user")


def refuse(request: dict[str, Any]) -> None:
    """Raise Rejected for the first thing that the service would refuse."""
    required(request, "model")
    text(request["model"], "model")
    refuse_unknown(request, CHECKS)
    model: str = request["model"]
    if only_embeds(model):
        raise Rejected(f"The model '{model}' cannot be used with the Responses API.", param="model")
    if request.get("input") is None:
        raise Rejected(
            "One of 'input' or 'previous_response_id' or 'prompt' or 'conversation' must be provided.",
            param="input",
            code="missing_required_parameter",
        )
    _refuse_input(request["input"])
    _refuse_tools(request)
    _refuse_text(request.get("text") or {})
    _refuse_reasoning(request, model)
    if request.get("stream_options") is not None:
        if not request.get("stream"):
            raise Rejected(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
            )
        refuse_unknown(request["stream_options"], {"include_obfuscation": boolean}, "stream_options.")


def _refuse_reasoning(request: dict[str, Any], model: str) -> None:
    wanted = request.get("reasoning")
    if wanted is not None:
        checks: dict[str, Check] = {
            "effort": one_of(*EFFORTS),
            "summary": one_of("auto", "concise", "detailed"),
            "generate_summary": one_of("auto", "concise", "detailed"),
        }
        refuse_unknown(wanted, checks, "reasoning.")
        if is_classic(model) and wanted.get("effort") is not None:
            raise unsupported("reasoning.effort")
    if reasons(model):
        for name in ("temperature", "top_p"):
            if request.get(name) is not None and request[name] != 1:
                raise unsupported(name)


def _refuse_input(given: Any) -> None:  # noqa: ANN401 - any JSON
    if isinstance(given, str):
        return
    if not isinstance(given, list):
        raise wrong_type("input", "a string or an array of items", given)
    filled_list(given, "input", 2**31)
    called: dict[str, bool] = {}
    for index, item in enumerate(given):
        place = f"input[{index}]"
        mapping(item, place)
        kind = item.get("type") or "message"
        fields = _ITEM_FIELDS.get(kind) if isinstance(kind, str) else None
        if fields is None:
            raise wrong_value(place, kind, tuple(_ITEM_FIELDS))
        refuse_unknown(item, fields, f"{place}.")
        if kind == "message":
            _refuse_message(item, place)
        elif kind == "function_call":
            required(item, "call_id", "name", "arguments", place=f"{place}.")
            called[item["call_id"]] = False
        elif kind == "function_call_output":
            _refuse_output(item, place, called)
    unanswered = next((call_id for call_id, answered in called.items() if not answered), None)
    if unanswered is not None:
        raise Rejected(f"No tool output found for function call {unanswered}.", param="input")


def _refuse_message(item: dict[str, Any], place: str) -> None:
    required(item, "role", place=f"{place}.")
    one_of(*_ROLES)(item["role"], f"{place}.role")
    kinds = ("output_text", "refusal") if item["role"] == "assistant" else ("input_text",)
    refuse_content(item.get("content"), f"{place}.content", kinds)


def _refuse_output(item: dict[str, Any], place: str, called: dict[str, bool]) -> None:
    required(item, "call_id", "output", place=f"{place}.")
    if item["call_id"] not in called:
        raise Rejected(f"No tool call found for function call output with call_id {item['call_id']}.", param="input")
    refuse_content(item["output"], f"{place}.output", ("input_text",))
    called[item["call_id"]] = True


def _refuse_tools(request: dict[str, Any]) -> None:
    tools = request.get("tools") or []
    if len(tools) > _MOST_TOOLS:
        filled_list(tools, "tools", _MOST_TOOLS)
    names = []
    for index, tool in enumerate(tools):
        place = f"tools[{index}]"
        mapping(tool, place)
        required(tool, "type", place=f"{place}.")
        one_of("function")(tool["type"], f"{place}.type")
        names.append(refuse_function(tool, place))
    refuse_choice(request.get("tool_choice"), names, None)


def _refuse_text(wanted: dict[str, Any]) -> None:
    checks: dict[str, Check] = {"format": mapping, "verbosity": one_of("low", "medium", "high")}
    refuse_unknown(wanted, checks, "text.")
    given = wanted.get("format")
    if given is None:
        return
    required(given, "type", place="text.format.")
    one_of("text", "json_object", "json_schema")(given["type"], "text.format.type")
    if given["type"] == "json_schema":
        required(given, "name", "schema", place="text.format.")
        refuse_schema(given, "text.format", "text.format")
