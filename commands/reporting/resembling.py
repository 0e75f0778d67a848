"""Resembling: how near the world model's answers come to what held-out traces recorded, beside two that need no model.

The world model is only compared where a rollout took the very actions of the recording from its start, since only there
does the recording say what should have come back. Everywhere else its answers have nothing to be held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from commands.reporting.sheet import Cell, Resembled
from projections.fidelity import nearness

if TYPE_CHECKING:
    from commands.readings import Build, Member
    from ledger.episode import Turn
    from projections.retrieval import Example

MOST_STEPS = 2_000
CONSTANT = ""  # what is answered to everything by the baseline that knows nothing
WORLD_MODEL = "world model"
UNCOMPARED = "what it would have answered to the steps that no rollout reached isn't recorded"
UNREACHED = "no rollout of a held-out task took the actions of its recording"
NO_STEPS = "no held-out trace has a step"
NOTHING_NEAR = "there is nothing to retrieve from"


class Step(NamedTuple):
    """A recorded step of a held-out trace, and what is recorded nearest to it in another lineage."""

    trace: str
    turn: int
    lineage: str
    recorded: str
    near: str | None


def resembled(build: Build, vectors: bytes, cells: Sequence[Cell]) -> tuple[Resembled, ...]:
    """Return the measures: over all recorded steps without the world model, and over those that rollouts reached."""
    steps = _steps(build, vectors)
    there = {(step.trace, step.turn): step for step in steps}
    reached = [(there[place], said) for place, said in _reached(build, cells) if place in there]
    own = [step for step, _ in reached]
    return (
        *_baselines(steps, "recorded"),
        Resembled(way="world model", steps="recorded", lineages=0, nearness=None, missing=UNCOMPARED),
        *(_baselines(own, "reached") if own else ()),
        _measured("world model", "reached", own, [said for _, said in reached], UNREACHED),
    )


def _baselines(steps: Sequence[Step], which: str) -> Iterator[Resembled]:
    yield _measured("constant", which, steps, [CONSTANT] * len(steps), NO_STEPS)
    near = [step for step in steps if step.near is not None]
    yield _measured(
        "best retrieved", which, near, [step.near or "" for step in near], NOTHING_NEAR if steps else NO_STEPS
    )


def _measured(way: str, which: str, steps: Sequence[Step], said: Sequence[str], missing: str) -> Resembled:
    pairs = [(step.recorded, one) for step, one in zip(steps, said, strict=True)]
    return msgspec.convert(
        {
            "way": way,
            "steps": which,
            "lineages": len({step.lineage for step in steps}),
            "nearness": nearness(pairs) if pairs else None,
            "missing": "" if pairs else missing,
        },
        Resembled,
    )


def _steps(build: Build, vectors: bytes) -> list[Step]:
    places = list(_places(build))[:MOST_STEPS]
    near = _near(build, vectors, places)
    return [
        Step(member.trace, turn, member.lineage, build.trace(member.trace).turns[turn].observation, one)
        for (_, member, turn), one in zip(places, near, strict=True)
    ]


def _places(build: Build) -> Iterator[tuple[int, Member, int]]:
    """Yield the row, member and turn of every step of a held-out trace."""
    row = 0
    for member in build.manifest.members:
        for turn in range(member.turns):
            if member.part == "held-out":
                yield row, member, turn
            row += 1


def _near(build: Build, vectors: bytes, places: Sequence[tuple[int, Member, int]]) -> list[str | None]:
    index = build.fit_index
    if not places or not len(index):
        return [None] * len(places)
    size = build.completed.dimensions
    asked = [vectors[row * size : (row + 1) * size] for row, _, _ in places]
    found = index.search_many(asked, 1, without_lineages=[member.lineage for _, member, _ in places])
    return [_observation(examples) for examples in found]


def _observation(examples: Sequence[Example]) -> str | None:
    return examples[0].observation if examples else None


def _reached(build: Build, cells: Sequence[Cell]) -> list[tuple[tuple[str, int], str]]:
    """Return the steps whose actions a rollout took from the start, each with what the world model answered."""
    traces = {task.id: task.trace for task in build.tasks if task.part == "held-out"}
    found: dict[tuple[tuple[str, int], str], None] = {}
    for cell in cells:
        trace = traces.get(cell.task)
        if trace is None:
            continue
        recorded = build.trace(trace).turns
        for turn, (seen, there) in enumerate(zip(cell.turns, recorded, strict=False)):
            if seen.by != WORLD_MODEL or not _same(seen.tool, seen.arguments, there):
                break
            found[(trace, turn), seen.observation] = None
    return list(found)


def _same(tool: str, arguments: str, recorded: Turn) -> bool:
    return tool == recorded.tool and _value(arguments) == _value(recorded.arguments)


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
