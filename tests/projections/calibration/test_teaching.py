from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.families.judging import DEFAULT_RUBRIC, SCALE
from projections.calibration.teaching import Labelling, next_to_label

AXIS = DEFAULT_RUBRIC.axes[0]
HALF = SCALE // 2
maybe = st.one_of(st.none(), st.integers(0, SCALE))


def one(subject: str, judge: int | None, label: int | None = None) -> Labelling:
    return Labelling(subject=subject, judge=judge, label=label)


def test_nothing_is_next_when_all_is_labelled() -> None:
    assert next_to_label([one("a", SCALE, SCALE)], AXIS) is None
    assert next_to_label([], AXIS) is None


def test_a_scarce_side_comes_first() -> None:
    labels = [one(f"labelled-{number}", SCALE, SCALE) for number in range(6)]
    found = next_to_label([*labels, one("fails", 0), one("near", HALF)], AXIS)
    assert found is not None
    assert found.subject == "fails"
    assert "specificity" in found.because


def test_scarce_passes_come_first_when_fails_abound() -> None:
    labels = [one(f"labelled-{number}", 0, 0) for number in range(6)]
    found = next_to_label([*labels, one("passes", SCALE), one("fails", HALF - 1)], AXIS)
    assert found is not None
    assert found.subject == "passes"
    assert "sensitivity" in found.because


def test_with_enough_of_both_sides_the_nearest_to_the_mark_comes_first() -> None:
    labels = [one(f"pass-{n}", SCALE, SCALE) for n in range(5)] + [one(f"fail-{n}", 0, 0) for n in range(5)]
    found = next_to_label([*labels, one("far", 0), one("near", HALF + 1)], AXIS)
    assert found is not None
    assert found.subject == "near"
    assert "nearest" in found.because


def test_four_of_a_side_are_still_scarce() -> None:
    labels = [one(f"pass-{n}", SCALE, SCALE) for n in range(9)] + [one(f"fail-{n}", 0, 0) for n in range(4)]
    found = next_to_label([*labels, one("fails", 0), one("near", HALF + 1)], AXIS)
    assert found is not None
    assert found.subject == "fails"


def test_without_scores_any_item_teaches_as_much_and_the_order_means_nothing() -> None:
    found = next_to_label([one(name, None) for name in "abcdef"], AXIS)
    turned = next_to_label([one(name, None) for name in "fedcba"], AXIS)
    assert found == turned
    assert found is not None
    assert "nothing" in found.because


@given(st.lists(st.tuples(maybe, maybe), max_size=12), st.randoms())
def test_what_is_next_has_no_label_and_is_the_same_in_any_order(
    rows: list[tuple[int | None, int | None]], random: object
) -> None:
    items = [one(f"s{number}", judge, label) for number, (judge, label) in enumerate(rows)]
    found = next_to_label(items, AXIS)
    assert found == next_to_label(items[::-1], AXIS)
    assert (found is None) == all(item.label is not None for item in items)
    assert found is None or found.subject in {item.subject for item in items if item.label is None}
