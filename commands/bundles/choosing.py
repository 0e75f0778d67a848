"""What a run rests on: the events that its replay reads, and those that say how they came to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from commands.opening import open_journal
from commands.replaying import FAMILIES, replay
from commands.replaying.imports import imports_of, sources_of
from commands.replaying.runs import started_in
from commands.replaying.units import Unit, match, units
from commands.replaying.verdicts import Verdict
from ledger.errors import Refusal
from ledger.families import calls
from ledger.families.budget import BudgetSet
from ledger.families.builds import BuildCompleted
from ledger.families.calls import CallAnswered, CallReserved, TextEmbedded
from ledger.families.cells import CellOpened
from ledger.families.contents import ContentErased
from ledger.families.judging import CalibrationPublished, JudgeSetUp, LabelRecorded
from ledger.families.policies import OptimizationStarted, PolicyFrozen, ReportPublished
from ledger.families.providers import ConnectionConfigured, Endpoint, ModelConfigured
from ledger.families.traces import InputExcluded
from ledger.recorded import references

if TYPE_CHECKING:
    from pathlib import Path

    from ledger.event import Event
    from ledger.journal import Journal
    from ledger.recorded import Recorded


class RunDoesNotReplay(Refusal, name="run-does-not-replay", exit_code=242):
    """A run is to be carried away and can't be computed again from its journal."""

    def __init__(self, verdict: Verdict) -> None:
        how = "differs" if verdict.status == "differs" else "can't be reproduced"
        super().__init__(
            f"the {verdict.kind} {verdict.id} {how} when it is replayed: {verdict.why}; nothing was written",
            where="ledger.db",
            remedy="run `exp replay` to see what differs; only what replays is carried away",
        )


class Chosen:
    """The events of a run by position, none after its end."""

    def __init__(self, journal: Journal, run: Unit) -> None:
        self.journal = journal
        self.started = started_in(run.record)
        self.published = cast("Recorded", journal.find(ReportPublished, self.started.run))
        self.policy = cast("Recorded", journal.find(PolicyFrozen, self.started.run))
        self.last = self.published.seq
        self.records: dict[int, Recorded] = {}
        self.take((run.record, self.policy, self.published))

    def take(self, records: Iterable[Recorded | None]) -> None:
        """Add events, but for those that came after the run's end."""
        for record in records:
            if record is not None and record.seq <= self.last:
                self.records.setdefault(record.seq, record)

    def streams(self, *streams: str, kinds: Sequence[type[Event]] = ()) -> None:
        """Add the events of streams."""
        for stream in streams:
            self.take(self.journal.events(*kinds, stream=stream))

    @property
    def ordered(self) -> list[Recorded]:
        """The events in order."""
        return [self.records[seq] for seq in sorted(self.records)]

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Yield the contents that the events name by digest, but for those that were erased."""
        named = {found.decode() for record in self.records.values() for found in references(record.bytes)}
        for digest in sorted(named):
            if self.journal.find(ContentErased, digest) is None:
                yield digest, self.journal.blob(digest)


class Noting:
    """Notes every event that a journal is asked for by its key."""

    def __init__(self, journal: Journal) -> None:
        self.found: dict[int, Recorded] = {}
        self._find = journal.find
        journal.find = self.find  # type: ignore[method-assign]  # the replay asks the journal, and this listens

    def find(self, kind: type[Event], key: str) -> Recorded | None:
        """Return what the journal has."""
        record = self._find(kind, key)
        if record is not None:
            self.found[record.seq] = record
        return record


def chosen(root: Path, name: str, origin: str | None) -> tuple[Journal, Chosen]:
    """Return the journal, open, and what a run in it rests on; RunDoesNotReplay when it can't be computed again."""
    journal = open_journal(root, "export", *FAMILIES, reading=origin)
    try:
        return journal, _chosen(journal, name)
    except BaseException:
        journal.close()
        raise


