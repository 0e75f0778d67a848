"""Replaying: everything that was published is computed again from the journal alone, and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from commands.optimizing.refusals import ReplayDiffers
from commands.perform.credentials import redactor_for
from commands.perform.replaying import QuestionNotInJournal, Replaying
from commands.replaying.builds import replay_build
from commands.replaying.calibrations import replay_calibration
from commands.replaying.endpoints import Endpoints, ModelNotRecorded
from commands.replaying.fittings import replay_fitting
from commands.replaying.isolation import isolated
from commands.replaying.runs import OtherRelease, PlanIncomplete, replay_run
from commands.replaying.units import Unit
from commands.replaying.verdicts import Subject, Verdict
from ledger.families import calls, providers
from ledger.families.outcomes import RouterFittingStarted
from ledger.refusals import ContentErased

if TYPE_CHECKING:
    from ledger.journal import Journal

FAMILIES = (providers.FAMILY, calls.FAMILY)
LOST = (ModelNotRecorded, OtherRelease, PlanIncomplete)


class Replayed:
    """The verdicts so far, and the first question that the journal couldn't answer."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []
        self.unanswered: QuestionNotInJournal | None = None


def replay(journal: Journal, chosen: Sequence[Unit], advance: Callable[[], None] = lambda: None) -> Replayed:
    """Compute all of it again, cut off from the network; the journal must have been opened with ``FAMILIES``."""
    result = Replayed()
    with asyncio.Runner() as runner:
        runner.get_loop()  # a loop has a pair of sockets of its own: it is made before none may be
        with isolated():
            runner.run(_replay(journal, chosen, result, advance))
    return result


async def _replay(journal: Journal, chosen: Sequence[Unit], result: Replayed, advance: Callable[[], None]) -> None:
    perform = Replaying(journal, redactor_for(journal.state(providers.FAMILY)))
    endpoints = Endpoints(journal)
    for unit in chosen:
        try:
            result.verdicts += await _verdicts(journal, endpoints, perform, unit)
        except QuestionNotInJournal as unanswered:
            result.unanswered = result.unanswered or unanswered
            result.verdicts.append(_subject(unit).differs(unanswered.what, [unit.record.seq]))
        advance()


async def _verdicts(journal: Journal, endpoints: Endpoints, perform: Replaying, unit: Unit) -> list[Verdict]:
    subject, record = _subject(unit), unit.record
    try:
        if unit.kind == "build":
            return [await replay_build(journal, endpoints, perform, record)]
        if unit.kind == "calibration":
            return [await replay_calibration(journal, endpoints, perform, record)]
        if isinstance(record.event, RouterFittingStarted):
            return replay_fitting(journal, record)
        return await replay_run(journal, endpoints, perform, record)
    except ContentErased as erased:
        return [subject.lost(f"erased: {erased.what}", [record.seq])]
    except LOST as lost:
        return [subject.lost(lost.what, [record.seq])]
    except ReplayDiffers as differs:
        return [subject.differs(differs.what, [differs.seq], differs.difference)]


def _subject(unit: Unit) -> Subject:
    return Subject(unit.kind, unit.names[0], unit.project)
