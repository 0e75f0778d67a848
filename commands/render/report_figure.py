"""The figure of a report: quality over cost, with intervals, and the point that was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import htpy as h

from commands.render.plain import one_line
from commands.render.plots import Mark, frontier, intervals
from commands.render.report_words import dollars, interval, score
from projections.report import upper_hull

if TYPE_CHECKING:
    from htpy import Element, Node

    from commands.reporting.sheet import Served, Sheet

CHOSEN = "chosen"


def figure(sheet: Sheet) -> list[Node]:
    """Return the figure with its caption; scores alone where costs are unknown or all alike."""
    lines = [line for line in sheet.lines if line.mean is not None]
    if not lines:
        return [h.p["No way to serve the held-out tasks is measured, so there is nothing to draw."]]
    said = ("Quality over cost", _in_words(lines))
    costs = {line.cost_a_task for line in lines}
    if None in costs or len(costs) == 1:
        marks = [
            Mark(_names(line, sheet.incumbent), 0, line.mean or 0, line.low, line.high, _kind(line)) for line in lines
        ]
        why = "What tasks cost is unknown for some" if None in costs else "All ways cost the same"
        caption = f"{why}, so scores stand alone, with their 95% intervals."
        return [h.figure[intervals(marks, lambda value: score(value, 2), said), h.figcaption[caption]]]
    single = [(line.cost_a_task or 0, line.mean or 0) for line in lines if line.name in sheet.candidates]
    dial = sorted({(point.cost, point.mean) for point in sheet.report.curve})
    paths = [("hull", upper_hull(single)), ("dial", upper_hull(dial))]
    labels = (_price, lambda value: score(value, 2))
    marks = _marks(lines, sheet.incumbent)
    return [
        h.figure[
            frontier(marks, paths, labels, said),
            h.ol(class_="legend")[[_legend(mark) for mark in marks]],
            h.figcaption[
                "The diamond is the policy as it is; the solid line is what its dial can reach, the dashed one the best"
                " mix of candidates that ignores the request; the triangle is the oracle, which nobody can be. Upright"
                " lines are 95% intervals."
            ],
        ]
    ]


def _marks(lines: list[Served], incumbent: str) -> list[Mark]:
    """Return a mark a place: ways that cost and score the same share one."""
    shared: dict[tuple[int, int], list[Served]] = {}
    for line in lines:
        if line.name != "incumbent":
            shared.setdefault((line.cost_a_task or 0, line.mean or 0), []).append(line)
    order = (CHOSEN, "incumbent", "oracle", "candidate")
    marks = []
    for (cost, mean), some in shared.items():
        kinds = [_kind(line, incumbent) for line in some]
        names = tuple(name for line in some for name in _names(line, incumbent))
        marks.append(Mark(names, cost, mean, some[0].low, some[0].high, min(kinds, key=order.index)))
    return sorted(marks, key=lambda mark: order.index(mark.kind))


def _kind(line: Served, incumbent: str = "") -> str:
    if line.name == incumbent:
        return "incumbent"
    return {"routed": CHOSEN, "oracle": "oracle", "incumbent": "incumbent"}.get(line.name, "candidate")


def _names(line: Served, incumbent: str) -> tuple[str, ...]:
    if line.name == incumbent:
        return (f"{one_line(line.name)} (incumbent)",)
    return ("routed (the policy)",) if line.name == "routed" else (one_line(line.name),)


def _legend(mark: Mark) -> Element:
    return h.li[h.strong[" = ".join(mark.names)], f": {score(mark.y)} at {dollars(mark.x)} a task"]


def _price(nano: int) -> str:
    """Return an amount along the axis: ticks are round, so they need no zeros at their end."""
    whole, dot, rest = dollars(nano).partition(".")
    return f"{whole}{dot}{rest.rstrip('0')}".rstrip(".")


def _in_words(lines: list[Served]) -> str:
    return "; ".join(
        f"{line.name} scores {score(line.mean)}, 95% interval {interval(line.low, line.high)}, at"
        f" {dollars(line.cost_a_task)} a task"
        for line in lines
    )
