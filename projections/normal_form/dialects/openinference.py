"""OpenInference: ``llm.input_messages.N.message.*``, and ``input.value`` and ``output.value`` for all else."""

from __future__ import annotations

from typing import Any

from projections.normal_form.dialects import indexed
from projections.normal_form.messages import messages, opened

MARKS = (
    "openinference.",
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.model_name",
    "llm.token_count.",
)
_OPERATIONS = {
    "LLM": "chat",
    "TOOL": "execute_tool",
    "AGENT": "invoke_agent",
    "CHAIN": "invoke_workflow",
    "EMBEDDING": "embeddings",
    "RETRIEVER": "retrieval",
}
_NAMES = {
    "llm.model_name": "gen_ai.request.model",
    "llm.provider": "gen_ai.provider.name",
    "llm.system": "gen_ai.provider.name",
    "llm.token_count.prompt": "gen_ai.usage.input_tokens",
    "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.completion_details.reasoning": "gen_ai.usage.reasoning.output_tokens",
    "llm.cost.total": "gen_ai.usage.cost",
    "session.id": "gen_ai.conversation.id",
    "agent.name": "gen_ai.agent.name",
    "tool.name": "gen_ai.tool.name",
    "tool.id": "gen_ai.tool.call.id",
    "tool_call.id": "gen_ai.tool.call.id",
    "tool_call.function.name": "gen_ai.tool.name",
    "tool_call.function.arguments": "gen_ai.tool.call.arguments",
}
_KEPT = ("role", "content", "tool_call_id", "name")
_SPOKEN = ("llm.", "input.", "output.", "openinference.")


def translated(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes in the names of the GenAI conventions."""
    kind = attributes.get("openinference.span.kind")
    kind = kind.upper() if isinstance(kind, str) else "LLM"
    indexed.moved(attributes, _NAMES)
    if kind in _OPERATIONS:
        attributes.setdefault("gen_ai.operation.name", _OPERATIONS[kind])
    given = _messages(indexed.taken(attributes, "llm.input_messages."))
    made = _messages(indexed.taken(attributes, "llm.output_messages."))
    tools = [opened(one.get("tool", one).get("json_schema")) for one in _tools(attributes)]
    asked, answered = attributes.get("input.value"), attributes.get("output.value")
    if kind == "TOOL":
        _tool(attributes, asked, answered)
    elif kind == "LLM":
        asked, answered = given or asked, made or answered
    if kind in ("LLM", "AGENT", "CHAIN"):
        for name, value in (("gen_ai.input.messages", asked), ("gen_ai.output.messages", answered)):
            if value not in (None, "", []):
                attributes.setdefault(name, value)
    if tools:
        attributes.setdefault("gen_ai.tool.definitions", tools)
    return {name: value for name, value in attributes.items() if not name.startswith(_SPOKEN)}


def _tools(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    listed = indexed.objects(indexed.taken(attributes, "llm.tools."))
    return [one for one in listed if isinstance(one.get("tool", one), dict)]


def _messages(listed: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    return [_message(one["message"]) for one in indexed.objects(listed) if isinstance(one.get("message"), dict)]


def _message(value: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {name: value[name] for name in _KEPT if name in value}
    if contents := indexed.objects(value.get("contents")):
        parts = [one.get("message_content") for one in contents]
        message["content"] = [*([message["content"]] if message.get("content") else []), *parts]
    calls = [one.get("tool_call") for one in indexed.objects(value.get("tool_calls"))]
    if "function_call_name" in value:
        given = value.get("function_call_arguments_json")
        calls.append({"function": {"name": value["function_call_name"], "arguments": given}})
    if calls:
        message["tool_calls"] = calls
    return message


def _tool(attributes: dict[str, Any], asked: Any, answered: Any) -> None:  # noqa: ANN401 - any JSON value
    """Say what a tool was given and gave back; a tool's message as JSON is what it says, with the id it answers."""
    attributes.setdefault("gen_ai.tool.call.arguments", asked)
    inner = opened(answered)
    if isinstance(inner, dict) and ("tool_call_id" in inner or "kwargs" in inner):
        for result in (result for one in messages([{**inner, "role": "tool"}], "tool") for result in one.results):
            attributes.setdefault("gen_ai.tool.call.result", result.text)
            if result.id:
                attributes.setdefault("gen_ai.tool.call.id", result.id)
    attributes.setdefault("gen_ai.tool.call.result", answered)
