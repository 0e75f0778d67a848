"""Choosing: which events a person wants to see. Events are looked at one after another and never held."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from commands.naming import IdAmbiguous, IdUnknown, all_kinds, facts, kinds_of
from ledger.event import Event
from ledger.families.calls import CallReserved
from ledger.families.policies import OptimizationStarted
from ledger.refusals import SHOWN

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.recorded import Recorded


class Run(msgspec.Struct, frozen=True):
    """A run: its id, and the cells that are part of it."""

    id: str
    cells: frozenset[str]

    def owns(self, record: Recorded) -> bool:
        """Tell whether an event is the run's own, or about one of its cells."""
        body = facts(record)
        return body.get("run") == self.id or not self.cells.isdisjoint(_texts(body.get("cell"), body.get("subject")))


def _texts(*values: object) -> set[str]:
    return {value for value in values if isinstance(value, str)}


class Choice(msgspec.Struct, frozen=True):
    """What is wanted; everything that is given must hold."""

    kinds: tuple[type[Event], ...]
    stream: str | None
    since: int | None
    run: Run | None

    def records(self, journal: Journal, *, after: int) -> Iterator[Recorded]:
        """Yield the chosen events after a position."""
        exact = self.stream if self.stream is not None and not self.stream.endswith("*") else None
        for record in journal.events(*self.kinds, stream=exact, after=after):
            if self._holds(record):
                yield record

    def _holds(self, record: Recorded) -> bool:
        if self.stream is not None and self.stream.endswith("*") and not record.stream.startswith(self.stream[:-1]):
            return False
        if self.since is not None and record.at < self.since:
            return False
        return self.run is None or self.run.owns(record)


def chosen(journal: Journal, kinds: Sequence[str], *, stream: str | None, since: int | None, run: str | None) -> Choice:
    """Return the choice; a usage error for a kind that there isn't, a Refusal for a run that isn't recorded."""
    for kind in kinds:
        if not kinds_of([kind]):
            known = ", ".join(sorted(all_kinds()))
            message = f"there is no kind {kind!r}; there are: {known}"
            raise click.BadParameter(message, param_hint="--kind")
    return Choice(tuple(kinds_of(kinds)), stream, since, None if run is None else _run(journal, run))


def _run(journal: Journal, given: str) -> Run:
    found = _runs(journal, given)
    if given not in found and len(found) > 1:
        raise IdAmbiguous(given, sorted(found)[:SHOWN], more=len(found) > SHOWN)
    if not found:
        raise IdUnknown(given)
    name = given if given in found else next(iter(found))
    started = journal.find(OptimizationStarted, name)
    return Run(name, frozenset(facts(started)["cells"]) if started is not None else frozenset())


def _runs(journal: Journal, beginning: str) -> Collection[str]:
    """Return the runs whose ids begin so, with or without the mark of a digest."""
    names: dict[str, None] = {}
    for record in journal.events(OptimizationStarted, CallReserved):
        name = facts(record)["run"]
        if name.startswith((beginning, f"b3:{beginning}")):
            names[name] = None
    return names
