"""Answers: a provider's whole reply, checked and written as clients get it: compact JSON with the id first."""

from __future__ import annotations

from typing import Annotated

import msgspec

from commands.gateway import responses, upstream
from commands.gateway.frames import BrokenStream, whole_characters, without_lone_surrogates
from ledger.redaction import Redactor


class Choice(msgspec.Struct):
    """A choice; its message is passed on unread."""

    message: dict[str, msgspec.Raw]


class Completion(msgspec.Struct):
    """What makes a body an answer."""

    choices: Annotated[list[Choice], msgspec.Meta(min_length=1)]
    id: str | None = None
    model: str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


class Vectors(msgspec.Struct):
    """What makes a body an answer with embeddings; the vectors are passed on unread."""

    data: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1)]
    model: str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


class Answer(msgspec.Struct):
    """The bytes for the client, and what the gateway read in them."""

    body: bytes
    model: str | None
    usage: bytes


_completion = msgspec.json.Decoder(Completion)
_vectors = msgspec.json.Decoder(Vectors)
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_answer(api: str, raw: bytes, fallback_id: str) -> Answer:
    """Return the answer in a provider's bytes; an UpstreamProblem when they hold none."""
    raw = whole_characters(raw)
    try:
        if api == "embeddings":
            return _embedded(raw)
        if api == "responses":
            raw = responses.chat_completion(raw)
        return _written(raw, fallback_id)
    except (ValueError, RecursionError) as error:
        repaired = without_lone_surrogates(raw)
        if repaired is not None and repaired != raw and b'"error"' not in raw[:64]:
            return read_answer(api, repaired, fallback_id)
        raise no_answer(raw) from error


def _embedded(raw: bytes) -> Answer:
    vectors = _vectors.decode(raw)
    return Answer(msgspec.json.format(raw, indent=-1), vectors.model, bytes(vectors.usage))


def _written(raw: bytes, fallback_id: str) -> Answer:
    completion = _completion.decode(raw)
    body = msgspec.json.format(raw, indent=-1)
    if completion.id is None or not body.startswith(b'{"id":"'):
        rest = {name: value for name, value in _parts.decode(body).items() if name != "id"}
        body = msgspec.json.encode({"id": completion.id or fallback_id, **rest})
    return Answer(body, completion.model, bytes(completion.usage))


def no_answer(raw: bytes) -> upstream.UpstreamProblem:
    """Tell a provider's own error, sent with status 200, from bytes that say nothing."""
    facts = upstream.error_facts(raw)
    if facts.message:
        return upstream.broken(BrokenStream("upstream_error", "the provider reported an error", raw), Redactor())
    return upstream.unreadable("the provider's answer is not what was asked for")
