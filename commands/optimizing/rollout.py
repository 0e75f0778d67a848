"""A rollout: candidate and world model in turn, then the judge; every step is recorded with the answer it is about.

The same code runs a cell for the first time, goes on with one that was interrupted, and derives a finished one again:
only where the answers come from differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from commands.judging import Judge, ask_judge
from commands.optimizing import asked
from ledger import canonical, digests
from ledger.episode import Episode, Tool, Turn
from ledger.estimates import CANDIDATE_OUTPUT, WORLD_MODEL_OUTPUT, actual_cost
from ledger.event import Blobs, Step
from ledger.families import cells, judging
from ledger.families.cells import (
    CANDIDATE_ATTEMPTS,
    MOST_CALLS_A_TURN,
    UNREADABLE,
    WORLD_MODEL_ATTEMPTS,
    Action,
    CandidateTurned,
    CandidateUnreadable,
    Cell,
    CellExcluded,
    CellFinished,
    Ended,
    Misspoken,
    Outcome,
    Reason,
    Said,
    Simulated,
    StepEvent,
    TakeStep,
    WorldModelAnswered,
    WorldModelUnreadable,
    read_simulation,
    read_turn,
)
from ledger.families.providers import Endpoint
from ledger.money import NanoUSD
from ledger.prompt import Prompt, Question, Usage
from ledger.questions import question

if TYPE_CHECKING:
    from commands.perform.asking import Accept, Answer, Asking
    from projections.retrieval import Example

MILLION = 1_000_000


class Source(Protocol):
    """Where answers come from: the world by way of the journal, or the journal alone."""

    async def ask(self, endpoint: Endpoint, question: Question, *, attempt: int, accept: Accept) -> Answer:
        """Return the answer once the steps that ``accept`` makes of it are recorded, or found recorded."""
        ...

    async def near(self, text: str, lineage: str) -> Sequence[Example]:
        """Return the recorded actions nearest to a text, but for those of its own lineage."""
        ...


class Scene(NamedTuple):
    """What all rollouts of an optimization have in common."""

    tools: tuple[Tool, ...]
    world_model: Endpoint
    judge: Judge
    maximum_model_calls: int


class Part(NamedTuple):
    """What one rollout is about."""

    cell: Cell
    alias: str
    candidate: Endpoint
    task: str


class _Excluded(Exception):
    """The cell can't count."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.problem = problem


async def roll_out(scene: Scene, part: Part, source: Source) -> Outcome:
    """Bring a cell to its end and return what came of it; a Refusal when an answer can't be had."""
    rollout = _Rollout(scene, part, source)
    try:
        await rollout.act()
        return await rollout.judge()
    except _Excluded as excluded:
        return rollout.outcome(None, reason=excluded.reason, problem=excluded.problem)


