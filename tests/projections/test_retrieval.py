"""Retrieval: exact cosines, ties by digest, never the own lineage, and what is embedded."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from projections import retrieval
from projections.exact import integer_roots
from projections.retrieval import (
    NOTHING,
    RETRIEVAL_BYTES,
    SCALE,
    Entry,
    Example,
    Index,
    elided,
    retrieval_text,
)

DIMENSIONS = 6
component = st.integers(-127, 127)
vector = st.lists(component, min_size=DIMENSIONS, max_size=DIMENSIONS).filter(any)


def index_of(rows: list[list[int]], lineages: list[str] | None = None) -> Index:
    entries = [Entry((lineages or ["one"] * len(rows))[row], f"trace-{row}", row) for row in range(len(rows))]
    return Index(entries, np.array(rows, dtype=np.int8).reshape(len(rows), -1), read)


def read(entry: Entry) -> Example:
    return Example(
        lineage=entry.lineage, digest=entry.digest, task="", tool="", arguments="", observation="", error=False, score=0
    )


def packed(row: list[int]) -> bytes:
    return np.array(row, dtype=np.int8).tobytes()


def cosine(one: list[int], other: list[int]) -> int:
    """By integers of any size: floor(dot x scale / floor(length x length))."""
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot * SCALE // isqrt(sum(a * a for a in one) * sum(b * b for b in other))


@settings(max_examples=200, deadline=None)
@given(st.lists(vector, min_size=1, max_size=12), vector, st.integers(1, 6), st.integers(0, 3))
@example([[1, 0, 0, 0, 0, 0]] * 5, [1, 0, 0, 0, 0, 0], 3, 0)
def test_the_best_are_those_of_comparing_all_and_ties_go_by_digest(
    rows: list[list[int]], asked: list[int], k: int, own: int
) -> None:
    lineages = [f"lineage {number % 4}" for number in range(len(rows))]
    index = index_of(rows, lineages)
    found = index.search(packed(asked), k, without_lineage=f"lineage {own}")
    expected = sorted(
        (-cosine(asked, row), entry.digest)
        for row, entry in zip(rows, index.entries, strict=True)
        if entry.lineage != f"lineage {own}"
    )[:k]
    assert [(-one.score, one.digest) for one in found] == expected


@pytest.mark.parametrize("filling", [90, 127])
def test_long_vectors_are_compared_exactly_also_beyond_what_float32_holds(filling: int) -> None:
    dimensions = 4096
    rows = [[filling] * dimensions, [filling] * (dimensions - 1) + [filling - 1]]
    index = Index([Entry("a", "a", 0), Entry("b", "b", 0)], np.array(rows, dtype=np.int8), read)
    found = index.search(packed(rows[1]), 2, without_lineage="")
    assert [(one.lineage, one.score) for one in found] == [("b", SCALE), ("a", cosine(rows[0], rows[1]))]


def test_many_searches_at_once_give_what_each_gives_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "_ROWS_AT_ONCE", 3)
    rows = [[(row * column) % 23 - 11 for column in range(1, 9)] for row in range(1, 12)]
    index = index_of(rows, [f"l{row % 3}" for row in range(len(rows))])
    asked = [packed(row) for row in rows]
    lineages = [f"l{row % 3}" for row in range(len(rows))]
    together = index.search_many(asked, 4, without_lineages=lineages)
    assert together == [
        index.search(one, 4, without_lineage=lineage) for one, lineage in zip(asked, lineages, strict=True)
    ]
    assert all(example_.lineage != own for found, own in zip(together, lineages, strict=True) for example_ in found)


def test_nothing_is_found_where_there_is_nothing() -> None:
    assert index_of([[1, 2]]).search(packed([1, 2]), 5, without_lineage="one") == ()
    assert index_of([[1, 2]]).search(packed([1, 2]), 0, without_lineage="") == ()
    assert Index([], np.zeros((0, 0), dtype=np.int8)).search(b"", 3, without_lineage="") == ()
    with pytest.raises(ValueError, match=r"\(1, 2\)"):
        Index([Entry("a", "a", 0), Entry("a", "a", 1)], np.zeros((1, 2), dtype=np.int8))
    with pytest.raises(LookupError):
        Index([Entry("a", "a", 0)], np.ones((1, 2), dtype=np.int8)).search(packed([1, 1]), 1, without_lineage="")


@given(st.integers(0, 2**26), st.integers(-1, 1))
def test_integer_roots_are_exact_around_squares(root: int, beside: int) -> None:
    number = max(0, min(root * root + beside, 2**53 - 1))
    assert integer_roots(np.array([number], dtype=np.int64))[0] == isqrt(number)


@settings(max_examples=150)
@given(st.text(max_size=60), st.integers(0, 120), st.text(max_size=60), st.integers(0, 120))
def test_what_is_embedded_is_never_empty_nor_too_long(task: str, times: int, arguments: str, more: int) -> None:
    text = retrieval_text(task * times, "tool", arguments * more)
    assert text.strip()
    assert len(text.encode()) <= RETRIEVAL_BYTES


def test_a_long_task_leaves_room_for_the_action_and_the_other_way_round() -> None:
    text = retrieval_text("t" * 90_000, "bash", '{"command":"ls"}')
    assert text.endswith('bash {"command":"ls"}')
    assert text.startswith("tttt")
    assert len(text.encode()) == RETRIEVAL_BYTES
    both = retrieval_text("é" * 90_000, "bash", "ü" * 90_000)
    assert RETRIEVAL_BYTES - 8 <= len(both.encode()) <= RETRIEVAL_BYTES
    shares = Fraction(both.count("é"), both.count("ü"))
    assert Fraction(9, 10) < shares < Fraction(11, 10)
    assert retrieval_text("Do it", "bash", "x") == "Do it\nbash x"
    assert retrieval_text("  ", "", "\n") == NOTHING
    assert retrieval_text("\ud800", "", "") == "?"


def test_elided_text_keeps_both_ends_and_whole_characters() -> None:
    assert elided("short", 5) == "short"
    cut = elided("a" * 50 + "é" * 50, 40)
    assert len(cut.encode()) <= 40
    assert cut.startswith("aaa")
    assert cut.endswith("é")
    assert elided("éééé", 3) == "é"
