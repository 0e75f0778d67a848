"""Methods: what rows say of a request, held against the same in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.policy import Clusters, Neighbours, Overall, Price, Row, Tolerance
from projections.policy.evidence import Evidence, quotient
from projections.policy.methods import METHODS, Predicted, clustered, in_words, leaned, nearest, predict
from tests.projections.policy.rows import candidates, row

SCORES = st.one_of(st.none(), st.integers(-(10**12), 10**12), st.sampled_from([0, 1_000_000]))
NUMBERS = st.tuples(st.integers(-60, 60), st.integers(-60, 60), st.integers(-60, 60))
TABLES = st.lists(st.tuples(NUMBERS, st.tuples(SCORES, SCORES, SCORES)), min_size=1, max_size=12)
REQUEST = (50, 20, -10)


def rows_of(table: list[tuple[tuple[int, ...], tuple[int | None, ...]]]) -> list[Row]:
    return [row(f"{place:03d}", numbers, scores) for place, (numbers, scores) in enumerate(table)]


def evidence_of(rows: list[Row], *costs: int) -> Evidence:
    return Evidence.of(rows, candidates(*(costs or (1, 2, 3))), 1)


def said(method: Neighbours | Clusters | Overall, evidence: Evidence, request: tuple[int, ...] = REQUEST) -> Predicted:
    asked = np.array([request], dtype=np.float32)
    return predict(method, evidence, asked, nearest(evidence, asked))


def nearest_first(rows: list[Row], table: list[tuple[tuple[int, ...], tuple[int | None, ...]]]) -> list[int]:
    alike = [sum(one * other for one, other in zip(numbers, REQUEST, strict=True)) for numbers, _ in table]
    return sorted(range(len(rows)), key=lambda place: (-alike[place], place))


def halves_away(value: Fraction) -> int:
    size = int(abs(value) + Fraction(1, 2))
    return size if value >= 0 else -size


@settings(deadline=None)
@given(TABLES, st.integers(1, 6), st.integers(0, 30))
def test_neighbours_say_what_fractions_say(
    table: list[tuple[tuple[int, ...], tuple[int | None, ...]]], count: int, shrink: int
) -> None:
    rows = rows_of(table)
    found = said(Neighbours(neighbours=count, shrink=shrink), evidence_of(rows))
    heard = nearest_first(rows, table)[:count]
    for place in range(3):
        apart = {
            number: scores[place] - scores[1]  # type: ignore[operator]  # both are there
            for number, (_, scores) in enumerate(table)
            if scores[place] is not None and scores[1] is not None
        }
        overall = halves_away(Fraction(sum(apart.values()), max(len(apart), 1)))
        near = [apart[number] for number in heard if number in apart]
        weight = len(near) + shrink
        wanted = halves_away(Fraction(sum(near) + shrink * overall, weight)) if weight else overall
        assert int(found.distances[0, place]) == wanted


@settings(deadline=None)
@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=10))
def test_an_error_is_that_of_a_mean_and_one_task_has_none(apart: list[int]) -> None:
    rows = [row(f"{place}", (1, 0, 0), (own, 0, None)) for place, own in enumerate(apart)]
    evidence = evidence_of(rows)
    error = int(said(Neighbours(neighbours=25, shrink=25), evidence).errors[0, 0])
    count = len(apart)
    mean = Fraction(sum(apart), count)
    if count < 2:
        assert error == 0
        return
    exact = isqrt(int(sum((Fraction(own) - mean) ** 2 for own in apart) / (count * (count - 1))))
    assert abs(error - exact) <= 3 * evidence.unit  # whatever the range, to a few units in which it is counted


def test_a_tie_in_similarity_goes_to_the_earlier_row() -> None:
    evidence = evidence_of([row(name, (1, 0, 0), (0, 0, 0)) for name in "abcd"])
    near = nearest(evidence, np.array([(1, 0, 0)], dtype=np.float32), 2)
    assert near.rows.tolist() == [[0, 1]]


def test_rows_with_one_candidate_missing_say_nothing_of_it_and_all_of_the_others() -> None:
    rows = [row("1", (1, 0, 0), (900_000, 500_000, None)), row("2", (1, 0, 0), (None, 500_000, 100_000))]
    evidence = evidence_of(rows)
    assert evidence.overall.tolist() == [400_000, 0, -400_000]
    assert evidence.known.tolist() == [True, True, True]
    assert evidence_of([row("1", (1, 0, 0), (900_000, None, 1))]).known.tolist() == [False, False, False]


def test_the_level_is_the_incumbents_own_mean_with_or_without_rivals() -> None:
    rows = [row("1", (1, 0, 0), (None, 500_000, None)), row("2", (1, 0, 0), (1, 600_001, None))]
    assert evidence_of(rows).level == 550_001
    assert evidence_of([row("1", (1, 0, 0), (1, None, 1))]).level is None


def test_clusters_say_their_own_mean_shrunk_towards_all() -> None:
    rows = [row(f"a{place}", (100, 0, 0), (400_000, 0, 0)) for place in range(3)]
    rows += [row(f"b{place}", (0, 100, 0), (-800_000, 0, 0)) for place in range(3)]
    evidence = evidence_of(rows)
    method = Clusters(clusters=2, shrink=3)
    assert int(said(method, evidence, (9, 1, 0)).distances[0, 0]) == (3 * 400_000 + 3 * -200_000) // 6
    assert int(said(method, evidence, (1, 9, 0)).distances[0, 0]) == (3 * -800_000 + 3 * -200_000) // 6


def test_centres_are_means_of_the_length_of_features() -> None:
    rows = [row("1", (100, 10, 0), (0, 0, 0)), row("2", (100, -10, 0), (0, 0, 0)), row("3", (0, 0, 90), (0, 0, 0))]
    centres = clustered(Clusters(clusters=2, shrink=0), evidence_of(rows))
    assert centres.vectors.tolist() == [[127, 0, 0], [0, 0, 127]]
    assert centres.counts[:, 0].tolist() == [2, 1]


def test_more_clusters_than_rows_are_as_many_as_there_are_rows() -> None:
    centres = clustered(Clusters(clusters=8, shrink=0), evidence_of([row("1", (1, 0, 0), (0, 0, 0))]))
    assert len(centres.vectors) == 1
    nothing = Evidence.of([], candidates(1, 2), 1)
    assert said(Clusters(clusters=8, shrink=0), nothing, ()).distances.tolist() == [[0, 0]]


def test_a_cluster_error_is_that_of_its_own_tasks() -> None:
    rows = [row(f"a{place}", (100, 0, 0), (place * 100_000, 0, 0)) for place in range(4)]
    rows += [row(f"b{place}", (0, 100, 0), (900_000, 0, 0)) for place in range(4)]
    errors = said(Clusters(clusters=2, shrink=0), evidence_of(rows), (1, 0, 0)).errors[0].tolist()
    assert errors == [64_549, 0, 0]  # 129,099 / 2: four tasks of 0 to 300,000


def test_the_mean_over_all_tasks_has_an_error_of_its_own() -> None:
    rows = [row(f"{place}", (1, 0, 0), (place * 100_000, 0, None)) for place in range(4)]
    found = said(Overall(), evidence_of(rows))
    assert found.distances[0].tolist() == [150_000, 0, 0]
    assert found.errors[0].tolist() == [64_549, 0, 0]


def test_leaning_counts_under_a_tolerance_and_prices_under_a_price() -> None:
    found = Predicted(np.array([[10, 0]]), np.array([[4, 0]]), np.array([[-3, 0]]))
    assert leaned(found, Tolerance(millionths=0), 1_000).tolist() == [[14, 0]]
    assert leaned(found, Tolerance(millionths=0), 500).tolist() == [[12, 0]]
    assert leaned(found, Price(nano_usd=1), 1_000).tolist() == [[7, 0]]


def test_neighbours_that_point_away_have_no_weight_when_nearer_ones_are_louder() -> None:
    rows = [row("1", (100, 0, 0), (600_000, 0, 0)), row("2", (-100, 0, 0), (-600_000, 0, 0))]
    found = said(Neighbours(neighbours=2, shrink=0, sharpness=2), evidence_of(rows), (1, 0, 0))
    assert int(found.distances[0, 0]) == 600_000
    assert int(said(Neighbours(neighbours=2, shrink=0), evidence_of(rows), (1, 0, 0)).distances[0, 0]) == 0


@pytest.mark.parametrize(("number", "by", "wanted"), [(5, 2, 3), (-5, 2, -3), (4, 3, 1), (-4, 3, -1), (0, 7, 0)])
def test_quotients_are_rounded_once_and_halves_go_away_from_zero(number: int, by: int, wanted: int) -> None:
    assert int(quotient(np.array([number]), np.array([by]))[0]) == wanted


@settings(deadline=None)
@given(TABLES, st.randoms(use_true_random=False))
def test_the_order_in_which_rows_come_in_doesnt_matter_once_they_are_in_order_of_task(
    table: list[tuple[tuple[int, ...], tuple[int | None, ...]]], chance: object
) -> None:
    rows = rows_of(table)
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' own type
    ordered = sorted(shuffled, key=lambda one: one.task)
    for method in METHODS[:8]:
        one, other = said(method, evidence_of(rows)), said(method, evidence_of(ordered))
        assert (one.distances == other.distances).all()
        assert (one.errors == other.errors).all()


def test_each_method_has_words_of_its_own() -> None:
    assert len({in_words(method) for method in METHODS}) == len(METHODS)
    assert in_words(Neighbours(neighbours=25, shrink=5)) == "25 neighbours shrunk by 5"
