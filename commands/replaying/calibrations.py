"""A calibration, computed again from the judge's replies and the labels that were in force when it was published."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from commands.calibrating import Bench, Item, calibrated, read_proposals
from commands.judging import Judge, ask_judge, judge_question
from commands.labels import spelled
from commands.optimizing.refusals import ReplayDiffers
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
    following = Following(journal, Asking(journal, perform, Run(id=known.calibration, ceiling=0, purpose="calibrate")))
    following.expect_judgments(known.subjects)
    judges = [Judge(setup, endpoint) for endpoint in endpoints.all("judge", setup.judge)]
    seqs = [record.seq]
    for item in sampled:
        judgments = _judgments(journal, item.subject, setup.id, record.seq)
        seqs += [judgment.seq for judgment in judgments]
        await _ask_again(following, judges, item, judgments)
    proposals = read_proposals(journal, judges[0], sampled, record.seq)
    labels = {}
    for place, label in labels_before(journal, known.project, setup.id, record.seq).items():
        if place[0] in proposals and proposals[place[0]].score(place[1]) is not None:
            labels[place] = cast("LabelRecorded", label.event)
            seqs.append(label.seq)
    bench = Bench(known.project, judges[0], sampled, proposals)
    return Recomputed(calibrated(bench, labels), bench, seqs)


async def _ask_again(following: Following, judges: Sequence[Judge], item: Item, judgments: Sequence[Recorded]) -> None:
    """Render every question about an item again, at each address and for each sample, and compare what follows."""
    left = {cast("JudgmentRecorded", record.event).question: record for record in judgments}
    for judge in judges:
        for sample in count():
            if left.pop(judge_question(judge, item.episode, sample).digest, None) is None:
                break
            await ask_judge(cast("Asking", following), judge, item.subject, item.episode, sample=sample)
    if left or not judgments:  # nothing that is asked now leads to it: what is asked instead is in no journal
        await ask_judge(cast("Asking", following), judges[0], item.subject, item.episode)
        for record in left.values():
            raise ReplayDiffers(record.seq, record.kind, "no question that is asked now leads to it")


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
    return Item(key=spelled(trace.name), subject=subject, episode=trace.episode, lineage=trace.lineage)


def _judgments(journal: Journal, subject: str, setup: str, before: int) -> list[Recorded]:
    return [
        record
        for record in journal.events(JudgmentRecorded, stream=f"judgment:{subject}")
        if isinstance(record.event, JudgmentRecorded) and record.event.setup == setup and record.seq < before
    ]
