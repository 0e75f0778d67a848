"""Detectors: what imports may be asked to leave out, found by shape, and what stands in its place.

Keys become ``[redacted]`` unless somebody asks for detectors by name: then each value gets a placeholder of its own,
``[email:3f2a91c0d4b7]``, so that equal values stay equal. It digests the value with the name of the ledger's origin:
it can't be looked up in a table, nor matched with another ledger's. Whoever has the ledger knows that name, and can
find a short value, such as a phone number, by trying them all.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple, Protocol

import re2

from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.redaction import API_KEY, HINTS, PRIVATE_KEY, REDACTED, TOKEN, Redactor

CREDENTIAL = "credential"  # the value of a configured one
DIGITS = 12
MOST_DEPTH = 40  # of JSON in a text, and
MOST_TEXTS = 3  # of texts in texts, that are looked into; whatever is deeper is read as text
_MARK = re.compile(r"\[(?:[a-z][a-z0-9-]{0,31}:[0-9a-f]{12}|redacted)\]")

_RUN = r"[\w.%+-]"
_EMAIL = rf"(?:(?<=\\[nrtbf])|(?<!{_RUN})(?!(?<=\\)[nrtbfu])){_RUN}+(?:@|\\u0040|%40)(?:[\w-]+\.)+[^\W\d_]{{2,24}}"
_SEPARATORS = r"[ .()/-]{0,2}"
_PHONE = rf"""(?:(?<=\\[nrtbf])|(?<![\w+.-]))(?:
    (?:\+|00(?=[1-9]\d{{0,2}}[ ]))\d{{1,3}}{_SEPARATORS}(?:\d{_SEPARATORS}){{6,13}}\d
    | (?:1[ .-])?(?:\(\d{{3}}\)[ ]?|\d{{3}}[ .-])\d{{3}}[ .-]\d{{4}}
    )(?![\w-]|\.\d)"""
_CARD = r"(?:(?<=\\[nrtbf])|(?<![\w.-]))\d(?:[ -]?\d){12,}(?![\w]|\.\d)"
_CARD_LENGTHS = range(13, 20)
_CARD_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}"  # American Express, Diners Club, JCB
    r"|6(?:011|22\d|4[4-9]\d|5\d{2})\d{12,15}|62\d{14,17}|(?:5018|5020|5038|6304|6759|676[1-3])\d{8,15}"
)


class Detector(NamedTuple):
    """What is left out: its shape, a hint that every text with it holds, and which parts of a match are meant."""

    name: str
    shape: str
    hint: str
    parts: Callable[[str], list[tuple[int, int]]] | None = None
    same: Callable[[str], str] = str  # values for which this is equal get one placeholder


def _digits(text: str) -> str:
    return "".join(mark for mark in text if mark.isdigit())


def _cards(run: str) -> list[tuple[int, int]]:
    """Return where card numbers are in a run of digits: whole groups of it, by an issuer, with the right sum."""
    places = [place for place, mark in enumerate(run) if mark.isdigit()]
    digits_ = "".join(run[place] for place in places)
    begins = {number for number, place in enumerate(places) if not number or places[number - 1] < place - 1}
    found: list[tuple[int, int]] = []
    first = 0
    while first < len(places):
        size = _card(digits_, first, begins) if first in begins else 0
        if size:
            found.append((places[first], places[first + size - 1] + 1))
        first += size or 1
    return found


def _card(run: str, first: int, begins: Container[int]) -> int:
    """Return the length of the longest card number that begins with this digit and ends with its group, or 0."""
    for size in reversed(_CARD_LENGTHS):
        last = first + size
        if last > len(run) or (last < len(run) and last not in begins):
            continue
        number = run[first:last]
        if _CARD_ISSUERS.fullmatch(number) and _luhn(number):
            return size
    return 0


def _luhn(number: str) -> bool:
    """Tell whether the last digit is what the others ask for (ISO/IEC 7812-1)."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0  # noqa: PLR2004 - digits of a decimal sum


def _phones(match: str) -> list[tuple[int, int]]:
    """Return the match when it has as many digits as a number that can be dialled (E.164: at most 15)."""
    return [(0, len(match))] if 8 <= len(_digits(match)) <= 15 else []  # noqa: PLR2004 - as it says


