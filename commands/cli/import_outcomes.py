"""``exp import outcomes``: bring in a table of what models scored and cost on prompts."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, project_name, root_option
from commands.render.result import Result


@click.command(
    help="Bring in a table of what models scored and cost.\n\n"
    'FILE has a JSON object a line: {"id": "7", "prompt": "...", "task": "mmlu", "models": {"NAME": {"score": 0.5, '
    '"cost": 0.002}}}, with scores from 0 to 1 and costs in dollars. `scores` and `costs` by name, and the columns of '
    "RouterBench (NAME and NAME|total_cost), are read too. What is null or left out is missing."
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--project", type=project_name, required=True, help="The project that the table is for.")
@root_option
@json_option
def command(file: Path, project: str, root: Path, *, as_json: bool) -> None:
    """Read all of a table, then record its rows; the same table again changes nothing."""
    from commands.opening import open_journal  # noqa: PLC0415 - loaded when the command runs
    from commands.outcome_tables import record_table  # noqa: PLC0415 - as above
    from ledger.families import outcomes  # noqa: PLC0415 - as above

    result = Result(as_json)
    with open_journal(root, "import outcomes", outcomes.FAMILY, create=True) as journal:
        table, fresh = record_table(journal, project, file)
        seq, head = journal.position()
    result.line("project", project)
    result.line("table", table.table)
    result.line("rows", table.rows)
    for model in table.models:
        result.item("model", {"name": model})
    result.line("missing-scores", table.missing)
    result.line("source", table.source)
    if not fresh:
        result.text("this table was brought in before, so nothing is new")
    result.line("journal", f"{seq} {head}")
    result.finish()
