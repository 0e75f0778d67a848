"""Dialects: a client's chat request in the words that a model's provider understands.

Only what the provider would refuse under another name is mapped; everything else goes on exactly as it was spelled.
"""

from __future__ import annotations

import msgspec

from commands.gateway import responses
from commands.gateway.requests import ChatRequest, EmbeddingRequest, Request
from ledger.families.providers import Endpoint
from ledger.questions import EMBEDDED_BASE, PATHS

_encode = msgspec.json.encode
_messages = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_options = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DEVELOPER = b'"developer"'
_SYSTEM = msgspec.Raw(b'"system"')
_TRUE = msgspec.Raw(b"true")


class Outgoing(msgspec.Struct, frozen=True):
    """What is sent to a provider."""

    api: str
    base_url: str
    body: bytes

    @property
    def url(self) -> str:
        """The address: the base URL as given, and the interface's path before any query."""
        base, mark, query = self.base_url.partition("?")
        return base.removesuffix("/") + PATHS[self.api] + mark + query


def outgoing(endpoint: Endpoint, request: Request) -> Outgoing:
    """Return a request as its provider is asked; a Problem names a parameter that can't be passed on."""
    base_url = endpoint.connection.base_url or EMBEDDED_BASE
    if isinstance(request, EmbeddingRequest):
        return Outgoing("embeddings", base_url, _encode(request.parts | {"model": endpoint.model.model}))
    if not isinstance(request, ChatRequest):
        raise TypeError(request)
    if through_responses(endpoint, request):
        return Outgoing("responses", base_url, responses.request_body(endpoint, request))
    return Outgoing("chat.completions", base_url, _chat_body(endpoint, request))


def through_responses(endpoint: Endpoint, request: ChatRequest) -> bool:
    """Tell whether a model must be asked through /responses: chat completions refuses tools with a reasoning effort."""
    return (
        bool(request.chat.tools)
        and endpoint.connection.provider == "openai"
        and endpoint.capabilities.supports_reasoning
    )


def _chat_body(endpoint: Endpoint, request: ChatRequest) -> bytes:
    parts: dict[str, object] = dict(request.parts)
    parts["model"] = endpoint.model.model
    compatible = endpoint.connection.provider == "openai-compatible"
    _name_limit(parts, compatible=compatible)
    able = endpoint.capabilities
    if able.supports_reasoning and able.reasoning_effort is not None and request.chat.reasoning_effort is None:
        parts["reasoning_effort"] = able.reasoning_effort
    if compatible and any(message.role == "developer" for message in request.chat.messages):
        parts["messages"] = _without_developer(request.parts["messages"])
    if request.streamed and not request.wants_usage:
        parts["stream_options"] = _with_usage(request.parts.get("stream_options"))
    return _encode(parts)


def _name_limit(parts: dict[str, object], *, compatible: bool) -> None:
    """Give the output limit the name that the provider knows. A request with both names is the client's business."""
    known, other = ("max_tokens", "max_completion_tokens") if compatible else ("max_completion_tokens", "max_tokens")
    if other in parts and known not in parts:
        parts[known] = parts.pop(other)


def _without_developer(messages: msgspec.Raw) -> list[dict[str, msgspec.Raw]]:
    decoded = _messages.decode(messages)
    for message in decoded:
        if bytes(message["role"]) == _DEVELOPER:
            message["role"] = _SYSTEM
    return decoded


def _with_usage(options: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    given = {} if options is None or bytes(options) == b"null" else _options.decode(options)
    return given | {"include_usage": _TRUE}
