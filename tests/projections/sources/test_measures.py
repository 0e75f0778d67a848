"""Times, counts, money and scores are read exactly."""

from __future__ import annotations

from typing import Any

import pytest

from projections.normal_form.sources.measures import (
    annotation,
    count,
    decimal_text,
    later,
    nano_usd,
    nanoseconds,
    number,
    usage,
)

NEW_YEAR = 1_767_225_600 * 10**9


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-01T00:00:00Z", NEW_YEAR),
        ("2026-01-01 00:00:00.000001", NEW_YEAR + 1_000),
        ("2026-01-01T01:00:00+01:00", NEW_YEAR),
        (1_767_225_600, NEW_YEAR),
        (1_767_225_600.25, NEW_YEAR + 250_000_000),
        (1_767_225_600_001, NEW_YEAR + 1_000_000),
        (1_767_225_600_000_001, NEW_YEAR + 1_000),
        ("1767225600000000001", NEW_YEAR + 1),
        ("<timestamp>", 0),
        ("2026-13-45T99:00:00Z", 0),
        ("0001-01-01T00:00:00+14:00", 0),
        ("1960-01-01T00:00:00Z", 0),
        (-5, 0),
        (0, 0),
        (True, 0),
        (None, 0),
        (float("inf"), 0),
        (10**30, 0),
        ([1], 0),
    ],
)
def test_times_are_read_in_whatever_unit_they_are_written(value: Any, expected: int) -> None:
    assert nanoseconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, 100_000_000),
        (1e-9, 1),
        (1.5e-9, 2),
        (2.5e-9, 2),
        ("0.000842499999", 842_500),
        (0, 0),
        (-1, None),
        (10**8, None),
        ("x", None),
        (True, None),
    ],
)
def test_money_is_rounded_once(value: Any, expected: int | None) -> None:
    assert nano_usd(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, "0.1"),
        (1.0, "1"),
        (100, "100"),
        ("0.50", "0.5"),
        (1e-7, "0.0000001"),
        (-0.0, "0"),
        (True, "1"),
        (False, "0"),
        ("yes", ""),
        (None, ""),
        ("1e99", "1" + "0" * 99),
    ],
)
def test_scores_are_plain_decimal_text(value: Any, expected: str) -> None:
    assert decimal_text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(3, 3), (3.0, 3), ("3", 3), (3.5, None), (-1, None), (2**60, None), (True, None)]
)
def test_counts_are_whole(value: Any, expected: int | None) -> None:
    assert count(value) == expected


def test_numbers_of_monstrous_length_are_none() -> None:
    assert number("9" * 41) is None
    assert number("1e999") is None


def test_an_end_is_known_where_its_start_and_length_are() -> None:
    assert later(NEW_YEAR, 1.5) == NEW_YEAR + 1_500_000_000
    assert later(0, 1.5) == later(NEW_YEAR, None) == later(NEW_YEAR, -1) == 0


def test_the_first_statement_of_a_count_decides_whatever_its_name() -> None:
    found = usage(
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens": "<number>"},
        {"input_tokens": 9, "output_tokens": 4, "cache_creation_input_tokens": 1},
        {"completion_tokens_details": {"reasoning_tokens": 3}},
        None,
        "x",
    )
    assert found == {
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 1,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }
    assert usage({"prompt_details.cache_read": 7}) == {"gen_ai.usage.cache_read.input_tokens": 7}


def test_what_is_no_number_is_a_label() -> None:
    assert annotation("a", "good", "human") == {
        "name": "a",
        "value": "",
        "label": "good",
        "origin": "human",
        "comment": "",
    }
    assert annotation("a", value=True, origin="code")["label"] == "true"
    assert annotation("a", "0.5", "code")["label"] == ""
    assert annotation("a", 1, "code", label="yes")["label"] == "yes"
    assert annotation([], {}, "code", label=[], comment=3) == {
        "name": "",
        "value": "",
        "label": "",
        "origin": "code",
        "comment": "",
    }
