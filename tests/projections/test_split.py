"""The split: near-duplicates on one side, sides by digest, the same on every machine."""

from __future__ import annotations

from itertools import combinations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger import digests
from ledger.families.traces import lineage_of
from projections.split import RULE, Declared, is_fit, near_duplicates, split, trigrams

BASE = "Count the lines of every file below /tmp/data and write the sum to /tmp/sum.txt"
texts = st.lists(
    st.text(alphabet="ab ", max_size=14) | st.sampled_from([BASE, f"{BASE}!", BASE[1:], BASE[:-9], BASE.upper()]),
    max_size=14,
)


def named(given_texts: list[str]) -> dict[str, str]:
    return {lineage_of(str(number)): text for number, text in enumerate(given_texts)}


def by_definition(given_texts: dict[str, str]) -> set[frozenset[str]]:
    """Groups by comparing all pairs, and joining until nothing changes."""
    groups = [{lineage} for lineage in given_texts]
    for one, other in combinations(given_texts, 2):
        grams, others = trigrams(given_texts[one]), trigrams(given_texts[other])
        alike = given_texts[one] and given_texts[other] and 5 * len(grams & others) >= 4 * len(grams | others)
        if alike:
            joined = [group for group in groups if one in group or other in group]
            groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    return {frozenset(group) for group in groups}


@settings(max_examples=300, deadline=None)
@given(texts)
@example([BASE, f"{BASE}?", f"{BASE}? Or", f"{BASE}? Or not so"])
@example(["", "", "a", "a"])
@example(["abcdef", "abcdefg"])
def test_groups_are_those_of_comparing_all_pairs(given_texts: list[str]) -> None:
    lineages = named(given_texts)
    groups = near_duplicates(lineages)
    assert {frozenset(members) for members in groups.values()} == by_definition(lineages)
    assert all(name == min(members) and list(members) == sorted(members) for name, members in groups.items())


@settings(max_examples=100, deadline=None)
@given(texts, st.randoms())
def test_the_order_of_lineages_decides_nothing(given_texts: list[str], chance: st.DrawFn) -> None:
    items = list(named(given_texts).items())
    shuffled = sorted(items, key=lambda item: digests.content_digest(repr((item, chance)).encode()))
    assert split(dict(items)) == split(dict(shuffled))


@settings(max_examples=100, deadline=None)
@given(texts)
def test_every_lineage_is_on_one_side_together_with_its_near_duplicates(given_texts: list[str]) -> None:
    lineages = named(given_texts)
    made = split(lineages)
    assert sorted((*made.fit, *made.held_out)) == sorted(lineages)
    fit = set(made.fit)
    for members in made.groups.values():
        assert fit.issuperset(members) or fit.isdisjoint(members)


def test_a_group_is_on_the_side_of_its_least_digest_by_five_of_seven() -> None:
    lineages = named([str(number) * 9 for number in range(700)])
    made = split(lineages)
    assert made.moved is None
    for name, members in made.groups.items():
        expected = int(name.removeprefix("b3:"), 16) % 7 < 5
        assert is_fit(name) == expected
        assert (members[0] in set(made.fit)) == expected
    assert 450 < len(made.fit) < 550


def test_a_side_that_would_be_empty_gets_a_group_and_that_is_said() -> None:
    fit = [name for name in map(lineage_of, map(str, range(50))) if is_fit(name)][:3]
    made = split({lineage: f"{number} {number}" * 5 for number, lineage in enumerate(fit)})
    assert made.moved == min(fit)
    assert made.held_out == (min(fit),)
    assert split({fit[0]: "alone"}).moved is None


def test_thousands_of_tasks_from_few_templates_are_grouped_quickly() -> None:
    made = near_duplicates(
        named([f"Fetch page {n * 7919} of topic {n % 40} and save it to out{n}.txt" for n in range(3000)])
    )
    assert sum(map(len, made.values())) == 3000


ids = st.sampled_from(["", "", "", "t1", "t2"])
declaring = st.lists(st.tuples(st.text(alphabet="ab ", max_size=9), ids, ids), max_size=12)


@settings(max_examples=200, deadline=None)
@given(declaring)
def test_whatever_shares_a_task_a_conversation_or_nearly_a_text_is_on_one_side(
    given_: list[tuple[str, str, str]],
) -> None:
    lineages = named([text for text, _, _ in given_])
    declared = dict(zip(lineages, ([Declared(task, chat)] for _, task, chat in given_), strict=True))
    made = split(lineages, declared)
    groups = by_definition(lineages)
    links = [
        {lineage for lineage, (one,) in declared.items() if getattr(one, field) == value}
        for field in ("task", "conversation")
        for value in ("t1", "t2")
    ]
    for link in links:
        touching = [group for group in groups if group & link]
        groups = groups - set(touching) | ({frozenset().union(*touching)} if touching else set())
    assert {frozenset(members) for members in made.groups.values()} == groups
    assert (made.by_task, made.by_conversation) == (
        sum(len(link) > 1 for link in links[:2]),
        sum(len(link) > 1 for link in links[2:]),
    )


def test_a_task_and_a_conversation_of_one_name_join_nothing() -> None:
    one, other = lineages = named(["count the lines", "print the primes"])
    made = split(lineages, {one: [Declared(task="x")], other: [Declared(conversation="x")]})
    assert len(made.groups) == 2
    assert split(lineages, {one: [Declared(task="x")], other: [Declared(), Declared(task="x")]}).groups == {
        min(lineages): tuple(sorted(lineages))
    }


def test_the_rule_speaks_of_declared_ids_only_where_they_joined_lineages() -> None:
    one, other, third = lineages = named(["count the lines", "print the primes", "zip the photos"])
    assert split(lineages).rule == RULE
    assert split(lineages, {one: [Declared("x", "y")], other: [Declared("z", "w")]}).rule == RULE
    for field in ("task", "conversation"):
        made = split(lineages, {one: [Declared(**{field: "x"})], third: [Declared(**{field: "x"})]})
        assert "one task or one conversation" in made.rule
        assert len(made.groups) == 2
