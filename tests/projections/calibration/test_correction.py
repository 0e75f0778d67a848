from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.families.judging import SCALE
from projections.calibration import Confusion, corrected, mean_interval, share


def counts(pass_pass: int, pass_fail: int, fail_pass: int, fail_fail: int) -> Confusion:
    return Confusion(pass_pass=pass_pass, pass_fail=pass_fail, fail_pass=fail_pass, fail_fail=fail_fail)


def test_a_perfect_judge_changes_the_share_by_nothing() -> None:
    found = corrected(30, 40, counts(50, 0, 0, 50))
    assert found.value == 750_000
    assert found.low is not None
    assert found.high is not None
    assert found.low < 650_000
    assert found.high > 820_000


def test_the_estimate_is_rogans_and_gladens() -> None:
    # sensitivity 0.8, specificity 0.9, 0.45 passed: (0.45 + 0.9 - 1) / (0.8 + 0.9 - 1) = 0.5
    assert corrected(45, 100, counts(8, 2, 1, 9)).value == 500_000


def test_the_interval_is_langs_and_reiczigels() -> None:
    # The paper's formulas in floating point: of 100 judged 45 passed; 8 of 10 and 9 of 10 labels agree.
    z = 1.959964
    rate, sensitivity, specificity = (45 + z * z / 2) / (100 + z * z), 9 / 12, 10 / 12
    informed = sensitivity + specificity - 1
    truth = (rate + specificity - 1) / informed
    of_passes, of_fails = sensitivity * (1 - sensitivity) / 12, specificity * (1 - specificity) / 12
    centre = truth + 2 * z * z * (truth * of_passes - (1 - truth) * of_fails)
    spread = rate * (1 - rate) / (100 + z * z) + truth**2 * of_passes + (1 - truth) ** 2 * of_fails
    found = corrected(45, 100, counts(8, 2, 1, 9))
    assert found.low is not None
    assert found.high is not None
    assert abs(found.low / SCALE - (centre - z * spread**0.5 / informed)) < 3e-6
    assert abs(found.high / SCALE - (centre + z * spread**0.5 / informed)) < 3e-6


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (counts(10, 0, 0, 0), "the labels identify sensitivity only"),
        (counts(0, 0, 0, 10), "the labels identify specificity only"),
        (counts(0, 0, 0, 0), "there are no labels"),
        (counts(5, 5, 5, 5), "no better than chance: sensitivity and specificity add up to 1.00"),
        (counts(1, 9, 9, 1), "add up to 0.20"),
    ],
)
def test_what_labels_do_not_identify_is_not_corrected(table: Confusion, reason: str) -> None:
    found = corrected(5, 10, table)
    assert (found.value, found.low, found.high) == (None, None, None)
    assert reason in found.undefined


def test_no_judged_cell_is_nothing_to_correct() -> None:
    assert corrected(0, 0, counts(5, 1, 1, 5)).undefined == "nothing was counted"


def test_few_labels_make_the_interval_wider_than_many() -> None:
    few, many = corrected(50, 100, counts(8, 2, 2, 8)), corrected(50, 100, counts(800, 200, 200, 800))
    assert few.low is not None
    assert few.high is not None
    assert many.low is not None
    assert many.high is not None
    assert few.high - few.low > many.high - many.low
    assert few.value == many.value == SCALE // 2


@given(st.tuples(*[st.integers(0, 30)] * 4), st.integers(1, 60), st.data())
def test_a_corrected_share_is_a_share_within_its_interval(
    cells: tuple[int, int, int, int], of: int, data: st.DataObject
) -> None:
    found = corrected(data.draw(st.integers(0, of)), of, counts(*cells))
    if found.undefined:
        assert found.value is None
        return
    assert found.low is not None
    assert found.value is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= SCALE


def test_an_interval_of_a_mean_is_students() -> None:
    # 1 to 9 has mean 5 and standard deviation 2.7386: 5 -+ 2.306 x 0.9129
    found = mean_interval([number * SCALE for number in range(1, 10)])
    assert found.low is not None
    assert found.high is not None
    assert abs(found.low - 2_894_923) < 20
    assert abs(found.high - 7_105_077) < 20


def test_no_spread_and_no_numbers_give_no_interval_of_a_mean() -> None:
    assert "fewer than two" in mean_interval([]).undefined
    assert "fewer than two" in mean_interval([3]).undefined
    assert "all are equal" in mean_interval([3, 3, 3]).undefined


def test_intervals_cover_what_they_say_in_a_small_simulation() -> None:
    random = Random(20)  # noqa: S311 - a simulation
    covered = 0
    trials = 150
    for _ in range(trials):
        truth, sensitivity, specificity = 0.6, 0.85, 0.8
        labels = [sum(random.random() < rate for _ in range(20)) for rate in (sensitivity, specificity)]
        passing = truth * sensitivity + (1 - truth) * (1 - specificity)
        passed = sum(random.random() < passing for _ in range(70))
        found = corrected(passed, 70, counts(labels[0], 20 - labels[0], 20 - labels[1], labels[1]))
        covered += found.low is None or found.high is None or found.low <= truth * SCALE <= found.high
    assert covered >= 0.92 * trials


def test_a_share_of_nothing_is_none() -> None:
    assert share(0, 0) is None
