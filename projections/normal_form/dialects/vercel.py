"""Vercel's AI SDK: ``ai.prompt.messages``, ``ai.response.*`` and ``ai.toolCall.*``."""

from __future__ import annotations

from typing import Any

from projections.normal_form.dialects import indexed
from projections.normal_form.messages import opened

MARKS = ("ai.",)
_NAMES = {
    "ai.model.id": "gen_ai.request.model",
    "ai.response.model": "gen_ai.response.model",
    "ai.model.provider": "gen_ai.provider.name",
    "ai.usage.promptTokens": "gen_ai.usage.input_tokens",
    "ai.usage.inputTokens": "gen_ai.usage.input_tokens",
    "ai.usage.completionTokens": "gen_ai.usage.output_tokens",
    "ai.usage.outputTokens": "gen_ai.usage.output_tokens",
    "ai.usage.cachedInputTokens": "gen_ai.usage.cache_read.input_tokens",
    "ai.usage.reasoningTokens": "gen_ai.usage.reasoning.output_tokens",
    "ai.toolCall.name": "gen_ai.tool.name",
    "ai.toolCall.id": "gen_ai.tool.call.id",
    "ai.toolCall.args": "gen_ai.tool.call.arguments",
    "ai.toolCall.result": "gen_ai.tool.call.result",
    "ai.telemetry.metadata.sessionId": "gen_ai.conversation.id",
}


def translated(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes in the names of the GenAI conventions."""
    operation = str(attributes.get("ai.operationId", ""))
    indexed.moved(attributes, _NAMES)
    if operation.startswith("ai.toolCall"):
        attributes.setdefault("gen_ai.operation.name", "execute_tool")
    elif operation.startswith("ai.embed"):
        attributes.setdefault("gen_ai.operation.name", "embeddings")
    elif operation:
        attributes["gen_ai.operation.name"] = "chat" if ".do" in operation else "invoke_agent"
    asked = next((attributes[name] for name in ("ai.prompt.messages", "ai.prompt") if attributes.get(name)), None)
    if asked is not None:
        attributes.setdefault("gen_ai.input.messages", _prompt(asked))
    calls = [
        {"type": "tool_call", "id": one.get("toolCallId"), "name": one.get("toolName"), "arguments": _arguments(one)}
        for one in indexed.objects(opened(attributes.get("ai.response.toolCalls")))
    ]
    text = next((attributes[name] for name in ("ai.response.text", "ai.response.object") if attributes.get(name)), None)
    if text is not None or calls:
        parts = [*([{"type": "text", "content": text}] if text is not None else []), *calls]
        attributes.setdefault("gen_ai.output.messages", [{"role": "assistant", "parts": parts}])
    return {name: value for name, value in attributes.items() if not name.startswith("ai.")}


def _arguments(call: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    return call["args"] if call.get("args") is not None else call.get("input")


def _prompt(asked: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return messages, with the system's words and the one prompt as messages too, and a tool's output as its text."""
    inner = opened(asked)
    if isinstance(inner, dict):
        system = [{"role": "system", "content": inner["system"]}] if inner.get("system") else []
        said = [{"role": "user", "content": inner["prompt"]}] if inner.get("prompt") else []
        inner = [*system, *(inner.get("messages") or []), *said] if isinstance(inner.get("messages", []), list) else []
    return [_unwrapped(one) for one in indexed.objects(inner)] if isinstance(inner, list) else inner


def _unwrapped(message: dict[str, Any]) -> dict[str, Any]:
    parts = message.get("content")
    return {**message, "content": [_part(one) for one in parts]} if isinstance(parts, list) else message


def _part(part: Any) -> Any:  # noqa: ANN401 - any JSON value
    output = part.get("output") if isinstance(part, dict) and part.get("type") == "tool-result" else None
    return {**part, "result": output["value"]} if isinstance(output, dict) and "value" in output else part