KEYS = (
    Detector("private-key", PRIVATE_KEY, HINTS),
    Detector("api-key", API_KEY, HINTS),
    Detector("token", TOKEN, HINTS),
)
PERSONAL = (
    Detector("card", _CARD, r"\d(?:[ -]?\d){12}", _cards, _digits),
    Detector("email", _EMAIL, r"@|\\u0040|%40", None, lambda text: _at(text).lower()),
    Detector("phone", _PHONE, r"\d{3}[ .)/-]|\+\d", _phones, _digits),
)
BY_NAME = {one.name: one for one in (*KEYS, *PERSONAL)}
_CHOICES: dict[str, tuple[Detector, ...]] = {
    **{name: (one,) for name, one in BY_NAME.items()},
    "none": (),
    "key": KEYS,
    "all": (*KEYS, *PERSONAL),
}
NAMES = ("none", "keys", "all", *BY_NAME)


def _at(text: str) -> str:
    return text.replace("\\u0040", "@").replace("%40", "@")


class DetectorUnknown(Refusal, name="detector-unknown", exit_code=95):
    """Something was to be redacted that nothing here detects."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"nothing here detects {name!r}; nothing was read",
            where="--redact",
            remedy=f"give names with commas between: {', '.join(NAMES)}; other shapes go in a file, --redact-rules",
        )


def chosen(names: str) -> tuple[Detector, ...]:
    """Return the detectors that a list of names stands for, in order; DetectorUnknown for another name."""
    found: set[str] = set()
    for name in names.split(","):
        word = name.strip().lower().replace("_", "-").replace("e-mail", "email").removesuffix("s")
        if word not in _CHOICES:
            raise DetectorUnknown(name.strip())
        found.update(one.name for one in _CHOICES[word])
    return tuple(one for one in (*KEYS, *PERSONAL) if one.name in found)


class Rule(Protocol):
    """A shape of somebody's own: where it is in a text, in order and without overlap."""

    @property
    def name(self) -> str: ...
    @property
    def regex(self) -> str: ...
    def __call__(self, text: str) -> Iterator[tuple[int, int]]: ...


