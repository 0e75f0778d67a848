"""Differences between ways to serve: values by hand, what is shown, and what is undefined and why."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from ledger.families.cells import Outcome
from projections.report import Basis, Report, report
from projections.report.reporting import bounds
from tests.projections.test_scoreboard import outcome

M = 1_000_000
BASIS = Basis(
    policy="policy-1",
    incumbent="dear",
    candidates=("cheap", "dear"),
    uncovered={},
    degenerate=(),
    fit_tasks=50,
)


def cells(count: int = 40) -> list[Outcome]:
    """Return tasks of which the cheap candidate does the even ones as well as the dear one, and no other."""
    return [
        one
        for n in range(count)
        for one in (
            outcome(f"{n:03d}", "cheap", 0 if n % 2 else M, cost=1),
            outcome(f"{n:03d}", "dear", M, cost=10),
        )
    ]


def aliases(count: int = 40) -> dict[str, str]:
    return {f"{n:03d}": "dear" if n % 2 else "cheap" for n in range(count)}


def made(held: list[Outcome] | None = None, served: dict[str, str] | None = None, **changed: Any) -> Report:
    served = served or aliases()
    course = {"well": served, "cheap": dict.fromkeys(served, "cheap"), "dear": dict.fromkeys(served, "dear")}
    basis = msgspec.structs.replace(BASIS, **({"course": course} | changed))
    return report(basis, held or cells(), {task: (alias, "r") for task, alias in served.items()})


def test_values_by_hand() -> None:
    found = made()
    values = {one.name: one.value for one in found.differences}
    assert values == {
        "perf-gain": 0,
        "cost-save": 450_000,  # 5.5 instead of 10
        "routed-over-zero-router": 250_000,  # half way between 0.5 at 1 and 1 at 10 is 0.75 at 5.5
        "routed-over-random-mix": 250_000,
        "gap-to-oracle": 0,
        "aiq-over-zero-router": 125_000,
    }
    # Over 1 to 10: up from 0.5 at 1 to 1 at 5.5, then level; the zero router goes straight up.
    assert found.aiq == {"router": 875_000, "zero-router": 750_000, "random-mix": 750_000, "oracle": M}


def test_a_difference_is_shown_when_its_interval_leaves_out_nothing() -> None:
    found = made()
    for name in ("cost-save", "routed-over-zero-router", "aiq-over-zero-router"):
        one = found.difference(name)
        assert one.low is not None
        assert one.high is not None
        assert one.value is not None
        assert one.shown
        assert 0 < one.low <= one.value <= one.high
    gain = found.difference("perf-gain")
    assert (gain.low, gain.high, gain.shown) == (0, 0, False)


def test_a_loss_that_is_shown_is_shown_too() -> None:
    one = made(served=dict.fromkeys(aliases(), "cheap")).difference("perf-gain")
    assert one.value == -500_000
    assert one.high is not None
    assert one.high < 0
    assert one.shown


def test_a_difference_of_few_tasks_that_may_be_chance_isnt_shown() -> None:
    few = cells(4)
    few[0] = outcome("000", "cheap", 900_000, cost=1)
    one = made(few, aliases(4)).difference("perf-gain")
    assert one.value == -25_000
    assert (one.high, one.shown) == (0, False)


def test_the_random_mix_and_the_gap_by_hand() -> None:
    served = dict.fromkeys(aliases(), "cheap")
    found = made(served=served)
    assert found.difference("routed-over-random-mix").value == -250_000
    assert found.difference("gap-to-oracle").value == 500_000


@pytest.mark.parametrize(
    ("alias", "undefined"),
    [("cheap", "what routed cost is unknown"), ("dear", "what routed cost is unknown")],
)
def test_an_unknown_cost_leaves_what_rests_on_it_undefined_and_says_why(alias: str, undefined: str) -> None:
    held = [msgspec.structs.replace(one, cost=None) if one.alias == alias else one for one in cells()]
    found = made(held)
    assert found.difference("cost-save").undefined == undefined
    assert found.difference("cost-save").value is None
    assert found.difference("aiq-over-zero-router").undefined
    assert found.difference("perf-gain").undefined == ""
    assert found.aiq["router"] is None
    assert found.aiq["oracle"] == M


def test_an_incumbent_that_costs_nothing_has_nothing_to_save() -> None:
    held = [msgspec.structs.replace(one, cost=0) if one.alias == "dear" else one for one in cells()]
    one = made(held, dict.fromkeys(aliases(), "dear")).difference("cost-save")
    assert (one.value, one.undefined) == (None, "nothing counts")


def test_equal_costs_have_no_range_and_so_no_area() -> None:
    held = [msgspec.structs.replace(one, cost=5) for one in cells()]
    found = made(held)
    assert found.aiq["router"] is None
    assert "costs of the candidates are equal" in found.difference("aiq-over-zero-router").undefined


def test_one_lineage_cant_vary_so_nothing_is_claimed() -> None:
    held = [msgspec.structs.replace(one, lineage="one") for one in cells()]
    found = made(held)
    assert found.lineages == 1
    assert {one.undefined for one in found.differences} == {"fewer than two lineages count"}


def test_nothing_that_counts_is_said_so() -> None:
    held = [msgspec.structs.replace(one, score=None, reason="judge_unreadable") for one in cells()]
    assert made(held).difference("perf-gain").undefined == "nothing counts"


def test_no_dial_no_area() -> None:
    found = made(course={})
    assert found.aiq["router"] is None
    assert found.curve == ()
    assert found.difference("routed-over-zero-router").undefined


def test_the_curve_goes_from_cheap_to_dear_and_counts_who_left() -> None:
    assert [(one.dial, one.mean, one.cost, one.moved) for one in made().curve] == [
        ("cheap", 500_000, 1, 40),
        ("well", M, 6, 20),  # 5.5, rounded once
        ("dear", M, 10, 0),
    ]


def test_missing_cells_leave_out_a_task_for_whoever_gets_it_and_nobody_else() -> None:
    held = [one for one in cells() if (one.task, one.alias) != ("000", "cheap")]
    found = made(held)
    assert (found.line("cheap").counted, found.line("cheap").excluded) == (39, 1)
    assert (found.line("routed").counted, found.line("dear").counted) == (39, 40)
    assert found.line("oracle").counted == 40


def test_samples_of_a_cell_are_put_together_before_tasks_are_compared() -> None:
    held = [
        one
        for n in range(6)
        for one in (
            outcome(str(n), "dear", M, cost=8),
            outcome(str(n), "dear", 0, cost=9, sample=1),
            outcome(str(n), "cheap", 200_001, cost=1),
        )
    ]
    found = made(held, {str(n): "dear" for n in range(6)})
    line = found.line("dear")
    assert (line.counted, line.mean, line.passed, line.calls) == (6, 500_000, 6, 24)
    assert line.cost == 6 * 9  # 8.5 a task, rounded once
    dear = next(one for one in found.spreads if one.alias == "dear")
    assert (dear.samples, dear.tasks, dear.pass_all) == (12, 6, (500_000, 0))


def test_passes_and_calls_are_counted() -> None:
    line = made().line("cheap")
    assert (line.passed, line.calls) == (20, 80)
    assert made(pass_from=0).line("cheap").passed == 40


def test_scores_of_great_rubrics_stay_exact() -> None:
    great = [msgspec.structs.replace(one, score=(one.score or 0) * 1_000_000 + 1) for one in cells()]
    found = made(great)
    assert found.line("cheap").mean == 500_000_000_001
    assert found.difference("gap-to-oracle").value == 0
    assert found.difference("routed-over-zero-router").value == 250_000_000_000


def test_what_was_asked_for_by_name_isnt_there() -> None:
    found = made()
    with pytest.raises(KeyError):
        found.line("nobody")
    with pytest.raises(KeyError):
        found.difference("nothing")


def test_a_constant_choice_of_the_cheapest_is_always_there_to_be_had() -> None:
    served = dict.fromkeys(aliases(), "dear")
    only_dear = report(
        msgspec.structs.replace(BASIS, course={"dear": served}),
        cells(),
        {task: (alias, "r") for task, alias in served.items()},
    )
    assert only_dear.aiq["router"] == only_dear.aiq["zero-router"] == 750_000


def test_a_router_below_the_cheapest_candidates_mean_cost_is_compared_with_that_candidate() -> None:
    # The cheap candidate's dear tasks go elsewhere, to one that costs nothing there: 0.5 a task against a least of 1.
    held = [
        one
        for n in range(40)
        for one in (
            outcome(f"{n:03d}", "cheap", M // 2, cost=2 if n % 2 else 0),
            outcome(f"{n:03d}", "dear", M // 2, cost=0 if n % 2 else 10),
        )
    ]
    one = made(held).difference("routed-over-zero-router")
    assert (one.value, one.undefined) == (0, "")


def test_draws_come_from_the_lineages_and_nothing_else() -> None:
    alone = [one for one in cells() if one.alias == "dear"]
    both = cells()
    for one in (alone, both):
        for place, cell in enumerate(one):
            if cell.alias == "dear":
                one[place] = msgspec.structs.replace(cell, score=int(cell.task) * 20_000)
    served = dict.fromkeys(aliases(), "dear")
    assert made(alone, served).line("dear") == made(both, served).line("dear")


def test_resampled_sums_are_exact_to_the_last_digit() -> None:
    for score in (2**20 + 1, 3 * 2**20 - 1, 10**12 + 7):
        line = made([msgspec.structs.replace(one, score=score) for one in cells()]).line("dear")
        assert (line.low, line.mean, line.high) == (score, score, score)


@pytest.mark.parametrize(("lineages", "outside"), [(2, 0), (5, 1), (20, 31), (50, 42), (20_000, 50)])
def test_with_few_lineages_fewer_resamples_are_left_out(lineages: int, outside: int) -> None:
    assert bounds(np.arange(2_000), lineages) == (outside, 1_999 - outside)
