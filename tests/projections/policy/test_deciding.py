"""Policy: the cheapest candidate that isn't worse, decided exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections import hashing
from projections.policy import (
    Candidate,
    Decision,
    Neighbours,
    Policy,
    Row,
    Tolerance,
    decide,
    encode,
    frozen,
    packed,
)
from projections.policy.choice import clearly_lower

Scores = Callable[[str, int], tuple[int | None, ...]]  # (stratum, number of the task) -> a score a candidate
WORDS = {
    "sorting": "Sort the rows of ledger {n} by amount",
    "counting": "Count the words in chapter {n} of the essay",
    "fetching": "Download release {n} from https://example.org and verify its checksum",
    "compiling": "Compile prog{n}.c with all warnings as errors",
}


def text(stratum: str, number: int) -> str:
    return WORDS[stratum].format(n=number)


def made(
    scores: Scores, costs: tuple[int | None, ...] = (100, 1_000), *, incumbent: str = "dear", tasks: int = 48
) -> Policy:
    strata = list(WORDS)
    names = [(strata[number % 4], number) for number in range(tasks)]
    vectors = list(hashing.embed_many([text(*name) for name in names])) if names else []
    aliases = ("cheap", "dear", "third")[: len(costs)]
    return frozen(
        Policy(
            version="policy@3",
            features="features@1",
            project="p",
            build="b",
            setup="s",
            incumbent=incumbent,
            dial=Tolerance(millionths=50_000),
            candidates=tuple(
                Candidate(alias=alias, endpoint=f"e-{alias}", cost=cost, cells=tasks)
                for alias, cost in zip(aliases, costs, strict=True)
            ),
            rows=tuple(
                Row(
                    task=f"{number:04d}", lineage=f"l{number}", vector=packed(vector), scores=scores(*name), evidence=()
                )
                for (number, name), vector in zip(enumerate(names), vectors, strict=True)
            ),
        )
    )


def asked(policy: Policy, stratum: str, number: int = 900) -> Decision:
    return decide(policy, hashing.embed(text(stratum, number)))


def planted(stratum: str, number: int) -> tuple[int, int]:
    del number
    return (900_000, 900_000) if stratum in {"sorting", "counting"} else (200_000, 900_000)


@pytest.mark.parametrize("stratum", WORDS)
def test_a_cheap_candidate_gets_the_strata_that_it_does_equally_well(stratum: str) -> None:
    policy = made(planted)
    aliases = [asked(policy, stratum, number).alias for number in range(900, 940)]
    share = aliases.count("cheap") / len(aliases)
    assert share >= 0.8 if stratum in {"sorting", "counting"} else share <= 0.2


def test_a_candidate_that_is_worse_everywhere_gets_nothing() -> None:
    policy = made(lambda stratum, number: (400_000 + number % 7 * 50_000, 900_000))
    decisions = [asked(policy, stratum) for stratum in WORDS]
    assert {one.alias for one in decisions} == {"dear"}
    assert {one.reason for one in decisions} == {"no-cheaper-candidate-is-as-good"}


def test_noise_without_structure_stays_shrunk() -> None:
    policy = made(lambda stratum, number: (900_000 if (number * 7919) % 13 < 6 else 200_000, 900_000))
    assert {asked(policy, stratum).alias for stratum in WORDS} == {"dear"}


@pytest.mark.parametrize(("gap", "alias"), [(50_000, "cheap"), (50_001, "dear"), (-1, "cheap")])
def test_worse_by_the_tolerance_is_not_worse_and_a_millionth_more_is(gap: int, alias: str) -> None:
    policy = made(lambda stratum, number: (800_000 - gap, 800_000))
    assert asked(policy, "sorting").alias == alias


def test_the_cheapest_of_several_that_will_do_wins() -> None:
    policy = made(lambda stratum, number: (800_000, 800_000, 800_000), (200, 1_000, 100))
    assert asked(policy, "sorting").alias == "third"
    assert [one.alias for one in asked(policy, "sorting").candidates] == ["third", "cheap", "dear"]


def test_at_equal_cost_the_incumbent_keeps_the_request() -> None:
    policy = made(lambda stratum, number: (900_000, 100_000), (1_000, 1_000))
    assert asked(policy, "sorting").alias == "dear"


def test_a_dearer_candidate_gets_nothing_however_good() -> None:
    policy = made(lambda stratum, number: (999_999, 1), (2_000, 1_000))
    decision = asked(policy, "sorting")
    assert decision.alias == "dear"
    assert decision.candidates[1].verdict == "not-cheaper"


@pytest.mark.parametrize("costs", [(None, 1_000), (100, None)])
def test_an_unknown_cost_is_never_cheaper(costs: tuple[int | None, ...]) -> None:
    decision = asked(made(lambda stratum, number: (900_000, 900_000), costs), "sorting")
    assert decision.alias == "dear"
    assert {one.verdict for one in decision.candidates if one.alias == "cheap"} <= {"unpriced", "not-cheaper"}


def test_a_candidate_without_evidence_gets_nothing_and_the_reason_says_so() -> None:
    decision = asked(made(lambda stratum, number: (None, 900_000)), "sorting")
    assert (decision.alias, decision.reason) == ("dear", "no-evidence-for-a-cheaper-candidate")
    assert decision.candidates[0].score is None


def test_partial_coverage_is_compared_on_the_tasks_that_count_for_both() -> None:
    def scores(stratum: str, number: int) -> tuple[int | None, ...]:
        del stratum
        return (None if number % 2 else 800_000, 800_000 if number % 3 else None)

    policy = made(scores)
    decision = asked(policy, "sorting")
    assert decision.alias == "cheap"
    assert decision.candidates[0].score == decision.candidates[0].incumbent == 800_000
    assert len(policy.uncovered["cheap"]) == 24
    assert len(policy.uncovered["dear"]) == 16


def test_a_policy_without_rows_falls_back() -> None:
    assert decide(made(planted, tasks=0), hashing.embed("anything")).alias == "dear"


def test_ties_are_broken_by_task_and_not_by_the_order_rows_came_in() -> None:
    policy = made(planted)
    shuffled = frozen(msgspec.structs.replace(policy, rows=policy.rows[::-1]))
    assert shuffled.id == policy.id
    assert asked(shuffled, "fetching") == asked(policy, "fetching")


def test_a_policy_read_back_from_its_bytes_decides_alike() -> None:
    policy = made(planted)
    read = msgspec.json.decode(encode(policy), type=Policy)
    assert read.id == policy.id
    assert all(asked(read, stratum) == asked(policy, stratum) for stratum in WORDS)


def test_shrinking_is_exact() -> None:
    policy = made(lambda stratum, number: (number * 10_000, 900_000), tasks=26)
    policy = msgspec.structs.replace(policy, method=Neighbours(neighbours=25, shrink=25))
    decision = asked(policy, "sorting")
    heard = {one.task for one in decision.neighbours}
    total = sum(number * 10_000 - 900_000 for number in range(26))
    near = sum(number * 10_000 - 900_000 for number in range(26) if f"{number:04d}" in heard)
    assert decision.candidates[0].score == 900_000 + round((near + 25 * Fraction(total, 26)) / 50)


@pytest.mark.parametrize(("shrink", "score"), [(0, 800_000), (1, 666_667)])
def test_nearer_tasks_weigh_more_when_the_method_says_so_and_the_nearest_as_much_as_a_task(
    shrink: int, score: int
) -> None:
    rows = (
        Row(
            task="a", lineage="a", vector=packed(np.array([100, 0], dtype=np.int8)), scores=(1_000_000, 0), evidence=()
        ),
        Row(task="b", lineage="b", vector=packed(np.array([50, 0], dtype=np.int8)), scores=(0, 0), evidence=()),
    )
    method = Neighbours(neighbours=2, shrink=shrink, sharpness=2)
    policy = made(planted, tasks=0)
    candidates = tuple(msgspec.structs.replace(one, cells=2) for one in policy.candidates)
    policy = msgspec.structs.replace(policy, rows=rows, method=method, candidates=candidates)
    assert decide(policy, np.array([1, 0], dtype=np.int8)).candidates[0].score == score
    assert decide(policy, np.array([-1, 0], dtype=np.int8)).candidates[0].score == 500_000


@given(st.lists(st.integers(0, 1_000_000), min_size=2, max_size=20))
def test_errors_that_are_the_same_are_not_clearly_lower(errors: list[int]) -> None:
    assert not clearly_lower(errors, errors)
    assert not clearly_lower([one + 1 for one in errors], errors)
    assert clearly_lower([one - 1 for one in errors], errors)
