"""What world model and judge are asked: JSON in the user message, read without trusting its shape."""

from __future__ import annotations

from typing import Any

import msgspec


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a message's text is; None when it isn't one."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None


def read_text(value: Any) -> str:  # noqa: ANN401 - whatever the request holds
    """Return text as it is, nothing as nothing, and any other JSON value as its text."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
