"""Sides: which journal, which origin in it and which result is meant by an argument of ``exp diff``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from commands.opening import open_journal
from commands.replaying.endpoints import Endpoints
from commands.replaying.units import NothingPublishedAs, Unit, match, units
from ledger.errors import Refusal
from ledger.families import calls, providers
from ledger.store import NAME

if TYPE_CHECKING:
    from ledger.journal import Journal

ORDER = ("run", "calibration", "build")


class KindsDiffer(Refusal, name="kinds-differ", exit_code=216):
    """Two results of different kinds can't be compared."""

    def __init__(self, one: Unit, other: Unit) -> None:
        super().__init__(
            f"{one.names[0]} is a {one.kind} and {other.names[0]} is a {other.kind}",
            where="exp diff A B",
            remedy="name two runs (or their policies or reports), two builds or two calibrations",
        )


class Place(NamedTuple):
    """Where an argument points: a root, an origin in it or its own, and the beginning of a name or none."""

    root: Path
    origin: str | None
    name: str


class Side(NamedTuple):
    """One side of a comparison."""

    label: str
    journal: Journal
    endpoints: Endpoints
    unit: Unit


def place(argument: str, root: Path) -> Place:
    """Read ``ID``, ``ROOT:ID`` or ``ROOT``, each with ``@ORIGIN`` behind it when an imported one is meant."""
    text, _, origin = argument.partition("@")
    if os.path.isfile(Path(text) / NAME):  # noqa: PTH113 - a name that none can have is no file, and no error
        return Place(Path(text), origin or None, "")
    before, mark, name = text.rpartition(":")
    if mark and os.path.isfile(Path(before) / NAME):  # noqa: PTH113 - as above
        return Place(Path(before), origin or None, name)
    return Place(root, origin or None, text)


@contextlib.contextmanager
def opened(argument: str, root: Path) -> Iterator[Side]:
    """Open the journal that an argument points to, and find what is meant in it."""
    where = place(argument, root)
    with open_journal(where.root, "diff", providers.FAMILY, calls.FAMILY, reading=where.origin) as journal:
        yield Side(argument, journal, Endpoints(journal), _unit(units(journal), where.name))


def _unit(published: list[Unit], name: str) -> Unit:
    if name:
        meant = match(name, sorted({one for unit in published for one in unit.names}))
        return next(unit for unit in reversed(published) if meant in unit.names)
    for kind in ORDER:  # a root stands for its newest run, or for the most that it came to
        for unit in reversed(published):
            if unit.kind == kind:
                return unit
    raise NothingPublishedAs(name, ())
