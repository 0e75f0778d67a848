"""A request as the stand-in reads it: one shape for both dialects, after what is refused has been refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from commands.embedded import tokens

ROLES_BY_SCHEMA = {"world_model_reply": "world-model", "judge_reply": "judge"}
CANDIDATE = "candidate"


class Exchange(msgspec.Struct):
    """A function call made earlier in the conversation and what came back (None while nothing has)."""

    call_id: str
    name: str
    arguments: str
    output: str | None = None


class Offered(msgspec.Struct, frozen=True):
    """A function that may be called; ``parameters`` is its JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class Conversation(msgspec.Struct):
    """What a request says: instructions, last user turn, the calls since then, tools, and the wanted reply."""

    model: str
    system: str = ""
    user: str = ""
    exchanges: list[Exchange] = []
    tools: tuple[Offered, ...] = ()
    choice: str | None = "auto"
    parallel: bool = True
    schema_name: str | None = None
    schema: dict[str, Any] | None = None
    as_json: bool = False
    seed: int = 0
    prompt_tokens: int = tokens.REPLY_OVERHEAD

    @property
    def role(self) -> str:
        """Who is being asked: told by the reply schema's name, or by its mention where replies can't be structured."""
        if self.schema_name is not None:
            return ROLES_BY_SCHEMA.get(self.schema_name, CANDIDATE)
        if not self.tools:
            for name, role in ROLES_BY_SCHEMA.items():
                if name in self.system:
                    return role
        return CANDIDATE


def from_chat(request: dict[str, Any]) -> Conversation:
    """Read a chat completions request."""
    told = Conversation(model=request["model"], seed=request.get("seed") or 0)
    for message in request["messages"]:
        role, text = message["role"], text_of(message.get("content"))
        told.prompt_tokens += tokens.MESSAGE_OVERHEAD + tokens.count(text)
        if role == "user":
            _hear(told, text)
        elif role == "tool":
            _hear_output(told, message["tool_call_id"], text)
        elif role == "assistant":
            for call in message.get("tool_calls") or ():
                said = call["function"]
                _hear_call(told, call["id"], said["name"], said["arguments"])
        else:
            told.system += text
    _offer(told, [tool["function"] for tool in request.get("tools") or ()])
    told.choice = _choice(request.get("tool_choice"), "function")
    told.parallel = request.get("parallel_tool_calls") is not False
    wanted = request.get("response_format") or {}
    _want(told, wanted.get("type"), wanted.get("json_schema") or {})
    return told


def from_responses(request: dict[str, Any]) -> Conversation:
    """Read a responses request."""
    told = Conversation(model=request["model"], system=request.get("instructions") or "")
    told.prompt_tokens += tokens.count(told.system)
    for item in input_items(request["input"]):
        kind = item.get("type") or "message"
        text = text_of(item.get("output") if kind == "function_call_output" else item.get("content"))
        told.prompt_tokens += tokens.MESSAGE_OVERHEAD + tokens.count(text)
        if kind == "function_call":
            _hear_call(told, item["call_id"], item["name"], item["arguments"])
        elif kind == "function_call_output":
            _hear_output(told, item["call_id"], text)
        elif kind == "message" and item["role"] == "user":
            _hear(told, text)
        elif kind == "message" and item["role"] in {"system", "developer"}:
            told.system += text
    _offer(told, request.get("tools") or [])
    told.choice = _choice(request.get("tool_choice"), None)
    told.parallel = request.get("parallel_tool_calls") is not False
    wanted = (request.get("text") or {}).get("format") or {}
    _want(told, wanted.get("type"), wanted)
    return told


def input_items(given: str | list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Return a responses input as items; plain text is one user message."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    """Return the text of a message's content, parts joined."""
    if content is None:
        return ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _hear(told: Conversation, text: str) -> None:
    told.user = text
    told.exchanges = []


def _hear_call(told: Conversation, call_id: str, name: str, arguments: str) -> None:
    told.exchanges.append(Exchange(call_id, name, arguments))
    told.prompt_tokens += tokens.MESSAGE_OVERHEAD + tokens.count(name) + tokens.count(arguments)


def _hear_output(told: Conversation, call_id: str, text: str) -> None:
    for exchange in told.exchanges:
        if exchange.call_id == call_id and exchange.output is None:
            exchange.output = text
            return


def _offer(told: Conversation, functions: list[dict[str, Any]]) -> None:
    if functions:
        told.tools = tuple(
            Offered(one["name"], one.get("description") or "", one.get("parameters") or {}) for one in functions
        )
        told.prompt_tokens += tokens.count(msgspec.json.encode(functions).decode())


def _choice(given: str | dict[str, Any] | None, inside: str | None) -> str | None:
    """Return ``auto``, ``none``, ``required``, or ``=NAME`` of the one function that must be called."""
    if given is None or isinstance(given, str):
        return given or "auto"
    named = given[inside] if inside else given
    return "=" + str(named["name"])


def _want(told: Conversation, kind: str | None, wanted: dict[str, Any]) -> None:
    if kind == "json_schema":
        told.schema_name, told.schema = wanted["name"], wanted.get("schema") or {}
        told.prompt_tokens += tokens.count(msgspec.json.encode(told.schema).decode())
    told.as_json = kind in {"json_schema", "json_object"}


_ABSTAINED = re.compile(r"^\[no recorded example")


def abstained(observation: str) -> bool:
    """Tell whether an observation is the stand-in world model saying that it doesn't know."""
    return _ABSTAINED.match(observation) is not None
