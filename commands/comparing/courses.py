"""Courses: what was asked and answered in each cell of an optimization, step by step, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from commands.optimizing.rollout import normalised
from ledger.errors import Refusal
from ledger.estimates import actual_cost
from ledger.families.calls import CallAnswered, CallReserved
from ledger.families.cells import (
    CandidateTurned,
    CandidateUnreadable,
    CellExcluded,
    CellFinished,
    WorldModelAnswered,
    WorldModelUnreadable,
)
from ledger.families.judging import AxisScore, JudgmentRecorded
from ledger.replies import UnreadableReply, read_reply

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from commands.optimizing.rollout import Part
    from ledger.event import Event
    from ledger.families.judging import Rubric
    from ledger.journal import Journal
    from ledger.money import NanoUSD
    from ledger.recorded import Recorded

Role = Literal["candidate", "world model", "judge"]
Place = tuple[str, str, int]  # lineage, alias, sample: what a cell is about, whatever its run

KINDS: tuple[type[Event], ...] = (
    CandidateTurned,
    CandidateUnreadable,
    WorldModelAnswered,
    WorldModelUnreadable,
    JudgmentRecorded,
    CellFinished,
    CellExcluded,
)


class Step(NamedTuple):
    """A question of a rollout and its answer: who was asked, at which turn and action, and the digests of both."""

    role: Role
    turn: int
    action: int
    attempt: int
    question: str
    reply: str

    @property
    def asked(self) -> tuple[str, int]:
        """What makes two questions the same."""
        return self.question, self.attempt


class Course(NamedTuple):
    """A cell: its steps in order, and its score in millionths or why it has none."""

    part: Part
    task: str
    steps: tuple[Step, ...]
    score: int | None
    reason: str | None
    cost: NanoUSD | None


def courses(journal: Journal, plan: Plan) -> dict[Place, Course]:
    """Return the course of every cell of a plan."""
    by_cell: dict[str, list[Recorded]] = {part.cell.id: [] for part in plan.parts}
    for record in journal.events(*KINDS):
        events = by_cell.get(record.stream.partition(":")[2])
        if events is not None:
            events.append(record)
    found = {}
    for part in plan.parts:
        cell = part.cell
        label = plan.build.trace_id(cell.lineage)
        facts = [record.event for record in by_cell[cell.id]]
        found[cell.lineage, part.alias, cell.sample] = _course(
            journal, part, label, facts, plan.scene.judge.setup.rubric
        )
    return found


def _course(journal: Journal, part: Part, label: str, events: Sequence[Any], rubric: Rubric) -> Course:
    steps = list(dict.fromkeys(step for step in map(_step, events) if step is not None))
    scores = {
        event.axis: AxisScore(axis=event.axis, score=event.score, rationale="")
        for event in events
        if isinstance(event, JudgmentRecorded) and event.score != "invalid"
    }
    excluded = next((event.reason for event in events if isinstance(event, CellExcluded)), None)
    whole = excluded is None and len(scores) == len(rubric.names)
    costs = [_cost(journal, part, step) for step in steps if step.role == "candidate"]
    known = [cost for cost in costs if cost is not None]
    return Course(
        part=part,
        task=label,
        steps=tuple(steps),
        score=normalised([scores[name] for name in rubric.names], rubric) if whole else None,
        reason=excluded,
        cost=sum(known) if len(known) == len(costs) else None,
    )


def _step(event: object) -> Step | None:
    if isinstance(event, (CandidateTurned, CandidateUnreadable)):
        return Step("candidate", event.turn, 0, event.attempt, event.question, event.reply.blob)
    if isinstance(event, (WorldModelAnswered, WorldModelUnreadable)):
        return Step("world model", event.turn, event.action, event.attempt, event.question, event.reply.blob)
    if isinstance(event, JudgmentRecorded):
        return Step("judge", 0, 0, event.attempt, event.question, event.reply.blob)
    return None


def _cost(journal: Journal, part: Part, step: Step) -> NanoUSD | None:
    answered = answer(journal, step)
    return None if answered is None else actual_cost(part.candidate.capabilities, answered.usage)


def answer(journal: Journal, step: Step) -> CallAnswered | None:
    """Return the answer of a step."""
    record = journal.find(CallAnswered, f"{step.question}:{step.attempt}")
    return record.event if record is not None and isinstance(record.event, CallAnswered) else None


def asked(journal: Journal, step: Step) -> Mapping[str, Any] | None:
    """Return the question of a step in full; None when it isn't there any more."""
    answered = answer(journal, step)
    if answered is None:
        return None
    record = journal.find(CallReserved, f"{step.question}:{step.attempt}:{answered.dispatch}")
    if record is None or not isinstance(record.event, CallReserved):
        return None
    try:
        body: Mapping[str, Any] = msgspec.json.decode(journal.blob(record.event.asked.blob))
    except Refusal:
        return None
    return body


def said(journal: Journal, step: Step) -> dict[str, Any]:
    """Return what a reply says, without what a provider makes up anew each time (ids and times)."""
    try:
        raw = journal.blob(step.reply)
    except Refusal as gone:
        return {"unreadable": gone.name}
    body = asked(journal, step) or {}
    try:
        reply = read_reply(str(body.get("api", "chat.completions")), raw)
    except UnreadableReply as unreadable:
        return {"unreadable": unreadable.reason, "body": raw.decode(errors="replace")}
    return {
        "finish_reason": reply.finish_reason,
        "served_model": reply.served_model,
        "system_fingerprint": reply.system_fingerprint,
        "text": reply.text,
        "tool_calls": [{"arguments": one.arguments, "name": one.name} for one in reply.tool_calls],
        "usage": msgspec.to_builtins(reply.usage),
    }


def part_of(pointer: str) -> str:
    """Return which part of a question a pointer is in."""
    for beginning, name in (
        ("/sample", "sample"),
        ("/base_url", "place"),
        ("/api", "interface"),
        ("/request/model", "model"),
        ("/request/tools", "tools"),
        ("/request/messages", "prompt"),
        ("/request/input", "prompt"),
    ):
        if pointer == beginning or pointer.startswith(f"{beginning}/"):
            return name
    return "parameter"
