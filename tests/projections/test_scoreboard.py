"""Scoreboard: what counts, what is excluded, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.families.cells import Outcome
from projections.exact import mean
from projections.scoreboard import scoreboard


def outcome(task: str, alias: str, score: int | None, **changed: Any) -> Outcome:
    facts: dict[str, Any] = {
        "task": task,
        "lineage": f"lineage-{task}",
        "part": "held-out",
        "alias": alias,
        "sample": 0,
        "score": score,
        "reason": None if score is not None else "world_model_protocol",
        "problem": "",
        "ended": "final" if score is not None else None,
        "cost": 10,
        "model_calls": 2,
        "evidence": "b3:e",
    }
    return Outcome(**(facts | changed))


def test_an_excluded_cell_lowers_the_count_and_never_the_mean() -> None:
    (row,) = scoreboard([outcome("1", "a", 600_000), outcome("2", "a", None)], ["a"])
    assert (row.counted, row.excluded, row.mean) == (1, 1, 600_000)
    assert row.reasons == {"world_model_protocol": 1}


def test_the_cost_of_excluded_cells_counts() -> None:
    (row,) = scoreboard([outcome("1", "a", 600_000), outcome("2", "a", None, cost=7)], ["a"])
    assert row.cost == 17


def test_one_unknown_cost_makes_the_sum_unknown() -> None:
    (row,) = scoreboard([outcome("1", "a", 1), outcome("2", "a", 1, cost=None)], ["a"])
    assert row.cost is None


def test_a_candidate_without_a_counted_cell_has_no_mean() -> None:
    (row,) = scoreboard([outcome("1", "a", None)], ["a"])
    assert row.mean is None


def test_candidates_are_in_the_order_asked_for() -> None:
    rows = scoreboard([outcome("1", "a", 1), outcome("1", "b", 2)], ["b", "a"])
    assert [row.alias for row in rows] == ["b", "a"]


def test_a_mean_is_rounded_once_halves_up() -> None:
    assert mean(3, 2) == 2
    assert mean(1, 3) == 0
    assert mean(0, 0) is None


@given(st.permutations([outcome(str(n), alias, n * 1000 if n % 3 else None) for n in range(4) for alias in "ab"]))
def test_cells_in_another_order_give_the_same_scoreboard(shuffled: list[Outcome]) -> None:
    assert scoreboard(shuffled, "ab") == scoreboard(sorted(shuffled, key=lambda one: (one.task, one.alias)), "ab")


@pytest.mark.parametrize(
    ("scores", "constant"), [([5, 5], True), ([5, 6], False), ([5], False), ([5, None, 5], True), ([None, None], False)]
)
def test_scores_are_constant_when_several_count_and_all_are_equal(scores: list[int | None], constant: bool) -> None:  # noqa: FBT001
    cells = [outcome(str(number), "small", score) for number, score in enumerate(scores)]
    assert scoreboard(cells, ["small"])[0].constant is constant