def _chosen(journal: Journal, name: str) -> Chosen:
    published = units(journal)
    runs = [unit for unit in published if unit.kind == "run"]
    meant = match(name, sorted({one for unit in runs for one in unit.names}))
    run = next(unit for unit in reversed(runs) if meant in unit.names)
    noting = Noting(journal)
    made = Chosen(journal, run)
    under = _under(published, made)
    replayed = replay(journal, [*(unit for unit in under if unit.kind == "build"), run])
    if replayed.unanswered is not None:
        raise replayed.unanswered
    for verdict in replayed.verdicts:
        if verdict.status != "identical":
            raise RunDoesNotReplay(verdict)
    replay(journal, [unit for unit in under if unit.kind == "calibration"])  # only beside the run: not asked to hold
    made.take(unit.record for unit in under)
    made.take(list(noting.found.values()))
    _say_how(made)
    return made


def _under(published: Sequence[Unit], made: Chosen) -> list[Unit]:
    """Return the build that a run used, and the calibrations of its judge that were there before it ended."""
    inputs = made.started.inputs
    found = []
    for unit in published:
        event = unit.record.event
        if isinstance(event, BuildCompleted) and (event.project, event.build) == (inputs.project, inputs.build):
            found.append(unit)
        if isinstance(event, CalibrationPublished) and (event.project, event.setup) == (inputs.project, inputs.setup):
            found += [unit] * (unit.record.seq <= made.last)
    return found


def _say_how(made: Chosen) -> None:
    """Add the events that say how what was read came to be: cells, judgments, calls, models, labels, exclusions."""
    journal, inputs = made.journal, made.started.inputs
    made.streams(*(f"{kind}:{cell}" for cell in made.started.cells for kind in ("cell", "judgment")))
    for record in list(made.records.values()):
        event = record.event
        if isinstance(event, CalibrationPublished):
            made.streams(*(f"judgment:{subject}" for subject in event.subjects))
        if isinstance(event, BuildCompleted):
            imports = imports_of(journal, event)
            made.take(imports)
            made.streams(*(f"export:{one}" for one in sources_of(imports, event.source)), kinds=(InputExcluded,))
    made.take(
        record
        for record in journal.events(JudgeSetUp, LabelRecorded)
        if getattr(record.event, "project", None) == inputs.project
        and getattr(record.event, "setup", None) == inputs.setup
    )
    made.take([record for record in journal.events(BudgetSet) if record.seq < made.records[_start(made)].seq][-1:])
    made.take(_models(journal, _asked(made)))
    made.streams(*_calls(made.records.values()), kinds=calls.FAMILY.kinds)
    erased = {found.decode() for record in made.records.values() for found in references(record.bytes)}
    made.take(journal.find(ContentErased, digest) for digest in sorted(erased))


def _start(made: Chosen) -> int:
    return next(seq for seq, record in made.records.items() if isinstance(record.event, OptimizationStarted))


def _asked(made: Chosen) -> set[str]:
    """Return the digests of all models that had a part in it."""
    found = {rival.endpoint for rival in made.started.inputs.rivals}
    for record in made.records.values():
        event = record.event
        if isinstance(event, CellOpened):
            found |= {event.facts.candidate, event.facts.world_model, event.facts.embedder}
        elif isinstance(event, BuildCompleted):
            found |= {event.embedder, event.model}
        elif isinstance(event, JudgeSetUp):
            found.add(event.judge)
    return found


def _models(journal: Journal, wanted: set[str]) -> Iterator[Recorded]:
    """Yield the configurations that make these models."""
    records = list(journal.events(ConnectionConfigured, ModelConfigured))
    connections = [record for record in records if isinstance(record.event, ConnectionConfigured)]
    used = set()
    for record in records:
        event = record.event
        if not isinstance(event, ModelConfigured):
            continue
        for one in connections:
            connection = cast("ConnectionConfigured", one.event).connection
            named = connection.name == event.model.connection
            if named and Endpoint(model=event.model, connection=connection).digest in wanted:
                used.add(connection.name)
                yield record
                break
    yield from (one for one in connections if cast("ConnectionConfigured", one.event).connection.name in used)


def _calls(records: Iterable[Recorded]) -> Iterator[str]:
    """Yield the streams of the calls that answers and vectors came from."""
    found = set()
    for record in records:
        event = record.event
        if isinstance(event, (CallAnswered, CallReserved)):
            found.add(record.stream)
        elif isinstance(event, TextEmbedded):
            found.add(event.stream)
    yield from sorted(found)
