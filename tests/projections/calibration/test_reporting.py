from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.families.judging import DEFAULT_RUBRIC, SCALE, Axis, Rubric
from projections.calibration import AxisReport, Sample, calibration, histogram, share, threshold

AXIS = DEFAULT_RUBRIC.axes[0]
ALPHA = Fraction(1, 40)


def sample(
    number: int,
    judge: int | None,
    label: int | None,
    *,
    axis: str = "task-success",
    why: str | None = None,
    blind: bool = True,
) -> Sample:
    rationale = None if judge is None else "b3:judge"
    return Sample(
        subject=f"trace:{number:03d}",
        axis=axis,
        judge=judge,
        judge_rationale=rationale,
        label=label,
        label_rationale=why,
        blind=blind,
    )


def report(pairs: Sequence[tuple[int | None, int | None]]) -> AxisReport:
    """Report (judge, label) pairs."""
    samples = [sample(number, judge, label) for number, (judge, label) in enumerate(pairs)]
    return calibration("setup-1", DEFAULT_RUBRIC, samples).axes[0]


def at_least(count: int, of: int, rate: Fraction) -> Fraction:
    return sum((comb(of, k) * rate**k * (1 - rate) ** (of - k) for k in range(count, of + 1)), Fraction(0))


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (10, 10, 691_502, SCALE),
        (0, 10, 0, 308_498),
        (7, 10, 347_547, 933_261),
        (1, 1, 25_000, SCALE),
        (50, 100, 398_321, 601_679),
    ],
)
def test_intervals_are_those_of_the_tables(count: int, of: int, low: int, high: int) -> None:
    interval = share(count, of)
    assert interval is not None
    assert (interval.low, interval.high) == (low, high)


