"""A calibration, computed again from the judge's replies and the labels that were in force when it was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from commands.calibrating import Bench, Item, Proposal, calibrated
from commands.judging import Judge, ask_judge, judge_question
from commands.labels import spelled
from commands.optimizing.sources import Following
from commands.perform.asking import Asking, Run
from commands.replaying.verdicts import Subject, Verdict
from ledger.families import traces
from ledger.families.judging import (
    CalibrationPublished,
    JudgeSetUp,
    JudgmentRecorded,
    LabelRecorded,
    Rubric,
    Setup,
)

if TYPE_CHECKING:
    from commands.perform.replaying import Replaying
    from commands.replaying.endpoints import Endpoints
    from ledger.journal import Journal
    from ledger.recorded import Recorded
    from projections.calibration import Calibration

TRACE = "trace:"


class Recomputed(NamedTuple):
    """A calibration made again, what it stands on, and the events that this came from."""

    calibration: Calibration
    bench: Bench
    seqs: list[int]


async def replay_calibration(journal: Journal, endpoints: Endpoints, perform: Replaying, record: Recorded) -> Verdict:
    """Return whether judgments and labels give the calibration that an event published."""
    known = cast("CalibrationPublished", record.event)
    subject = Subject("calibration", known.calibration, known.project)
    setup = recorded_setup(journal, known.project, known.setup)
    if setup is None:
        return subject.differs(f"its setup {known.setup} was never approved", [record.seq])
    made = await recomputed(journal, endpoints, perform, record, setup)
    return subject.compared(
        {"calibration": known.calibration}, {"calibration": made.calibration.id}, lambda _: sorted(made.seqs)
    )


async def recomputed(
    journal: Journal, endpoints: Endpoints, perform: Replaying, record: Recorded, setup: Setup
) -> Recomputed:
    """Return the calibration that judgments and labels make; a Refusal names a judgment that doesn't follow."""
    known = cast("CalibrationPublished", record.event)
    sampled = tuple(_item(journal, name) for name in known.subjects)
    proposals, seqs = {}, [record.seq]
    following = Following(journal, Asking(journal, perform, Run(id=known.calibration, ceiling=0, purpose="calibrate")))
    following.expect_judgments(known.subjects)
    judge = Judge(setup, endpoints.all("judge", setup.judge)[0])
    for item in sampled:
        judgments = _judgments(journal, item.subject, setup.id)
        seqs += [judgment.seq for judgment in judgments]
        judge = _asked(setup, endpoints, item, judgments)
        judged = await ask_judge(cast("Asking", following), judge, item.subject, item.episode)
        proposals[item.subject] = Proposal(judged.scores, judged.problem)
    labels = {}
    for place, label in labels_before(journal, known.project, setup.id, record.seq).items():
        if place[0] in proposals and proposals[place[0]].score(place[1]) is not None:
            labels[place] = cast("LabelRecorded", label.event)
            seqs.append(label.seq)
    bench = Bench(known.project, judge, sampled, proposals)
    return Recomputed(calibrated(bench, labels), bench, seqs)


def recorded_setup(journal: Journal, project: str, setup: str) -> Setup | None:
    """Return a setup that was approved for a project; None when it never was."""
    for record in journal.events(JudgeSetUp, stream=f"judge:{project}"):
        event = record.event
        if isinstance(event, JudgeSetUp) and event.setup == setup:
            rubric = msgspec.json.decode(journal.blob(event.rubric.blob), type=Rubric)
            return Setup(id=setup, rubric=rubric, alias=event.alias, judge=event.judge)
    return None


def labels_before(journal: Journal, project: str, setup: str, seq: int) -> dict[tuple[str, str], Recorded]:
    """Return the labels that were in force at a position, by subject and axis."""
    found = {}
    for record in journal.events(LabelRecorded, stream=f"labels:{project}"):
        event = record.event
        if isinstance(event, LabelRecorded) and event.setup == setup and record.seq < seq:
            found[event.subject, event.axis] = record
    return found


def _item(journal: Journal, subject: str) -> Item:
    trace = traces.decoded(journal.blob(subject.removeprefix(TRACE)))
    return Item(key=spelled(trace.name), subject=subject, episode=trace.episode)


def _judgments(journal: Journal, subject: str, setup: str) -> list[Recorded]:
    return [
        record
        for record in journal.events(JudgmentRecorded, stream=f"judgment:{subject}")
        if isinstance(record.event, JudgmentRecorded) and record.event.setup == setup
    ]


def _asked(setup: Setup, endpoints: Endpoints, item: Item, judgments: Sequence[Recorded]) -> Judge:
    """Return the judge at the address where it was asked about an item, the newest when it was nowhere."""
    asked = {cast("JudgmentRecorded", record.event).question for record in judgments}
    judges = [Judge(setup, endpoint) for endpoint in endpoints.all("judge", setup.judge)]
    there = [judge for judge in judges if judge_question(judge, item.episode).digest in asked]
    return (there or judges)[0]
