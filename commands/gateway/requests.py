"""Requests: bodies, read strictly and kept exactly.

What the gateway needs is validated here; everything else is passed on as the client wrote it, down to the spelling of
its numbers. msgspec reads it rather than pydantic: this is on the path of every request.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

import msgspec

from commands.gateway import problems
from ledger import digests
from ledger.families import serving

_CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})
_EXACT_FLOAT = 2**53

S = TypeVar("S")
Positive = Annotated[int, msgspec.Meta(ge=1)]


class Request(Protocol):
    """What every route's requests have."""

    route: ClassVar[str]
    body: bytes

    @property
    def model(self) -> str:
        """The model that the client named."""

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream."""

    @property
    def wants_usage(self) -> bool:
        """Whether the client asked for the usage chunk."""

    def fingerprint(self) -> str:
        """Return the digest of the body whatever its key order, white space and spelling of numbers."""


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

    route: ClassVar[str] = serving.CHAT
    body: bytes
    parts: dict[str, msgspec.Raw]
    plain: dict[str, Any]
    chat: Chat

    @property
    def model(self) -> str:
        """The model that the client named."""
        return self.chat.model

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
        return fingerprint(self.plain)


class Embedding(msgspec.Struct):
    """The parameters of a request for embeddings that the gateway itself reads."""

    model: str
    input: str | Annotated[list[Any], msgspec.Meta(min_length=1)]
    dimensions: Positive | None = None
    encoding_format: Literal["float", "base64"] | None = None


class EmbeddingRequest(msgspec.Struct):
    """A request for embeddings: its body as it came, and what the gateway reads in it."""

    route: ClassVar[str] = serving.EMBEDDINGS
    body: bytes
    parts: dict[str, msgspec.Raw]
    plain: dict[str, Any]
    embedding: Embedding

    @property
    def model(self) -> str:
        """The model that the client named."""
        return self.embedding.model

    @property
    def streamed(self) -> bool:
        """Vectors come in one piece."""
        return False

    @property
    def wants_usage(self) -> bool:
        """Usage is part of the answer."""
        return False

    def fingerprint(self) -> str:
        """Return the digest of the body whatever its key order, white space and spelling of numbers."""
        return fingerprint(self.plain)


def fingerprint(plain: dict[str, Any]) -> str:
    """Return the digest of a body whatever its key order, white space and spelling of numbers."""
    return digests.content_digest(_sorted.encode(plain))


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
    plain, parts, chat = _read(body, Chat)
    return ChatRequest(body, parts, plain, chat)


def read_embedding(body: bytes) -> EmbeddingRequest:
    """Return the request for embeddings that a body holds; a Problem says what is wrong with it."""
    plain, parts, embedding = _read(body, Embedding)
    given = embedding.input
    if isinstance(given, list) and not (_all(given, str) or _all(given, int) or all(_all(one, int) for one in given)):
        raise problems.unreadable(
            "input must be a text, a list of texts, tokens, or a list of lists of tokens", "input"
        )
    return EmbeddingRequest(body, parts, plain, embedding)


def _all(values: object, kind: type) -> bool:
    return isinstance(values, list) and bool(values) and all(type(value) is kind for value in values)


def _read(body: bytes, shape: type[S]) -> tuple[dict[str, Any], dict[str, msgspec.Raw], S]:
    """Return a body's values, its parts as they were spelled, and the parameters that the gateway reads."""
    try:
        plain = _plain.decode(body)
        if not isinstance(plain, dict):
            raise problems.unreadable("the body must be a JSON object")
        _named_once.decode(body.decode())
        return plain, _parts.decode(body), msgspec.convert(plain, shape)
    except msgspec.ValidationError as error:
        raise problems.unreadable(str(error), _parameter(str(error))) from error
    except (ValueError, RecursionError) as error:
        raise problems.unreadable(f"the body is not JSON: {error}") from error


def _parameter(message: str) -> str | None:
    """Return the parameter that a validation error is about: the words between ``$.`` and the backquote."""
    found = re.search(r"`\$\.([A-Za-z_]+)|required field `([A-Za-z_]+)`", message)
    return (found[1] or found[2]) if found else None
