"""Prompts: what a model is to be asked, before it is put in a provider's words."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger import canonical, digests
from ledger.episode import Tool


class ReplySchema(msgspec.Struct, frozen=True):
    """The shape a reply must have: a name (``world_model_reply``, ``judge_reply``) and a strict JSON Schema."""

    name: str
    schema: dict[str, Any]


class Prompt(msgspec.Struct, frozen=True):
    """Messages as in chat completions (dicts with role, content, tool_calls, tool_call_id), tools, reply shape."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[Tool, ...] = ()
    reply_schema: ReplySchema | None = None


class Question(msgspec.Struct, frozen=True):
    """Exactly what decides an answer, as canonical JSON: api, base_url, request as sent, sample ordinal."""

    body: bytes
    digest: str

    @classmethod
    def of(cls, content: dict[str, Any]) -> Question:
        """Freeze a question; NotCanonical when it holds a float or broken text."""
        body = canonical.encode(content)
        return cls(body=body, digest=digests.content_digest(body))


class ToolCall(msgspec.Struct, frozen=True):
    """A function call in a reply; ``arguments`` is the text the model wrote, which may not be JSON."""

    call_id: str
    name: str
    arguments: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the provider counted them; None where it said nothing. Cached and reasoning tokens are parts."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class Reply(msgspec.Struct, frozen=True):
    """A provider's answer, read: the same fields whichever dialect it came in."""

    text: str | None
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str | None
    served_model: str | None
    usage: Usage
    system_fingerprint: str | None = None
