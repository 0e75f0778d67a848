"""Traceloop: ``gen_ai.prompt.N.*``, ``gen_ai.completion.N.*``, ``llm.request.*`` and ``traceloop.entity.*``."""

from __future__ import annotations

from typing import Any

from projections.normal_form.dialects import indexed
from projections.normal_form.messages import messages, opened

MARKS = (
    "traceloop.",
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "llm.request.",
    "llm.usage.",
    "llm.prompts.",
    "llm.completions.",
)
_OPERATIONS = {
    "tool": "execute_tool",
    "agent": "invoke_agent",
    "workflow": "invoke_workflow",
    "task": "invoke_workflow",
}
_NAMES = {
    "gen_ai.usage.prompt_tokens": "gen_ai.usage.input_tokens",
    "gen_ai.usage.completion_tokens": "gen_ai.usage.output_tokens",
    "llm.usage.prompt_tokens": "gen_ai.usage.input_tokens",
    "llm.usage.completion_tokens": "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "llm.request.model": "gen_ai.request.model",
    "llm.response.model": "gen_ai.response.model",
    "llm.vendor": "gen_ai.provider.name",
    "traceloop.association.properties.session_id": "gen_ai.conversation.id",
    "traceloop.association.properties.conversation_id": "gen_ai.conversation.id",
    "traceloop.association.properties.thread_id": "gen_ai.conversation.id",
}
_SPOKEN = ("llm.", "traceloop.entity.", "traceloop.span.")


def translated(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes in the names of the GenAI conventions."""
    kind = attributes.get("traceloop.span.kind")
    indexed.moved(attributes, _NAMES)
    for name, prefixes in (
        ("gen_ai.input.messages", ("gen_ai.prompt.", "llm.prompts.")),
        ("gen_ai.output.messages", ("gen_ai.completion.", "llm.completions.")),
    ):
        for prefix in prefixes:
            if found := indexed.objects(indexed.taken(attributes, prefix)):
                attributes.setdefault(name, [_message(one) for one in found])
    if functions := indexed.objects(indexed.taken(attributes, "llm.request.functions.")):
        attributes.setdefault("gen_ai.tool.definitions", functions)
    if isinstance(attributes.get("llm.request.type"), str) and kind is None:
        attributes.setdefault("gen_ai.operation.name", "chat")
    if isinstance(kind, str) and kind in _OPERATIONS:
        attributes.setdefault("gen_ai.operation.name", _OPERATIONS[kind])
        _entity(attributes, kind)
    return {name: value for name, value in attributes.items() if not name.startswith(_SPOKEN)}


def _message(value: dict[str, Any]) -> dict[str, Any]:
    if isinstance(value.get("tool_calls"), dict):
        value = {**value, "tool_calls": [value["tool_calls"]]}
    return {name: item for name, item in value.items() if name != "finish_reason"}


def _entity(attributes: dict[str, Any], kind: str) -> None:
    """Say what a function that is watched was given and gave back."""
    given = _inner(attributes.get("traceloop.entity.input"), ("inputs", "input_str", "args", "kwargs"))
    gave = _inner(attributes.get("traceloop.entity.output"), ("outputs", "output"))
    if kind == "tool":
        if isinstance(name := attributes.get("traceloop.entity.name"), str):
            attributes.setdefault("gen_ai.tool.name", name.removesuffix(".tool"))
        attributes.setdefault("gen_ai.tool.call.arguments", given)
        for result in (result for one in _results(gave) for result in one.results):
            attributes.setdefault("gen_ai.tool.call.result", result.text)
            if result.id:
                attributes.setdefault("gen_ai.tool.call.id", result.id)
        attributes.setdefault("gen_ai.tool.call.result", gave)
        return
    for name, value in (("gen_ai.input.messages", given), ("gen_ai.output.messages", gave)):
        if value not in (None, "", {}, []):
            attributes.setdefault(name, value)


def _results(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
    inner = opened(value)
    answers = isinstance(inner, dict) and ("tool_call_id" in inner or "kwargs" in inner)
    return messages([{**inner, "role": "tool"}], "tool") if answers else []


def _inner(value: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the first thing in a record of what a function was called with that says something."""
    record = opened(value)
    if not isinstance(record, dict):
        return value
    return next((record[name] for name in names if record.get(name) not in (None, "", [], {})), record or value)
