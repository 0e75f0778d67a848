"""Running an optimization: what is closed is read back, what is owed is asked for, then all is frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from commands.building import verify_build
from commands.optimizing import refusals
from commands.optimizing.freezing import Frozen, freeze, freezing
from commands.optimizing.planning import Plan
from commands.optimizing.rollout import Part, roll_out
from commands.optimizing.sources import Asked, Replayed
from commands.perform.asking import Asking, Run, Spend
from commands.perform.calling import CallWithoutAnswer, ServedModelDiffers
from commands.perform.credentials import CredentialMissing
from commands.perform.replaying import Replaying
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import cells, policies
from ledger.families.calls import BudgetWouldBeExceeded
from ledger.verify import verify

if TYPE_CHECKING:
    from commands.perform.outcome import Perform
    from ledger.families.cells import Outcome
    from ledger.journal import Journal
    from ledger.money import NanoUSD

CELLS_A_SLOT = 3
UNANSWERED = (CallWithoutAnswer, ServedModelDiffers, CredentialMissing)


class Finished(NamedTuple):
    """What a run of the command has to show."""

    frozen: Frozen
    outcomes: tuple[Outcome, ...]
    spend: Spend


async def optimize(
    journal: Journal, plan: Plan, perform: Perform, *, concurrency: int, worst: NanoUSD | None, done: Callable[[], None]
) -> Finished:
    """Start or resume an optimization and bring it to its end; CellsOwed when some calls got no answer."""
    await journal.record(
        Step(policies.FAMILY, policies.StartOptimization(started=plan.started)),
        Step(cells.FAMILY, cells.OpenCells(cells=tuple(part.cell for part in plan.parts))),
    )
    run = Run(id=plan.run, ceiling=plan.ceiling, purpose="optimize router", plan=worst)
    asking = Asking(journal, perform, run, concurrency=concurrency)
    source = Asked(asking, plan.embedder, plan.build.fit_index)
    outcomes = await _derived(journal, plan, source, run, done)
    owed = [part for part in plan.parts if part.cell.id not in outcomes]
    await _Crew(plan, source, concurrency, done).work(owed, outcomes)
    ordered = tuple(outcomes[part.cell.id] for part in plan.parts)
    frozen = freeze(plan, ordered, source.stand_ins)
    blobs = Blobs()
    await journal.record(Step(policies.FAMILY, freezing(plan, frozen, blobs)), blobs=blobs)
    return Finished(frozen, ordered, asking.spend())


async def _derived(journal: Journal, plan: Plan, live: Asked, run: Run, done: Callable[[], None]) -> dict[str, Outcome]:
    """Return what came of the cells that are closed already, whichever optimization closed them."""
    state: cells.Cells = journal.state(cells.FAMILY)
    closed = [part for part in plan.parts if state.closed(part.cell.id)]
    if not closed:
        return {}
    replaying = Asking(journal, Replaying(journal, live.asking.perform.redactor), run)
    source = Replayed(journal, replaying, plan.embedder, plan.build.fit_index)
    source.following.expect(closed)
    outcomes = {}
    for part in closed:
        outcomes[part.cell.id] = await roll_out(plan.scene, part, source)
        done()
    live.stand_ins |= source.stand_ins
    return outcomes


class _Crew:
    """Works on owed cells, a few for each call that may be in flight, so that slots are never idle."""

    def __init__(self, plan: Plan, source: Asked, concurrency: int, done: Callable[[], None]) -> None:
        self._plan = plan
        self._source = source
        self._concurrency = concurrency
        self._done = done
        self._unanswered: list[Refusal] = []
        self._in_a_row = 0
        self._stopped: Refusal | None = None

    async def work(self, owed: Sequence[Part], outcomes: dict[str, Outcome]) -> None:
        waiting = iter(owed)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency * CELLS_A_SLOT, len(owed))):
                group.create_task(self._worker(waiting, outcomes))
        left = sum(part.cell.id not in outcomes for part in owed)
        if isinstance(self._stopped, BudgetWouldBeExceeded):
            raise refusals.SpendStopped(left, len(self._plan.parts), self._plan.ceiling, self._stopped)
        if self._stopped is not None:
            raise self._stopped
        if self._unanswered:
            raise refusals.CellsOwed(left, len(self._plan.parts), self._unanswered[0])

    async def _worker(self, waiting: Iterator[Part], outcomes: dict[str, Outcome]) -> None:
        while self._stopped is None and self._in_a_row < self._concurrency:
            part = next(waiting, None)
            if part is None:
                return
            try:
                outcome = await roll_out(self._plan.scene, part, self._source)
            except UNANSWERED as refusal:
                self._unanswered.append(refusal)
                self._in_a_row += 1
                continue
            except Refusal as refusal:
                self._stopped = refusal
                return
            self._in_a_row = 0
            outcomes[part.cell.id] = outcome
            self._done()


async def replay(journal: Journal, plan: Plan, perform: Replaying) -> Finished:
    """Derive a completed optimization again from the journal alone; a Refusal names the event that doesn't fit."""
    refuse_unsound(journal)
    verify_build(journal, plan.request.project)
    finished = await rederived(journal, plan, perform)
    command = freezing(plan, finished.frozen, Blobs())
    for derived in (command.policy, command.report):
        record = journal.find(type(derived), plan.run)
        if record is None or record.event != derived:
            seq = record.seq if record else journal.position()[0]
            raise refusals.ReplayDiffers(seq, derived.kind, "the recorded answers lead to another result")
    return finished


def refuse_unsound(journal: Journal) -> None:
    """Refuse a journal that doesn't verify."""
    findings = verify(journal.path, full=True)
    if findings:
        ordered = sorted(findings, key=lambda finding: (finding.seq == 0, finding.seq))
        raise refusals.JournalUnsound([(finding.seq, finding.meaning) for finding in ordered])


async def rederived(journal: Journal, plan: Plan, perform: Replaying) -> Finished:
    """Return what the recorded answers lead to; each recorded step must be the one that follows."""
    run = Run(id=plan.run, ceiling=plan.ceiling, purpose="optimize router")
    asking = Asking(journal, perform, run)
    source = Replayed(journal, asking, plan.embedder, plan.build.fit_index)
    source.following.expect(plan.parts)
    outcomes = tuple(await asyncio.gather(*(roll_out(plan.scene, part, source) for part in plan.parts)))
    source.following.finish()
    return Finished(freeze(plan, outcomes, source.stand_ins), outcomes, asking.spend())
