"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands.render import report_words as words
from projections.calibration import Corrected


@pytest.mark.parametrize(
    ("millionths", "shown"),
    [(None, "not measured"), (0, "0.000"), (461_250, "0.461"), (499, "0.000"), (500, "0.001"), (-499, "0.000")],
)
def test_a_score_is_rounded_once_to_three_places(millionths: int | None, shown: str) -> None:
    assert words.score(millionths) == shown


@pytest.mark.parametrize(
    ("millionths", "shown"),
    [(112_000, "+0.112"), (-112_400, "-0.112"), (400, "0.000"), (-400, "0.000"), (0, "0.000"), (None, "not measured")],
)
def test_a_difference_has_its_sign_unless_it_is_shown_as_none(millionths: int | None, shown: str) -> None:
    assert words.signed(millionths) == shown


@given(st.integers(-2_000_000, 2_000_000), st.integers(0, 2_000_000))
def test_an_interval_is_never_shown_narrower_than_it_is(low: int, width: int) -> None:
    shown_low, shown_high = (float(part) for part in words.interval(low, low + width).split(" to "))
    assert shown_low <= low / 1_000_000 < shown_low + 0.001 + 1e-9
    assert shown_high - 0.001 - 1e-9 < (low + width) / 1_000_000 <= shown_high
    percents = [float(part.rstrip("%")) for part in words.percents(low, low + width).split(" to ")]
    assert percents[0] <= low / 10_000
    assert percents[1] >= (low + width) / 10_000


def test_an_interval_that_there_is_none_of_is_a_dash() -> None:
    assert words.interval(None, 1) == words.interval(1, None) == words.percents(None, None) == "-"


@pytest.mark.parametrize(
    ("nano", "shown"),
    [
        (None, "unknown"),
        (0, "$0"),
        (1, "$0.000000001"),
        (9_999, "$0.000009999"),
        (605_875, "$0.000606"),
        (15_343_000, "$0.0154"),
        (999_999_999, "$1.0000"),
        (12_345_678_901, "$12.35"),
    ],
)
def test_an_amount_has_the_places_that_its_size_asks_for_and_is_never_shown_as_less(
    nano: int | None, shown: str
) -> None:
    assert words.dollars(nano) == shown


def test_shares_are_in_percent_and_counts_in_groups() -> None:
    assert words.percent(333_333) == "33.3%"
    assert words.percent(None) == "not measured"
    assert words.count(1_234_567) == "1,234,567"
    assert words.count(None) == "unknown"
    assert [words.plural(1, "cell"), words.plural(0, "cell"), words.plural(2, "reply", "replies")] == [
        "1 cell",
        "0 cells",
        "2 replies",
    ]


def test_a_corrected_share_says_when_it_says_nothing() -> None:
    assert words.corrected(Corrected(undefined="no labels")) == "undefined"
    assert words.corrected(Corrected(value=500_000, low=0, high=1_000_000)) == "any share: labels are too few"
    assert words.corrected(Corrected(value=500_000, low=0, high=999_999)) == "50.0% (0.0% to 100.0%)"


@given(st.text(max_size=40), st.integers(3, 30))
def test_what_is_left_out_of_a_text_is_counted(text: str, most: int) -> None:
    head, left_out, tail = words.shortened(text, most)
    assert len(head) + left_out + len(tail) == len(text)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert (left_out == 0) == (len(text) <= most)
    assert len(head) + len(tail) <= most
    assert not left_out or len(tail) == most // 3
