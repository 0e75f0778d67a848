"""Sections: what a comparison found, in rows that a table, a page and JSON show alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ledger.differences import Absent, Difference

Cell = str | int | None
Row = Mapping[str, Cell]
AROUND = 30
MOST = 160

_encode = msgspec.json.Encoder(order="sorted").encode


class Section(NamedTuple):
    """One kind of difference. What is only ``said`` (times, names) makes two things no more different."""

    name: str
    title: str
    rows: Sequence[Row]
    said: bool = False


class Comparison(NamedTuple):
    """What two sides are called, and where they differ."""

    kind: str
    a: str
    b: str
    sections: Sequence[Section]

    @property
    def different(self) -> bool:
        """Tell whether there is any difference."""
        return any(section.rows for section in self.sections if not section.said)


def rows(found: Iterable[Difference]) -> list[Row]:
    """Return a row a difference: its pointer, and what stands there on both sides."""
    return [{"pointer": one.pointer, "a": words(one.left), "b": words(one.right)} for one in found]


def words(value: object) -> str:
    """Return a value as a text: a text as it is, what is absent as such, anything else as JSON."""
    if isinstance(value, Absent):
        return "absent"
    return value if isinstance(value, str) else _encode(value).decode()


def shortened(left: str, right: str) -> tuple[str, str]:
    """Return two texts cut to the surroundings of the first place where they differ, when they are long."""
    if max(len(left), len(right)) <= MOST:
        return left, right
    pairs = zip(left, right, strict=False)
    first = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))
    begin = max(0, first - AROUND)
    mark = "..." if begin else ""

    def cut(text: str) -> str:
        tail = "..." if len(text) > begin + MOST else ""
        return f"{mark}{text[begin : begin + MOST]}{tail}"

    return cut(left), cut(right)
