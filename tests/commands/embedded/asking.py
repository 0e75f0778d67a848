"""Requests as the product sends them, for tests to send and to spoil."""

from __future__ import annotations

import json
from typing import Any

TASK = "Using curl and jq, find the latest version of the npm package 'prettier' and write it to /srv/prettier.txt"
COMMAND = "curl -s https://registry.npmjs.org/prettier/latest | jq -r .version > /srv/prettier.txt"
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BASH = {"type": "function", "function": {"name": "bash", "description": "", "parameters": PARAMETERS}}

WORLD_MODEL_SCHEMA = {
    "type": "object",
    "properties": {
        "observation": {"type": "string"},
        "error": {"type": "boolean"},
        "done": {"type": "boolean"},
    },
    "required": ["observation", "error", "done"],
    "additionalProperties": False,
}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


AXIS_SCHEMA = closed(score={"type": "number"}, rationale={"type": "string"})
JUDGE_SCHEMA = closed(axes=closed(**{"task-success": AXIS_SCHEMA}))


def chat(**changes: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": TASK}]
    return {"model": "embedded-large", "messages": messages, **changes}


def agent(task: str = TASK, model: str = "embedded-large", **changes: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": task}]
    return {"model": model, "messages": messages, "tools": [BASH], **changes}


def continued(request: dict[str, Any], message: dict[str, Any], *outputs: str) -> dict[str, Any]:
    """Return a request with the assistant's calls and their outputs appended."""
    calls = message["tool_calls"]
    said = {"role": "assistant", "content": message["content"], "tool_calls": calls}
    answers = [
        {"role": "tool", "tool_call_id": call["id"], "content": output}
        for call, output in zip(calls, outputs, strict=True)
    ]
    return {**request, "messages": [*request["messages"], said, *answers]}


def structured(name: str, schema: dict[str, Any], *, strict: bool = True) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "strict": strict, "schema": schema}}


def example(command: str, observation: str, *, task: str = TASK, error: bool = False) -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    return {"task": task, "tool": "bash", "arguments": arguments, "observation": observation, "error": error}


def simulation(command: str, *examples: dict[str, Any], task: str = TASK, **changes: Any) -> dict[str, Any]:
    asked = {
        "task": task,
        "tools": ["bash"],
        "conversation": [],
        "examples": list(examples),
        "action": {"tool": "bash", "arguments": json.dumps({"command": command})},
        **changes,
    }
    return {
        "model": "deepseek-v4-flash",
        "temperature": 0,
        "max_tokens": 2000,
        "messages": [
            {"role": "system", "content": "You simulate tools."},
            {"role": "user", "content": json.dumps(asked)},
        ],
        "response_format": structured("world_model_reply", WORLD_MODEL_SCHEMA),
    }


def judgment(*turns: dict[str, Any], final: str | None = "Done.", ended: str = "final", **axis: Any) -> dict[str, Any]:
    rubric = {"axes": [{"name": "task-success", "question": "?", "low": 0, "high": 1, "anchors": [], **axis}]}
    evidence = {"task": TASK, "turns": list(turns), "final": final, "ended": ended, "elided": None}
    return {
        "model": "gpt-5.6-luna",
        "reasoning_effort": "xhigh",
        "max_completion_tokens": 16384,
        "messages": [
            {"role": "system", "content": "You judge."},
            {"role": "user", "content": json.dumps({"rubric": rubric, "evidence": evidence})},
        ],
        "response_format": structured("judge_reply", JUDGE_SCHEMA),
    }


def turn(command: str = COMMAND, observation: str = "3.1.0\n", *, error: bool = False) -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    return {"tool": "bash", "arguments": arguments, "observation": observation, "error": error}


def responses(**changes: Any) -> dict[str, Any]:
    return {
        "model": "gpt-5.6-luna",
        "input": [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": TASK}],
        "tools": [{"type": "function", "name": "bash", "description": "", "parameters": PARAMETERS, "strict": False}],
        "reasoning": {"effort": "xhigh"},
        "max_output_tokens": 8000,
        "store": False,
        **changes,
    }


def embeddings(**changes: Any) -> dict[str, Any]:
    return {"model": "text-embedding-3-small", "input": ["one", "two"], "encoding_format": "base64", **changes}
