"""Figures: places on integers, ticks that are round, and words for those who don't see them."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from commands.render.plots import Mark, Scale, bar, frontier, intervals, tenths, ticks

SAID = ("A title & more", "a < b")
MARKS = (
    Mark(("routed",), 300, 600_000, 500_000, 700_000, "chosen"),
    Mark(("dear",), 1_000, 900_000, None, None, "incumbent"),
    Mark(("cheap",), 0, 100_000, 0, 250_000, "candidate"),
    Mark(("oracle",), 200, 950_000, 900_000, 1_000_000, "oracle"),
)


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**13))
def test_ticks_are_few_round_evenly_apart_and_reach_beyond_both_ends(least: int, span: int) -> None:
    found = ticks(least, least + span)
    assert found[0] <= least
    assert found[-1] >= least + span
    assert 2 <= len(found) <= 7
    (apart,) = {right - left for left, right in itertools.pairwise(found)}
    assert str(apart).rstrip("0") in {"1", "2", "5"}
    assert all(one % apart == 0 for one in found)
    assert found[0] + apart > least
    assert found[-1] - apart < least + max(span, 1)


def test_a_scale_puts_its_ends_where_they_belong_whichever_way_it_runs() -> None:
    upwards = Scale(0, 1_000_000, 286, 28)
    assert [upwards.place(value) for value in (0, 500_000, 1_000_000)] == ["286", "157", "28"]
    assert Scale(5, 5, 10, 20).place(5) == "10"


def test_tenths_are_written_out() -> None:
    assert [tenths(one) for one in (0, 5, 10, 123, -5, -120)] == ["0", "0.5", "1", "12.3", "-0.5", "-12"]


def drawn(marks: tuple[Mark, ...] = MARKS) -> ET.Element:
    paths = [("hull", [(0, 100_000), (1_000, 900_000)]), ("dial", [])]
    return ET.fromstring(str(frontier(marks, paths, (str, str), SAID)))  # noqa: S314 - made here


def test_the_frontier_has_a_title_a_description_and_a_number_for_each_mark() -> None:
    figure = drawn()
    assert figure.attrib["role"] == "img"
    named = figure.attrib["aria-labelledby"].split()
    assert [figure.find(f"*[@id='{name}']").text for name in named] == list(SAID)  # type: ignore[union-attr]
    numbers = [one.text for one in figure.iter("text") if "number" in one.attrib["class"]]
    assert numbers == ["4", "3", "2", "1"]  # the first is drawn last, above the others


def test_points_stand_where_their_cost_and_score_are() -> None:
    figure = drawn()
    (dear,) = [one for one in figure.iter("circle") if one.attrib["class"] == "incumbent"]
    (cheap,) = [one for one in figure.iter("circle") if one.attrib["class"] == "candidate"]
    assert float(cheap.attrib["cx"]) < float(dear.attrib["cx"])
    assert float(cheap.attrib["cy"]) > float(dear.attrib["cy"])
    hull = [one for one in figure.iter("polyline") if one.attrib["class"] == "hull"]
    assert [one.attrib["points"] for one in hull] == [
        f"{cheap.attrib['cx']},{cheap.attrib['cy']} {dear.attrib['cx']},{dear.attrib['cy']}"
    ]
    assert not [one for one in figure.iter("polyline") if one.attrib["class"] == "dial"]


def test_an_interval_reaches_from_its_low_to_its_high_end() -> None:
    lines = [one.attrib for one in drawn().iter("line") if one.attrib["class"] == "interval"]
    assert len(lines) == len(MARKS)
    scale = Scale(0, 1_000_000, 330 - 44, 28)
    assert (lines[0]["y1"], lines[0]["y2"]) == (scale.place(500_000), scale.place(700_000))
    assert lines[1]["y1"] == lines[1]["y2"]  # unknown: a point


def test_everything_stays_within_the_picture() -> None:
    for one in drawn().iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(one.attrib.get(name, "0")) <= 440
        for name in ("y", "y1", "y2", "cy"):
            assert 0 <= float(one.attrib.get(name, "0")) <= 330


def test_scores_alone_are_drawn_a_row_each() -> None:
    figure = ET.fromstring(str(intervals(MARKS, str, SAID)))  # noqa: S314 - made here
    labels = [one.text for one in figure.iter("text") if one.attrib["class"] == "label"]
    assert labels == ["routed", "dear", "cheap", "oracle"]
    assert len([one for one in figure.iter("line") if one.attrib["class"] == "interval"]) == 4


def test_a_bar_is_as_long_as_its_share_and_silent() -> None:
    assert 'aria-hidden="true"' in str(bar(250))
    assert re.findall(r'class="part" width="(\d+)"', f"{bar(250)}{bar(-1)}{bar(2_000)}") == ["250", "0", "1000"]
