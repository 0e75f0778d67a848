"""Outcomes: what models scored and cost on prompts elsewhere, brought in as tables, and the routers fitted on them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.event import BlobRef, Command, Event, Fact, Family, Found, event
from ledger.money import NanoUSD


class OutcomesWanted(Refusal, name="outcomes-wanted", exit_code=127):
    """A router is to be fitted on outcomes of a project that has none."""

    def __init__(self, project: str, known: Sequence[str]) -> None:
        there = f"; there are outcomes for {', '.join(known)}" if known else ""
        super().__init__(
            "no outcomes were imported for this project; nothing was fitted",
            where=f"project {project}{there}",
            remedy=f"run `exp import outcomes FILE --project {project}` first",
        )


class Result(Fact):
    """What a model did on a prompt: ``score`` in millionths of 1, ``cost`` in nano-dollars; None is not measured."""

    model: str
    score: int | None
    cost: NanoUSD | None


@event("outcome-imported@1")
class OutcomeImported(Event):
    """A row of a table. ``text`` is a JSON object with its id, prompt and task; rows of one lineage stay together."""

    project: str
    table: str
    row: str
    lineage: str
    text: BlobRef
    results: tuple[Result, ...]

    @property
    def stream(self) -> str:
        """One stream a table of a project."""
        return f"outcomes:{self.project}:{self.table}"

    @property
    def key(self) -> str | None:
        """A row is in a table of a project once."""
        return f"{self.project}:{self.table}:{self.row}"


@event("outcomes-imported@1")
class OutcomesImported(Event):
    """A table was read to its end; its rows count from here on. ``source`` digests the plain bytes it was read from.

    One that came as ``held_out`` is only ever measured on, unless it is brought in to be fitted on, too.
    """

    project: str
    table: str
    source: str
    rows: int
    models: tuple[str, ...]
    missing: int
    held_out: bool = False

    @property
    def stream(self) -> str:
        """One stream a project."""
        return f"outcomes:{self.project}"

    @property
    def key(self) -> str | None:
        """A table is brought in once a project for each of the two purposes."""
        return table_key(self.project, self.table, held_out=self.held_out)


def table_key(project: str, table: str, *, held_out: bool = False) -> str:
    """Return the key of a table."""
    return f"{project}:{table}" + ":held-out" * held_out


class FitInputs(Fact):
    """All that decides a router that is fitted on outcomes.

    ``tables`` are fitted on but for the part held out: ``held_out`` tables, or a share of lineages in millionths. Of
    the dials one is given; a target is met by the dial that does so on fit tasks.
    """

    project: str
    tables: tuple[str, ...]
    held_out: tuple[str, ...]
    share: int
    candidates: tuple[str, ...]
    incumbent: str
    tolerance: int | None
    price: NanoUSD | None
    target_quality: int | None
    target_cost: NanoUSD | None
    versions: tuple[str, ...]

    @property
    def run(self) -> str:
        """The run's name."""
        return f"optimize-{digests.content_digest(canonical.digest_input('fit-router', self))[3:35]}"


@event("router-fitting-started@1")
class RouterFittingStarted(Event):
    """A router is to be fitted on outcomes: the frozen inputs, whose digest names the run."""

    run: str
    inputs: FitInputs

    @property
    def stream(self) -> str:
        """One stream an optimization."""
        return f"optimization:{self.run}"

    @property
    def key(self) -> str | None:
        """It starts once."""
        return self.run


class Outcomes(msgspec.Struct):
    """The tables of each project in the order they came, those to measure on apart, and the fittings that started."""

    tables: dict[str, dict[str, OutcomesImported]] = msgspec.field(default_factory=dict)
    held_out: dict[str, dict[str, OutcomesImported]] = msgspec.field(default_factory=dict)
    started: set[str] = msgspec.field(default_factory=set)

    def known(self, project: str, *, held_out: bool) -> dict[str, OutcomesImported]:
        """Return a project's tables of a purpose by name."""
        return (self.held_out if held_out else self.tables).get(project, {})

    def of(self, project: str) -> tuple[OutcomesImported, ...]:
        """Return a project's tables; OutcomesWanted when there are none."""
        if project not in self.tables:
            raise OutcomesWanted(project, sorted(self.tables))
        return tuple(self.tables[project].values())


class RecordOutcomes(Command):
    """Record rows of a table."""

    rows: tuple[OutcomeImported, ...]

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """Rows that an import which broke off recorded aren't recorded again."""
        return tuple((OutcomeImported.kind, row.key or "") for row in self.rows)


class CompleteOutcomes(Command):
    """Make a table count."""

    completed: OutcomesImported


class StartFitting(Command):
    """Say what is to be fitted."""

    started: RouterFittingStarted


def decide(
    command: RecordOutcomes | CompleteOutcomes | StartFitting, state: Outcomes, found: Found
) -> tuple[Event, ...]:
    """Return what isn't recorded yet."""
    if isinstance(command, RecordOutcomes):
        return tuple(row for row in command.rows if found(row.kind, row.key or "") is None)
    if isinstance(command, StartFitting):
        return () if command.started.run in state.started else (command.started,)
    completed = command.completed
    return () if completed.table in state.known(completed.project, held_out=completed.held_out) else (completed,)


def evolve(state: Outcomes, event: Event) -> Outcomes:
    """Fold one event; rows are read when they are needed."""
    if isinstance(event, OutcomesImported):
        tables = state.held_out if event.held_out else state.tables
        tables.setdefault(event.project, {})[event.table] = event
    elif isinstance(event, RouterFittingStarted):
        state.started.add(event.run)
    return state


FAMILY = Family(
    name="outcomes",
    kinds=(OutcomesImported, RouterFittingStarted),
    initial=Outcomes,
    decide=decide,
    evolve=evolve,
)
