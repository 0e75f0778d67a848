"""Material: the traces that a build is made of, read from inputs now or imported for its project before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from commands.ingesting.collected import Collected
from commands.ingesting.tally import Tally
from ledger.families import ingests, traces
from ledger.families.traces import Exclusion, Trace

if TYPE_CHECKING:
    from ledger.journal import Journal


class Material(msgspec.Struct):
    """Traces, one of each name; what names their input; where refusals say they are from; and the sums over them."""

    source: str
    where: str
    traces: tuple[Trace, ...]
    tally: Tally
    read: Collected | None = None


def of_inputs(read: Collected, where: str) -> Material:
    """Return what was read from inputs now."""
    tally = Tally(
        units=read.totals.units, used=read.totals.used, refused=read.totals.refused, repeated=read.totals.duplicate
    )
    tally.redactions.update(read.redaction.counts)
    for one in read:
        if isinstance(one, Exclusion):
            tally.leave(one.reason, one.units, one.count, one.place)
    return Material(read.digest, where, read.traces, tally, read)


def of_imports(journal: Journal, project: str) -> Material:
    """Return what was imported for a project; ImportsWanted when nothing was."""
    from commands.ingesting.showing import shown  # noqa: PLC0415 - a build from files doesn't need it

    completed = journal.state(ingests.FAMILY).of(project)
    tally = Tally()
    for one in completed:
        tally.add(shown(journal, one).tally)
    members = ingests.members(journal.blob(one.traces.blob) for one in completed)
    found = tuple(traces.decoded(journal.blob(digest)) for digest in members)
    return Material(ingests.source_of(completed), f"imports of {project}", found, tally)
