"""``exp optimize router``: learn which model to ask for which task, from simulated and judged rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from commands.cli.options import (
    Count,
    json_option,
    non_interactive_option,
    project_name,
    root_option,
    share,
    usd,
    yes_option,
)
from commands.render.result import Result

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from commands.optimizing.running import Finished
    from ledger.families.cells import Outcome
    from ledger.journal import Journal

HELD_OUT = 300_000  # a share, in millionths
TOLERANCE = 50_000


@click.command(help="Learn which model to ask for which task.")
@click.argument("project", type=project_name)
@click.option("--candidate", "candidates", multiple=True, metavar="ALIAS", help="A model to choose from; repeatable.")
@click.option(
    "--incumbent", metavar="ALIAS", required=True, help="The candidate that requests go to unless another will do."
)
@click.option(
    "--evidence",
    type=click.Choice(["cells", "outcomes", "traffic"]),
    default="cells",
    show_default=True,
    help="What to learn from: simulated and judged cells, imported outcomes (no provider is asked), or the gateway's.",
)
@click.option(
    "--held-out-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Outcomes to measure on, in the form of `exp import outcomes`; all imported ones are fitted on.",
)
@click.option(
    "--held-out-fraction", type=share, metavar="SHARE", help="Share of outcomes to measure on; 0.3 unless said."
)
@click.option(
    "--tolerance", type=share, metavar="SCORE", help="How much worse than the incumbent a cheaper one may be; 0.05."
)
@click.option("--price-of-quality", "price", type=usd, metavar="USD", help="What a unit of score is worth, a request.")
@click.option(
    "--target-quality", type=share, metavar="SCORE", help="The mean score to reach, as cheaply as fit tasks allow."
)
@click.option(
    "--target-cost", type=usd, metavar="USD", help="The mean cost of a request to keep to, as well as can be."
)
@click.option("--samples", type=Count(1, 100), help="Rollouts a cell; one unless said. More show what chance does.")
@click.option(
    "--maximum-provider-cost-usd",
    "cost",
    type=usd,
    help="Ceiling of this command; at most the budget, which is the default.",
)
@click.option("--maximum-judgments", "judgments", type=Count(1, 1_000_000), help="The most cells (candidates x tasks).")
@click.option(
    "--maximum-model-calls",
    "model_calls",
    type=Count(1, 10_000),
    default=10,
    show_default=True,
    help="The most turns of a candidate in one rollout; a rollout that is cut there is judged as cut.",
)
@click.option(
    "--maximum-concurrency",
    "concurrency",
    type=Count(1, 512),
    default=16,
    show_default=True,
    help="The most calls in flight.",
)
@root_option
@yes_option
@non_interactive_option
@json_option
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    project: str,
    candidates: tuple[str, ...],
    incumbent: str,
    evidence: str,
    held_out_file: Path | None,
    held_out_fraction: int | None,
    tolerance: int | None,
    price: int | None,
    target_quality: int | None,
    target_cost: int | None,
    samples: int | None,
    cost: int | None,
    judgments: int | None,
    model_calls: int,
    concurrency: int,
    root: Path,
    *,
    yes: bool,
    non_interactive: bool,
    as_json: bool,
) -> None:
    """Plan, then run, resume or replay; print what came of it."""
    del non_interactive  # nothing is ever asked for here
    turned = (tolerance, price, target_quality, target_cost)
    if sum(one is not None for one in turned) > 1:
        message = "give one of --tolerance, --price-of-quality, --target-quality and --target-cost"
        raise click.UsageError(message)
    if evidence != "cells":
        held_out = _HeldOut(held_out_file, held_out_fraction)
        held_out.refuse_both()
        if samples is not None:
            message = "--samples is for cells: outcomes are what they are"
            raise click.UsageError(message)
        _without_provider(root, evidence, (project, candidates, incumbent), held_out, turned, as_json=as_json)
        return
    if held_out_file is not None or held_out_fraction is not None:
        raise click.UsageError(
            "a build says what is held out of cells: --held-out-file and --held-out-fraction are for outcomes"
        )
    from commands.opening import open_journal  # noqa: PLC0415 - the journal is opened by commands that need it
    from commands.optimizing import planning  # noqa: PLC0415 - as above
    from ledger.families import budget, builds, calls, cells, judging, policies, providers  # noqa: PLC0415 - as above

    families = (
        providers.FAMILY,
        budget.FAMILY,
        builds.FAMILY,
        judging.FAMILY,
        calls.FAMILY,
        calls.VECTORS,
        cells.FAMILY,
        policies.FAMILY,
    )
    request = planning.Request(
        project, candidates, incumbent, cost, judgments, model_calls, planning.Turned(*turned), samples or 1
    )
    result = Result(as_json)
    with open_journal(root, "optimize router", *families) as journal:
        plan = planning.plan(journal, request)
        if planning.is_complete(journal, plan):
            finished = _replayed(journal, plan)
        else:
            finished = _run(journal, plan, result, concurrency=concurrency, yes=yes)
        _show(journal, plan, finished, result)
        if finished.replayed:
            result.line("replay", "verified completed optimization")
        seq, head = journal.position()
        result.line("journal", f"{seq} {head}")
        from commands.render.place import say_checkpoint  # noqa: PLC0415 - as above

        say_checkpoint(result, journal)
    result.finish()


class _HeldOut(NamedTuple):
    """What outcomes are measured on."""

    file: Path | None
    share: int | None

    def refuse_both(self) -> None:
        if self.file is not None and self.share is not None:
            raise click.UsageError("give --held-out-file or --held-out-fraction, not both")


def _without_provider(
    root: Path,
    evidence: str,
    names: tuple[str, tuple[str, ...], str],
    held_out: _HeldOut,
    turned: tuple[int | None, ...],
    *,
    as_json: bool,
) -> None:
    """Fit on what is recorded; print what came of it."""
    from commands.opening import open_journal  # noqa: PLC0415 - loaded by those who ask
    from commands.optimizing import fitting, showing  # noqa: PLC0415 - as above
    from commands.optimizing.refusals import TrafficUnjudged  # noqa: PLC0415 - as above
    from commands.outcome_tables import record_table  # noqa: PLC0415 - as above
    from ledger.families import outcomes, policies, serving  # noqa: PLC0415 - as above
    from ledger.families.outcomes import FitInputs  # noqa: PLC0415 - as above

    project, candidates, incumbent = names
    result = Result(as_json)
    with open_journal(root, "optimize router", outcomes.FAMILY, policies.FAMILY) as journal:
        if evidence == "traffic":
            answered = sum(1 for _ in journal.events(serving.RequestAnswered))
            raise TrafficUnjudged(project, answered)
        journal.state(outcomes.FAMILY).of(project)
        apart = (
            () if held_out.file is None else (record_table(journal, project, held_out.file, held_out=True)[0].table,)
        )
        state: outcomes.Outcomes = journal.state(outcomes.FAMILY)
        inputs = fitting.checked(
            state,
            FitInputs(
                project=project,
                tables=tuple(one.table for one in state.of(project) if one.table not in apart),
                held_out=apart,
                share=0 if apart else HELD_OUT if held_out.share is None else held_out.share,
                candidates=candidates,
                incumbent=incumbent,
                tolerance=TOLERANCE if all(one is None for one in turned) else turned[0],
                price=turned[1],
                target_quality=turned[2],
                target_cost=turned[3],
                versions=fitting.VERSIONS,
            ),
        )
        frozen, _, known = fitting.fit_router(journal, inputs)
        showing.show_measured(frozen, result)
        showing.show_uncovered(frozen, result)
        for note in frozen.report.degenerate:
            result.line("degenerate", note)
        showing.show_policy(frozen, result)
        result.line("run", inputs.run)
        result.line("calls", 0)
        if known:
            result.line("replay", "verified completed optimization")
        seq, head = journal.position()
        result.line("journal", f"{seq} {head}")
    result.finish()


class Shown:
    """A finished run, and whether it was replayed."""

    def __init__(self, finished: Finished, *, replayed: bool) -> None:
        self.frozen, self.outcomes, self.spend = finished
        self.replayed = replayed


def _replayed(journal: Journal, plan: Plan) -> Shown:
    import asyncio  # noqa: PLC0415 - loaded by those who ask

    from commands.optimizing.running import replay  # noqa: PLC0415 - as above
    from commands.perform.credentials import redactor_for  # noqa: PLC0415 - as above
    from commands.perform.replaying import Replaying  # noqa: PLC0415 - as above
    from ledger.families import providers  # noqa: PLC0415 - as above

    perform = Replaying(journal, redactor_for(journal.state(providers.FAMILY)))
    return Shown(asyncio.run(replay(journal, plan, perform)), replayed=True)


def _run(journal: Journal, plan: Plan, result: Result, *, concurrency: int, yes: bool) -> Shown:
    from commands.optimizing.planning import COST_FLAG, estimate  # noqa: PLC0415 - loaded by those who ask
    from commands.optimizing.running import optimize  # noqa: PLC0415 - as above
    from commands.perform.live import Live  # noqa: PLC0415 - as above
    from commands.perform.running import run  # noqa: PLC0415 - as above
    from commands.render.progress import Progress  # noqa: PLC0415 - as above
    from ledger import money  # noqa: PLC0415 - as above
    from ledger.estimates import decide_plan  # noqa: PLC0415 - as above
    from ledger.families import cells, providers  # noqa: PLC0415 - as above

    owed = len(plan.owed(journal.state(cells.FAMILY)))
    worst = estimate(journal, plan)
    tasks = len(plan.build.tasks)
    result.line("plan", f"{len(plan.parts)} cells ({len(plan.endpoints)} candidates, {tasks} tasks)")
    result.line("recorded-before", f"{len(plan.parts) - owed} cells; {owed} are owed")
    for part in worst.parts:
        result.line("at-most", str(part))
    total = "unknown" if worst.total is None else money.usd(worst.total)
    result.line("worst-case", f"{total} of {money.usd(plan.ceiling)}")
    decide_plan(worst, plan.ceiling, yes=yes, flag=COST_FLAG, budget=plan.budget)

    async def main() -> Finished:
        async with Live(journal.state(providers.FAMILY)) as live:
            with Progress(len(plan.parts), "cells") as progress:
                return await optimize(
                    journal, plan, live, concurrency=concurrency, worst=worst.total, done=progress.advance
                )

    return Shown(run(main), replayed=False)


def _show(journal: Journal, plan: Plan, shown: Shown, result: Result) -> None:
    """Print the result: the same lines for a first run and a replay."""
    from commands.optimizing import showing, words  # noqa: PLC0415 - loaded when there is something to say
    from ledger import money  # noqa: PLC0415 - as above

    frozen = shown.frozen
    showing.show_measured(frozen, result)
    for outcome in _excluded(shown.outcomes):
        result.item("exclusion", words.exclusion(outcome))
    showing.show_uncovered(frozen, result)
    for note in (*frozen.report.degenerate, *words.labels(journal, plan)):
        result.line("degenerate", note)
    showing.show_policy(frozen, result)
    result.line("run", plan.started.run)
    spend = shown.spend
    result.line("spend", f"{money.usd(spend.settled, 6)} settled, {money.usd(spend.ambiguous, 6)} ambiguous")
    result.line("calls", spend.calls)
    result.line("retries", spend.retries)


def _excluded(outcomes: tuple[Outcome, ...]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.reason is not None]
