"""Requests: a chat completion's body, read strictly and kept exactly.

What the gateway needs is validated here; everything else is passed on as the client wrote it, down to the spelling of
its numbers. msgspec reads it rather than pydantic: this is on the path of every request.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import msgspec

from commands.gateway import problems
from ledger import digests

_CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})
_EXACT_FLOAT = 2**53

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Message(msgspec.Struct):
    """One message. Content may be text, parts, null or absent."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct):
    """What a stream carries beside its content."""

    include_usage: bool | None = None


class Chat(msgspec.Struct):
    """The parameters the gateway itself reads."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Positive | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    temperature: float | None = None
    tools: list[dict[str, Any]] | None = None
    functions: list[dict[str, Any]] | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None


class ChatRequest(msgspec.Struct):
    """A body as it came, its parts as they were spelled, and what the gateway reads in it."""

    body: bytes
    parts: dict[str, msgspec.Raw]
    plain: dict[str, Any]
    chat: Chat

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream."""
        return bool(self.chat.stream)

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the usage chunk."""
        options = self.chat.stream_options
        return options is not None and bool(options.include_usage)

    @property
    def output_limit(self) -> int | None:
        """The most tokens one choice may have, where the client says so."""
        return self.chat.max_completion_tokens or self.chat.max_tokens

    def fingerprint(self) -> str:
        """Return the digest of the body whatever its key order, white space and spelling of numbers."""
        return digests.content_digest(_sorted.encode(self.plain))


def _number(literal: str) -> float | int:
    """Read a number with a point or exponent: 1.0 and 1 are the same number, 1e999 is none."""
    value = float(literal)
    if value - value != 0:
        raise ValueError("a number is out of range")
    return int(value) if value.is_integer() and abs(value) < _EXACT_FLOAT else value


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object that names something twice: a reader may take either, and the provider's is not this one."""
    if len({name for name, _ in pairs}) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise problems.unreadable(f"{twice[:200]!r} is there twice in one object of the body", twice[:200])


_plain = msgspec.json.Decoder(float_hook=_number)
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_named_once = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)
_sorted = msgspec.json.Encoder(order="sorted")


def check_content(content_type: str | None, content_encoding: str | None) -> None:
    """Refuse what can't be read: another charset than UTF-8, or a compressed body."""
    if content_encoding and content_encoding.strip().lower() != "identity":
        raise problems.unsupported_encoding(content_encoding)
    found = _CHARSET.search(content_type) if content_type else None
    if found and found[1].lower() not in _CHARSETS:
        raise problems.unreadable(f"charset {found[1][:40]!r} is not read here: send UTF-8")


def read_chat(body: bytes) -> ChatRequest:
    """Return the request that a body holds; a Problem says what is wrong with it."""
    try:
        plain = _plain.decode(body)
        if not isinstance(plain, dict):
            raise problems.unreadable("the body must be a JSON object")
        _named_once.decode(body.decode())
        return ChatRequest(body, _parts.decode(body), plain, msgspec.convert(plain, Chat))
    except msgspec.ValidationError as error:
        raise problems.unreadable(str(error), _parameter(str(error))) from error
    except (ValueError, RecursionError) as error:
        raise problems.unreadable(f"the body is not JSON: {error}") from error


def _parameter(message: str) -> str | None:
    """Return the parameter that a validation error is about: the words between ``$.`` and the backquote."""
    found = re.search(r"`\$\.([A-Za-z_]+)|required field `([A-Za-z_]+)`", message)
    return (found[1] or found[2]) if found else None
