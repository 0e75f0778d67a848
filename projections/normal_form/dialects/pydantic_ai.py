"""Pydantic AI: the whole conversation on the agent's span, older events in an attribute, and a tool's own names."""

from __future__ import annotations

from typing import Any

from projections.normal_form.dialects import indexed
from projections.normal_form.messages import opened

MARKS = (
    "pydantic_ai.",
    "all_messages_events",
    "tool_arguments",
    "tool_response",
    "events",
    "operation.cost",
    "model_request_parameters",
    "final_result",
)
_NAMES = {
    "pydantic_ai.all_messages": "gen_ai.input.messages",
    "all_messages": "gen_ai.input.messages",
    "tool_arguments": "gen_ai.tool.call.arguments",
    "tool_response": "gen_ai.tool.call.result",
    "operation.cost": "gen_ai.usage.cost",
    "model_name": "gen_ai.request.model",
    "agent_name": "gen_ai.agent.name",
    "gen_ai.aggregated_usage.input_tokens": "gen_ai.usage.input_tokens",
    "gen_ai.aggregated_usage.output_tokens": "gen_ai.usage.output_tokens",
    "gen_ai.aggregated_usage.cache_read.input_tokens": "gen_ai.usage.cache_read.input_tokens",
}
_SPOKEN = ("logfire.", "model_request_parameters", "final_result")


def translated(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes in the names of the GenAI conventions."""
    indexed.moved(attributes, _NAMES)
    for name in ("all_messages_events", "events"):
        if not (found := _events(attributes.get(name))):
            continue
        del attributes[name]
        said = [one["message"] for one in found if one.get("event.name") == "gen_ai.choice" and "message" in one]
        given = [_given(one) for one in found if one.get("event.name") != "gen_ai.choice"]
        attributes.setdefault("gen_ai.input.messages", given)
        if said:
            attributes.setdefault("gen_ai.output.messages", said)
    final = attributes.get("final_result")
    if final not in (None, ""):
        attributes.setdefault("gen_ai.output.messages", final)
    return {name: value for name, value in attributes.items() if not name.startswith(_SPOKEN)}


def _events(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    listed = indexed.objects(opened(value))
    return listed if any("event.name" in one or "role" in one for one in listed) else []


def _given(event: dict[str, Any]) -> dict[str, Any]:
    name = event.get("event.name")
    role = name.removeprefix("gen_ai.").removesuffix(".message") if isinstance(name, str) else "user"
    return {"role": role, **{key: value for key, value in event.items() if not key.startswith(("event.", "gen_ai."))}}
