"""``exp config judge calibrate``: have the judge propose, collect a person's labels, and report how they agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from commands.cli.options import Count, json_option, non_interactive_option, project_name, root_option, usd, yes_option
from commands.render.calibration import report_axis
from commands.render.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from commands.calibrating import Bench, Item, Owed, Plan, Proposal
    from commands.judging import Judge
    from commands.labels import Given
    from commands.readings import Build
    from commands.render.result import Value
    from commands.trace_labels import Noted
    from ledger.families.judging import LabelRecorded, Scaled
    from ledger.journal import Journal
    from ledger.money import NanoUSD
    from projections.calibration import Calibration

MOST_SHOWN = 400
FLAG = "--maximum-provider-cost-usd"


class Asked(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    project: str
    size: int
    ceiling: NanoUSD | None
    labels: tuple[str, ...]
    judgments: tuple[str, ...]
    yes: bool
    approve: bool
    may_prompt: bool
    repeats: int = 0
    partial: bool = False
    from_traces: bool = False


@click.command(help="Compare the judge with labels from a person.")
@click.argument("project", type=project_name)
@root_option
@click.option(
    "--sample-size",
    type=Count(1, 10_000),
    default=10,
    show_default=True,
    help="How many recorded traces of fit lineages the judge proposes for.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=SCORE", help="What a person says about an item.")
@click.option("--judgment", "judgments", multiple=True, metavar="KEY=TEXT", help="Why a person says so.")
@click.option(
    "--labels-from-traces",
    "from_traces",
    is_flag=True,
    help="Also use what people noted with the traces, on the axis of the same name.",
)
@click.option(FLAG, "ceiling", type=usd, metavar="USD", help="The most that this command may spend.")
@click.option("--approve", is_flag=True, help="Approve the calibration that is reported.")
@click.option(
    "--repeat",
    "repeats",
    type=Count(0, 10_000),
    default=0,
    show_default=True,
    help="How many of the sampled items the judge is asked about once more, to see whether it repeats itself.",
)
@click.option("--partial", is_flag=True, help="Report on the items that are labelled, and count the others.")
@yes_option
@non_interactive_option
@json_option
def command(  # noqa: PLR0913 - one parameter an option
    project: str,
    root: Path,
    sample_size: int,
    labels: tuple[str, ...],
    judgments: tuple[str, ...],
    ceiling: NanoUSD | None,
    *,
    repeats: int,
    approve: bool,
    partial: bool,
    from_traces: bool,
    yes: bool,
    non_interactive: bool,
    as_json: bool,
) -> None:
    """Ask the judge for what it hasn't proposed yet, or read labels and report; never both."""
    import sys  # noqa: PLC0415 - as above

    from commands.opening import open_journal  # noqa: PLC0415 - the journal is opened by commands that need it
    from ledger.families import budget, builds, calls, judging, providers  # noqa: PLC0415 - as above

    asked = Asked(
        project=project,
        size=sample_size,
        ceiling=ceiling,
        labels=labels,
        judgments=judgments,
        yes=yes,
        approve=approve,
        may_prompt=not (non_interactive or as_json) and sys.stdin.isatty(),
        repeats=repeats,
        partial=partial,
        from_traces=from_traces,
    )
    families = (budget.FAMILY, builds.FAMILY, calls.FAMILY, judging.FAMILY, providers.FAMILY)
    with open_journal(root, "config judge calibrate", *families) as journal:
        _calibrate(journal, asked, Result(as_json))


def _calibrate(journal: Journal, asked: Asked, result: Result) -> None:
    from commands.calibrating import Bench, NothingToCalibrate, run_id, sampled_from  # noqa: PLC0415 - as above
    from commands.judging import read_judge  # noqa: PLC0415 - as above
    from commands.readings import read_build  # noqa: PLC0415 - as above

    build = read_build(journal, asked.project)
    judge = read_judge(journal, asked.project)
    sampled = sampled_from(build, asked.size)
    if not sampled:
        raise NothingToCalibrate(asked.project, 0)
    result.line("project", asked.project)
    result.line("setup", judge.setup.id)
    result.item("judge", {"alias": judge.endpoint.alias, "model": judge.endpoint.model.model})
    fewer = f" ({asked.size} were asked for)" if len(sampled) < asked.size else ""
    result.line("sample", f"{len(sampled)} of {len(build.fit_lineages)} fit lineages, the first by digest{fewer}")
    plan, proposals = _proposals(journal, judge, sampled, asked, result)
    bench = Bench(asked.project, judge, sampled, proposals)
    _show_proposals(result, bench)
    spent = _spent(journal, run_id(judge, sampled))
    result.line("judge-spend", spent)
    if all(proposal.scores is None for proposal in proposals.values()):
        result.finish()
        raise NothingToCalibrate(asked.project, len(sampled))
    came = _came_with(build, bench, result) if asked.from_traces else {}
    given = _given(journal, bench, asked, came, result, f"{_ceiling(plan)}; spent so far: {spent}")
    _publish(journal, bench, given, asked, result)


