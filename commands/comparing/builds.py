"""Two builds: what they were made of, the vectors of the same steps, and the tasks and tools that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from commands.comparing import inputs
from commands.comparing.sections import Row, Section, rows
from commands.readings import Build, recorded_build
from ledger import digests
from ledger.differences import differences

if TYPE_CHECKING:
    from commands.comparing.sides import Side
    from ledger.families.builds import BuildCompleted


def compare_builds(one: Side, other: Side) -> list[Section]:
    """Return the sections in which two builds are compared."""
    builds = [recorded_build(side.journal, cast("BuildCompleted", side.unit.record.event)) for side in (one, other)]
    made_of = [_inputs(side, build) for side, build in zip((one, other), builds, strict=True)]
    found = inputs.compared(made_of[0], made_of[1], (one.journal, other.journal))
    environments = [environment(build) for build in builds]
    names = [_names(build) for build in builds]
    return [
        Section("inputs", "Inputs that differ", rows(found)),
        Section("answers", "Vectors that differ for the same step", list(_vectors((one, other), builds))),
        Section("environment", "Tasks and tools that differ", rows(differences(environments[0], environments[1]))),
        Section("names", "Names that differ", rows(differences(names[0], names[1])), said=True),
    ]


def _inputs(side: Side, build: Build) -> dict[str, Any]:
    known = build.completed
    return inputs.of_build(side.journal, build) | {
        "embedder": inputs.model(side.endpoints.all("embedder", known.embedder)[0]),
        "world_model": inputs.model(side.endpoints.all("world model", known.model)[0]),
    }


def environment(build: Build) -> dict[str, Any]:
    """Return what a build gives to optimizations: tasks by the label of their trace, and tools."""
    return {
        "tasks": {build.trace_id(task.lineage): {"part": task.part, "text": task.text} for task in build.tasks},
        "tools": {
            tool.name: {"description": tool.description, "parameters": msgspec.json.decode(tool.parameters)}
            for tool in build.tools
        },
    }


def _names(build: Build) -> dict[str, str]:
    known = build.completed
    named = {"build": known.build, "fit_rag": known.fit_rag, "project": known.project}
    return named | {"serving_rag": known.serving_rag, "world_model": known.world_model}


def _vectors(sides: tuple[Side, Side], builds: list[Build]) -> Iterator[Row]:
    """Yield the steps of the same trace whose vectors differ, a trace in one row."""
    left, right = (_by_step(side, build) for side, build in zip(sides, builds, strict=True))
    differing: dict[str, int] = {}
    for step, vector in left.items():
        if right.get(step, vector) != vector:
            differing[step[0]] = differing.get(step[0], 0) + 1
    labels = {member.trace: member.label for member in builds[0].manifest.members}
    for trace, count in differing.items():
        yield {"trace": labels[trace], "steps": count}


def _by_step(side: Side, build: Build) -> dict[tuple[str, int], str]:
    vectors, size = side.journal.blob(build.completed.vectors.blob), build.completed.dimensions
    steps = [(member.trace, turn) for member in build.manifest.members for turn in range(member.turns)]
    return {
        step: digests.content_digest(vectors[place * size : (place + 1) * size]) for place, step in enumerate(steps)
    }
