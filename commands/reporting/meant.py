"""Meant: which finished optimization a name stands for, in the journal's own origin or in one that was imported."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from commands.opening import read_journal
from commands.replaying.units import NothingPublishedAs, Unit, match, units
from ledger.errors import Refusal
from ledger.families import calls, providers
from ledger.families.policies import PolicyFrozen, ReportPublished
from projections.report import Report

if TYPE_CHECKING:
    from ledger.journal import Journal

FAMILIES = (providers.FAMILY, calls.FAMILY)


class RunWanted(Refusal, name="run-wanted", exit_code=235):
    """A report was asked for of something that has none."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(
            f"{name} is a {kind}, and only optimizations have a report",
            where="exp report RUN",
            remedy="name a run, its policy, its report, or a project; `exp show` shows anything else",
        )


class ReportChanged(Refusal, name="report-changed", exit_code=236):
    """A report's content isn't the one that its id was made from, or has a shape that this release doesn't know."""

    def __init__(self, report: str, what: str) -> None:
        super().__init__(
            f"the content of {report} {what}",
            where=f"the journal, {report}",
            remedy="run `exp replay` on it; a report of another release is shown by that release",
        )


class Meant(NamedTuple):
    """A finished optimization: where it is recorded, and what it published."""

    journal: Journal
    unit: Unit
    frozen: PolicyFrozen
    published: ReportPublished
    report: Report


@contextlib.contextmanager
def meant(root: Path, name: str) -> Iterator[Meant]:
    """Open the journal at the origin in which a run, policy, report or project goes by a name, or its beginning."""
    with read_journal(root, *FAMILIES) as journal:
        origins = list(journal.origins().values())
        try:
            unit = _unit(journal, name)
        except NothingPublishedAs:
            if len(origins) == 1:
                raise
        else:
            yield _read(journal, unit)
            return
    for number, origin in enumerate(origins[1:], 2):
        with read_journal(root, *FAMILIES, reading=origin) as journal:
            try:
                unit = _unit(journal, name)
            except NothingPublishedAs:
                if number == len(origins):
                    raise
                continue
            yield _read(journal, unit)
            return


def _unit(journal: Journal, name: str) -> Unit:
    published = units(journal)
    of_project = [unit for unit in published if unit.kind == "run" and unit.project == name]
    if of_project:
        return of_project[-1]
    found = match(name, sorted({one for unit in published for one in unit.names}))
    unit = next(unit for unit in reversed(published) if found in unit.names)
    if unit.kind != "run":
        raise RunWanted(found, unit.kind)
    return unit


def _read(journal: Journal, unit: Unit) -> Meant:
    """Return what was published, its content held against its id."""
    run = unit.names[0]
    frozen, published = (journal.find(kind, run) for kind in (PolicyFrozen, ReportPublished))
    if frozen is None or published is None:
        raise NothingPublishedAs(run, unit.names)
    event = cast("ReportPublished", published.event)
    try:
        report = msgspec.json.decode(journal.blob(event.content.blob), type=Report)
    except msgspec.DecodeError as error:
        raise ReportChanged(event.report, "can't be read by this release") from error
    if report.id != event.report:
        raise ReportChanged(event.report, f"makes another id, {report.id}")
    return Meant(journal, unit, cast("PolicyFrozen", frozen.event), event, report)
