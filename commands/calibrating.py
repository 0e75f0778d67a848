"""Calibrating: sample recorded traces, have the judge propose, read the proposals back, and publish with labels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from commands.judging import Judge, ask_judge
from commands.labels import Given, Wanted, label_key, spelled
from ledger import canonical, digests, estimates
from ledger.episode import Episode
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import judging
from ledger.families.judging import (
    ATTEMPTS,
    AxisScore,
    CalibrationPublished,
    JudgmentRecorded,
    LabelRecorded,
    PublishCalibration,
    Unreadable,
    read_judgment,
)
from ledger.prompt import Prompt, Reply
from ledger.replies import UnreadableReply, read_reply
from projections.calibration import Calibration, Sample, calibration

if TYPE_CHECKING:
    from commands.perform.asking import Asking
    from commands.readings import Build
    from ledger.journal import Journal
    from ledger.money import NanoUSD

STAND_IN = "exp-stand-in"
LAST = 2**53  # beyond every position


class NothingToCalibrate(Refusal, name="nothing-to-calibrate", exit_code=14):
    """No sampled trace has a proposal that a label could be compared with."""

    def __init__(self, project: str, sampled: int) -> None:
        what = "the project has no fit lineage to sample"
        if sampled:
            what = f"the judge's replies to all {sampled} sampled traces are unusable"
        super().__init__(
            what,
            where=f"project {project}",
            remedy=f"sample more traces, or choose another judge and run `exp config judge setup {project} --approve`",
        )


class ProposalsWanted(Refusal, name="proposals-wanted", exit_code=15):
    """Labels are given before the judge has proposed; a pass with labels calls nobody."""

    def __init__(self, project: str, owed: int, sampled: int) -> None:
        super().__init__(
            f"the judge hasn't proposed yet for {owed} of the {sampled} sampled traces; no label was recorded",
            where=f"the calibration of project {project}: a command with labels calls nobody",
            remedy="run the same command first without --label and --judgment",
        )


class JudgmentDiffers(Refusal, name="judgment-differs", exit_code=18):
    """A recorded judgment isn't what the judge's recorded reply says."""

    def __init__(self, seq: int, axis: str) -> None:
        super().__init__(
            f"event {seq} records another score for {axis} than the judge's reply holds",
            where="ledger.db",
            remedy="restore the root from a copy; `exp check --full` lists everything that is damaged",
        )


class Item(msgspec.Struct, frozen=True):
    """A sampled trace: the key that it has on the command line, its subject, and what is judged."""

    key: str
    subject: str
    episode: Episode
    lineage: str = ""


class Proposal(msgspec.Struct, frozen=True):
    """What the judge made of an item: scores, or why it is excluded; and what a stand-in says of itself.

    ``again`` holds what it said when it was asked the same once more, a list of scores for each time.
    """

    scores: tuple[AxisScore, ...] | None
    problem: str | None
    stand_in: str | None = None
    again: tuple[tuple[AxisScore, ...], ...] = ()

    def score(self, axis: str) -> AxisScore | None:
        """Return what it says on an axis; None when the item is excluded."""
        return next((said for said in self.scores or () if said.axis == axis), None)

    def repeated(self, axis: str) -> tuple[judging.Scaled, ...]:
        """Return the scores that it gave on an axis when it was asked again."""
        return tuple(said.score for scores in self.again for said in scores if said.axis == axis)


class Owed(msgspec.Struct, frozen=True):
    """An item that the judge is to be asked about, and whether that is the first time (0) or once more."""

    item: Item
    sample: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What the whole sample may cost, what is still owed of it, and the ceiling."""

    whole: estimates.Estimate
    owed: estimates.Estimate
    ceiling: NanoUSD


_NONE = Proposal(None, None)


def chosen(lineages: Sequence[str], size: int) -> list[str]:
    """Return so many lineages, the first by a digest of their name, so that a larger sample holds the smaller one."""
    return sorted(lineages, key=lambda lineage: digests.content_digest(f"judge-sample:{lineage}".encode()))[:size]


def sampled_from(build: Build, size: int) -> tuple[Item, ...]:
    """Return so many recorded traces of fit lineages, one a lineage."""
    found = []
    for lineage in chosen(build.fit_lineages, size):
        digest = build.representative(lineage)
        trace = build.trace(digest)
        found.append(Item(key=spelled(trace.name), subject=f"trace:{digest}", episode=trace.episode, lineage=lineage))
    return tuple(found)


