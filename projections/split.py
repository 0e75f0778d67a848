"""Split: which lineages may be learned from, and which are only measured on.

Lineages are one group that declare the same task, or the same conversation, or whose task texts nearly agree (Jaccard
of character trigrams at least 0.8); single link over all three, so that whatever joins two lineages keeps them
together. A group is on the side of its least lineage digest: five of seven fit, two held out, whatever machine or path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ledger import digests

FIT_OF, PARTS = 5, 7
SIMILAR_NUMERATOR, SIMILAR_DENOMINATOR = 4, 5
RULE = (
    "5:2 by lineage digest mod 7; lineages with task texts of trigram Jaccard 0.8 or more are on one side (single link)"
)

RULE_OF_DECLARED = "lineages that declare one task or one conversation are on one side"  # said where that joined some


class Declared(msgspec.Struct, frozen=True):
    """What a lineage's traces say of it: the task, and the conversation that it is part of; empty when they don't."""

    task: str = ""
    conversation: str = ""


class Split(msgspec.Struct, frozen=True):
    """Lineages of each side in order of digest, and the groups of near-duplicates by their least lineage."""

    fit: tuple[str, ...]
    held_out: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]
    moved: str | None = None
    by_task: int = 0  # how many tasks, and
    by_conversation: int = 0  # conversations, several lineages declare

    @property
    def rule(self) -> str:
        """How the sides came to be; what decided nothing isn't mentioned."""
        return f"{RULE}; {RULE_OF_DECLARED}" if self.by_task or self.by_conversation else RULE

    @property
    def group_of(self) -> dict[str, str]:
        """The group of each lineage."""
        return {lineage: name for name, members in self.groups.items() for lineage in members}


def split(texts: Mapping[str, str], declared: Mapping[str, Iterable[Declared]] | None = None) -> Split:
    """Return the split of lineages, given their task texts and what their traces declare.

    A side that would be empty gets the group with the least digest of the other side; ``moved`` names it.
    """
    tasks, conversations = _declared(declared or {})
    groups = near_duplicates(texts, [*tasks, *conversations])
    fit = {name for name in groups if is_fit(name)}
    held_out = set(groups) - fit
    moved = None
    if len(groups) > 1 and not (fit and held_out):
        moved = min(groups)
        fit, held_out = (set(groups) - {moved}, {moved}) if fit else ({moved}, set(groups) - {moved})
    return Split(
        fit=tuple(sorted(lineage for name in fit for lineage in groups[name])),
        held_out=tuple(sorted(lineage for name in held_out for lineage in groups[name])),
        groups=groups,
        moved=moved,
        by_task=len(tasks),
        by_conversation=len(conversations),
    )


def _declared(declared: Mapping[str, Iterable[Declared]]) -> tuple[list[set[str]], list[set[str]]]:
    """Return the lineages of each task, and of each conversation, that several declare."""
    tasks: dict[str, set[str]] = {}
    conversations: dict[str, set[str]] = {}
    for lineage, some in declared.items():
        for one in some:
            if one.task:
                tasks.setdefault(one.task, set()).add(lineage)
            if one.conversation:
                conversations.setdefault(one.conversation, set()).add(lineage)
    return [found for found in tasks.values() if len(found) > 1], [
        found for found in conversations.values() if len(found) > 1
    ]


def is_fit(lineage: str) -> bool:
    """Tell the side of a lineage digest."""
    return int.from_bytes(digests.raw(lineage)) % PARTS < FIT_OF


def trigrams(text: str) -> frozenset[str]:
    """Return the character trigrams of a text; a shorter text is its own."""
    return frozenset(text[at : at + 3] for at in range(len(text) - 2)) or frozenset({text})


def near_duplicates(texts: Mapping[str, str], joined_by: Iterable[set[str]] = ()) -> dict[str, tuple[str, ...]]:
    """Return the groups of lineages, each under its least member, members in order; some are joined beforehand."""
    by_text: dict[str, list[str]] = {}
    for lineage in sorted(texts):
        by_text.setdefault(texts[lineage] or lineage, []).append(lineage)
    links = _Links(len(by_text))
    number_of = {lineage: number for number, lineages in enumerate(by_text.values()) for lineage in lineages}
    for some in joined_by:
        first, *others = (number_of[lineage] for lineage in sorted(some))
        for other in others:
            links.join(first, other)
    _link(list(by_text), links)
    joined: dict[int, list[str]] = {}
    for number, lineages in enumerate(by_text.values()):
        joined.setdefault(links.root(number), []).extend(lineages)
    return {min(members): tuple(sorted(members)) for members in joined.values()}


def _link(texts: list[str], links: _Links) -> None:
    """Join all pairs that are similar enough. Exact: pairs that share none of their rarest trigrams can't be.

    Of a set of n trigrams, a similar set holds at least 4/5; so it holds one of the n - ceil(4n/5) + 1 rarest.
    """
    sets = [trigrams(text) for text in texts]
    frequency = Counter(gram for grams in sets for gram in grams)
    by_size = sorted(range(len(sets)), key=lambda number: len(sets[number]))
    holders: dict[str, list[int]] = {}
    for number in by_size:
        grams = sets[number]
        size = len(grams)
        kept = size - -(-SIMILAR_NUMERATOR * size // SIMILAR_DENOMINATOR) + 1
        rarest = sorted(grams, key=lambda gram: (frequency[gram], gram))[:kept]
        seen: set[int] = set()
        for gram in rarest:
            for other in holders.setdefault(gram, []):
                if other in seen or links.root(other) == links.root(number):
                    continue
                seen.add(other)
                if _similar(grams, sets[other]):
                    links.join(other, number)
            holders[gram].append(number)


def _similar(one: frozenset[str], other: frozenset[str]) -> bool:
    """Tell whether the Jaccard index is at least 4/5. ``other`` isn't the larger."""
    if len(other) * SIMILAR_DENOMINATOR < len(one) * SIMILAR_NUMERATOR:
        return False
    shared = len(one & other)
    return shared * SIMILAR_DENOMINATOR >= (len(one) + len(other) - shared) * SIMILAR_NUMERATOR


class _Links:
    """Disjoint sets of numbers."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def root(self, number: int) -> int:
        """Return the number that stands for this one's set."""
        above = self._above
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    def join(self, one: int, other: int) -> None:
        """Make two sets one."""
        self._above[self.root(one)] = self.root(other)