@given(st.integers(1, 25).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_is_exact_and_rounded_outwards(drawn: tuple[int, int]) -> None:
    count, of = drawn
    interval = share(count, of)
    assert interval is not None
    low, high = Fraction(interval.low, SCALE), Fraction(interval.high, SCALE)
    step = Fraction(1, SCALE)
    if count:
        assert at_least(count, of, low) <= ALPHA < at_least(count, of, low + step)
    else:
        assert low == 0
    if count < of:
        assert 1 - at_least(count + 1, of, high) <= ALPHA < 1 - at_least(count + 1, of, high - step)
    else:
        assert high == 1
    mirrored = share(of - count, of)
    assert mirrored is not None
    assert (SCALE - mirrored.high, SCALE - mirrored.low) == (interval.low, interval.high)


def test_a_share_of_nothing_is_not_measured() -> None:
    assert share(0, 0) is None


def test_labels_and_proposals_are_compared_side_by_side() -> None:
    half = SCALE // 2
    read = report([(SCALE, SCALE), (half, SCALE), (half - 1, SCALE), (SCALE, 0), (0, 0), (100_000, 200_000)])
    assert msgspec.structs.astuple(read.confusion) == (2, 1, 1, 2)
    assert read.agreement is not None
    assert read.sensitivity is not None
    assert read.specificity is not None
    assert (read.agreement.count, read.agreement.of) == (4, 6)
    assert (read.sensitivity.count, read.sensitivity.of) == (2, 3)
    assert (read.specificity.count, read.specificity.of) == (2, 3)
    assert (read.counted, read.excluded, read.exact) == (6, 0, 2)
    assert read.bias == round(Fraction(0 - half - half - 1 + SCALE + 0 - 100_000, 6))
    assert [(row.low, row.count) for row in read.labels] == [(0, 2), (200_000, 1), (SCALE, 3)]
    assert sum(row.count for row in read.judge) == 6


def test_a_bias_is_rounded_once_half_to_even() -> None:
    assert [report([(1, 0), (0, 0)]).bias, report([(2, 0), (1, 0)]).bias, report([(0, 1), (0, 0)]).bias] == [0, 2, 0]
    assert report([(0, 2), (0, 1)]).bias == -2


def test_uniform_passing_labels_identify_sensitivity_only() -> None:
    read = report([(700_000, SCALE)] * 10)
    assert read.specificity is None
    assert read.notes[0] == (
        "Uniform labels (all 10 are 1), all on the passing side: only sensitivity is identified, "
        "10 of 10 (95% interval 0.69 to 1). Specificity was not measured: "
        "a judge that passes everything would agree as well."
    )


def test_uniform_failing_labels_identify_specificity_only() -> None:
    read = report([(700_000, 0), (0, 0)])
    assert read.sensitivity is None
    assert read.notes[0].startswith(
        "Uniform labels (all 2 are 0), all on the failing side: only specificity is identified, 1 of 2 (95% interval"
    )


def test_labels_on_one_side_are_not_called_uniform_when_they_vary() -> None:
    assert report([(SCALE, SCALE), (SCALE, 900_000)]).notes[0].startswith("One-sided labels, all on the passing side")


def test_a_judge_that_tells_nothing_apart_is_called_so() -> None:
    notes = report([(SCALE, SCALE), (SCALE, 0)]).notes
    assert any("the same score, 1: it told nothing apart" in note for note in notes)
    assert any("always says the same would agree on 1 of 2; this one agrees on 1" in note for note in notes)


def test_a_judge_better_than_a_constant_gets_no_warning() -> None:
    assert report([(SCALE, SCALE), (0, 0)]).notes == ()


def test_excluded_and_unlabelled_items_lower_what_is_counted_and_nothing_else() -> None:
    pairs: list[tuple[int | None, int | None]] = [(SCALE, SCALE), (0, 0)]
    with_gaps = report([*pairs, (None, None), (SCALE, None)])
    assert (with_gaps.counted, with_gaps.excluded) == (2, 1)
    assert with_gaps.agreement == report(pairs).agreement
    assert with_gaps.unlabelled == 1
    assert with_gaps.notes == (
        "1 judged items have no label yet.",
        "1 sampled items are excluded because the judge's replies to them were unusable.",
    )


def test_without_anything_counted_nothing_is_measured() -> None:
    read = report([(None, None)])
    assert (read.agreement, read.bias, read.mean_difference) == (None, None, None)
    assert read.notes == ("Nothing was counted, so nothing is known about this axis.",)


def test_many_different_scores_are_counted_in_ten_parts_of_the_range() -> None:
    axis = Axis(name="a", question="q", low=-SCALE, high=SCALE, anchors=())
    rows = histogram([-SCALE + step * 100_000 for step in range(21)], axis)
    assert [row.count for row in rows] == [2] * 9 + [3]
    assert (rows[0].low, rows[-1].high) == (-SCALE, SCALE)


def test_the_middle_of_the_range_is_the_least_pass() -> None:
    assert threshold(AXIS) == 500_000
    assert threshold(Axis(name="a", question="q", low=-1, high=2, anchors=())) == 1
    assert threshold(Axis(name="a", question="q", low=-2, high=1, anchors=())) == 0


scores = st.integers(0, SCALE)
labelled = st.lists(
    st.tuples(st.none() | scores, st.none() | scores, st.sampled_from([None, "b3:1", "b3:2"])), max_size=8
)


@given(labelled, st.randoms(use_true_random=False))
def test_the_order_of_samples_changes_nothing(
    drawn: list[tuple[int | None, int | None, str | None]], shuffle: Random
) -> None:
    samples = [sample(number, judge, label, why=why) for number, (judge, label, why) in enumerate(drawn)]
    other = list(samples)
    shuffle.shuffle(other)
    assert calibration("setup-1", DEFAULT_RUBRIC, samples) == calibration("setup-1", DEFAULT_RUBRIC, other)


@given(labelled)
def test_counts_add_up(drawn: list[tuple[int | None, int | None, str | None]]) -> None:
    read = report([(judge, label) for judge, label, _ in drawn])
    assert sum(msgspec.structs.astuple(read.confusion)) == read.counted
    assert sum(row.count for row in read.labels) == sum(row.count for row in read.judge) == read.counted
    for part in (read.agreement, read.sensitivity, read.specificity):
        assert part is None or 0 <= part.low * part.of <= part.count * SCALE <= part.high * part.of
    sides = [part.of for part in (read.sensitivity, read.specificity) if part is not None]
    assert sum(sides) == read.counted


@given(scores, scores)
def test_every_fact_that_was_accepted_is_in_the_id(judge: int, label: int) -> None:
    base = sample(1, judge, label, why="b3:1")
    changed: list[dict[str, Any]] = [
        {"subject": "trace:x"},
        {"judge": (judge + 1) % SCALE},
        {"judge": None},
        {"judge_rationale": "b3:other"},
        {"label": (label + 1) % SCALE},
        {"label_rationale": None},
    ]
    ids = {calibration("setup-1", DEFAULT_RUBRIC, [msgspec.structs.replace(base, **change)]).id for change in changed}
    ids |= {calibration(setup, DEFAULT_RUBRIC, [base]).id for setup in ("setup-1", "setup-2")}
    assert len(ids) == len(changed) + 2


def test_axes_are_reported_apart_in_the_order_of_the_rubric() -> None:
    rubric = Rubric(axes=(msgspec.structs.replace(AXIS, name="b"), msgspec.structs.replace(AXIS, name="a")))
    samples = [sample(1, SCALE, SCALE, axis="a"), sample(1, 0, SCALE, axis="b")]
    read = calibration("setup-1", rubric, samples)
    assert [(one.axis, one.exact) for one in read.axes] == [("b", 0), ("a", 1)]


# What the evidence amounts to.


def of(counts: tuple[int, int, int, int], **more: Any) -> AxisReport:
    """Report so many pairs of label and judge: pass pass, pass fail, fail pass, fail fail."""
    pairs = [(SCALE, SCALE), (0, SCALE), (SCALE, 0), (0, 0)]  # judge, label
    rows = [pair for pair, count in zip(pairs, counts, strict=True) for _ in range(count)]
    samples = [msgspec.structs.replace(sample(number, *pair), **more) for number, pair in enumerate(rows)]
    return calibration("setup-1", DEFAULT_RUBRIC, samples).axes[0]


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ((20, 2, 2, 20), "calibrated"),
        ((14, 0, 0, 15), "agreement-only"),
        ((30, 0, 1, 3), "agreement-only"),
        ((12, 8, 8, 12), "agreement-only"),
        ((40, 2, 0, 0), "not-identified"),
        ((0, 0, 2, 40), "not-identified"),
        ((0, 0, 0, 0), "not-identified"),
    ],
)
def test_the_verdict_says_what_so_many_labels_can_show(counts: tuple[int, int, int, int], verdict: str) -> None:
    assert of(counts).verdict == verdict


