"""Causes and effects of one event: what it rests on, and what was recorded later because of it or about the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from commands.explaining.lineage import Lineage
from commands.naming import Named, artifacts, base, facts
from ledger import digests

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.recorded import Recorded

MOST = 200
# The facts by which later events name what these ones brought into the world.
_BRINGS = {
    "build-completed": ("build",),
    "calibration-published": ("calibration",),
    "call-answered": ("question",),
    "call-reserved": ("question",),
    "cell-opened": ("cell",),
    "cell-finished": ("cell",),
    "cell-excluded": ("cell",),
    "judge-set-up": ("setup",),
    "optimization-started": ("run",),
    "policy-frozen": ("policy",),
    "report-published": ("report",),
    "request-accepted": ("request",),
    "route-decided": ("request",),
    "text-embedded": (),
    "trace-imported": ("trace",),
}


def causes(journal: Journal, record: Recorded) -> list[Recorded]:
    """Return what an event says led to it, and what it rests on."""
    found: dict[int, Recorded] = {}
    if record.cause is not None:
        seqs, _ = journal.starting_with(record.cause.removeprefix(digests.PREFIX), 1)
        found.update((seq, cause) for seq in seqs if (cause := journal.at(seq)) is not None)
    lineage = Lineage(journal)
    start = Named(digests.named(record.id), record)
    for node in lineage.parents(lineage.of(start)):
        if node.record is not None and node.record.seq != record.seq:
            found[node.record.seq] = node.record
    return [found[seq] for seq in sorted(found)]


def effects(journal: Journal, record: Recorded) -> list[Recorded]:
    """Return later events that have this one as their cause, or that name its id or what it brought; the first ones."""
    found: set[int] = set()
    for name in _names(journal, record):
        found.update(journal.mentioning(f'"{name}"', MOST, after=record.seq))
        found.update(journal.mentioning(f'"{name}:', MOST, after=record.seq))
        found.update(journal.mentioning(f':{name}"', MOST, after=record.seq))
    later = (journal.at(seq) for seq in sorted(found)[:MOST])
    return [one for one in later if one is not None]


def _names(journal: Journal, record: Recorded) -> Iterator[str]:
    yield digests.named(record.id)
    fields = _BRINGS.get(base(record.kind))
    body = facts(record)
    if fields is not None:
        yield from (body[field] for field in fields if isinstance(body.get(field), str))
    elif record.key is not None and record.key not in artifacts(journal):
        yield record.key
