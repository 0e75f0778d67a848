"""What a journal published, and which of it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ledger.errors import Refusal
from ledger.families.builds import BuildCompleted
from ledger.families.judging import CalibrationPublished
from ledger.families.outcomes import RouterFittingStarted
from ledger.families.policies import OptimizationStarted, ReportPublished

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.recorded import Recorded

SHOWN = 8


class NothingPublishedAs(Refusal, name="nothing-published-as", exit_code=214):
    """No published result has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        some = ", ".join(known[-SHOWN:]) + (f" and {len(known) - SHOWN} more" if len(known) > SHOWN else "")
        super().__init__(
            f"nothing was published as {name!r}" if name or known else "nothing was published yet",
            where=f"what the journal published: {some or 'nothing yet'}",
            remedy="name a run, build, calibration, policy or report by its id or by the beginning of it; one that was "
            "imported also needs its origin (`--origin NAME`; for `exp diff`, @NAME behind the argument)",
        )


class NameAmbiguous(Refusal, name="name-ambiguous", exit_code=215):
    """The beginning of a name belongs to several results."""

    def __init__(self, name: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{name!r} begins {len(matches)} names",
            where=", ".join(matches[:SHOWN]),
            remedy="give more of the name",
        )


class Unit(NamedTuple):
    """Something that is computed as a whole, the names that it or its results have, and the event to start from."""

    kind: Literal["build", "calibration", "run"]
    project: str
    names: tuple[str, ...]
    record: Recorded


def units(journal: Journal) -> list[Unit]:
    """Return what was published, in order: for the same thing published twice, the newest event."""
    found: dict[tuple[str, ...], Unit] = {}
    for record in journal.events(BuildCompleted, CalibrationPublished, ReportPublished):
        event = record.event
        if isinstance(event, BuildCompleted):
            found["build", event.project, event.build] = Unit("build", event.project, (event.build,), record)
        elif isinstance(event, CalibrationPublished):
            place = ("calibration", event.project, event.calibration)
            found[place] = Unit("calibration", event.project, (event.calibration,), record)
        elif isinstance(event, ReportPublished):
            started = journal.find(OptimizationStarted, event.run) or journal.find(RouterFittingStarted, event.run)
            names = (event.run, event.policy, event.report)
            found["run", event.run] = Unit("run", event.project, names, started or record)
    return list(found.values())


def named(units_: Sequence[Unit], asked: Sequence[str]) -> list[Unit]:
    """Return the units that have these names, or a name that begins so; all when none is asked for."""
    if not asked:
        return list(units_)
    known = sorted({name for unit in units_ for name in unit.names})
    wanted = {match(name, known) for name in asked}
    return [unit for unit in units_ if wanted & set(unit.names)]


def match(name: str, known: Sequence[str]) -> str:
    """Return the one name that begins so, with or without its kind before the hyphen; a Refusal for none or several."""
    if name in known:
        return name
    bare = [one for one in known if one.startswith(name) or one.partition("-")[2].startswith(name)] if name else []
    if not bare:
        raise NothingPublishedAs(name, known)
    if len(bare) > 1:
        raise NameAmbiguous(name, bare)
    return bare[0]
