"""JSON that can be printed: nothing in it acts on a terminal, and nothing is lost."""

from __future__ import annotations

import json
import re

# What JSON may hold as it is and a terminal acts on: controls beyond ASCII, marks of direction, separators of lines;
# and lone surrogates, which no encoding has bytes for.
_ACTING = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON whose characters are themselves, but for those that act, which are escaped."""
    return harmless(json.dumps(value, ensure_ascii=False, indent=indent))


def harmless(text: str) -> str:
    """Return JSON with what acts on a terminal escaped: the same values, read again."""
    return _ACTING.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
