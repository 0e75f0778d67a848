"""Questions: a prompt in the words of the interface that its model is asked through.

Only parameters that a model is configured to support are in a request, so what is recorded is what was sent. The
request is either an object, sent in its canonical form, or a text, sent as it is (a gateway's client may send numbers
that have no canonical form).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ledger import digests
from ledger.episode import Tool
from ledger.errors import Refusal
from ledger.families.providers import Endpoint
from ledger.prompt import Prompt, Question, ReplySchema

Api = Literal["chat.completions", "responses", "embeddings"]
EMBEDDED_BASE = "embedded:"
PATHS: dict[str, str] = {
    "chat.completions": "/chat/completions",
    "responses": "/responses",
    "embeddings": "/embeddings",
}


class ModelCannot(Refusal, name="model-cannot", exit_code=55):
    """A model is asked for something that its capabilities don't include."""

    def __init__(self, alias: str, capability: str) -> None:
        super().__init__(
            f"model {alias} is configured without {capability}",
            where="its capabilities, as recorded by `exp config providers`",
            remedy=f'use another model, or configure this one with "{capability}":true and --replace',
        )


def question(
    endpoint: Endpoint, prompt: Prompt, *, sample: int, output_limit: int, temperature: int | None = 0
) -> Question:
    """Return the question that puts a prompt to a model.

    Models that reason on provider ``openai`` are asked through ``responses`` when tools are present, since chat
    completions refuses tools together with a reasoning effort; everything else goes through chat completions.
    """
    able = endpoint.capabilities
    if not able.supports_completions:
        raise ModelCannot(endpoint.alias, "supports_completions")
    limit = min(output_limit, able.maximum_output_tokens or output_limit)
    tools = prompt.tools if able.supports_tools else ()
    schema = prompt.reply_schema
    messages = list(prompt.messages)
    if schema is not None and not able.supports_structured_output:
        messages, schema = _asked_in_words(messages, schema), None
    sent_temperature = temperature if able.supports_temperature else None
    if _through_responses(endpoint, tools):
        request = _responses_request(messages, tools, schema)
        request["max_output_tokens"] = limit
        api: Api = "responses"
        if able.reasoning_effort is not None:
            request["reasoning"] = {"effort": able.reasoning_effort}
    else:
        request = _chat_request(messages, tools, schema)
        request["max_tokens" if endpoint.connection.provider == "openai-compatible" else "max_completion_tokens"] = (
            limit
        )
        api = "chat.completions"
        if able.supports_reasoning and able.reasoning_effort is not None:
            request["reasoning_effort"] = able.reasoning_effort
    request["model"] = endpoint.model.model
    if sent_temperature is not None:
        request["temperature"] = sent_temperature
    return _frozen(endpoint, api, request, sample)


def embedding_question(endpoint: Endpoint, text: str) -> Question:
    """Return the question for one text's vector. Texts travel in batches; each is asked and answered by itself."""
    if not endpoint.capabilities.supports_embeddings:
        raise ModelCannot(endpoint.alias, "supports_embeddings")
    return _frozen(endpoint, "embeddings", embedding_request(endpoint, text), 0)


def embedding_request(endpoint: Endpoint, texts: str | list[str]) -> dict[str, Any]:
    """Return the request for vectors, as base64 of little-endian float32."""
    return {"model": endpoint.model.model, "input": texts, "encoding_format": "base64"}


def text_question(endpoint: Endpoint, api: Api, text: str, **identity: str) -> Question:
    """Return a question whose request is sent as this JSON text as it is; ``identity`` sets it apart from equals."""
    return Question.of({"api": api, "base_url": base_url(endpoint), "request": text, "sample": 0, **identity})


def base_url(endpoint: Endpoint) -> str:
    """Return where a model is asked."""
    return endpoint.connection.base_url or EMBEDDED_BASE


class Asked(msgspec.Struct, frozen=True):
    """A question read back: through which interface, where, and the exact body on the wire."""

    api: str
    base_url: str
    request: msgspec.Raw


_asked = msgspec.json.Decoder(Asked)
_text = msgspec.json.Decoder(str)


def restored(body: bytes) -> Question:
    """Return the question of bytes that are canonical already."""
    return Question(body=body, digest=digests.content_digest(body))


def api_of(question: Question) -> str:
    """Return the interface of a question: its first member, since members are sorted."""
    return question.body[8 : question.body.index(b'"', 8)].decode()


class Limits(msgspec.Struct, frozen=True):
    """The output limit in a request, under whichever name."""

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None


_limits = msgspec.json.Decoder(Limits)


def asked(body: bytes) -> Asked:
    """Read a question's bytes."""
    return _asked.decode(body)


def wire_body(question: Asked) -> bytes:
    """Return the bytes to send."""
    raw = bytes(question.request)
    return _text.decode(raw).encode() if raw.startswith(b'"') else raw


def output_limit(question: Asked) -> int | None:
    """Return the output limit that is sent; None when there is none, or none that can be read."""
    try:
        limits = _limits.decode(wire_body(question))
    except msgspec.MsgspecError:
        return None
    return limits.max_completion_tokens or limits.max_output_tokens or limits.max_tokens


def url(question: Asked) -> str:
    """Return the address to send to: the base URL as given, and the interface's path before any query."""
    base, mark, query = question.base_url.partition("?")
    return base.removesuffix("/") + PATHS[question.api] + mark + query


def _frozen(endpoint: Endpoint, api: Api, request: dict[str, Any], sample: int) -> Question:
    return Question.of({"api": api, "base_url": base_url(endpoint), "request": request, "sample": sample})


def _through_responses(endpoint: Endpoint, tools: tuple[Tool, ...]) -> bool:
    return bool(tools) and endpoint.connection.provider == "openai" and endpoint.capabilities.supports_reasoning


def _asked_in_words(messages: list[dict[str, Any]], schema: ReplySchema) -> list[dict[str, Any]]:
    """Ask for the shape in the first system message, for a model that can't be held to it otherwise."""
    shape = msgspec.json.encode(schema.schema, order="sorted").decode()
    words = f"Reply with one JSON object and nothing else. It is a {schema.name} and matches this JSON Schema: {shape}"
    if messages and messages[0].get("role") == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{words}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": words}, *messages]


def _chat_request(
    messages: list[dict[str, Any]], tools: tuple[Tool, ...], schema: ReplySchema | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"messages": messages}
    if tools:
        request["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": msgspec.json.decode(tool.parameters),
                },
            }
            for tool in tools
        ]
    if schema is not None:
        shape = {"name": schema.name, "strict": True, "schema": schema.schema}
        request["response_format"] = {"type": "json_schema", "json_schema": shape}
    return request


def _responses_request(
    messages: list[dict[str, Any]], tools: tuple[Tool, ...], schema: ReplySchema | None
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "input": [item for message in messages for item in _input_items(message)],
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": msgspec.json.decode(tool.parameters),
                "strict": False,
            }
            for tool in tools
        ],
    }
    if schema is not None:
        shape = {"type": "json_schema", "name": schema.name, "strict": True, "schema": schema.schema}
        request["text"] = {"format": shape}
    return request


def _input_items(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a chat message as items of a responses request."""
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    items: list[dict[str, Any]] = []
    if message.get("content"):
        items.append({"role": message["role"], "content": message["content"]})
    items += [
        {
            "type": "function_call",
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
        }
        for call in message.get("tool_calls") or ()
    ]
    return items
