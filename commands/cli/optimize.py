"""``exp optimize router``: learn which model to ask for which task, from simulated and judged rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.cli.options import Count, json_option, non_interactive_option, project_name, root_option, usd, yes_option
from commands.render.result import Result

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from commands.optimizing.running import Finished
    from ledger.families.cells import Outcome
    from ledger.journal import Journal

SHOWN_TASKS = 20


@click.command(help="Learn which model to ask for which task.")
@click.argument("project", type=project_name)
@click.option("--candidate", "candidates", multiple=True, metavar="ALIAS", help="A model to choose from; repeatable.")
@click.option(
    "--incumbent", metavar="ALIAS", required=True, help="The candidate that requests go to unless another will do."
)
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
    request = planning.Request(project, candidates, incumbent, cost, judgments, model_calls)
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
    from commands.optimizing import words  # noqa: PLC0415 - loaded when there is something to say
    from ledger import money  # noqa: PLC0415 - as above

    frozen, report = shown.frozen, shown.frozen.report
    for standing in frozen.standings:
        fields: dict[str, Any] = {"alias": standing.alias, "counted": standing.counted, "excluded": standing.excluded}
        fields |= {"mean": words.score(standing.mean), "cost_usd": words.dollars(standing.cost)}
        result.item("candidate", fields)
    for line in report.lines:
        result.item("held-out", words.line(line))
    for alias, count in words.routes(report.routed):
        result.item("routed", {"alias": alias, "tasks": count, "of": report.tasks})
    for outcome in _excluded(shown.outcomes):
        result.item("exclusion", words.exclusion(outcome))
    for alias, missing in report.uncovered.items():
        if missing:
            listed = " ".join(missing[:SHOWN_TASKS]) + (
                " ..." if len(missing) > SHOWN_TASKS and not result.as_json else ""
            )
            result.item("uncovered", {"alias": alias, "tasks": len(missing), "ids": listed})
    for note in (*report.degenerate, *words.labels(journal, plan)):
        result.line("degenerate", note)
    result.line("policy", frozen.policy.id)
    result.line("report", report.id)
    spend = shown.spend
    result.line("spend", f"{money.usd(spend.settled, 6)} settled, {money.usd(spend.ambiguous, 6)} ambiguous")
    result.line("calls", spend.calls)
    result.line("retries", spend.retries)


def _excluded(outcomes: tuple[Outcome, ...]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.reason is not None]
