"""``exp judge label``: ask a person about recorded traces, one at a time; every answer is recorded at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import Count, json_option, project_name, root_option
from commands.render.plain import printable
from commands.render.result import Result
from ledger.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands.calibrating import Item, Proposal
    from commands.judging import Judge
    from commands.render.result import Value
    from ledger.episode import Episode
    from ledger.families.judging import Axis, LabelRecorded, Scaled
    from ledger.journal import Journal
    from projections.calibration.teaching import Labelling, Next

PAGE = 3_000  # characters of one text shown at once
QUIT, SKIP, SCORE, AGAIN = "q", "k", "s", "r"


class TerminalWanted(Refusal, name="terminal-wanted", exit_code=122):
    """A command that asks a person was started without a terminal."""

    def __init__(self, project: str) -> None:
        super().__init__(
            "labelling asks a person, and standard input is no terminal; nothing was recorded",
            where=f"exp judge label {project}",
            remedy=f"run it in a terminal, or give labels to `exp config judge calibrate {project}` with --label",
        )


class Left(Exception):
    """The person has had enough."""


class Skipped(Exception):
    """The person passes over this item."""


@click.command(help="Label recorded traces, one at a time.")
@click.argument("project", type=project_name)
@root_option
@click.option(
    "--sample-size",
    type=Count(1, 10_000),
    default=10,
    show_default=True,
    help="How many recorded traces are to be labelled: those that a calibration of this size samples.",
)
@click.option("--anchored", is_flag=True, help="Show the judge's score and words first; the label says that it was.")
@json_option
def command(project: str, root: Path, sample_size: int, *, anchored: bool, as_json: bool) -> None:
    """Choose the item that teaches most, show its evidence page by page, ask, record; until done or left."""
    if not terminal():
        raise TerminalWanted(project)
    from commands.opening import open_journal  # noqa: PLC0415 - loaded when a command runs, not for --help
    from ledger.families import budget, builds, calls, judging, providers  # noqa: PLC0415 - as above

    families = (budget.FAMILY, builds.FAMILY, calls.FAMILY, judging.FAMILY, providers.FAMILY)
    with open_journal(root, "judge label", *families) as journal:
        session = Session(journal, project, sample_size, anchored=anchored)
        session.run()
        result = Result(as_json)
        session.report(result)
        result.finish()


def terminal() -> bool:
    """Tell whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


class Session:
    """One sitting of a person at the terminal."""

    def __init__(self, journal: Journal, project: str, size: int, *, anchored: bool) -> None:
        from commands.calibrating import NothingToCalibrate, read_proposals, sampled_from  # noqa: PLC0415 - as above
        from commands.judging import read_judge  # noqa: PLC0415 - as above
        from commands.readings import read_build  # noqa: PLC0415 - as above

        self.journal = journal
        self.project = project
        self.size = size
        self.anchored = anchored
        self.judge: Judge = read_judge(journal, project)
        self.items: tuple[Item, ...] = sampled_from(read_build(journal, project), size)
        if not self.items:
            raise NothingToCalibrate(project, 0)
        self.proposals: dict[str, Proposal] = read_proposals(journal, self.judge, self.items)
        self.skipped: set[tuple[str, str]] = set()
        self.given = 0

    def run(self) -> None:
        """Ask until everything is labelled or the person leaves."""
        try:
            for axis, following in self._following():
                item = next(one for one in self.items if one.subject == following.subject)
                try:
                    self._ask(item, axis, following)
                except Skipped:
                    self.skipped.add((item.subject, axis.name))
        except (Left, click.Abort):
            say("")

    def report(self, result: Result) -> None:
        """Say what is labelled and what would come next."""
        result.line("project", self.project)
        result.line("labels-given", self.given)
        for axis in self.judge.setup.rubric.axes:
            rows = self._labellings(axis)
            labels = [row.label for row in rows if row.label is not None]
            passes = sum(label >= _threshold(axis) for label in labels)
            facts: dict[str, Value] = {"axis": axis.name, "labelled": len(labels), "of": len(rows)}
            facts |= {"passes": passes, "fails": len(labels) - passes}
            result.item("axis", facts)
        self.skipped.clear()
        if (following := next(self._following(), None)) is not None:
            axis, one = following
            key = next(item.key for item in self.items if item.subject == one.subject)
            result.item("next", {"key": f"{key}:{axis.name}", **({"because": one.because} if self.anchored else {})})
        partial = "" if following is None else " --partial"
        command = f"exp config judge calibrate {self.project} --sample-size {self.size}{partial}"
        result.text(f"`{command}` reports what these labels show; with --approve it also approves them")

    def _following(self) -> Iterator[tuple[Axis, Next]]:
        from projections.calibration.teaching import next_to_label  # noqa: PLC0415 - as above

        for axis in self.judge.setup.rubric.axes:
            while (following := next_to_label(self._waiting(axis), axis)) is not None:
                yield axis, following

    def _waiting(self, axis: Axis) -> list[Labelling]:
        return [row for row in self._labellings(axis) if (row.subject, axis.name) not in self.skipped]

    def _labellings(self, axis: Axis) -> list[Labelling]:
        from projections.calibration.teaching import Labelling  # noqa: PLC0415 - as above

        found = []
        for item in self.items:
            proposal, label = self.proposals.get(item.subject), self._label(item.subject, axis)
            said = None if proposal is None else proposal.score(axis.name)
            found.append(
                Labelling(
                    subject=item.subject,
                    judge=None if said is None else said.score,
                    label=None if label is None else label.score,
                )
            )
        return found

    def _label(self, subject: str, axis: Axis) -> LabelRecorded | None:
        from ledger.families import judging  # noqa: PLC0415 - as above

        state: judging.Judging = self.journal.state(judging.FAMILY)
        return state.label(self.project, self.judge.setup.id, subject, axis.name)

    def _ask(self, item: Item, axis: Axis, following: Next) -> None:
        say(f"\n=== {item.key}  ({axis.name})")
        if self.anchored:  # the reason tells on which side the judge's score is
            say(f"    this one because {following.because}")
        read(item.episode)
        shown = self._show_proposal(item, axis)
        say(f"\n{axis.question}")
        for anchor in axis.anchors:
            say(f"  {_score(anchor.score)}: {anchor.meaning}")
        score = ask_score(axis, lambda: read(item.episode))
        why = click.prompt("why (may stay empty)", default="", show_default=False, err=True)
        self._record(item, axis, score, why, shown=shown)

    def _show_proposal(self, item: Item, axis: Axis) -> bool:
        proposal = self.proposals.get(item.subject)
        said = None if proposal is None or not self.anchored else proposal.score(axis.name)
        if said is None:
            return False
        say(f"\nThe judge says {_score(said.score)}: {said.rationale}")
        return True

    def _record(self, item: Item, axis: Axis, score: Scaled, why: str, *, shown: bool) -> None:
        from commands.perform.credentials import redactor_for  # noqa: PLC0415 - as above
        from ledger.event import Blobs, Step  # noqa: PLC0415 - as above
        from ledger.families import judging, providers  # noqa: PLC0415 - as above

        blobs = Blobs()
        text = redactor_for(self.journal.state(providers.FAMILY)).error(why.encode(errors="replace").decode())
        label = judging.LabelRecorded(
            project=self.project,
            setup=self.judge.setup.id,
            subject=item.subject,
            axis=axis.name,
            score=score,
            rationale=blobs.put(text) if text.strip() else None,
            shown=shown,
        )
        self.journal.submit(Step(judging.FAMILY, judging.RecordLabels(labels=(label,))), blobs=blobs).result()
        self.given += 1
        say("    recorded")


