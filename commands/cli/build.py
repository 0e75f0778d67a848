"""``exp build``: import traces, split them, choose tasks, and build the indexes of a grounded world model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import Count, json_option, non_interactive_option, project_name, root_option, usd, yes_option
from commands.ingesting.flags import redaction_options, source_option

if TYPE_CHECKING:
    from commands.building import Draft
    from commands.ingesting.asked import Wanted
    from commands.ingesting.material import Material
    from commands.perform.asking import Asking
    from commands.perform.outcome import Perform
    from commands.render.result import Result
    from ledger.estimates import Estimate
    from ledger.families.builds import BuildCompleted
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal
    from ledger.money import NanoUSD

FLAG = "--max-build-cost-usd"


@click.command(help="Import traces and build a grounded world model.")
@click.argument("project", type=project_name)
@click.argument("traces", nargs=-1, metavar="[TRACES]...")
@source_option
@click.option("--from-gateway", is_flag=True, help="Build from what the gateway answered, as its journal has it.")
@redaction_options
@click.option(FLAG, "ceiling", type=usd, help="Ceiling for embeddings; by default the budget of one command.")
@click.option("--fit-tasks", type=Count(1, 1_000_000), default=50, show_default=True, help="Tasks to learn from.")
@click.option("--held-out-tasks", type=Count(1, 1_000_000), default=20, show_default=True, help="Tasks to measure on.")
@click.option("--dry-run", is_flag=True, help="Say what would be built and what it may cost; record and ask nothing.")
@root_option
@yes_option
@non_interactive_option
@json_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    project: str,
    traces: tuple[str, ...],
    source: str,
    from_gateway: bool,
    redact: str | None,
    redact_rules: Path | None,
    ceiling: NanoUSD | None,
    fit_tasks: int,
    held_out_tasks: int,
    dry_run: bool,
    root: Path,
    yes: bool,
    non_interactive: bool,
    as_json: bool,
) -> None:
    """Read, plan, record, embed, complete. Without TRACES, what was imported for the project is read."""
    del non_interactive  # nothing is ever asked for here
    if traces and from_gateway:
        raise click.UsageError("name TRACES or give --from-gateway, not both")
    from commands import building  # noqa: PLC0415 - loaded when a command runs, not for --help
    from commands.ingesting.asked import Wanted  # noqa: PLC0415 - as above
    from commands.opening import open_journal  # noqa: PLC0415 - as above
    from commands.perform.live import Live  # noqa: PLC0415 - as above
    from commands.perform.running import run  # noqa: PLC0415 - as above
    from commands.render.result import Result  # noqa: PLC0415 - as above
    from ledger.families import budget, builds, calls, ingests, providers  # noqa: PLC0415 - as above
    from ledger.families.traces import FAMILY as IMPORTING  # noqa: PLC0415 - as above

    families = (providers.FAMILY, budget.FAMILY, calls.FAMILY, calls.VECTORS, builds.FAMILY, ingests.FAMILY, IMPORTING)
    read = Wanted(project, traces, source, redact, redact_rules, gateway=from_gateway)
    asked = Asked(read, ceiling, (fit_tasks, held_out_tasks), yes=yes)
    result = Result(as_json)
    with open_journal(root, "build", *families) as journal:
        configured = journal.state(providers.FAMILY)
        perform = Live(configured)
        plan = prepare(journal, perform, asked, result)

        async def main() -> None:
            async with perform:
                await carry_out(journal, perform, plan, result)

        if dry_run:
            result.text("dry run: nothing was recorded and nothing was called")
        else:
            building.record_inputs(journal, project, plan.material)
            run(main)
    result.finish()


class Asked:
    """What the command line asks for."""

    def __init__(self, read: Wanted, ceiling: NanoUSD | None, wanted: tuple[int, int], *, yes: bool) -> None:
        self.read = read
        self.ceiling = ceiling
        self.wanted = wanted
        self.yes = yes


class Plan:
    """What is to be recorded and asked."""

    def __init__(
        self, project: str, material: Material, made: Draft, ceiling: NanoUSD, worst_case: NanoUSD | None
    ) -> None:
        self.project = project
        self.material = material
        self.made = made
        self.ceiling = ceiling
        self.worst_case = worst_case


def prepare(journal: Journal, perform: Perform, asked: Asked, result: Result) -> Plan:
    """Read the export and say what would be built; refuse what would cost too much. Nothing is recorded."""
    from commands import building  # noqa: PLC0415 - loaded when a command runs, not for --help
    from commands.ingesting.asked import read  # noqa: PLC0415 - as above
    from ledger import estimates  # noqa: PLC0415 - as above
    from ledger.families import budget, providers  # noqa: PLC0415 - as above

    configured = journal.state(providers.FAMILY)
    embedder = configured.endpoint(configured.embedder)
    configured.endpoint(configured.world_model)
    spending = journal.state(budget.FAMILY)
    ceiling = budget.ceiling_in_force(spending, asked.ceiling)
    skipped: dict[str, str] = {}
    material = read(journal, asked.read, perform.redactor, lambda path, why: skipped.update({str(path): why}))
    for path, why in skipped.items():
        result.item("skipped", {"path": path, "why": why})
    made = building.draft_of(material, asked.wanted)
    _say_material(result, asked.read.project, material, made)
    estimate = _estimate(journal, perform, embedder, made)
    _say_plan(result, estimate, ceiling, len(made.unique_texts) - estimate.calls)
    estimates.decide_plan(estimate, ceiling, yes=asked.yes, flag=FLAG, budget=spending.ceiling)
    return Plan(asked.read.project, material, made, ceiling, estimate.total)


async def carry_out(journal: Journal, perform: Perform, plan: Plan, result: Result) -> None:
    """Embed the texts, and record the build. What is recorded already isn't again."""
    from commands import building  # noqa: PLC0415 - loaded when a command runs, not for --help
    from commands.perform.asking import Asking, Run  # noqa: PLC0415 - as above
    from commands.render.progress import Progress  # noqa: PLC0415 - as above
    from ledger.families import providers  # noqa: PLC0415 - as above
    from ledger.families.builds import artifact_id  # noqa: PLC0415 - as above

    made = plan.made
    configured = journal.state(providers.FAMILY)
    embedder = configured.endpoint(configured.embedder)
    models = building.Models(embedder.digest, configured.endpoint(configured.world_model).digest)
    run = Run(
        id=artifact_id("build-run", made.texts, embedder.digest),
        ceiling=plan.ceiling,
        purpose="build",
        plan=plan.worst_case,
    )
    asking = Asking(journal, perform, run)
    with Progress(len(made.unique_texts), "embedding") as progress:
        vectors = await building.embed(asking, embedder, made, progress.advance)
    build, blobs = building.completed(plan.project, plan.material.source, made, vectors, models)
    await building.complete(journal, build, blobs)
    _say_ids(result, build)
    _say_spend(result, asking)
    position, head = journal.position()
    result.line("position", position)
    result.line("head", head)
    from commands.render.place import say_checkpoint  # noqa: PLC0415 - as above

    say_checkpoint(result, journal)


