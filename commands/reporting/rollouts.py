"""Rollouts: what a cell's recorded replies say, put back in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from commands.comparing.courses import Course, Step, answer
from commands.optimizing import asked
from commands.reporting.sheet import Call, Cell, Judged, Seen
from ledger.errors import Refusal
from ledger.families.calls import CallReserved
from ledger.families.cells import (
    MOST_CALLS_A_TURN,
    Action,
    CellExcluded,
    CellFinished,
    Misspoken,
    read_simulation,
    read_turn,
)
from ledger.families.judging import Unreadable, read_judgment
from ledger.replies import UnreadableReply, read_reply

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from ledger.journal import Journal
    from ledger.prompt import Reply

CHAT = "chat.completions"
RULES = "the rules"
NOBODY = "nobody"
NOT_REACHED = "not carried out: the rollout ended before"


class _Asked(msgspec.Struct):
    api: str


_api = msgspec.json.Decoder(_Asked)


class End(NamedTuple):
    """How a cell was closed."""

    ended: str | None = None
    problem: str = ""


class Rollouts:
    """Reads cells of one optimization. A content that is gone is shown as gone, and the rest is shown all the same."""

    def __init__(self, journal: Journal, plan: Plan, chosen: Mapping[str, str]) -> None:
        self._journal = journal
        self._plan = plan
        self._chosen = chosen
        self._ends = _ends(journal, {part.cell.id for part in plan.parts})

    def cell(self, course: Course) -> Cell:
        """Return a cell with all that was said in it."""
        part = course.part
        end = self._ends.get(part.cell.id, End())
        turns, final = self._turns(course.steps)
        return Cell(
            id=part.cell.id,
            task=part.cell.task,
            label=course.task,
            part=part.cell.part,
            alias=part.alias,
            sample=part.cell.sample,
            score=course.score,
            reason=course.reason,
            problem=end.problem,
            ended=end.ended,
            cost=course.cost,
            routed=self._chosen.get(part.cell.task) == part.alias,
            turns=tuple(turns),
            final=final,
            judged=tuple(self._judged(course.steps)),
            calls=tuple(self._call(step) for step in course.steps),
        )

    def _turns(self, steps: Sequence[Step]) -> tuple[list[Seen], str | None]:
        """Return the actions with what came back, and the closing message."""
        last = {(step.turn, step.role, step.action): step for step in steps if step.role != "judge"}
        turns: list[Seen] = []
        final = None
        for step in last.values():
            if step.role != "candidate":
                continue
            reply = self._reply(step)
            if isinstance(reply, str):
                gone = Seen(turn=step.turn, said=reply, tool="", arguments="", observation="", error=True, by=NOBODY)
                turns.append(gone)
                continue
            said = read_turn(reply)
            if not said.actions:
                final = said.text or ""
            turns += [
                self._seen(step.turn, said.text or "", action, place, last.get((step.turn, "world model", place)))
                for place, action in enumerate(said.actions)
            ]
        return turns, final

    def _seen(self, turn: int, said: str, action: Action, place: int, step: Step | None) -> Seen:
        observation, error, by = self._answered(action, place, step)
        return Seen(
            turn=turn,
            said=said if place == 0 else "",
            tool=action.tool,
            arguments=action.arguments,
            observation=observation,
            error=error,
            by=by,
        )

    def _answered(self, action: Action, place: int, step: Step | None) -> tuple[str, bool, str]:
        if step is not None:
            reply = self._reply(step)
            read = Misspoken(problem=reply) if isinstance(reply, str) else read_simulation(reply.text)
            if isinstance(read, Misspoken):
                return read.problem, True, NOBODY
            return read.observation, read.error, "world model"
        problem = asked.refused(action, self._plan.scene.tools)
        if place >= MOST_CALLS_A_TURN:
            problem = f"error: only the first {MOST_CALLS_A_TURN} calls of a turn are carried out"
        return (NOT_REACHED, False, NOBODY) if problem is None else (problem, True, RULES)

    def _judged(self, steps: Sequence[Step]) -> list[Judged]:
        """Return what the judge said on each axis, in the last reply to the first question about the cell."""
        rubric = self._plan.scene.judge.setup.rubric
        of_judge = [step for step in steps if step.role == "judge"]
        if not of_judge:
            return []
        step = [one for one in of_judge if one.question == of_judge[0].question][-1]
        reply = self._reply(step)
        said = Unreadable(reason=reply) if isinstance(reply, str) else read_judgment(reply.text, rubric)
        if isinstance(said, Unreadable):
            words = "" if isinstance(reply, str) else reply.text or ""
            return [
                Judged(axis=axis, score=None, words=words, problem=said.reason, reply=step.reply)
                for axis in rubric.names
            ]
        return [
            Judged(axis=one.axis, score=one.score, words=one.rationale, problem="", reply=step.reply) for one in said
        ]

    def _reply(self, step: Step) -> Reply | str:
        """Return the reply of a step, or why there is none to be read."""
        try:
            raw = self._journal.blob(step.reply)
        except Refusal as gone:
            return f"not reproducible: {gone.what}"
        try:
            return read_reply(self._api(step), raw)
        except UnreadableReply as unreadable:
            return f"a reply that can't be read: {unreadable.reason}"

    def _api(self, step: Step) -> str:
        """Return the interface that a candidate was asked through; world model and judge have no tools, so only one."""
        answered = answer(self._journal, step) if step.role == "candidate" else None
        if answered is None:
            return CHAT
        record = self._journal.find(CallReserved, f"{step.question}:{step.attempt}:{answered.dispatch}")
        if record is None or not isinstance(record.event, CallReserved):
            return CHAT
        try:
            return _api.decode(self._journal.blob(record.event.asked.blob)).api
        except (Refusal, msgspec.DecodeError):
            return CHAT

    def _call(self, step: Step) -> Call:
        answered = answer(self._journal, step)
        return Call(
            role=step.role,
            turn=step.turn,
            action=step.action,
            attempt=step.attempt,
            question=step.question,
            reply=step.reply,
            cost=None if answered is None else answered.cost,
            latency_us=None if answered is None else answered.latency_us,
            input_tokens=None if answered is None else answered.usage.input_tokens,
            output_tokens=None if answered is None else answered.usage.output_tokens,
            served_model=None if answered is None else answered.served_model,
        )


def _ends(journal: Journal, wanted: set[str]) -> dict[str, End]:
    found = {}
    for record in journal.events(CellFinished, CellExcluded):
        event = record.event
        if isinstance(event, CellFinished) and event.cell in wanted:
            found[event.cell] = End(ended=event.ended)
        elif isinstance(event, CellExcluded) and event.cell in wanted:
            found[event.cell] = End(problem=event.problem)
    return found