def pages(episode: Episode) -> list[str]:
    """Return what an episode shows, a page at a time: the task, each turn, the closing message."""
    found = [f"TASK\n{episode.task}"]
    for number, turn in enumerate(episode.turns, 1):
        failed = " (an error)" if turn.error else ""
        head = f"TURN {number} of {len(episode.turns)}: {turn.tool or 'message'}\n{turn.arguments}"
        found.append(f"{head}\n--- saw{failed}\n{turn.observation or '(nothing)'}")
    found.append(f"CLOSING MESSAGE\n{episode.final or '(none)'}")
    return [part for page in found for part in _parts(page)]


def _parts(page: str) -> Sequence[str]:
    return [page[at : at + PAGE] for at in range(0, len(page), PAGE)]


def read(episode: Episode) -> None:
    """Show the evidence; the person may go on, score at once, pass over the item, or leave."""
    shown = pages(episode)
    for number, page in enumerate(shown, 1):
        say(f"\n{page}")
        if number == len(shown):
            return
        answer = click.prompt(
            f"[{number}/{len(shown)}] Enter: next page, {SCORE}: score, {SKIP}: skip, {QUIT}: quit",
            default="",
            show_default=False,
            err=True,
        )
        if _decided(answer) == SCORE:
            return


def ask_score(axis: Axis, again: Callable[[], None]) -> Scaled:
    """Return the person's score, within the axis' range."""
    from commands.labels import read_score  # noqa: PLC0415 - as above

    span = f"{_score(axis.low)} to {_score(axis.high)}"
    while True:
        answer = click.prompt(f"score ({span}; {AGAIN}: read again, {SKIP}: skip, {QUIT}: quit)", err=True)
        if _decided(answer) == AGAIN:
            again()
            continue
        score = read_score(answer)
        if score is not None and axis.low <= score <= axis.high:
            return score
        say(f"    {answer!r} is no number from {span}")


def _decided(answer: str) -> str:
    """Return the answer as a letter; leave or pass over when it says so."""
    letter = answer.strip().lower()
    if letter == QUIT:
        raise Left
    if letter == SKIP:
        raise Skipped
    return letter


def say(text: str) -> None:
    """Show recorded text on the terminal; the result goes to standard output later."""
    click.echo(printable(text), err=True)


def _threshold(axis: Axis) -> Scaled:
    from projections.calibration import threshold  # noqa: PLC0415 - as above

    return threshold(axis)


def _score(score: Scaled) -> str:
    from ledger.families.judging import in_words  # noqa: PLC0415 - as above

    return in_words(score)