def run_id(judge: Judge, sampled: Sequence[Item]) -> str:
    """Return the run's id: of the setup and the sampled traces."""
    return digests.content_digest(
        canonical.digest_input("calibrate", judge.setup.id, [item.subject for item in sampled])
    )


def plan(judge: Judge, sampled: int, owed: int, ceiling: NanoUSD) -> Plan:
    """Return what asking may cost at most."""
    extra = sum(len(str(message["content"]).encode()) for message in _empty_prompt(judge).messages)
    parts = [estimates.judge_part(judge.endpoint, count, extra) for count in (sampled, owed)]
    return Plan(estimates.Estimate((parts[0],)), estimates.Estimate((parts[1],)), ceiling)


def _empty_prompt(judge: Judge) -> Prompt:
    return judging.judge_prompt(judge.setup.rubric, Episode(task="", turns=(), final=None, ended="recorded"))


def still_owed(sampled: Sequence[Item], proposals: Mapping[str, Proposal], repeats: int) -> list[Owed]:
    """Return what the judge hasn't been asked: the items, and so many of the readable ones once more."""
    first = [Owed(item) for item in sampled if item.subject not in proposals]
    repeated = [item for item in sampled if proposals.get(item.subject, Proposal((), None)).scores is not None]
    once_more = [Owed(item, 1) for item in repeated[:repeats] if not proposals.get(item.subject, _NONE).again]
    return first + once_more


