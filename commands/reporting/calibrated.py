"""The calibration that a report is read by: made again from judgments and labels, as a replay makes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from commands.perform.credentials import redactor_for
from commands.perform.replaying import Replaying
from commands.replaying.calibrations import recomputed, recorded_setup
from commands.reporting.sheet import Calibrated
from ledger.errors import Refusal
from ledger.families import providers
from ledger.families.judging import CalibrationPublished
from projections.calibration import Corrected, corrected

if TYPE_CHECKING:
    from commands.calibrating import Bench
    from commands.replaying.endpoints import Endpoints
    from ledger.journal import Journal
    from ledger.recorded import Recorded
    from projections.report import Line, Report


def calibration_of(journal: Journal, endpoints: Endpoints, project: str, setup: str) -> tuple[Calibrated, Bench | None]:
    """Return the newest approved calibration of a judge's setup, and what it stands on."""
    record = _newest(journal, project, setup)
    if record is None:
        return _none("no calibration of this judge was approved, so nothing is known of its errors"), None
    event = record.event
    known = recorded_setup(journal, project, setup)
    if known is None or not isinstance(event, CalibrationPublished):
        return _none(f"the judge's setup {setup} isn't recorded"), None
    perform = Replaying(journal, redactor_for(journal.state(providers.FAMILY)))
    try:
        made = asyncio.run(recomputed(journal, endpoints, perform, record, known))
    except Refusal as refusal:
        return _none(f"{event.calibration} can't be made again: {refusal.what}"), None
    if made.calibration.id != event.calibration:
        return _none(f"{event.calibration} comes out as {made.calibration.id}; see `exp replay`"), None
    keys = {item.subject: item.key for item in made.bench.sampled}
    found = Calibrated(id=event.calibration, seq=record.seq, axes=made.calibration.axes, keys=keys, missing="")
    return found, made.bench


def _none(why: str) -> Calibrated:
    return Calibrated(id=None, seq=None, axes=(), keys={}, missing=why)


def _newest(journal: Journal, project: str, setup: str) -> Recorded | None:
    found = None
    for record in journal.events(CalibrationPublished, stream=f"calibration:{project}"):
        event = record.event
        if isinstance(event, CalibrationPublished) and event.approved and event.setup == setup:
            found = record
    return found


def corrected_share(line: Line, calibration: Calibrated, report: Report) -> Corrected:
    """Return the share of passes that people would have given, or why nothing can be said of it."""
    if calibration.missing:
        return Corrected(undefined=calibration.missing)
    if len(calibration.axes) != 1:
        return Corrected(undefined=f"a score is the mean of {len(calibration.axes)} axes, each with errors of its own")
    if any(spread.samples > spread.tasks for spread in report.spreads):
        return Corrected(undefined="a task's score is the mean of several judgments, and errors are known of one")
    return corrected(line.passed, line.counted, calibration.axes[0].confusion)
