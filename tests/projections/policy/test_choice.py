"""Choice: the method by cross-validation, and whether routing pays on tasks it hasn't seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from projections.policy import Clusters, Dial, Fitted, Neighbours, Operating, Price, Row, Tolerance, fit
from projections.policy.choice import LEAST_TASKS, TOLERANCES, clearly_lower, clears
from projections.policy.dial import Field
from projections.policy.methods import METHODS, in_words
from tests.projections.policy.rows import candidates, row

ZERO = Tolerance(millionths=0)


def halves(count: int, good: int = 800_000, bad: int = 0) -> list[Row]:
    """Return rows of two kinds: the cheap candidate equals the incumbent in one and fails in the other."""
    return [
        row(
            f"{place:03d}",
            (100, 0, place % 7) if place % 2 else (0, 100, place % 7),
            (good if place % 2 else bad, 800_000),
        )
        for place in range(count)
    ]


def fitted(rows: Sequence[Row], dial: Dial = ZERO, costs: Sequence[int | None] = (1, 10), incumbent: int = 1) -> Fitted:
    return fit(dial, rows, candidates(*costs), incumbent)


def operating(dial: Dial, score: int, incumbent: int = 500_000, cost: int = 5) -> Operating:
    return Operating(dial=dial, score=score, incumbent=incumbent, cost=cost, tasks=9, moved=1)


def test_with_few_tasks_the_first_method_is_taken_and_with_none_nothing_pays() -> None:
    assert fitted(halves(LEAST_TASKS - 1)).method == METHODS[0]
    nothing = fitted([])
    assert (nothing.method, nothing.operating, nothing.pays, nothing.curve) == (METHODS[0], None, False, ())


def test_a_structure_that_all_see_is_followed_and_pays() -> None:
    found = fitted(halves(80))
    assert found.pays
    assert found.operating is not None
    assert (found.operating.score, found.operating.moved, found.operating.tasks) == (800_000, 40, 80)
    assert found.operating.cost == 6  # 5.5, rounded once


def test_clusters_of_fewer_than_twenty_tasks_are_never_chosen() -> None:
    found = fitted(halves(39)).method
    assert not isinstance(found, Clusters)


def test_the_mean_over_all_is_measured_and_never_chosen() -> None:
    flat = [row(f"{place:03d}", (place % 90, 1, 0), (500_000, 800_000)) for place in range(60)]
    found = fitted(flat)
    assert isinstance(found.method, Neighbours)
    assert found.trials[-1].method == "the mean over all tasks"
    assert [trial.method for trial in found.trials] == [in_words(method) for method in METHODS]
    assert {trial.error for trial in found.trials} == {0}


def test_a_candidate_that_is_worse_everywhere_moves_nothing() -> None:
    flat = [row(f"{place:03d}", (place % 90, 1, 0), (500_000, 800_000)) for place in range(60)]
    found = fitted(flat)
    assert found.operating is not None
    assert (found.operating.moved, found.operating.cost, found.operating.score) == (0, 10, 800_000)


def test_the_curve_runs_from_cheap_to_dear_and_has_every_tolerance() -> None:
    found = fitted(halves(80))
    assert [one.cost for one in found.curve] == sorted(one.cost for one in found.curve)
    assert (found.curve[0].cost, found.curve[0].score) == (1, 400_000)
    assert {one.dial.millionths for one in found.curve if isinstance(one.dial, Tolerance)} == set(TOLERANCES)
    assert any(isinstance(one.dial, Price) and one.dial.nano_usd == 0 for one in found.curve)


def test_tasks_of_one_lineage_are_left_out_together() -> None:
    alone = [row(f"{place:03d}", (100, 0, 0), (0 if place % 2 else 800_000, 800_000), "one") for place in range(40)]
    found = fitted(alone)
    overall = next(trial.error for trial in found.trials if trial.method == "the mean over all tasks")
    assert overall == 565_685  # nothing is known of them when they are left out, so 0 is predicted


def test_an_unknown_cost_of_whoever_gets_tasks_leaves_no_curve() -> None:
    found = fitted(halves(40), costs=(1, None))
    assert (found.curve, found.operating, found.pays) == ((), None, False)


def test_routing_that_loses_on_left_out_tasks_leans_less_and_then_keeps_the_incumbent() -> None:
    noise = [row(f"{place:03d}", (100, place % 3, 0), ((place * 37 % 11) * 80_000, 600_000)) for place in range(50)]
    found = fitted(noise)
    assert found.leaning == 0 or found.pays
    assert found.pays or found.operating is not None


@pytest.mark.parametrize(
    ("dial", "score", "pays"),
    [
        (Tolerance(millionths=10_000), 490_000, True),
        (Tolerance(millionths=10_000), 489_999, False),
        (Price(nano_usd=100), 500_000, True),  # five cheaper and no worse
        (Price(nano_usd=100), 450_000, False),  # five cheaper, and five worse
        (Price(nano_usd=100), 450_001, True),
    ],
)
def test_the_gate_is_exact(dial: Dial, score: int, *, pays: bool) -> None:
    assert clears(operating(dial, score), Field(candidates(1, 10), 1)) is pays


def test_nothing_pays_where_nothing_was_measured_or_a_cost_is_unknown() -> None:
    assert not clears(None, Field(candidates(1, 10), 1))
    assert not clears(operating(ZERO, 500_000), Field(candidates(1, None), 1))


def test_lower_by_more_than_so_many_standard_errors_is_clear() -> None:
    base = [10] * 4
    assert clearly_lower([0, 10, 0, 10], base)  # 5 on average; standard error 2.9
    assert not clearly_lower([0, 10, 0, 10], base, times=2)
    assert not clearly_lower([20, 10, 20, 10], base)


def test_one_lineage_has_no_other_fold_and_extreme_ranges_hold() -> None:
    extreme = [
        row(f"{place:03d}", (100, 0, 0) if place % 2 else (0, 100, 0), (10**12 if place % 2 else -(10**12), 0))
        for place in range(60)
    ]
    found = fitted(extreme)
    assert found.pays
    assert found.operating is not None
    assert found.operating.score == 5 * 10**11
