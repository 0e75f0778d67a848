"""Tasks: the strata have their share, near-duplicates stand back, and small corpora give proportionally fewer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.episode import Turn
from ledger.families.traces import Trace, lineage_of
from projections.split import trigrams
from projections.tasks import Candidate, apportioned, choose, counts, dividing_attributes, likeness, spread, stratum


def candidate(number: int, text: str, name: str = "s", group: str | None = None) -> Candidate:
    lineage = lineage_of(str(number))
    return Candidate(lineage=lineage, group=group or lineage, text=text, stratum=name, grams=trigrams(text))


def trace(number: int, tools: str = "a", *, error: bool = False, **declared: Any) -> Trace:
    turns = tuple(Turn(tool=tool, arguments="", observation="", error=error) for tool in tools)
    attributes = tuple(sorted(declared.items()))
    return Trace(name=str(number), source="", task="", turns=turns, final=None, attributes=attributes)


@pytest.mark.parametrize(
    ("there", "expected"),
    [((200, 80), (50, 20)), ((50, 20), (50, 20)), ((25, 80), (25, 10)), ((200, 10), (25, 10)), ((21, 9), (21, 8)),
     ((1, 1), (1, 1)), ((3, 1), (2, 1)), ((200, 1), (2, 1))],
)  # fmt: skip
def test_small_corpora_give_proportionally_fewer_tasks_on_both_sides(
    there: tuple[int, int], expected: tuple[int, int]
) -> None:
    made = counts((50, 20), there)
    assert (made.fit, made.held_out) == expected
    assert made.rule.startswith(f"{expected[0]} fit and {expected[1]} held-out tasks")
    assert ("scaled" in made.rule) == (expected != (50, 20))


@settings(max_examples=200)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 200), st.integers(1, 200))
def test_there_are_never_more_tasks_than_candidates_and_never_none(
    fit: int, held_out: int, fit_there: int, held_out_there: int
) -> None:
    made = counts((fit, held_out), (fit_there, held_out_there))
    assert 1 <= made.fit <= min(fit, fit_there)
    assert 1 <= made.held_out <= min(held_out, held_out_there)


@settings(max_examples=200)
@given(st.dictionaries(st.text(max_size=3), st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 120))
def test_shares_follow_mass_to_within_one_task(masses: dict[str, int], wanted: int) -> None:
    shares = apportioned(masses, wanted)
    total = sum(masses.values())
    assert sum(shares.values()) == min(wanted, total)
    for name, mass in masses.items():
        exact = mass * min(wanted, total) / total
        assert exact - 1 < shares[name] < exact + 1
        assert shares[name] <= mass


def test_within_a_stratum_tasks_unlike_those_taken_come_first() -> None:
    alike = [candidate(number, f"Count the lines of file number {number}") for number in range(8)]
    other = candidate(9, "Zip the photos")
    assert other in spread([*alike, other], 2)


def test_equally_unlike_tasks_are_taken_by_digest_in_any_order() -> None:
    members = [candidate(number, "x" * 20) for number in range(6)]
    expected = sorted(one.lineage for one in members)[:3]
    assert [one.lineage for one in spread(members, 3)] == expected
    assert spread(members[::-1], 3) == spread(members, 3)


def test_one_of_a_group_of_near_duplicates_is_taken_while_there_are_enough_others() -> None:
    group = lineage_of("0")
    many = [candidate(number, f"same task {number}", group=group) for number in range(5)]
    others = [candidate(number, f"{number} other {number * 37} task") for number in range(10, 13)]
    chosen = choose([*many, *others], 4)
    assert len([one for one in chosen if one.group == group]) == 1
    assert len(choose([*many, *others], 6)) == 6


def test_each_stratum_has_its_share() -> None:
    members = [candidate(number, f"task {number * 7919}", "big" if number % 4 else "small") for number in range(40)]
    assert Counter(one.stratum for one in choose(members, 8)) == {"big": 6, "small": 2}
    assert choose(members, 8) == choose(members[::-1], 8)


def test_likeness_is_the_jaccard_index_in_millionths() -> None:
    assert likeness(frozenset("abc"), frozenset("bcd")) == 500_000
    assert likeness(frozenset("abc"), frozenset("abc")) == 1_000_000


def test_attributes_of_few_values_divide_and_ids_constants_and_rarities_do_not() -> None:
    corpus = []
    for n in range(30):
        declared = {"kind": "ab"[n % 2], "team": "core", "run": f"run-{n}", "topic": f"t{n % 6}"}
        corpus.append(trace(n, "a", error=False, **declared, **({"rare": "xy"[n % 2]} if n < 8 else {})))
    assert dividing_attributes(corpus) == ("kind", "topic")


def test_at_most_three_attributes_divide_those_of_the_fewest_values() -> None:
    corpus = [trace(n, a=str(n % 2), b=str(n % 5), c=str(n % 3), d=str(n % 4)) for n in range(60)]
    assert dividing_attributes(corpus) == ("a", "c", "d")


def test_a_stratum_is_main_tool_length_errors_and_declared_values() -> None:
    assert stratum(trace(1, "aab", kind="k"), ("kind", "team")) == "tool a | medium | clean | k | unknown"
    assert stratum(trace(1, "ba", error=True), ()) == "tool a | medium | error"
    assert stratum(trace(1, "b"), ()) == "tool b | short | clean"
    assert stratum(trace(1, "bbbb"), ()) == "tool b | long | clean"
    assert stratum(trace(1, ""), ()) == "tool none | short | clean"
