"""The calibration that a report is read by, and what it does to shares of passes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from commands.reporting.calibrated import corrected_share
from commands.reporting.meant import meant
from commands.reporting.reading import read
from commands.reporting.sheet import Sheet
from ledger.event import Step
from ledger.families import judging
from ledger.families.judging import CalibrationPublished, PublishCalibration
from ledger.journal import Journal
from projections.calibration import Confusion, corrected
from tests.commands.reading import Journey


def shown(root: Path, journey: Journey) -> Sheet:
    with meant(root, journey.ids["report"]) as found:
        return read(found)


@pytest.fixture(scope="session")
def sheet(journey: Journey) -> Sheet:
    return shown(journey.root, journey)


def test_it_is_the_approved_one_made_again(sheet: Sheet, journey: Journey) -> None:
    assert sheet.calibration.id == journey.ids["calibration"]
    assert sheet.calibration.missing == ""
    (axis,) = sheet.calibration.axes
    assert axis.counted == axis.confusion.counted > 0
    assert {one.subject for one in axis.disagreements} <= set(sheet.calibration.keys)


def test_shares_are_corrected_by_its_counts(sheet: Sheet) -> None:
    counts = sheet.calibration.axes[0].confusion
    for line in sheet.lines:
        assert line.corrected == corrected(line.passed, line.counted, counts)


def test_a_correction_takes_the_passes_of_the_cells_that_count(sheet: Sheet) -> None:
    counts = Confusion(pass_pass=18, pass_fail=2, fail_pass=1, fail_fail=19)
    axes = (msgspec.structs.replace(sheet.calibration.axes[0], confusion=counts),)
    known = msgspec.structs.replace(sheet.calibration, axes=axes)
    line = msgspec.structs.replace(sheet.report.lines[0], passed=3, counted=8)
    found = corrected_share(line, known, sheet.report)
    assert found == corrected(3, 8, counts)
    assert found.value is not None


def test_the_judge_s_labelled_items_are_a_part_of_the_spend(sheet: Sheet) -> None:
    parts = {one.part: one for one in sheet.spent}
    assert parts["calibration"].calls >= sheet.calibration.axes[0].counted
    assert not parts["calibration"].own
    assert parts["build"].calls >= 1
    assert not parts["build"].own


def test_a_mean_of_several_judgments_has_no_corrected_share(sheet: Sheet) -> None:
    line = sheet.report.lines[0]
    spreads = tuple(msgspec.structs.replace(one, samples=one.tasks + 1) for one in sheet.report.spreads)
    repeated = msgspec.structs.replace(sheet.report, spreads=spreads)
    assert "the mean of several judgments" in corrected_share(line, sheet.calibration, repeated).undefined
    both = msgspec.structs.replace(sheet.calibration, axes=sheet.calibration.axes * 2)
    assert "the mean of 2 axes" in corrected_share(line, both, sheet.report).undefined


def published(root: Path, **changes: object) -> None:
    """Publish the calibration once more, changed."""
    with Journal.open(root, (judging.FAMILY,), actor="test", clock=lambda: 1) as journal:
        known = [record.event for record in journal.events(CalibrationPublished)][-1]
        assert isinstance(known, CalibrationPublished)
        again = msgspec.structs.replace(known, **changes)
        journal.submit(Step(judging.FAMILY, PublishCalibration(labels=(), calibration=again))).result()


def test_one_that_nobody_approved_and_one_of_another_judge_are_passed_over(
    sheet: Sheet, journey: Journey, tmp_path: Path
) -> None:
    root = journey.copied(tmp_path)
    published(root, approved=False, calibration="calibration-that-nobody-approved")
    published(root, setup="setup-another", calibration="calibration-another", approved=True)
    assert shown(root, journey).calibration.id == sheet.calibration.id


def test_one_that_comes_out_otherwise_is_not_read_by(journey: Journey, tmp_path: Path) -> None:
    root = journey.copied(tmp_path)
    published(root, calibration="calibration-changed")
    missing = shown(root, journey).calibration
    assert missing.id is None
    assert f"calibration-changed comes out as {journey.ids['calibration']}" in missing.missing


def test_one_whose_traces_are_gone_is_not_read_by_and_says_so(journey: Journey, tmp_path: Path) -> None:
    root = journey.copied(tmp_path)
    published(root, calibration="calibration-changed", subjects=(f"trace:b3:{'0' * 64}",))
    assert "calibration-changed can't be made again" in shown(root, journey).calibration.missing
