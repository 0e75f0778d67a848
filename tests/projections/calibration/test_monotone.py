from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.families.judging import SCALE
from projections.calibration import monotone
from projections.calibration.monotone import _at, _gains, _isotonic, fitted

HALF = SCALE // 2


def labelled(count: int, judge: int, label: int, first: int = 0) -> list[tuple[str, int, int]]:
    return [(f"lineage-{first + number}", judge, label) for number in range(count)]


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (labelled(40, SCALE, SCALE), "one side only"),
        (labelled(40, 0, 0), "one side only"),
        ([], "one side only"),
        (labelled(20, SCALE, SCALE) + labelled(9, 0, 0, 20), "there are 29, with 20 passes and 9 fails"),
        (labelled(30, SCALE, SCALE) + labelled(4, 0, 0, 30), "there are 34, with 30 passes and 4 fails"),
    ],
)
def test_too_few_or_one_sided_labels_keep_the_identity(labels: list[tuple[str, int, int]], why: str) -> None:
    found = fitted(labels, HALF)
    assert found.knots == ()
    assert why in found.identity


def test_a_judge_that_is_right_keeps_its_scores() -> None:
    assert "errs no less" in fitted(labelled(20, SCALE, SCALE) + labelled(20, 0, 0, 20), HALF).identity


def test_a_lenient_judge_gets_a_map_that_lowers_its_scores() -> None:
    random = Random(3)  # noqa: S311 - a simulation
    labels = [
        (f"lineage-{number}", judge, SCALE if random.random() < (0.95 if judge == SCALE else 0.1) else 0)
        for number, judge in enumerate(random.choices((600_000, SCALE), k=120))
    ]
    found = fitted(labels, HALF)
    assert found.identity == ""
    assert [knot.judge for knot in found.knots] == [600_000, SCALE]
    assert found.knots[0].stands_for < 250_000
    assert found.knots[1].stands_for > 850_000


def test_labels_of_one_lineage_are_left_out_together() -> None:
    # Every label is right about its own lineage alone: a map learned from the others can't help.
    labels = [(f"lineage-{number // 10}", 500_000, (number // 10 % 2) * SCALE) for number in range(40)]
    assert fitted(labels, HALF).identity != ""


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=1, max_size=40))
def test_a_map_never_falls_and_keeps_the_mean(points: list[tuple[int, int]]) -> None:
    labels = [(str(number), judge, label) for number, (judge, label) in enumerate(points)]
    knots = _isotonic(labels)
    values = [value for _, value in knots]
    assert values == sorted(values)
    assert [score for score, _ in knots] == sorted({judge for judge, _ in points})
    assert sum((_at(knots, judge) for judge, _ in points), Fraction(0)) == sum(label for _, label in points)


def test_between_points_a_map_is_straight_and_beyond_them_level() -> None:
    knots = [(0, Fraction(10)), (10, Fraction(20))]
    assert [_at(knots, score) for score in (-5, 0, 4, 10, 15)] == [10, 10, 14, 20, 20]


@pytest.mark.parametrize(
    ("gains", "kept"), [([10, -9] * 20, False), ([10, 8] * 20, True), ([10, -10] * 20, False), ([-1] * 40, False)]
)
def test_a_map_is_kept_when_it_gains_more_than_its_standard_error(
    gains: list[int], *, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monotone, "_gains", lambda _: [Fraction(gain) for gain in gains])
    found = fitted(labelled(20, SCALE, SCALE) + labelled(20, 0, 0, 20), HALF)
    assert bool(found.knots) == kept
    assert bool(found.identity) != kept


def test_a_fold_is_predicted_from_the_other_folds_only() -> None:
    # A map that had seen the label it predicts would win: each score is there once, and labels mean nothing.
    random = Random(8)  # noqa: S311 - a simulation
    labels = [(f"lineage-{number}", 10_000 * number, random.choice((0, SCALE))) for number in range(60)]
    gains = _gains(labels)
    assert sum(gains) < sum(
        Fraction((judge - label) ** 2) - (_at(_isotonic(labels), judge) - label) ** 2 for _, judge, label in labels
    )
