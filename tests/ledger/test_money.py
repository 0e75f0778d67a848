"""Money is exact, and never shown as less than it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import money


@pytest.mark.parametrize(
    ("dollars", "nano"),
    [("0", 0), (75, 75_000_000_000), ("0.2", 200_000_000), ("1.000000001", 1_000_000_001), ("-2.5", -2_500_000_000)],
)
def test_dollars_become_nano_dollars_exactly(dollars: str | int, nano: int) -> None:
    assert money.nano_usd(dollars) == nano


@pytest.mark.parametrize("dollars", ["", "x", "nan", "inf", "-Infinity", "0.0000000001", "1e-10"])
def test_what_is_no_amount_or_finer_than_a_nano_is_refused(dollars: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        money.nano_usd(dollars)


@pytest.mark.parametrize(
    ("nano", "places", "shown"),
    [
        (0, 2, "$0.00"),
        (1, 2, "$0.01"),
        (12_345_000_000, 2, "$12.35"),
        (12_345_000_000, 3, "$12.345"),
        (1_000_000_000, 0, "$1"),
        (-1_234_000_000, 2, "-$1.23"),
        (7, 9, "$0.000000007"),
    ],
)
def test_an_amount_is_shown_rounded_up(nano: int, places: int, shown: str) -> None:
    assert money.usd(nano, places) == shown


@given(st.integers(0, 10**9), st.integers(0, 10**13))
def test_a_cost_is_the_exact_product_rounded_up_once(tokens: int, price: int) -> None:
    exact = tokens * price
    assert 0 <= money.cost(tokens, price) * 1_000_000 - exact < 1_000_000