def test_what_a_stand_in_judged_exercises_the_path_and_nothing_more() -> None:
    assert of((20, 2, 2, 20), stand_in=True).verdict == "path-exercise"


def test_a_constant_judge_agrees_with_the_larger_side() -> None:
    constant = of((20, 2, 3, 5)).constant
    assert constant is not None
    assert (constant.count, constant.of) == (22, 30)


def test_blind_and_anchored_labels_are_counted_apart() -> None:
    samples = [sample(number, SCALE, SCALE, blind=number < 3) for number in range(5)]
    made = calibration("setup-1", DEFAULT_RUBRIC, samples).axes[0]
    assert (made.blind.counted, made.anchored.counted) == (3, 2)
    assert any("2 of 5 labels were given with the judge's proposal in sight" in note for note in made.notes)


def test_repeats_are_compared_by_score_and_by_side() -> None:
    samples = [
        msgspec.structs.replace(sample(0, SCALE, SCALE), again=(SCALE,)),
        msgspec.structs.replace(sample(1, SCALE, SCALE), again=(SCALE - 1,)),
        msgspec.structs.replace(sample(2, SCALE, SCALE), again=(0,)),
    ]
    again = calibration("setup-1", DEFAULT_RUBRIC, samples).axes[0].repeatability
    assert again is not None
    assert (again.pairs, again.equal.count, again.same_side.count) == (3, 1, 2)
    assert again.mean_difference == round(Fraction(SCALE + 1, 3))


def test_disagreements_come_worst_first_and_agreement_is_none() -> None:
    samples = [sample(0, SCALE, SCALE), sample(1, SCALE // 2, SCALE), sample(2, 0, SCALE), sample(3, 0, SCALE // 2)]
    made = calibration("setup-1", DEFAULT_RUBRIC, samples).axes[0]
    assert [one.subject for one in made.disagreements] == ["trace:002", "trace:001", "trace:003"]


def test_a_map_learns_from_labels_by_lineage() -> None:
    rows = [(600_000, 0), (SCALE, SCALE)] * 20
    apart = [
        msgspec.structs.replace(sample(number, judge, label), lineage=f"l{number}")
        for number, (judge, label) in enumerate(rows)
    ]
    assert [knot.stands_for for knot in calibration("s", DEFAULT_RUBRIC, apart).axes[0].map.knots] == [0, SCALE]
