"""Planted worlds whose optimization is read as a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from commands.reporting.meant import meant
from commands.reporting.reading import read
from commands.reporting.sheet import Cell, Resembled, Sheet
from tests.commands.optimizing.planted import PROJECT, World, call

HOSTILE = '<script>alert("x")</script><img src=http://x.example/y>&amp;\x1b[31m\u202etxt'


def sheet_of(world: World, name: str = PROJECT) -> Sheet:
    """Return what a report shows; the world's journal is closed for it."""
    world.journal.close()
    with meant(world.root, name) as found:
        return read(found)


def only(cells: tuple[Cell, ...], **wanted: object) -> Iterator[Cell]:
    for cell in cells:
        if all(getattr(cell, name) == value for name, value in wanted.items()):
            yield cell


def measure(sheet: Sheet, way: str, steps: str) -> Resembled:
    return next(one for one in sheet.fidelity if (one.way, one.steps) == (way, steps))


def recorded_action(task: str) -> dict[str, Any]:
    """Return the action that the trace of a task recorded: the first word names its stratum."""
    first = task.split(maxsplit=1)[0]
    stratum = {"Sort": "sorting", "Count": "counting", "Download": "fetching", "Compile": "compiling"}[first]
    return call("bash", json.dumps({"command": stratum}))
