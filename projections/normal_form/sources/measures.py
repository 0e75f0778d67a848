"""What exports measure, read exactly: times, token counts, money and scores. Nothing is computed on floats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

_MOST = 2**53 - 1
_MOST_DIGITS = 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 10**9
_SCALES = ((10**11, _SECOND), (10**14, 10**6), (10**17, 10**3))  # seconds, milliseconds, microseconds since 1970
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE][+-]?\d{1,2})?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_INPUT = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "input", "prompt")
_OUTPUT = ("output_tokens", "completion_tokens", "outputTokens", "completionTokens", "output", "completion")
_CACHED = (
    "cache_read_input_tokens",
    "input_tokens_cache_read",
    "prompt_cached_tokens",
    "cached_input_tokens",
    "cachedInputTokens",
    "input_cache_read",
    "input_cached_tokens",
    "prompt_details.cache_read",
    "input_token_details.cache_read",
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "inputDetails.cacheRead",
)
_WRITTEN = (
    "cache_creation_input_tokens",
    "input_tokens_cache_write",
    "prompt_cache_creation_tokens",
    "input_cache_creation",
    "input_token_details.cache_creation",
    "inputDetails.cacheWrite",
)
_REASONED = (
    "reasoning_tokens",
    "reasoning_output_tokens",
    "completion_reasoning_tokens",
    "reasoningTokens",
    "output_reasoning",
    "completion_details.reasoning",
    "output_token_details.reasoning",
    "completion_tokens_details.reasoning_tokens",
    "output_tokens_details.reasoning_tokens",
    "outputDetails.reasoning",
)
_USAGE = {
    "gen_ai.usage.input_tokens": _INPUT,
    "gen_ai.usage.output_tokens": _OUTPUT,
    "gen_ai.usage.cache_read.input_tokens": _CACHED,
    "gen_ai.usage.cache_creation.input_tokens": _WRITTEN,
    "gen_ai.usage.reasoning.output_tokens": _REASONED,
}


def number(value: Any) -> Decimal | None:  # noqa: ANN401 - any JSON value
    """Return a finite number that JSON holds as a number or as text, in the digits it was written in."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    words = value.strip() if isinstance(value, str) else repr(value)
    if len(words) > _MOST_DIGITS or not _NUMBER.fullmatch(words):
        return None
    try:
        return Decimal(words)
    except InvalidOperation:  # pragma: no cover - the pattern admits what Decimal reads
        return None


def nanoseconds(value: Any) -> int:  # noqa: ANN401 - any JSON value
    """Return a time since 1970: ISO text, or a number of seconds, milliseconds, microseconds or nanoseconds; 0 if none.

    A time without a zone is UTC, which is what the exports that leave it out say they mean.
    """
    if isinstance(value, str) and _TIME.match(value):
        try:
            read = datetime.fromisoformat(value.strip())
            since = (read if read.tzinfo else read.replace(tzinfo=UTC)) - _EPOCH
        except (ValueError, OverflowError):
            return 0
        return max(0, since // timedelta(microseconds=1)) * 1000
    time = number(value)
    if time is None or time <= 0:
        return 0
    scale = next((scale for bound, scale in _SCALES if time < bound), 1)
    whole = int(time * scale)
    return whole if whole < 2**63 else 0


def later(start: int, seconds: Any) -> int:  # noqa: ANN401 - any JSON value
    """Return the time that many seconds after a known start, 0 when either isn't known."""
    length = number(seconds)
    if not start or length is None or length < 0 or length > _MOST:
        return 0
    return start + int(length * _SECOND)


def count(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    """Return a count of tokens, None when it isn't one."""
    read = number(value)
    if read is None or read != int(read) or not 0 <= read <= _MOST:
        return None
    return int(read)


def nano_usd(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    """Return an amount of dollars in nano-dollars, rounded once; None, which is unknown, when it isn't one."""
    amount = number(value)
    if amount is None or amount < 0 or amount * _SECOND > _MOST:
        return None
    return int((amount * _SECOND).to_integral_value())


def decimal_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a score as plain decimal text: truth as 1, untruth as 0, and nothing for what is no number."""
    if isinstance(value, bool):
        return str(int(value))
    read = number(value)
    if read is None:
        return ""
    text = format(read, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def usage(*counted: Any) -> dict[str, int]:  # noqa: ANN401 - any JSON value
    """Return token counts by their conventional names; the first of these objects that states a count decides."""
    found: dict[str, int] = {}
    for one in counted:
        if not one or not isinstance(one, dict):
            continue
        for name, names in _USAGE.items():
            if name not in found and (tokens := _first(one, names)) is not None:
                found[name] = tokens
    return found


def _first(counted: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = counted.get(name)
        if value is None and "." in name:
            outer, _, inner = name.partition(".")
            nested = counted.get(outer)
            value = nested.get(inner) if isinstance(nested, dict) else None
        if value is not None and (tokens := count(value)) is not None:
            return tokens
    return None


def annotation(name: Any, value: Any, origin: str, *, label: Any = None, comment: Any = None) -> dict[str, str]:  # noqa: ANN401 - any JSON values
    """Return what a person, a model or code said of a trace; a value that is no number is its label."""
    if not isinstance(label, str) or not label:
        said = str(value).lower() if isinstance(value, bool) else value
        label = said if isinstance(said, str) and number(said) is None else ""
    return {
        "name": name if isinstance(name, str) else "",
        "value": decimal_text(value),
        "label": label,
        "origin": origin,
        "comment": comment if isinstance(comment, str) else "",
    }