def _proposals(
    journal: Journal, judge: Judge, sampled: Sequence[Item], asked: Asked, result: Result
) -> tuple[Plan, dict[str, Proposal]]:
    """Return what the judge proposes, after asking it for what it hasn't proposed yet; with labels, nobody is asked."""
    from commands import calibrating  # noqa: PLC0415 - as above
    from ledger.estimates import decide_plan  # noqa: PLC0415 - as above
    from ledger.families import budget  # noqa: PLC0415 - as above

    state = journal.state(budget.FAMILY)
    ceiling = budget.ceiling_in_force(state, asked.ceiling)
    proposals = calibrating.read_proposals(journal, judge, sampled)
    owed = calibrating.still_owed(sampled, proposals, asked.repeats)
    unread = sum(not one.sample for one in owed)
    plan = calibrating.plan(judge, len(sampled) + min(asked.repeats, len(sampled)), len(owed), ceiling)
    result.line("plan", str(plan.whole.parts[0]))
    result.line("spend-ceiling", _ceiling(plan))
    if owed and (asked.labels or asked.judgments):
        raise calibrating.ProposalsWanted(asked.project, unread or len(owed), len(sampled))
    while owed:
        decide_plan(plan.owed, ceiling, yes=asked.yes, flag=FLAG, budget=state.ceiling)
        _ask(journal, judge, sampled, owed, plan)
        journal.refresh()
        proposals = calibrating.read_proposals(journal, judge, sampled)
        repeated = any(one.sample for one in owed)  # what can be repeated is known once the first replies are read
        owed = [] if repeated else calibrating.still_owed(sampled, proposals, asked.repeats)
    return plan, proposals


def _ask(journal: Journal, judge: Judge, sampled: Sequence[Item], owed: Sequence[Owed], plan: Plan) -> None:
    from commands.calibrating import propose, run_id  # noqa: PLC0415 - as above
    from commands.perform.asking import Asking, Run  # noqa: PLC0415 - as above
    from commands.perform.live import Live  # noqa: PLC0415 - as above
    from commands.perform.running import run  # noqa: PLC0415 - as above
    from commands.render.progress import Progress  # noqa: PLC0415 - as above
    from ledger.families import providers  # noqa: PLC0415 - as above

    async def main() -> None:
        async with Live(journal.state(providers.FAMILY)) as live:
            asking = Asking(journal, live, Run(run_id(judge, sampled), plan.ceiling, "calibrate", plan.whole.total))
            with Progress(len(owed), "judging") as progress:
                await propose(asking, judge, owed, progress.advance)

    run(main)


def _came_with(build: Build, bench: Bench, result: Result) -> dict[str, Noted]:
    """Return the labels that came with traces, and say those that can't be used."""
    from commands.trace_labels import noted  # noqa: PLC0415 - as above

    found = {}
    for one in noted(build, bench):
        if one.score is None:
            result.item("annotation-unused", {"key": one.key, "reason": one.problem})
        elif bench.has_proposal(one.key):
            found[one.key] = one
    result.line("labels-from-traces", len(found))
    return found


def _given(
    journal: Journal, bench: Bench, asked: Asked, came: Mapping[str, Noted], result: Result, spend: str
) -> dict[str, Given]:
    """Return a label for every key, from the flags, the journal and the terminal; refuse with all that is missing."""
    from commands.calibrating import wanted  # noqa: PLC0415 - as above
    from commands.labels import LabelsRefused, LabelsWanted, read_labels  # noqa: PLC0415 - as above
    from commands.perform.credentials import redactor_for  # noqa: PLC0415 - as above
    from ledger.families import judging, providers  # noqa: PLC0415 - as above

    redact = redactor_for(journal.state(providers.FAMILY)).error  # also what merely looks like a key
    asked_for = wanted(bench, journal.state(judging.FAMILY))
    labels, judgments = list(asked.labels), [redact(text) for text in asked.judgments]
    here = {text.partition("=")[0] for text in (*labels, *judgments)}
    came = {key: one for key, one in came.items() if key not in here and asked_for[key].label in (None, one.score)}
    labels += [f"{key}={_score(one.score)}" for key, one in came.items() if one.score is not None]
    judgments += [f"{key}={redact(one.rationale)}" for key, one in came.items() if asked_for[key].label is None]
    readings = read_labels(labels, judgments, asked_for)
    if readings.missing and not readings.wrong and asked.may_prompt:
        _prompt(labels, judgments, readings.missing)
        judgments = [redact(text) for text in judgments]
        readings = read_labels(labels, judgments, asked_for)
    if asked.partial:
        readings.missing = [flag for flag in readings.missing if not flag.startswith("--label ")]
    if readings.wrong or readings.missing:
        for flag in readings.missing:
            if result.as_json:
                result.item("missing", {"flag": flag})
        result.finish()
        if readings.wrong:
            raise LabelsRefused(asked.project, readings.wrong, readings.missing)
        raise LabelsWanted(asked.project, readings.missing, spend)
    return {
        key: msgspec.structs.replace(one, origin="trace") if key in came else one for key, one in readings.given.items()
    }


