"""Redaction: credentials are taken out before anything is hashed, so that no event, blob or digest depends on one.

Values of configured credentials go wherever they appear, also as JSON writes them. Texts that merely look like keys go
from imports and error texts; a model's answer keeps them, since changing it would change what is replayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

REDACTED = "[redacted]"
# A shorter value can't be told from ordinary words: "none" or "x" is what self-hosted servers are given as a key.
SHORTEST_SECRET = 8

# Before a shape: the beginning of a word, also right after a line break as JSON writes it.
BEGINNING = r"(?:\b|(?<=\\[nrtbf]))"
PRIVATE_KEY = r"-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)"
API_KEY = rf"""{BEGINNING}(?:
    sk-[A-Za-z0-9_-]{{16,}}                      # OpenAI, Anthropic, DeepSeek, OpenRouter and many more
    | hf_[A-Za-z0-9]{{20,}} | gsk_[A-Za-z0-9]{{20,}}
    | (?:AKIA|ASIA)[A-Z0-9]{{16}}\b | AIza[A-Za-z0-9_-]{{30,}}
    )"""
TOKEN = rf"""{BEGINNING}(?:
    gh[pousr]_[A-Za-z0-9]{{20,}} | github_pat_[A-Za-z0-9_]{{20,}} | glpat-[A-Za-z0-9_-]{{16,}}
    | xox[abeoprs]-[A-Za-z0-9-]{{10,}} | npm_[A-Za-z0-9]{{30,}} | pypi-[A-Za-z0-9_-]{{30,}}
    )
    # JSON web tokens; from the beginning of a run only, since trying each part of a long one takes its square
    | (?:(?<![A-Za-z0-9_-])|(?<=\\[nrtbf]))eyJ[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}
    | (?<=[Bb]earer[ ])(?:[A-Za-z0-9._~+/=-]|\\/){{16,}}"""
_SHAPES = re.compile(f"{PRIVATE_KEY} | {API_KEY} | {TOKEN}", re.VERBOSE)
# What every shape above holds, to pass over a text without one quickly.
HINTS = r"PRIVATE\ KEY|sk-|gh[pousr]_|github_pat_|glpat-|hf_|gsk_|xox|AKIA|ASIA|AIza|npm_|pypi-|eyJ|[Bb]earer\ "
_hinted = re.compile(HINTS, re.VERBOSE).search


def redact_key_shapes(text: str) -> tuple[str, int]:
    """Return the text without what looks like a key, and how many there were."""
    return _SHAPES.subn(REDACTED, text) if _hinted(text) else (text, 0)


class Redactor:
    """Takes the values of configured credentials out of texts and bytes."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST_SECRET for form in _forms(secret)}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._bytes = [form.encode() for form in self._forms]

    def text(self, text: str) -> tuple[str, int]:
        """Return the text without the values, and how many there were."""
        count = 0
        for form in self._forms:
            if form in text:
                count += text.count(form)
                text = text.replace(form, REDACTED)
        return text, count

    def within(self, data: bytes) -> bool:
        """Tell whether any value is in the data."""
        return any(form in data for form in self._bytes)

    def data(self, data: bytes) -> tuple[bytes, int]:
        """Return the bytes without the values, and how many there were. What was JSON is JSON afterwards."""
        count = 0
        whole = data
        for form in self._bytes:
            if form in data:
                count += data.count(form)
                data = data.replace(form, REDACTED.encode())
        if count and _is_json(whole) and not _is_json(data):  # a value that spanned an escape, or digits of a number
            data = json.dumps(self._inside(json.loads(whole)), ensure_ascii=False, separators=(",", ":")).encode()
        return data, count

    def _inside(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)[0]
        if isinstance(value, dict):
            return {self.text(name)[0]: self._inside(item) for name, item in value.items()}
        return [self._inside(item) for item in value] if isinstance(value, list) else value

    def error(self, text: str) -> str:
        """Return an error's text without the values and without anything that looks like a key."""
        return redact_key_shapes(self.text(text)[0])[0]


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _forms(secret: str) -> set[str]:
    """Return a value as it is, and as JSON and addresses write it."""
    escaped = json.dumps(secret)[1:-1]
    return {secret, escaped, escaped.replace("/", "\\/"), quote(secret, safe="")}