class _Rollout:
    def __init__(self, scene: Scene, part: Part, source: Source) -> None:
        self.scene = scene
        self.part = part
        self.cell = part.cell.id
        self.source = source
        self.step = 0
        self.messages = asked.opening(part.task)
        self.turns: list[Turn] = []
        self.final: str | None = None
        self.ended: Ended = "cut"
        self.model_calls = 0
        self.usages: list[Usage] = []

    async def act(self) -> None:
        """Let the candidate act until it closes, the world model says that all is over, or its turns are used up."""
        for turn in range(self.scene.maximum_model_calls):
            said = await self.turn(turn)
            self.model_calls += 1
            if not said.actions:
                self.final, self.ended = said.text or "", "final"
                return
            before = len(self.turns)
            done = await self.simulate(turn, said)
            if done:
                self.ended = "done"
                return
            observations = [one.observation for one in self.turns[before:]]
            self.messages += asked.continued(said, turn, observations)

    async def turn(self, turn: int) -> Said:
        """Ask the candidate for its turn; a body that is no reply at all is asked for once more."""
        prompt = Prompt(messages=tuple(self.messages), tools=self.scene.tools)
        put = question(self.part.candidate, prompt, sample=self.part.cell.sample, output_limit=CANDIDATE_OUTPUT)
        for attempt in range(CANDIDATE_ATTEMPTS):
            last = attempt == CANDIDATE_ATTEMPTS - 1

            def accept(answer: Answer, blobs: Blobs, last: bool = last) -> Iterable[Step]:  # noqa: FBT001 - bound here
                del blobs
                return self.steps(_turned(self.cell, turn, answer, last=last))

            answer = await self.source.ask(self.part.candidate, put, attempt=attempt, accept=accept)
            self.step += 1
            self.usages.append(answer.reply.usage if answer.reply else Usage())
            if answer.reply is not None:
                return read_turn(answer.reply)
        return UNREADABLE

    async def simulate(self, turn: int, said: Said) -> bool:
        """Carry out a turn's actions one by one; tell whether that ended the episode."""
        for place, action in enumerate(said.actions):
            problem = asked.refused(action, self.scene.tools)
            if place >= MOST_CALLS_A_TURN:
                problem = f"error: only the first {MOST_CALLS_A_TURN} calls of a turn are carried out"
            if problem is not None:
                self.turns.append(_seen(action, Simulated(observation=problem, error=True, done=False)))
                continue
            simulated = await self.world(turn, place, action)
            self.turns.append(_seen(action, simulated))
            if simulated.done:
                return True
        return False

    async def world(self, turn: int, place: int, action: Action) -> Simulated:
        """Ask the world model what an action leads to: at most three times, then the cell is excluded."""
        scene, task = self.scene, self.part.task
        near = await self.source.near(asked.retrieved(task, action), self.part.cell.lineage)
        prompt = asked.world_prompt(task, scene.tools, self.turns, action, near)
        put = question(scene.world_model, prompt, sample=self.part.cell.sample, output_limit=WORLD_MODEL_OUTPUT)
        problem = ""
        for attempt in range(WORLD_MODEL_ATTEMPTS):
            last = attempt == WORLD_MODEL_ATTEMPTS - 1

            def accept(answer: Answer, blobs: Blobs, last: bool = last) -> Iterable[Step]:  # noqa: FBT001 - bound here
                del blobs
                return self.steps(*_answered(self.cell, (turn, place), answer, last=last))

            answer = await self.source.ask(scene.world_model, put, attempt=attempt, accept=accept)
            self.step += 1
            read = _simulation(answer)
            if isinstance(read, Simulated):
                return read
            problem = read.problem
        raise _Excluded("world_model_protocol", problem)

    async def judge(self) -> Outcome:
        """Have the rollout judged: at most twice, then the cell is excluded."""
        episode = Episode(task=self.part.task, turns=tuple(self.turns), final=self.final, ended=self.ended)
        judged = await ask_judge(cast("Asking", self.source), self.scene.judge, self.cell, episode, self.closed)
        if judged.scores is None:
            raise _Excluded("judge_unreadable", judged.problem or "")
        return self.outcome(judged.scores, episode=episode)

    def closed(
        self, answer: Answer, said: tuple[judging.AxisScore, ...] | judging.Unreadable, blobs: Blobs
    ) -> Iterable[Step]:
        """Return the cell's end, to be recorded together with the judgment that brings it."""
        del blobs
        if isinstance(said, judging.Unreadable):
            if answer.attempt < judging.ATTEMPTS - 1:
                return ()
            return self.steps(CellExcluded(cell=self.cell, reason="judge_unreadable", problem=said.reason))
        return self.steps(
            CellFinished(
                cell=self.cell,
                ended=self.ended,
                model_calls=self.model_calls,
                actions=len(self.turns),
                input_tokens=_total([usage.input_tokens for usage in self.usages]),
                output_tokens=_total([usage.output_tokens for usage in self.usages]),
            )
        )

    def steps(self, *taken: StepEvent) -> Iterable[Step]:
        """Return steps that follow the ones taken so far."""
        return [Step(cells.FAMILY, TakeStep(step=self.step + further, taken=one)) for further, one in enumerate(taken)]

    def outcome(
        self,
        said: tuple[judging.AxisScore, ...] | None,
        *,
        episode: Episode | None = None,
        reason: Reason | None = None,
        problem: str = "",
    ) -> Outcome:
        """Return what came of the cell."""
        cell = self.part.cell
        able = self.part.candidate.capabilities
        return Outcome(
            task=cell.task,
            lineage=cell.lineage,
            part=cell.part,
            alias=self.part.alias,
            sample=cell.sample,
            score=None if said is None else normalised(said, self.scene.judge.setup.rubric),
            reason=reason,
            problem=problem,
            ended=None if said is None else self.ended,
            cost=_total([actual_cost(able, usage) for usage in self.usages]),
            model_calls=self.model_calls,
            evidence=digests.content_digest(canonical.digest_input(episode, said, reason, self.turns)),
        )


def _turned(cell: str, turn: int, answer: Answer, *, last: bool) -> StepEvent:
    if answer.reply is None and not last:
        return CandidateUnreadable(
            cell=cell,
            turn=turn,
            attempt=answer.attempt,
            question=answer.question.digest,
            reply=answer.recorded_ref,
            problem=answer.problem or "",
        )
    said = UNREADABLE if answer.reply is None else read_turn(answer.reply)
    return CandidateTurned(
        cell=cell,
        turn=turn,
        attempt=answer.attempt,
        question=answer.question.digest,
        reply=answer.recorded_ref,
        calls=len(said.actions),
        shape=said.shape,
    )


def _answered(cell: str, place: tuple[int, int], answer: Answer, *, last: bool) -> Iterable[StepEvent]:
    read = _simulation(answer)
    turn, action = place
    if isinstance(read, Simulated):
        yield WorldModelAnswered(
            cell=cell,
            turn=turn,
            action=action,
            attempt=answer.attempt,
            question=answer.question.digest,
            reply=answer.recorded_ref,
            error=read.error,
            done=read.done,
        )
        return
    yield WorldModelUnreadable(
        cell=cell,
        turn=turn,
        action=action,
        attempt=answer.attempt,
        question=answer.question.digest,
        reply=answer.recorded_ref,
        reason="world_model_protocol",
        problem=read.problem,
    )
    if last:
        yield CellExcluded(cell=cell, reason="world_model_protocol", problem=read.problem)


def _simulation(answer: Answer) -> Simulated | Misspoken:
    if answer.reply is None:
        return Misspoken(problem=answer.problem or "the reply can't be read")
    return read_simulation(answer.reply.text)


def _seen(action: Action, simulated: Simulated) -> Turn:
    return Turn(tool=action.tool, arguments=action.arguments, observation=simulated.observation, error=simulated.error)


def normalised(said: Sequence[judging.AxisScore], rubric: judging.Rubric) -> int:
    """Return the mean over the axes of where each score is within its range, in millionths, rounded once."""
    above, whole = 0, 1
    for one in said:
        axis = rubric.axis(one.axis)
        span = axis.high - axis.low
        above, whole = above * span + (one.score - axis.low) * whole, whole * span
    whole *= len(said)
    return (2 * MILLION * above + whole) // (2 * whole)


def _total(parts: Sequence[int | NanoUSD | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
