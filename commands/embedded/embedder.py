"""The embedder of the stand-in: the hashing embedder behind the embeddings service's format, and what that refuses."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from commands.embedded import tokens
from commands.embedded.envelope import Rejected, wrong_type
from commands.embedded.parameters import (
    Check,
    anything,
    integer,
    one_of,
    only_chats,
    refuse_unknown,
    required,
    text,
)

_LENGTHS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_OTHER_LENGTH = 1024
_MOST_DIMENSIONS = 4096
_MOST_INPUTS = 2_048
_MOST_TOKENS_AN_INPUT = 8_192
_MOST_TOKENS = 300_000
_GREATEST_TOKEN = 200_018

CHECKS: dict[str, Check] = {
    "dimensions": integer(1, _MOST_DIMENSIONS),
    "encoding_format": one_of("float", "base64"),
    "input": anything,
    "model": text,
    "user": text,
}


def answer(request: dict[str, Any], served: str) -> dict[str, Any]:
    """Return the body of an embeddings answer; raises Rejected for what the service refuses."""
    required(request, "model", "input")
    text(request["model"], "model")
    refuse_unknown(request, CHECKS)
    model: str = request["model"]
    if only_chats(model):
        raise Rejected(
            "You are not allowed to generate embeddings from this model", status=403, kind=_INVALID, code=None
        )
    dimensions = _dimensions(request, model)
    texts, counts = _inputs(request["input"])
    vectors = _vectors(texts, dimensions)
    if request.get("encoding_format") == "base64":
        shown: list[Any] = [b64encode(row.tobytes()).decode() for row in vectors]
    else:
        shown = vectors.tolist()
    used = sum(counts)
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(shown)],
        "model": served,
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


_INVALID = "invalid_request_error"


def _dimensions(request: dict[str, Any], model: str) -> int:
    most = _LENGTHS.get(model, _OTHER_LENGTH)
    asked: int | None = request.get("dimensions")
    if asked is None:
        return most
    if model == "text-embedding-ada-002":
        raise Rejected("This model does not support specifying dimensions.", param="dimensions")
    if model in _LENGTHS and asked > most:
        raise Rejected(
            f"Invalid value for 'dimensions' = {asked}. Must be less than or equal to {most}.", param="dimensions"
        )
    return asked


def _vectors(texts: list[str], dimensions: int) -> Any:  # noqa: ANN401 - numpy is imported here only
    """Return unit vectors as float32: correctly rounded divisions by a correctly rounded root, equal everywhere."""
    import numpy as np  # noqa: PLC0415 - only embeddings need it

    from projections.hashing import trigram_sums  # noqa: PLC0415 - as above

    rows = np.empty((len(texts), dimensions), dtype="<f4")
    for first in range(0, len(texts), 128):
        sums = trigram_sums(texts[first : first + 128], dimensions)
        roots = np.sqrt((sums * sums).sum(axis=1, dtype=np.int64).astype(np.float64))
        rows[first : first + 128] = sums / roots[:, None]
    return rows


def _inputs(given: Any) -> tuple[list[str], list[int]]:  # noqa: ANN401 - any JSON
    """Return texts and their token counts; an input may be text or a list of token numbers."""
    if isinstance(given, str) or (isinstance(given, list) and given and _is_token(given[0])):
        given = [given]
    if not isinstance(given, list):
        raise wrong_type("input", "a string, an array of strings or an array of tokens", given)
    if not given:
        raise Rejected("Invalid 'input': input cannot be an empty array.", param="input", code="invalid_value")
    if len(given) > _MOST_INPUTS:
        raise Rejected(
            f"Invalid 'input': maximum array size is {_MOST_INPUTS}, but got an array with length {len(given)}.",
            param="input",
            code="array_above_max_length",
        )
    texts, counts = [], []
    for index, entry in enumerate(given):
        one, used = _input(entry, index)
        texts.append(one)
        counts.append(used)
    if sum(counts) > _MOST_TOKENS:
        raise Rejected(
            f"Requested {sum(counts)} tokens, max {_MOST_TOKENS} tokens per request",
            kind="max_tokens_per_request",
            code="max_tokens_per_request",
        )
    return texts, counts


def _input(entry: Any, index: int) -> tuple[str, int]:  # noqa: ANN401 - any JSON
    if isinstance(entry, list) and all(_is_token(token) for token in entry):
        one, used = " ".join(map(str, entry)), len(entry)
    elif isinstance(entry, str):
        one, used = entry, tokens.count(entry)
    else:
        raise wrong_type(f"input[{index}]", "a string", entry)
    if not used:
        raise Rejected("Invalid 'input': input cannot be an empty string.", param="input", code="invalid_value")
    if used > _MOST_TOKENS_AN_INPUT:
        raise Rejected(
            f"Invalid 'input[{index}]': maximum input length is {_MOST_TOKENS_AN_INPUT} tokens.",
            param="input",
            code="invalid_value",
        )
    return one, used


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _GREATEST_TOKEN
