"""Lines to JSON values. Nothing that a line holds stops the reading: a line that can't be read is a finding."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ledger.families.traces import Exclusion

WHOLE_FILE_BYTES = 256 << 20
MOST_INTEGER = 2**63
MOST_DEPTH = 200  # of values; deeper ones would exhaust the stack of whoever walks them
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")
_MARK = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode

Redact = Callable[[str], tuple[str, int]]
Line = bytes | None  # None stands for a line that is longer than what is read


class Unreadable(Exception):
    """The text isn't JSON; ``reason`` names why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parsed(text: bytes) -> tuple[Any, bool]:
    """Return a JSON value, and whether bytes that aren't UTF-8 were replaced on the way; Unreadable otherwise."""
    try:
        return _decode(text), False
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        raise Unreadable("nested-too-deeply") from None
    try:
        words, repaired = text.decode(), False
    except UnicodeDecodeError:
        words, repaired = text.decode(errors="replace"), True
    try:
        return json.loads(words, parse_constant=lambda _: None), repaired  # takes NaN and lone surrogates
    except RecursionError:
        raise Unreadable("nested-too-deeply") from None
    except ValueError:
        raise Unreadable("nested-too-deeply" if _depth(words) > MOST_DEPTH else "not-json") from None


def _depth(words: str) -> int:
    """Return how deeply brackets are nested outside texts; interpreters differ in how deep they read at most."""
    depth = most = 0
    for mark in _BRACKETS.findall(_TEXTS.sub("", words)):
        depth += 1 if mark in "[{" else -1
        most = max(most, depth)
    return most


class Cleaner:
    """Makes values fit to be hashed and stored: no credentials, no lone surrogates, no integers beyond 64 bits."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self.redactions = 0

    def text(self, text: str) -> str:
        """Return the text without what looks like a key; lone surrogates become question marks."""
        if not text.isascii():
            text = text.encode(errors="replace").decode()
        text, count = self._redact(text)
        self.redactions += count
        return text

    def value(self, value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
        """Return a JSON value with all its texts cleaned; Unreadable when it is nested too deeply."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list) and depth == MOST_DEPTH:
            raise Unreadable("nested-too-deeply")
        if isinstance(value, dict):
            return {self.text(key): self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if isinstance(value, int) and not -MOST_INTEGER <= value < MOST_INTEGER:
            return None
        return value


class Documents:
    """The JSON values of an export: one a line, or one in the whole file. Iterating gives (line number, value)."""

    def __init__(self, lines: Iterable[Line], cleaner: Cleaner) -> None:
        self._lines = enumerate(lines, 1)
        self._cleaner = cleaner
        self.exclusions: list[Exclusion] = []
        self.read = 0

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield every value that can be read; the others are among the exclusions afterwards."""
        held: list[tuple[int, Line]] = []
        for number, line in self._lines:
            content = line.removeprefix(_MARK).strip() if line is not None and number == 1 else line
            if content is not None and not content.strip():
                continue
            held.append((number, content))
            break
        if held and (whole := self._whole(held)) is not None:
            yield from whole
            return
        for number, line in held:
            yield from self._value(number, line)
        for number, line in self._lines:
            yield from self._value(number, line)

    def _whole(self, held: list[tuple[int, Line]]) -> list[tuple[int, Any]] | None:
        """Return the one value of a file that is written over many lines; otherwise hold what was read of it."""
        number, first = held[0]
        if first is None or first.strip()[:1] not in (b"{", b"["):
            return None
        try:
            parsed(first)
        except Unreadable as unreadable:
            if unreadable.reason != "not-json":
                return None
        else:
            return None
        size = len(first)
        for place, line in self._lines:
            held.append((place, line))
            size += len(line or b"")
            if line is None or size > WHOLE_FILE_BYTES:
                return None
        try:
            value, _ = parsed(b"".join(line or b"" for _, line in held))
            return [(number, self._cleaner.value(value))]
        except Unreadable:
            return None

    def _value(self, number: int, line: Line) -> Iterator[tuple[int, Any]]:
        place = f"line {number}"
        if line is None:
            self.exclusions.append(Exclusion(place=place, reason="line-too-long"))
            return
        if not line or line.isspace():
            return
        try:
            value, repaired = parsed(line)
            value = self._cleaner.value(value)
        except Unreadable as unreadable:
            self.exclusions.append(Exclusion(place=place, reason=unreadable.reason))
        else:
            if repaired:
                self.exclusions.append(Exclusion(place=place, reason="bytes-replaced"))
            self.read += 1
            yield number, value
