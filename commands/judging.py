"""Judging at the edge: a judge is asked about an episode, at most twice, and each answer is recorded as a judgment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from ledger import questions
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import judging, providers
from ledger.families.judging import ATTEMPTS, OUTPUT_LIMIT, AxisScore, RecordJudgment, Setup, Unreadable, read_judgment

if TYPE_CHECKING:
    from commands.perform.asking import Answer, Asking
    from ledger.episode import Episode
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal
    from ledger.prompt import Question

Also = Callable[["Answer", tuple[AxisScore, ...] | Unreadable, Blobs], Iterable[Step]]


class JudgeChanged(Refusal, name="judge-changed", exit_code=16):
    """The judge's alias means another model than when the setup was approved."""

    def __init__(self, project: str, alias: str) -> None:
        super().__init__(
            f"model {alias} is configured differently from when it was approved as judge; nothing was called",
            where=f"the judge setup of project {project}",
            remedy=f"run `exp config judge setup {project} --approve`; judgments by the old judge stay recorded",
        )


class Judge(msgspec.Struct, frozen=True):
    """An approved setup, and the endpoint that judges."""

    setup: Setup
    endpoint: Endpoint


class Judged(msgspec.Struct, frozen=True):
    """What came of asking: scores, or the problem of the last reply; ``attempts`` replies are recorded."""

    scores: tuple[AxisScore, ...] | None
    problem: str | None
    attempts: int


def read_judge(journal: Journal, project: str) -> Judge:
    """Return a project's judge; JudgeSetupWanted or JudgeChanged when it isn't there or isn't the approved one.

    The journal must have been opened with the families of judging and providers.
    """
    setup = judging.read_setup(journal.state(judging.FAMILY), project, journal.blob)
    endpoint = journal.state(providers.FAMILY).endpoint(setup.alias)
    if endpoint.digest != setup.judge:
        raise JudgeChanged(project, setup.alias)
    return Judge(setup, endpoint)


def judge_question(judge: Judge, episode: Episode, sample: int = 0) -> Question:
    """Return what the judge is asked about an episode, as it is sent; the same once more is another sample."""
    prompt = judging.judge_prompt(judge.setup.rubric, episode)
    return questions.question(judge.endpoint, prompt, sample=sample, output_limit=OUTPUT_LIMIT)


def judgment(setup: Setup, subject: str, answer: Answer) -> RecordJudgment:
    """Return the command that records what an answer means for a subject."""
    if answer.reply is None:
        said: tuple[AxisScore, ...] | Unreadable = Unreadable(reason=f"the answer can't be read: {answer.problem}")
    else:
        said = read_judgment(answer.reply.text, setup.rubric)
    return RecordJudgment(
        subject=subject,
        setup=setup.id,
        question=answer.question.digest,
        attempt=answer.attempt,
        reply=answer.recorded_ref,
        axes=setup.rubric.names,
        said=said,
    )


async def ask_judge(
    asking: Asking, judge: Judge, subject: str, episode: Episode, also: Also | None = None, *, sample: int = 0
) -> Judged:
    """Ask about an episode until a reply can be read, at most twice; each reply is recorded with its judgment.

    ``also`` adds steps to be recorded together with a judgment; another ``sample`` asks the same once more.
    """
    question = judge_question(judge, episode, sample)
    said: tuple[AxisScore, ...] | Unreadable = Unreadable(reason="never asked")
    for attempt in range(ATTEMPTS):

        def accept(answer: Answer, blobs: Blobs) -> Iterable[Step]:
            command = judgment(judge.setup, subject, answer)
            yield Step(judging.FAMILY, command)
            if also is not None:
                yield from also(answer, command.said, blobs)

        answer = await asking.ask(judge.endpoint, question, attempt=attempt, accept=accept)
        said = judgment(judge.setup, subject, answer).said
        if not isinstance(said, Unreadable):
            return Judged(said, None, attempt + 1)
    return Judged(None, said.reason if isinstance(said, Unreadable) else None, ATTEMPTS)
