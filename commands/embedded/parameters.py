"""Checks of single parameters: each takes a value and its name, and raises what the service would answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from commands.embedded.envelope import Rejected, missing, unknown, wrong_type, wrong_value

Check = Callable[[Any, str], None]

_REASONING = re.compile(r"^(?:[\w.\-]+/)?(?:o[134](?:-|$)|gpt-5(?!.*chat))")
_CLASSIC = re.compile(r"^(?:gpt-4|gpt-3\.5|chatgpt-4o)")
_EMBEDDING = re.compile(r"^(?:text-embedding-|embedded-embedder$)")
_CHATTING = re.compile(r"^(?:gpt-|o[134](?:-|$)|chatgpt-|deepseek|embedded-(?!embedder$))")
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_LEAST_SEED, _GREATEST_SEED = -(2**63), 2**63 - 1
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512


def reasons(model: str) -> bool:
    """Tell whether the service treats a model of this name as a reasoning model."""
    return _REASONING.match(model) is not None


def is_classic(model: str) -> bool:
    """Tell whether the service knows a model of this name as one that cannot reason."""
    return _CLASSIC.match(model) is not None


def only_embeds(model: str) -> bool:
    """Tell whether a model of this name makes embeddings and nothing else."""
    return _EMBEDDING.match(model) is not None


def only_chats(model: str) -> bool:
    """Tell whether a model of this name is known to make no embeddings."""
    return _CHATTING.match(model) is not None


def refuse_unknown(given: Mapping[str, Any], checks: Mapping[str, Check], place: str = "") -> None:
    """Refuse the first parameter that isn't in the table, then check each; null is as good as absent."""
    for name, value in given.items():
        check = checks.get(name)
        if check is None:
            raise unknown(place + name)
        if value is not None:
            check(value, place + name)


def required(given: Mapping[str, Any], *names: str, place: str = "") -> None:
    """Refuse when a required parameter is absent or null."""
    for name in names:
        if given.get(name) is None:
            raise missing(place + name)


def anything(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    """Accept a value that is checked elsewhere, or whose content nothing depends on."""
    del value, name


def boolean(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    """Accept true and false."""
    if not isinstance(value, bool):
        raise wrong_type(name, "a boolean", value)


def text(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    """Accept text."""
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)


def listing(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    """Accept a list."""
    if not isinstance(value, list):
        raise wrong_type(name, "an array", value)


def mapping(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    """Accept an object."""
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)


def integer(low: int, high: int) -> Check:
    """Return a check for integers between low and high."""

    def check(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(name, "an integer", value)
        _refuse_outside(value, name, low, high, "integer")

    return check


def number(low: int, high: int) -> Check:
    """Return a check for numbers between low and high."""

    def check(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise wrong_type(name, "a decimal", value)
        _refuse_outside(value, name, low, high, "decimal")

    return check


def _refuse_outside(value: float, name: str, low: int, high: int, kind: str) -> None:
    if value < low:
        raise Rejected(
            f"Invalid '{name}': {kind} below minimum value. Expected a value >= {low}, but got {value} instead.",
            param=name,
            code=f"{kind}_below_min_value",
        )
    if value > high:
        raise Rejected(
            f"Invalid '{name}': {kind} above maximum value. Expected a value <= {high}, but got {value} instead.",
            param=name,
            code=f"{kind}_above_max_value",
        )


def one_of(*supported: str) -> Check:
    """Return a check for text from a list."""

    def check(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
        text(value, name)
        if value not in supported:
            raise wrong_value(name, value, supported)

    return check


def unavailable(why: str) -> Check:
    """Return a check that accepts no value: the stand-in says that it cannot do this, rather than ignore it."""

    def check(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
        del value
        raise Rejected(
            f"Unsupported parameter: '{name}' is not supported by this stand-in: {why}.",
            param=name,
            code="unsupported_parameter",
        )

    return check


def filled_list(value: Any, name: str, most: int) -> None:  # noqa: ANN401 - any JSON
    """Accept a list of 1 to ``most``."""
    listing(value, name)
    if not value:
        raise Rejected(
            f"Invalid '{name}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            param=name,
            code="empty_array",
        )
    if len(value) > most:
        raise Rejected(
            f"Invalid '{name}': array too long. Expected an array with maximum length {most}, "
            f"but got an array with length {len(value)} instead.",
            param=name,
            code="array_above_max_length",
        )


def named(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    """Accept the name of a function or schema."""
    text(value, name)
    if NAME.match(value) is None:
        raise Rejected(
            f"Invalid '{name}': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$' of at most 64 characters.",
            param=name,
            code="invalid_value",
        )


def labels(value: Any, name: str) -> None:  # noqa: ANN401 - any JSON
    """Accept metadata: up to 16 short pairs of text."""
    mapping(value, name)
    if len(value) > _MOST_METADATA:
        raise Rejected(
            f"Invalid '{name}': too many properties. Expected an object with at most {_MOST_METADATA} properties.",
            param=name,
            code="object_above_max_properties",
        )
    for key, entry in value.items():
        text(entry, f"{name}.{key}")
        if len(key) > _LONGEST_KEY or len(entry) > _LONGEST_VALUE:
            raise Rejected(f"Invalid '{name}.{key}': string too long.", param=name, code="string_above_max_length")


seed = integer(_LEAST_SEED, _GREATEST_SEED)
