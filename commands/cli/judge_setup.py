"""``exp config judge setup``: show by what rubric which model judges, and record that it is approved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, non_interactive_option, project_name, root_option
from commands.render.result import Result
from ledger.errors import Refusal

if TYPE_CHECKING:
    from commands.readings import Build
    from ledger.families.judging import Rubric
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal

SAMPLES = 3
MOST_SHOWN = 200


class ApprovalWanted(Refusal, name="approval-wanted", exit_code=13):
    """Nobody approved what was shown."""

    def __init__(self, project: str) -> None:
        super().__init__(
            "the judge setup shown above isn't approved; nothing was recorded",
            where=f"project {project}",
            remedy="add --approve to the same command",
        )


@click.command(help="Approve a rubric and the model that judges by it.")
@click.argument("project", type=project_name)
@root_option
@click.option("--approve", is_flag=True, help="Approve the setup that is shown.")
@click.option(
    "--rubric-file",
    type=click.Path(path_type=Path),
    metavar="F",
    help="A rubric of your own, JSON or TOML. The first default has one axis, task-success, from 0 to 1.",
)
@non_interactive_option
@json_option
def command(
    project: str, root: Path, rubric_file: Path | None, *, approve: bool, non_interactive: bool, as_json: bool
) -> None:
    """Show rubric, judge and some tasks, then record the setup when it is approved."""
    from commands.opening import open_journal  # noqa: PLC0415 - the journal is opened by commands that need it
    from commands.readings import read_build  # noqa: PLC0415 - as above
    from ledger.event import Blobs, Step  # noqa: PLC0415 - as above
    from ledger.families import builds, judging, providers  # noqa: PLC0415 - as above

    result = Result(as_json)
    with open_journal(root, "config judge setup", builds.FAMILY, judging.FAMILY, providers.FAMILY) as journal:
        build = read_build(journal, project)
        configured = journal.state(providers.FAMILY)
        endpoint = configured.endpoint(configured.judge)
        rubric = _rubric(journal, project, rubric_file)
        _show(result, build, rubric, endpoint)
        blobs = Blobs()
        set_up = judging.JudgeSetUp(
            project=project,
            setup=judging.setup_id(rubric, endpoint.digest),
            rubric=blobs.put(judging.rubric_bytes(rubric), "application/json"),
            alias=endpoint.alias,
            judge=endpoint.digest,
        )
        in_force = journal.state(judging.FAMILY).setups.get(project) == set_up
        approved = approve or in_force or _agreed(non_interactive=non_interactive or as_json)
        result.line("approved", approved)
        result.line("setup", set_up.setup)
        if approved:
            journal.submit(Step(judging.FAMILY, judging.SetUpJudge(set_up=set_up)), blobs=blobs).result()
        seq, head = journal.position()
        result.line("journal", f"{seq} {head}")
        result.finish()
    if not approved:
        raise ApprovalWanted(project)


def _rubric(journal: Journal, project: str, rubric_file: Path | None) -> Rubric:
    """Return the rubric of the file without the values of credentials, else the one in force, else the default."""
    import msgspec  # noqa: PLC0415 - as above

    from commands.perform.credentials import redactor_for  # noqa: PLC0415 - as above
    from commands.rubric_file import read_rubric  # noqa: PLC0415 - as above
    from ledger.families import judging, providers  # noqa: PLC0415 - as above

    if rubric_file is None:
        state = journal.state(judging.FAMILY)
        known = project in state.setups
        return judging.read_setup(state, project, journal.blob).rubric if known else judging.DEFAULT_RUBRIC
    text, _ = redactor_for(journal.state(providers.FAMILY)).data(judging.rubric_bytes(read_rubric(rubric_file)))
    return msgspec.json.decode(text, type=judging.Rubric)


def _agreed(*, non_interactive: bool) -> bool:
    """Ask on a terminal; nobody agreed where there is none."""
    import sys  # noqa: PLC0415 - as above

    if non_interactive or not sys.stdin.isatty():
        return False
    return click.confirm("Approve this setup?", err=True)


def _show(result: Result, build: Build, rubric: Rubric, endpoint: Endpoint) -> None:
    from commands.calibrating import chosen  # noqa: PLC0415 - as above
    from ledger.families.judging import in_words  # noqa: PLC0415 - as above

    result.line("project", build.project)
    result.item(
        "judge", {"alias": endpoint.alias, "model": endpoint.model.model, "connection": endpoint.connection.name}
    )
    for axis in rubric.axes:
        facts = {"axis": axis.name, "low": in_words(axis.low), "high": in_words(axis.high)}
        result.item("axis", {**facts, "question": axis.question})
        for anchor in axis.anchors:
            result.item("anchor", {"axis": axis.name, "score": in_words(anchor.score), "meaning": anchor.meaning})
    for lineage in chosen(build.fit_lineages, SAMPLES):
        trace = build.trace(build.representative(lineage))
        task = trace.task if len(trace.task) <= MOST_SHOWN else f"{trace.task[:MOST_SHOWN]}..."
        result.item("sample-task", {"trace": trace.name, "turns": len(trace.turns), "task": task})
