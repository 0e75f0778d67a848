"""Lines to JSON values. Nothing that a line holds stops the reading: a line that can't be read is a finding.

A file may also be one value over many lines. One that is too large to be held is taken apart as it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from ledger.families.traces import Exclusion

LINE_BYTES = 16 << 20  # what of a line is held at once; its value takes some ten times as much
WHOLE_FILE_BYTES = 16 << 20
EXCERPT = 160  # characters
FEW_LINES = 20
MOST_INTEGER = 2**63
MOST_DEPTH = 200  # of values; deeper ones would exhaust the stack of whoever walks them
FEW_BRACKETS = MOST_DEPTH  # a value with fewer of them isn't nested that deeply
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BLANK = re.compile(r"[ \t\r\n]*(?=[{\[])")
_BRACKETS = re.compile(r"[\[\]{}]")
_UNSIGNED = re.compile(rb"\xcf[\x80-\xff]")  # in MessagePack: an integer that needs all of 64 bits, or Greek
_LONG_NUMBER = re.compile(rb'(?<![0-9"])(?:9[0-9]{18}|[1-9][0-9]{19})')
_MARK = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.msgpack.Encoder().encode

Redact = Callable[[str], tuple[str, int]]
Line = bytes | None  # None stands for a line that is longer than what is read
Document = tuple[str, Any, bool]  # its place, its value, and whether no text in it can hold what is left out


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


def _always(data: bytes) -> bool:
    del data
    return True


class Cleaner:
    """Makes values fit to be hashed and stored: no credentials, no lone surrogates, no integers beyond 64 bits.

    A ``redact`` that has ``suspects``, a quick test of bytes, is called only for those that it suspects; these are all
    that may hold what it takes out, or a lone surrogate.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._suspects: Callable[[bytes], bool] = getattr(redact, "suspects", _always)
        self.redactions = 0

    def document(self, line: bytes) -> tuple[Any, bool, bool]:
        """Return the cleaned value of a line, whether it was clean, and whether bytes were replaced in it.

        What is clean is so in whatever JSON its texts hold, too. Unreadable otherwise.
        """
        value = self.clean(line)
        if value is not None:
            return value, True, False
        value, repaired = parsed(line)
        return self.value(value), False, repaired

    def clean(self, line: bytes) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of a line that needs no cleaning, as nearly all do; None for another line."""
        if self._suspects(line) or line.count(b"[") + line.count(b"{") >= FEW_BRACKETS:
            return None
        try:
            value = _decode(line)
            beyond = _UNSIGNED.search(_encode(value)) is not None and _LONG_NUMBER.search(line) is not None
        except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError):
            return None
        return None if beyond else value

    def text(self, text: str) -> str:
        """Return the text without what looks like a key; lone surrogates become question marks."""
        data = text.encode(errors="replace")
        if not self._suspects(data):
            return text if text.isascii() else data.decode()
        if not text.isascii():
            text = data.decode()
        text, count = self._redact(text)
        self.redactions += count
        return text

    def excerpt(self, line: bytes) -> str:
        """Return the beginning of a line, cleaned: what a person needs to find it again."""
        return self.text(line[: 4 * EXCERPT].decode(errors="replace"))[:EXCERPT].strip()

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
    """The JSON values of an export: one a line, or one in the whole file. Iterating gives each with its place.

    Lines come without more than ``LINE_BYTES`` at once: what follows of a longer one comes as if it was another line.
    Empty lines may come together.
    """

    def __init__(self, lines: Iterable[Line], cleaner: Cleaner) -> None:
        self._lines = iter(lines)
        self._number = 0
        self._cleaner = cleaner

    def __iter__(self) -> Iterator[Document | Exclusion]:
        """Yield every value that can be read, and an exclusion for each that can't."""
        held: list[Line] = []
        for line in self._lines:
            if line is not None and line.startswith(b"\n"):
                self._number += len(line)
                continue
            content = line.removeprefix(_MARK) if line is not None and not self._number else line
            self._number += 1
            if content is None or content.strip():
                held.append(content)
                break
        if held and held[0] is not None and held[0].lstrip()[:1] in (b"{", b"["):
            if _cut(held[0]):
                yield from self._taken_apart(held)
                return
            if not _complete(held[0]):
                whole = self._whole(held)
                if whole is not None:
                    yield from whole
                    return
        self._number -= 1
        yield from self._each(chain(held, self._lines))

    def _each(self, lines: Iterator[Line]) -> Iterator[Document | Exclusion]:
        """Yield what each line holds."""
        for line in lines:
            if line is not None and line.startswith(b"\n"):
                self._number += len(line)
                continue
            self._number += 1
            if line is not None:
                if _cut(line):
                    self._skip(lines)
                    line = None  # noqa: PLW2901 - what was read of it is of no use
                elif (value := self._cleaner.clean(line)) is not None:
                    yield f"line {self._number}", value, True
                    continue
            yield from self._value(line)

    def _skip(self, lines: Iterator[Line]) -> None:
        """Pass over the rest of a line that is longer than what is held."""
        for rest in lines:
            if rest is None or not _cut(rest):
                return

    def _whole(self, held: list[Line]) -> Iterable[Document | Exclusion] | None:
        """Return the one value of a file that is written over many lines; otherwise hold what was read of it."""
        number, size = self._number, len(held[0] or b"")
        for line in self._lines:
            held.append(line)
            size += len(line or b"")
            if line is None:
                return None
            if size > WHOLE_FILE_BYTES:
                return None if _by_lines(held) else self._taken_apart(held)
        text = b"".join(line or b"" for line in held)
        try:
            value, clean, repaired = self._cleaner.document(text)
        except Unreadable:
            return self._several(text, number)
        found: list[Document | Exclusion] = [(f"line {number}", value, clean)]
        if repaired:
            found.append(Exclusion(place=f"line {number}", reason="bytes-replaced"))
        return found

    def _several(self, text: bytes, number: int) -> Iterable[Document | Exclusion] | None:
        """Return the values of a file that has several, one after another over many lines; None when it begins so not.

        What comes after the last of them is read by lines.
        """
        found: list[Document | Exclusion] = []
        start = 0
        for nth, end in enumerate(_ends(text), 1):
            value = text[start:end].lstrip()
            number += text.count(b"\n", start, end - len(value))
            found += self._value(value, f"line {number}, value {nth}")
            number += value.count(b"\n")
            start = end
        if not start:
            return None
        self._number = number
        for line in text[start:].splitlines(keepends=True):
            found += self._value(line)
            self._number += 1
        return found

    def _taken_apart(self, held: list[Line]) -> Iterator[Document | Exclusion]:
        """Yield the parts of values that are too large to be held."""
        from projections.normal_form.apart import parts  # noqa: PLC0415 - few files need it

        pieces = (piece for piece in chain(held, self._lines) if piece is not None)
        for place, value in parts(pieces):
            if isinstance(value, Unreadable):
                yield Exclusion(place=place, reason=value.reason, units=1)
                continue
            try:
                yield place, self._cleaner.value(value), False
            except Unreadable as unreadable:
                yield Exclusion(place=place, reason=unreadable.reason, units=1)

    def _value(self, line: Line, place: str = "") -> tuple[Document | Exclusion, ...]:
        place = place or f"line {self._number}"
        if line is None:
            return (Exclusion(place=place, reason="line-too-long", units=1),)
        if not line or line.isspace():
            return ()
        try:
            value, clean, repaired = self._cleaner.document(line)
        except Unreadable as unreadable:
            detail = self._cleaner.excerpt(line)
            return (Exclusion(place=place, reason=unreadable.reason, detail=detail, units=1),)
        if repaired:
            return Exclusion(place=place, reason="bytes-replaced"), (place, value, clean)
        return ((place, value, clean),)


def _ends(text: bytes) -> Iterator[int]:
    """Yield where each value ends that a text begins with, one after another."""
    try:
        words = text.decode("latin-1")  # a character a byte, so that places are places in bytes
        at = 0
        while rest := _BLANK.match(words, at):
            at = json.JSONDecoder().raw_decode(words, rest.end())[1]
            yield at
    except (ValueError, RecursionError):
        return


def _cut(line: bytes) -> bool:
    """Tell whether a line goes on beyond what is held at once."""
    return len(line) >= LINE_BYTES and not line.endswith(b"\n")


def _by_lines(held: list[Line]) -> bool:
    """Tell whether a file has a value a line, though its first line isn't one: most lines after it are."""
    some = [line for line in held[1 : 1 + FEW_LINES] if line]
    return 2 * sum(line.lstrip()[:1] == b"{" and _complete(line) for line in some) > len(some)


def _complete(line: bytes) -> bool:
    """Tell whether a line isn't merely the beginning of a value: it is one, or too deep to tell."""
    try:
        parsed(line)
    except Unreadable as unreadable:
        return unreadable.reason != "not-json"
    return True
