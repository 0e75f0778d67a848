"""Recorded text, made fit to be shown: no control characters, no escape sequences, no reordering of what is read."""

from __future__ import annotations

import re

# Terminal control sequences whole (so that their parameters don't stay behind as text), then any control left over.
_SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|\x9c|$)|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]", re.DOTALL
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile(r"\s*[\n\t\u2028\u2029]\s*")


def printable(text: str) -> str:
    """Return the text without escape sequences, controls (but line feed and tab) and direction overrides."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """Return the printable text on one line; each run of line breaks and tabs becomes a space."""
    return _BREAKS.sub(" ", printable(text)).strip()