async def propose(asking: Asking, judge: Judge, owed: Sequence[Owed], done: Callable[[], None]) -> None:
    """Have the judge propose for all that is owed. What is answered stays recorded when another call fails."""

    async def one(one: Owed) -> None:
        await ask_judge(asking, judge, one.item.subject, one.item.episode, sample=one.sample)
        done()

    outcomes = await asyncio.gather(*map(one, owed), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def read_proposals(journal: Journal, judge: Judge, sampled: Sequence[Item], before: int = LAST) -> dict[str, Proposal]:
    """Return what is recorded by subject, each reply read again; what the judge still owes isn't in it.

    ``before`` leaves out what was recorded at a position or later.
    """
    proposals = {}
    for item in sampled:
        proposal = _read_proposal(journal, judge, item.subject, before)
        if proposal is not None:
            proposals[item.subject] = proposal
    return proposals


def _read_proposal(journal: Journal, judge: Judge, subject: str, before: int) -> Proposal | None:
    """Return what the judge first said of a subject, and what it said when it was asked the same again."""
    by_question: dict[str, list[tuple[int, JudgmentRecorded]]] = {}
    for record in journal.events(JudgmentRecorded, stream=f"judgment:{subject}"):
        event = record.event
        if isinstance(event, JudgmentRecorded) and event.setup == judge.setup.id and record.seq < before:
            by_question.setdefault(event.question, []).append((record.seq, event))
    first, *rest = [_said(journal, judge, judgments) for judgments in by_question.values()] or [None]
    if first is None:
        return None
    again = tuple(one.scores for one in rest if one is not None and one.scores is not None)
    return msgspec.structs.replace(first, again=again)


def _said(journal: Journal, judge: Judge, judgments: Sequence[tuple[int, JudgmentRecorded]]) -> Proposal | None:
    """Return what the replies to one question say: the first that can be read, or the last one's problem."""
    problems: dict[int, str] = {}
    for seq, event in judgments:
        reply = _reply(journal, event)
        said = read_judgment(reply.text, judge.setup.rubric) if isinstance(reply, Reply) else reply
        score = None if isinstance(said, Unreadable) else next(one.score for one in said if one.axis == event.axis)
        if event.score != ("invalid" if score is None else score):
            raise JudgmentDiffers(seq, event.axis)
        if not isinstance(said, Unreadable):
            return Proposal(said, None, _stand_in(reply))
        problems[event.attempt] = event.problem or said.reason
    last = problems.get(ATTEMPTS - 1)
    return None if last is None else Proposal(None, last)


def _reply(journal: Journal, event: JudgmentRecorded) -> Reply | Unreadable:
    raw = journal.blob(event.reply.blob)
    try:
        return read_reply("chat.completions", raw)  # a judge has no tools, so it is never asked otherwise
    except UnreadableReply as unreadable:
        return Unreadable(reason=unreadable.reason)


def _stand_in(reply: Reply | Unreadable) -> str | None:
    fingerprint = reply.system_fingerprint if isinstance(reply, Reply) else None
    return fingerprint if fingerprint is not None and fingerprint.startswith(STAND_IN) else None


class Bench(msgspec.Struct, frozen=True):
    """What a calibration stands on: the project's judge, the sampled traces, and what is proposed for each."""

    project: str
    judge: Judge
    sampled: tuple[Item, ...]
    proposals: Mapping[str, Proposal]

    def rows(self) -> list[tuple[str, Item, judging.Axis]]:
        """Return key, item and axis of everything that a person is asked about, in order."""
        axes = self.judge.setup.rubric.axes
        return [(label_key(item.key, axis.name), item, axis) for item in self.sampled for axis in axes]

    def stand_ins(self) -> list[str]:
        """Return what answers say of themselves that come from a stand-in and not from a model."""
        return sorted({proposal.stand_in for proposal in self.proposals.values() if proposal.stand_in is not None})

    def has_proposal(self, key: str) -> bool:
        """Tell whether the judge proposed for the item and axis of a key."""
        return any(found == key and self.proposed(item, axis.name) is not None for found, item, axis in self.rows())

    def proposed(self, item: Item, axis: str) -> AxisScore | None:
        """Return the judge's proposal; None when the item is excluded."""
        return self.proposals[item.subject].score(axis)


def wanted(bench: Bench, state: judging.Judging) -> dict[str, Wanted]:
    """Return what a person is asked, by key."""
    found = {}
    for key, item, axis in bench.rows():
        proposal = bench.proposed(item, axis.name)
        label = state.label(bench.project, bench.judge.setup.id, item.subject, axis.name)
        found[key] = Wanted(
            axis=axis,
            proposal=None if proposal is None else proposal.score,
            label=None if label is None else label.score,
            explained=label is not None and (label.rationale is not None or not label.shown),
        )
    return found


def labelled(
    bench: Bench, state: judging.Judging, given: Mapping[str, Given], blobs: Blobs
) -> dict[tuple[str, str], LabelRecorded]:
    """Return the labels that are in force once these are given, by subject and axis; rationales go into ``blobs``."""
    labels = {}
    for key, item, axis in bench.rows():
        if key not in given:
            continue
        score, text = given[key].score, given[key].rationale
        setup = bench.judge.setup.id
        before = state.label(bench.project, setup, item.subject, axis.name)
        same = before if before is not None and before.score == score else None
        if same is not None and text is None:
            labels[item.subject, axis.name] = same
            continue
        labels[item.subject, axis.name] = LabelRecorded(
            project=bench.project,
            setup=setup,
            subject=item.subject,
            axis=axis.name,
            score=score,
            rationale=None if text is None else blobs.put(text),
            shown=not given[key].origin if same is None else same.shown,
            origin=given[key].origin,
        )
    return labels


def calibrated(bench: Bench, labels: Mapping[tuple[str, str], LabelRecorded]) -> Calibration:
    """Return the calibration that proposals and labels make."""
    samples = []
    for _, item, axis in bench.rows():
        proposal, label = bench.proposed(item, axis.name), labels.get((item.subject, axis.name))
        samples.append(
            Sample(
                subject=item.subject,
                axis=axis.name,
                judge=None if proposal is None else proposal.score,
                judge_rationale=None if proposal is None else digests.content_digest(proposal.rationale.encode()),
                label=None if label is None else label.score,
                label_rationale=label.rationale.blob if label is not None and label.rationale is not None else None,
                lineage=item.lineage,
                blind=label is not None and not label.shown,
                again=bench.proposals[item.subject].repeated(axis.name),
                stand_in=bench.proposals[item.subject].stand_in is not None,
            )
        )
    return calibration(bench.judge.setup.id, bench.judge.setup.rubric, samples)


def publishing(bench: Bench, made: Calibration, labels: Sequence[LabelRecorded], *, approved: bool) -> Step:
    """Return the step that records labels and calibration, all or none."""
    published = CalibrationPublished(
        project=bench.project,
        calibration=made.id,
        setup=bench.judge.setup.id,
        subjects=tuple(sorted(item.subject for item in bench.sampled)),
        approved=approved,
    )
    return Step(judging.FAMILY, PublishCalibration(labels=tuple(labels), calibration=published))