class _Pass:
    """Detectors whose shapes are looked for together."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._named = {one.name.replace("-", "_"): one for one in detectors}
        self._shapes = re.compile("|".join(f"(?P<{name}>{one.shape})" for name, one in self._named.items()), re.VERBOSE)
        hints = dict.fromkeys(one.hint for one in detectors)
        self.hinted = re.compile("|".join(f"(?:{hint})" for hint in hints), re.VERBOSE).search

    def replaced(self, text: str, found: list[str], placeholder: Callable[[str, str], str]) -> str:
        """Return the text without what is meant; what was found is added to ``found`` by name."""

        def instead(match: re.Match[str]) -> str:
            one, whole = self._named[match.lastgroup or ""], match.group()
            parts = [(0, len(whole))] if one.parts is None else one.parts(whole)
            found.extend([one.name] * len(parts))
            return _without(whole, parts, lambda value: placeholder(one.name, one.same(value)))

        return self._shapes.sub(instead, text)


def _without(text: str, parts: Sequence[tuple[int, int]], instead: Callable[[str], str]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in parts:
        pieces += [text[done:start], instead(text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


class Redaction:
    """Takes out of texts what they shouldn't keep, and counts it by detector.

    Without an ``origin`` whatever is found becomes ``[redacted]``, the same on every machine.
    """

    def __init__(
        self, values: Redactor, detectors: Sequence[Detector] = KEYS, rules: Sequence[Rule] = (), *, origin: str = ""
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.names = (*(one.name for one in detectors), *(rule.name for rule in rules))
        self.identity = (bool(origin), *self.names, *(rule.regex for rule in rules))  # what decides, but for the ledger
        self._values = values
        self._rules = tuple(rules)
        self._origin = origin
        self._numbers = "card" in self.names or bool(rules)
        keys = [one for one in detectors if one in KEYS]
        self._passes = [_Pass(some) for some in (keys, *([one] for one in detectors if one not in KEYS)) if some]
        self._personal = len(keys) < len(detectors)
        hints = "|".join(f"(?:{hint})" for hint in dict.fromkeys(one.hint for one in detectors))
        # Escapes can hide what a hint looks for, and only keys are of letters that no writer has to escape; those of
        # surrogates can leave a text that can't be stored.
        escapes = r"\\u(?:00|[dD])"
        self._hinted = re2.compile(f"{escapes}|{hints}" if hints else escapes).search

    def __call__(self, text: str) -> tuple[str, int]:
        """Return the text without what was found, and how much that was."""
        shown, found = self._cleaned(text, 0)
        if found:
            self.counts.update(found)
        return shown, len(found)

    def suspects(self, data: bytes) -> bool:
        """Tell whether a text, or JSON of texts, may hold something: quickly, and never no when there is something.

        Nor is it no when there may be a lone surrogate in JSON, also in that of a text.
        """
        if self._rules or (self._personal and (b"\\" in data or not data.isascii())):
            return True
        return self._hinted(data) is not None or self._values.within(data)

    def _cleaned(self, text: str, level: int) -> tuple[str, list[str]]:
        shown, found = self._plain(text)
        if text[:1] in ("{", "[", '"') and level < MOST_TEXTS and (found or "\\u00" in text):
            return self._opened(text, shown, found, level + 1)
        return shown, found

    def _plain(self, text: str) -> tuple[str, list[str]]:
        shown, count = self._values.text(text)
        found = [CREDENTIAL] * count
        for one in self._passes:
            if one.hinted(shown):
                shown = one.replaced(shown, found, self.placeholder)
        for rule in self._rules:
            shown = self._ruled(rule, shown, found)
        return shown, found

    def placeholder(self, name: str, value: str) -> str:
        """Return what stands for a value: the same for the same value, in one ledger."""
        if not self._origin:
            return REDACTED
        digest = digests.content_digest(canonical.digest_input("redaction", self._origin, name, value))
        return f"[{name}:{digest.removeprefix(digests.PREFIX)[:DIGITS]}]"

    def _ruled(self, rule: Rule, text: str, found: list[str]) -> str:
        """Apply a rule outside what stands for values already."""
        marks = [match.span() for match in _MARK.finditer(text)]
        parts = [
            (start, end)
            for start, end in rule(text)
            if start < end and not any(start < stop and begin < end for begin, stop in marks)
        ]
        found += [rule.name] * len(parts)
        return _without(text, parts, lambda value: self.placeholder(rule.name, value)) if parts else text

    def _opened(self, text: str, shown: str, found: list[str], level: int) -> tuple[str, list[str]]:
        """Return a text that may be JSON: without what its escapes hide, and JSON afterwards if it was before.

        A number that was taken out in place would leave no JSON: then its values are cleaned one by one instead.
        """
        depth, value = _read(shown)
        if depth is None and found:
            depth, value = _read(text)
            if depth is None or depth > MOST_DEPTH:
                return shown, found
            found = []
        if depth is None or depth > MOST_DEPTH:
            return shown, found
        hidden: list[str] = []
        value = self._inside(value, level, hidden)
        return (_written(value), found + hidden) if hidden else (shown, found)

    def _inside(self, value: object, level: int, found: list[str]) -> object:
        if isinstance(value, str):
            value, more = self._cleaned(value, level)
            found += more
        elif isinstance(value, list):
            return [self._inside(item, level, found) for item in value]
        elif isinstance(value, dict):
            return {self._inside(name, level, found): self._inside(item, level, found) for name, item in value.items()}
        elif isinstance(value, int | float) and not isinstance(value, bool) and self._numbers:
            shown, more = self._plain(str(value))
            found += more
            return shown if more else value
        return value


def _read(text: str) -> tuple[int | None, object]:
    """Return how deeply a JSON value is nested, and the value; no depth for what is no JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None, None
    return (_depth(value) if isinstance(value, str | list | dict) else None), value


def _depth(value: object) -> int:
    """Return how deep a value is, as far as anybody cares."""
    depth, level = 0, [value]
    while level and depth <= MOST_DEPTH:
        depth += 1
        level = [
            item
            for one in level
            if isinstance(one, list | dict)
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, list | dict)
        ]
    return depth


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
