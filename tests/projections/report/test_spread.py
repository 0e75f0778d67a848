"""Spread: variance within and between tasks, passes of k samples, and what more tasks would show, by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.report.spread import spread

M = 1_000_000


def test_one_sample_a_task_says_nothing_of_within_and_so_nothing_of_between() -> None:
    found = spread("a", {"1": [0], "2": [M]}, M // 2)
    assert (found.within, found.between, found.samples, found.tasks) == (None, None, 2, 2)
    assert found.pass_all == (M // 2,)


def test_variance_within_and_between_by_hand() -> None:
    # Within: four squares of 100,000 over two degrees of freedom, so a deviation of 141,421.
    # Between: means 200,000 and 800,000, variance 18e10, less half of 2e10: 17e10, a deviation of 412,311.
    found = spread("a", {"1": [100_000, 300_000], "2": [700_000, 900_000]}, M // 2)
    assert (found.within, found.between) == (141_421, 412_311)


def test_variance_between_is_never_negative() -> None:
    found = spread("a", {"1": [0, M], "2": [M, 0]}, M // 2)
    assert (found.within, found.between) == (707_107, 0)


def test_unequal_numbers_of_samples_are_weighed_as_they_are() -> None:
    found = spread("a", {"1": [0, 0, 600_000], "2": [300_000]}, M // 2)
    # Within: 24e10 over two degrees; between: means 200,000 and 300,000, 0.5e10 less two thirds of 12e10.
    assert (found.within, found.between) == (346_410, 0)


def test_k_samples_all_pass_as_often_as_they_would_by_drawing_without_return() -> None:
    found = spread("a", {"1": [M, M, 0], "2": [M, M, M]}, M // 2)
    assert found.pass_all == (833_333, 666_667, 500_000)


def test_a_pass_is_a_score_from_the_limit_upwards() -> None:
    assert spread("a", {"1": [M // 2]}, M // 2).pass_all == (M,)
    assert spread("a", {"1": [M // 2 - 1]}, M // 2).pass_all == (0,)


def test_more_tasks_for_an_interval_of_a_tenth() -> None:
    # A deviation of 0.5: (2 x 1.959964 x 0.5 / 0.1)^2 = 384.1 tasks with variance 0.25; here it is 0.25 x 100/99.
    scores = {str(n): [M if n % 2 else 0] for n in range(100)}
    assert spread("a", scores, M // 2).more_tasks == 389 - 100
    assert spread("a", {str(n): [M] for n in range(9)}, M // 2).more_tasks == 0
    assert spread("a", {"1": [M]}, M // 2).more_tasks is None


def test_nothing_measured_is_nothing() -> None:
    found = spread("a", {"1": []}, M // 2)
    assert (found.tasks, found.samples, found.within, found.between, found.pass_all, found.more_tasks) == (
        0,
        0,
        None,
        None,
        (),
        None,
    )


@given(st.lists(st.lists(st.integers(0, M), min_size=1, max_size=4), min_size=1, max_size=6))
def test_passing_more_often_in_a_row_is_never_likelier(groups: list[list[int]]) -> None:
    found = spread("a", {str(n): own for n, own in enumerate(groups)}, M // 2).pass_all
    assert list(found) == sorted(found, reverse=True)
    assert len(found) == min(map(len, groups))
