"""How near answers come to what was recorded."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from projections.fidelity import SCALE, Nearness, nearness, overlap

texts = st.text(alphabet="ab \n", max_size=12)


def test_the_overlap_is_twice_the_common_words_over_all_words() -> None:
    assert overlap("a b b c", "b c d") == Fraction(4, 7)
    assert overlap("b b", "b") == Fraction(2, 3)
    assert overlap("one", "two") == 0


def test_texts_without_words_overlap_wholly_and_with_none_not_at_all() -> None:
    assert overlap("", " \n") == 1
    assert overlap("", "a") == 0


@given(texts, texts)
def test_the_overlap_has_no_direction_and_is_whole_only_for_the_same_words(one: str, other: str) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert (overlap(one, other) == 1) == (sorted(one.split()) == sorted(other.split()))


def test_equal_means_every_character() -> None:
    assert nearness([("a b", "a b"), ("a b", "b a"), ("a", "a\n")]) == Nearness(counted=3, equal=1, overlap=SCALE)


def test_the_mean_is_rounded_once() -> None:
    pairs = [("a a", "a"), ("x", "y"), ("x", "y")]  # (2/3 + 0 + 0) / 3
    assert nearness(pairs) == Nearness(counted=3, equal=0, overlap=222_222)
    assert nearness([("a b b c", "b c d")]).overlap == 571_429


def test_of_nothing_there_is_no_mean() -> None:
    assert nearness([]) == Nearness(counted=0, equal=0, overlap=None)


@given(st.lists(st.tuples(texts, texts)))
def test_the_order_of_answers_is_of_no_account(pairs: list[tuple[str, str]]) -> None:
    assert nearness(pairs) == nearness(pairs[::-1])