def _estimate(journal: Journal, perform: Perform, embedder: Endpoint, made: Draft) -> Estimate:
    """Return the most that the texts' vectors may cost, but for those that are recorded."""
    from ledger import estimates, questions  # noqa: PLC0415 - as above
    from ledger.families.calls import TextEmbedded  # noqa: PLC0415 - as above

    shown = [perform.redactor.text(text)[0] for text in made.unique_texts]
    missing = [
        text
        for text in shown
        if journal.find(TextEmbedded, f"{questions.embedding_question(embedder, text).digest}:0") is None
    ]
    return estimates.Estimate((estimates.embedding_part(embedder, missing),))


def _say_material(result: Result, project: str, material: Material, made: Draft) -> None:
    turns = [turn for trace in made.traces.values() for turn in trace.turns]
    tally = material.tally
    result.line("project", project)
    result.line("source", material.source)
    for one in material.read.found if material.read else ():
        result.item("input", {"name": one.name, "source": one.source or "none", "why": one.why})
    result.line("traces-accepted", len(made.traces))
    result.line("traces-refused", tally.refused)
    result.line("traces-duplicate", tally.repeated)
    result.line("observations", len(turns))
    result.line("observations-empty", sum(not turn.observation for turn in turns))
    result.line("observations-error", sum(turn.error for turn in turns))
    result.line("redactions", tally.redactions.total())
    for detector, count in sorted(tally.redactions.items()):
        result.item("redacted", {"detector": detector, "count": count})
    for reason, left in sorted(tally.left.items()):
        result.item("excluded", {"reason": reason, "count": left.count, "first": left.first})
    result.line("lineages", len(made.split.fit) + len(made.split.held_out))
    result.line("lineage-groups", len(made.split.groups))
    for kind, count in (("task", made.split.by_task), ("conversation", made.split.by_conversation)):
        if count:
            result.item("lineages-joined", {"by": kind, "count": count})
    result.line("fit-lineages", len(made.split.fit))
    result.line("held-out-lineages", len(made.split.held_out))
    if made.split.moved is not None:
        result.text(f"one side was empty, so the group of lineage {made.split.moved} was moved to it")
    result.line("tools", ", ".join(tool.name for tool in made.manifest.tools) or "none")
    result.line("strata-by", ", ".join(("tool", "length", "error", *made.attributes)))
    for part in ("fit", "held-out"):
        result.line(f"{part}-tasks", sum(task.part == part for task in made.manifest.tasks))
    result.line("rule", made.manifest.rule)


def _say_plan(result: Result, estimate: Estimate, ceiling: NanoUSD, there: int) -> None:
    from ledger.money import usd as shown  # noqa: PLC0415 - as above

    part = estimate.parts[0]
    most = "unknown" if estimate.total is None else f"at most {shown(estimate.total, 6)}"
    result.line(
        "embedding-spend-ceiling",
        f"{most} of {shown(ceiling)} ({part.calls} texts to embed, {part.input_tokens} bytes; {there} are recorded)",
    )


def _say_ids(result: Result, completed: BuildCompleted) -> None:
    result.line("serving-rag", completed.serving_rag)
    result.line("fit-rag", completed.fit_rag)
    result.line("world-model", completed.world_model)
    result.line("build", completed.build)


def _say_spend(result: Result, asking: Asking) -> None:
    from ledger.money import usd as shown  # noqa: PLC0415 - as above

    spend = asking.spend()
    result.line("embedding-spend", shown(spend.settled, 6))
    if spend.ambiguous:
        result.line("embedding-spend-ambiguous", f"up to {shown(spend.ambiguous, 6)}")
    result.line("calls", spend.calls)
    result.line("retries", spend.retries)
