"""Token counts: bounded by bytes, and cuts that use a limit up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from commands.embedded import tokens


@given(st.text())
def test_a_text_counts_as_no_more_tokens_than_bytes_and_as_some_unless_it_is_empty(text: str) -> None:
    assert tokens.count(text) <= len(text.encode("utf-8", "surrogatepass"))
    assert (tokens.count(text) == 0) == (text == "")


@given(st.text(), st.integers(0, 40))
def test_a_cut_is_the_longest_beginning_within_the_limit(text: str, limit: int) -> None:
    kept = tokens.cut(text, limit)
    assert text.startswith(kept)
    assert tokens.count(kept) <= limit
    assert kept == text or tokens.count(text[: len(kept) + 1]) > limit


def test_four_plain_letters_are_one_token_and_so_is_any_other() -> None:
    assert [tokens.count(text) for text in ("a", "abcd", "abcde", "\u20ac", "\u20ac\u20ac", "ab\u20ac")] == [
        1,
        1,
        2,
        1,
        2,
        2,
    ]
