"""Tasks: which recorded tasks are simulated, so that few of them cover the corpus.

Strata first: each declared quality (main tool, length, errors, and attributes with few values) splits the corpus, and a
stratum gets tasks in proportion to its mass. Then spread: within a stratum, each next task is the one least like those
already taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ledger.families.traces import Trace

SCALE = 1_000_000
MOST_VALUES = 24
LEAST_MASS = 5  # traces a value, on average
MOST_ATTRIBUTES = 3
SHORT_TURNS, MEDIUM_TURNS = 1, 3


class Candidate(msgspec.Struct, frozen=True):
    """A lineage that a task may be made of. ``group`` is that of its near-duplicates."""

    lineage: str
    group: str
    text: str
    stratum: str
    grams: frozenset[str]


class Counts(msgspec.Struct, frozen=True):
    """How many tasks are taken on each side, and the rule in words."""

    fit: int
    held_out: int
    rule: str


def counts(wanted: tuple[int, int], there: tuple[int, int]) -> Counts:
    """Return how many tasks there can be: as many as wanted or, both sides alike, proportionally fewer."""
    (fit, held_out), (fit_there, held_out_there) = wanted, there
    if fit_there >= fit and held_out_there >= held_out:
        return Counts(fit, held_out, f"{fit} fit and {held_out} held-out tasks, by mass of stratum, then spread")
    # The side that has the least of what it should have decides for both.
    scarce, of = min(((fit_there, fit), (held_out_there, held_out)), key=lambda side: side[0] * SCALE // side[1])
    fewer = min(fit_there, max(1, fit * scarce // of)), min(held_out_there, max(1, held_out * scarce // of))
    words = (
        f"{fewer[0]} fit and {fewer[1]} held-out tasks, by mass of stratum, then spread; the corpus has"
        f" {fit_there} and {held_out_there} candidates where {fit} and {held_out} were wanted, so both are scaled"
        f" by {scarce}/{of}"
    )
    return Counts(*fewer, words)


def pool(candidates: Sequence[Candidate], wanted: int) -> list[Candidate]:
    """Return one candidate a group of near-duplicates, or all of them where that would be too few."""
    first: dict[str, Candidate] = {}
    for one in sorted(candidates, key=lambda one: one.lineage):
        first.setdefault(one.group, one)
    return list(first.values()) if len(first) >= wanted else sorted(candidates, key=lambda one: one.lineage)


def choose(candidates: Sequence[Candidate], wanted: int) -> list[Candidate]:
    """Return this many candidates, in order of lineage."""
    strata: dict[str, list[Candidate]] = {}
    for one in pool(candidates, wanted):
        strata.setdefault(one.stratum, []).append(one)
    shares = apportioned({name: len(members) for name, members in strata.items()}, wanted)
    chosen = [one for name in sorted(strata) for one in spread(strata[name], shares[name])]
    return sorted(chosen, key=lambda one: one.lineage)


def apportioned(masses: Mapping[str, int], wanted: int) -> dict[str, int]:
    """Return each stratum's share by mass: whole parts first, then by largest remainder, ties by name."""
    total = sum(masses.values())
    wanted = min(wanted, total)
    shares = {name: mass * wanted // total for name, mass in masses.items()}
    rest = sorted(masses, key=lambda name: (-(masses[name] * wanted % total), name))
    for name in rest[: wanted - sum(shares.values())]:
        shares[name] += 1
    return shares


def spread(members: Sequence[Candidate], wanted: int) -> list[Candidate]:
    """Return this many members: first the least digest, then each time the one least like its nearest taken one."""
    left = sorted(members, key=lambda one: one.lineage)
    taken: list[Candidate] = []
    nearest = [-1] * len(left)
    while left and len(taken) < wanted:
        at = min(range(len(left)), key=lambda number: (nearest[number], left[number].lineage))
        one = left.pop(at)
        nearest.pop(at)
        taken.append(one)
        if len(taken) < wanted:
            nearest = [max(near, likeness(one.grams, other.grams)) for near, other in zip(nearest, left, strict=True)]
    return taken


def likeness(one: frozenset[str], other: frozenset[str]) -> int:
    """Return the Jaccard index in millionths, rounded down."""
    shared = len(one & other)
    return shared * SCALE // (len(one) + len(other) - shared)


def dividing_attributes(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return the declared attributes that divide a corpus: those on at least half of it that have few values.

    Few are 2 to 24, and one for every five traces at most. Three attributes at most: those of the fewest values.
    """
    values: dict[str, Counter[str]] = {}
    for trace in traces:
        for name, value in trace.attributes:
            values.setdefault(name, Counter())[value] += 1
    dividing = [
        (len(found), name)
        for name, found in values.items()
        if 1 < len(found) <= MOST_VALUES
        and 2 * found.total() >= len(traces)
        and found.total() >= LEAST_MASS * len(found)
    ]
    return tuple(sorted(name for _, name in sorted(dividing)[:MOST_ATTRIBUTES]))


def stratum(trace: Trace, attributes: Sequence[str]) -> str:
    """Return what a trace has in common with others: main tool, length, errors, and these attributes."""
    tools = Counter(turn.tool for turn in trace.turns)
    main = min(tools, key=lambda tool: (-tools[tool], tool)) if tools else "none"
    turns = len(trace.turns)
    length = "short" if turns <= SHORT_TURNS else "medium" if turns <= MEDIUM_TURNS else "long"
    error = "error" if any(turn.error for turn in trace.turns) else "clean"
    declared = dict(trace.attributes)
    return " | ".join((f"tool {main}", length, error, *(declared.get(name, "unknown") for name in attributes)))
