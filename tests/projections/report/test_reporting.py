"""Report: held-out cells only, every way of serving them side by side."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.families.cells import Outcome
from projections.report import Basis, report
from tests.projections.test_scoreboard import outcome

BASIS = Basis(policy="policy-1", incumbent="dear", candidates=("cheap", "dear"), uncovered={}, degenerate=())
ROUTES = {"1": ("cheap", "cheapest-not-worse"), "2": ("dear", "no-cheaper-candidate-is-as-good")}
CELLS = [
    outcome("1", "cheap", 900_000, cost=1),
    outcome("1", "dear", 800_000, cost=10),
    outcome("2", "cheap", 100_000, cost=1),
    outcome("2", "dear", 700_000, cost=10),
]


@pytest.mark.parametrize(
    ("name", "mean", "cost"),
    [
        ("routed", 800_000, 11),
        ("incumbent", 750_000, 20),
        ("cheap", 500_000, 2),
        ("dear", 750_000, 20),
        ("oracle", 800_000, 11),
    ],
)
def test_each_way_is_read_off_the_same_cells(name: str, mean: int, cost: int) -> None:
    line = report(BASIS, CELLS, ROUTES).line(name)
    assert (line.counted, line.excluded, line.mean, line.cost) == (2, 0, mean, cost)


def test_fit_cells_are_no_evidence() -> None:
    fitted = [outcome("3", alias, 1, part="fit") for alias in ("cheap", "dear")]
    assert report(BASIS, [*CELLS, *fitted], ROUTES) == report(BASIS, CELLS, ROUTES)


def test_an_excluded_routed_cell_isnt_replaced_by_another_candidates() -> None:
    cells = [outcome("1", "cheap", None, cost=1), *CELLS[1:]]
    made = report(BASIS, cells, ROUTES)
    assert (made.line("routed").counted, made.line("routed").excluded) == (1, 1)
    assert made.line("oracle").counted == 2
    assert [(one.alias, one.task, one.reason) for one in made.exclusions] == [("cheap", "1", "world_model_protocol")]


def test_the_oracle_takes_the_cheaper_of_equals() -> None:
    cells = [outcome("1", "cheap", 500_000, cost=1), outcome("1", "dear", 500_000, cost=10)]
    assert report(BASIS, cells, {"1": ROUTES["1"]}).line("oracle").cost == 1


def test_an_interval_holds_its_mean_and_one_lineage_has_none() -> None:
    line = report(BASIS, CELLS, ROUTES).line("cheap")
    assert line.low is not None
    assert line.high is not None
    assert line.low <= 500_000 <= line.high
    assert line.low < line.high
    alone = report(BASIS, CELLS[:2], {"1": ROUTES["1"]}).line("cheap")
    assert (alone.low, alone.high) == (None, None)


def test_an_interval_is_as_wide_as_the_spread_of_a_mean_says() -> None:
    cells = [outcome(str(n), "dear", n * 20_000) for n in range(50)]
    line = report(BASIS, cells, {str(n): ROUTES["2"] for n in range(50)}).line("dear")
    assert line.low is not None
    assert line.high is not None
    half = 83_000  # 2.01 standard errors: 291,548 / sqrt(50) each; for 90% it would be 69,000
    assert line.low == pytest.approx(490_000 - half, abs=6_000)
    assert line.high == pytest.approx(490_000 + half, abs=6_000)


def test_one_unknown_cost_makes_a_lines_cost_unknown() -> None:
    made = report(BASIS, [outcome("1", "cheap", 900_000, cost=None), *CELLS[1:]], ROUTES)
    assert [made.line(name).cost for name in ("routed", "cheap", "dear")] == [None, None, 20]


def test_lineages_are_drawn_whole() -> None:
    cells = [outcome(str(n), "dear", n % 2 * 1_000_000, lineage=f"l{n // 2}") for n in range(8)]
    line = report(BASIS, cells, {str(n): ROUTES["2"] for n in range(8)}).line("dear")
    assert (line.low, line.mean, line.high) == (500_000, 500_000, 500_000)


def test_what_is_degenerate_is_said_in_words() -> None:
    constant = [outcome(task, alias, 5) for task in "12" for alias in ("cheap", "dear")]
    falling = dict.fromkeys("12", ROUTES["2"])
    said = " ".join(report(BASIS, constant, falling).degenerate)
    assert "constant scores" in said
    assert "every request falls back" in said
    none = [outcome(task, alias, None) for task in "12" for alias in ("cheap", "dear")]
    assert "measures nothing" in " ".join(report(BASIS, none, ROUTES).degenerate)
    assert report(BASIS, CELLS, ROUTES).degenerate == ()


@settings(deadline=None)  # two thousand resamples take their time on a busy machine
@given(st.permutations(CELLS))
def test_cells_in_another_order_give_the_same_report(shuffled: list[Outcome]) -> None:
    assert report(BASIS, shuffled, ROUTES).id == report(BASIS, CELLS, ROUTES).id