def _prompt(labels: list[str], judgments: list[str], missing: Sequence[str]) -> None:
    """Ask for what is missing on the terminal; a score that differs from the judge's is asked why in the next round."""
    for line in missing:
        flag, _, template = line.partition(" ")
        key = template.partition("=")[0]
        if flag == "--label":
            labels.append(f"{key}={click.prompt(f'score for {key}', err=True)}")
            text = click.prompt("why (empty when you agree with the judge)", default="", show_default=False, err=True)
            if text.strip():
                judgments.append(f"{key}={text}")
        else:
            judgments.append(f"{key}={click.prompt(f'why this score for {key}', err=True)}")


def _publish(journal: Journal, bench: Bench, given: dict[str, Given], asked: Asked, result: Result) -> None:
    from commands.calibrating import calibrated, labelled, publishing  # noqa: PLC0415 - as above
    from ledger.event import Blobs  # noqa: PLC0415 - as above
    from ledger.families import judging  # noqa: PLC0415 - as above

    blobs = Blobs()
    state = journal.state(judging.FAMILY)
    labels = labelled(bench, state, given, blobs)
    made = calibrated(bench, labels)
    _report(result, bench, labels, made)
    approved = asked.approve or (asked.project, made.id) in state.approved
    if not approved and asked.may_prompt:
        approved = click.confirm("Approve this calibration?", err=True)
    step = publishing(bench, made, tuple(labels.values()), approved=approved)
    journal.submit(step, blobs=blobs).result()
    result.line("approved", approved)
    if not approved:
        result.text("Approve it with --approve on the same command; the labels are recorded and needn't be repeated.")
    result.line("calibration", made.id)
    seq, head = journal.position()
    result.line("journal", f"{seq} {head}")
    from commands.render.place import say_checkpoint  # noqa: PLC0415 - as above

    say_checkpoint(result, journal)
    result.finish()


# What is shown.


def _show_proposals(result: Result, bench: Bench) -> None:
    for key, item, axis in bench.rows():
        said = bench.proposed(item, axis.name)
        if said is None:
            result.item("excluded", {"key": key, "reason": bench.proposals[item.subject].problem})
        else:
            shown = {
                "score": _score(said.score),
                "rationale": _quoted(said.rationale),
                "task": _quoted(item.episode.task),
            }
            result.item("proposal", {"key": key, **shown})
    for name in bench.stand_ins():
        result.text(f"stand-in: the judge is {name}, which is no model, so its scores say nothing about a real judge")


def _quoted(text: str) -> str:
    """Return a judge's words, short, and such that nobody takes them for a flag to paste."""
    calm = text.replace("=SCORE", "= SCORE")
    return calm if len(calm) <= MOST_SHOWN else f"{calm[:MOST_SHOWN]}..."


def _report(
    result: Result, bench: Bench, labels: dict[tuple[str, str], LabelRecorded], calibration: Calibration
) -> None:
    for key, item, axis in bench.rows():
        label, said = labels.get((item.subject, axis.name)), bench.proposed(item, axis.name)
        if label is not None and said is not None:
            facts: dict[str, Value] = {"key": key, "score": _score(label.score), "judge": _score(said.score)}
            facts |= {"difference": _score(said.score - label.score), "blind": not label.shown}
            result.item("label", facts)
    for report in calibration.axes:
        report_axis(result, report, {item.subject: item.key for item in bench.sampled})


def _score(score: Scaled) -> str:
    from ledger.families.judging import in_words  # noqa: PLC0415 - as above

    return in_words(score)


def _ceiling(plan: Plan) -> str:
    from ledger.money import usd as dollars  # noqa: PLC0415 - as above

    most = plan.whole.total
    return (
        f"judging this sample costs at most {'an unknown amount' if most is None else dollars(most)}, "
        f"under a ceiling of {dollars(plan.ceiling)}"
    )


def _spent(journal: Journal, run: str) -> str:
    from ledger.families import calls  # noqa: PLC0415 - as above
    from ledger.money import usd as dollars  # noqa: PLC0415 - as above

    totals = journal.state(calls.FAMILY).totals(run)
    ambiguous = f", up to {dollars(totals.ambiguous, 6)} more is ambiguous" if totals.ambiguous else ""
    retries = totals.failed + totals.lost
    return f"{dollars(totals.settled, 6)} in {totals.calls} calls, {retries} without an answer{ambiguous}"
