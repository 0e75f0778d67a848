"""Plots as static SVG: drawn in integers (tenths of a unit), coloured by the page's style, readable without either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import htpy as h

if TYPE_CHECKING:
    from collections.abc import Callable

    from htpy import Element

WIDTH, HEIGHT = 440, 330
LEFT, RIGHT, TOP, BOTTOM = 42, 30, 28, 44
INSET = 14  # room for a point that costs nothing
STEPS = (1, 2, 5, 10)
MOST_TICKS = 6


class Mark(NamedTuple):
    """A point: what it is called, where it is, its interval upwards and downwards, and how it is drawn."""

    names: tuple[str, ...]
    x: int
    y: int
    low: int | None
    high: int | None
    kind: str


class Scale(NamedTuple):
    """How values become places along an axis: ``least`` at ``start``, ``most`` at ``end``."""

    least: int
    most: int
    start: int
    end: int

    def place(self, value: int) -> str:
        """Return a place with one decimal."""
        return tenths(self.tenths(value))

    def tenths(self, value: int) -> int:
        """Return a place in tenths of a unit."""
        span = max(self.most - self.least, 1)
        return 10 * self.start + (10 * (self.end - self.start) * (value - self.least)) // span


def tenths(place: int) -> str:
    """Return tenths of a unit as a decimal."""
    whole, rest = divmod(abs(place), 10)
    return f"{'-' if place < 0 else ''}{whole}.{rest}" if rest else f"{'-' if place < 0 else ''}{whole}"


def ticks(least: int, most: int) -> list[int]:
    """Return round values from ``least`` to ``most`` or just beyond, at most six of them: 1, 2 or 5 times a ten."""
    span = max(most - least, 1)
    unit = 1
    while True:
        for step in STEPS:
            size = unit * step
            first, last = least // size * size, -(-most // size) * size
            if (last - first) // size < MOST_TICKS or size > span:
                return list(range(first, last + size, size) if last > first else (first, first + size))
        unit *= 10


def frontier(
    marks: Sequence[Mark],
    paths: Sequence[tuple[str, Sequence[tuple[int, int]]]],
    labels: tuple[Callable[[int], str], Callable[[int], str]],
    said: tuple[str, str],
) -> Element:
    """Return quality over cost: points with their intervals, and lines through places. ``said`` is title and text."""
    across = ticks(0, max([mark.x for mark in marks] + [x for _, path in paths for x, _ in path], default=1))
    lows = [mark.low if mark.low is not None else mark.y for mark in marks]
    highs = [mark.high if mark.high is not None else mark.y for mark in marks]
    upwards = ticks(min(lows, default=0), max(highs, default=1_000_000))
    x = Scale(across[0], across[-1], LEFT + INSET, WIDTH - RIGHT)
    y = Scale(upwards[0], upwards[-1], HEIGHT - BOTTOM, TOP)
    return h.svg(
        role="img",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="plot",
        aria_labelledby="frontier-title frontier-text",
    )[
        h.title(id="frontier-title")[said[0]],
        h.desc(id="frontier-text")[said[1]],
        [_row(y.place(value), labels[1](value)) for value in upwards],
        [_column(x.place(value), labels[0](value)) for value in across],
        h.text(class_="name", x=str((LEFT + WIDTH - RIGHT) // 2), y=str(HEIGHT - 6), text_anchor="middle")[
            "mean cost of a task"
        ],
        h.text(class_="name", x="4", y="12")["mean score"],
        [_path(kind, [(x.place(cost), y.place(score)) for cost, score in path]) for kind, path in paths if path],
        [_interval(x.place(mark.x), y.place(low), y.place(high)) for mark, low, high in zip(marks, lows, highs)],  # noqa: B905 - made above, one each
        [_numbered(place, mark, x, y) for place, mark in reversed(list(enumerate(marks, 1)))],
    ]


def _numbered(place: int, mark: Mark, x: Scale, y: Scale) -> list[Element]:
    """Return a point with its number, which the legend explains; the first mark is drawn last, above the others."""
    across, upwards = x.tenths(mark.x), y.tenths(mark.y)
    number = h.text(class_=f"number of-{mark.kind}", x=tenths(across), y=tenths(upwards + 36), text_anchor="middle")
    return [_point(mark.kind, across, upwards), number[str(place)]]


def _row(place: str, label: str) -> list[Element]:
    return [
        h.line(class_="grid", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=place, y2=place),
        h.text(class_="tick", x=str(LEFT - 6), y=place, dy="4", text_anchor="end")[label],
    ]


def _column(place: str, label: str) -> list[Element]:
    bottom = HEIGHT - BOTTOM
    return [
        h.line(class_="grid", x1=place, x2=place, y1=str(bottom), y2=str(bottom + 4)),
        h.text(class_="tick", x=place, y=str(bottom + 17), text_anchor="middle")[label],
    ]


def _path(kind: str, places: Sequence[tuple[str, str]]) -> Element:
    return h.polyline(class_=kind, points=" ".join(f"{x},{y}" for x, y in places))


def _interval(x: str, low: str, high: str) -> Element:
    return h.line(class_="interval", x1=x, x2=x, y1=low, y2=high)


def _point(kind: str, x: int, y: int) -> Element:
    if kind == "chosen":
        return _polygon(kind, x, y, ((0, -125), (125, 0), (0, 125), (-125, 0)))
    if kind == "oracle":
        return _polygon(kind, x, y, ((0, -135), (125, 80), (-125, 80)))
    return h.circle(class_=kind, cx=tenths(x), cy=tenths(y), r="8.5")


def _polygon(kind: str, x: int, y: int, around: Sequence[tuple[int, int]]) -> Element:
    return h.polygon(class_=kind, points=" ".join(f"{tenths(x + dx)},{tenths(y + dy)}" for dx, dy in around))


def intervals(marks: Sequence[Mark], label: Callable[[int], str], said: tuple[str, str]) -> Element:
    """Return scores alone, a row each, with their intervals: what is left where no cost is known."""
    lows = [mark.low if mark.low is not None else mark.y for mark in marks]
    highs = [mark.high if mark.high is not None else mark.y for mark in marks]
    across = ticks(min(lows, default=0), max(highs, default=1_000_000))
    x = Scale(across[0], across[-1], LEFT - 26, WIDTH - RIGHT - 10)
    row = 38
    height = row * len(marks) + 30
    return h.svg(
        role="img", viewBox=f"0 0 {WIDTH} {height}", class_="plot", aria_labelledby="frontier-title frontier-text"
    )[
        h.title(id="frontier-title")[said[0]],
        h.desc(id="frontier-text")[said[1]],
        [
            [
                h.line(class_="grid", x1=x.place(value), x2=x.place(value), y1="0", y2=str(height - 24)),
                h.text(class_="tick", x=x.place(value), y=str(height - 8), text_anchor="middle")[label(value)],
            ]
            for value in across
        ],
        [
            [
                h.text(class_="label", x=str(LEFT - 26), y=str(row * place + 13))[", ".join(mark.names)],
                h.line(
                    class_="interval",
                    x1=x.place(low),
                    x2=x.place(high),
                    y1=str(row * place + 25),
                    y2=str(row * place + 25),
                ),
                _point(mark.kind, x.tenths(mark.y), 10 * (row * place + 25)),
            ]
            for place, (mark, low, high) in enumerate(zip(marks, lows, highs, strict=True))
        ],
    ]


def bar(share: int) -> Element:
    """Return a small bar for a share in thousandths; its number stands beside it."""
    return h.svg(class_="bar", viewBox="0 0 1000 100", preserveAspectRatio="none", aria_hidden="true")[
        h.rect(class_="whole", width="1000", height="100"),
        h.rect(class_="part", width=str(min(max(share, 0), 1000)), height="100"),
    ]
