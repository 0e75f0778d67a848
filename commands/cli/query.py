"""``exp query``: SQL over what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import Count, root_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands.querying.asking import Answer, Content, Query
    from ledger.journal import Journal

SECONDS = 30


@click.command(short_help="Ask in SQL about what is recorded.")
@click.argument("sql", required=False)
@root_option
@click.option("--table", "form", flag_value="table", default="table", help="Print a table (the default).")
@click.option("--csv", "form", flag_value="csv", help="Print comma-separated values.")
@click.option("--json", "form", flag_value="json", help="Print one JSON object; its rows are objects.")
@click.option(
    "--time-limit", type=Count(1, 3600), default=SECONDS, show_default=True, help="Seconds that the query may take."
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the views to this SQLite database, to be opened with Datasette or any other tool.",
)
def command(sql: str | None, root: Path, form: str, time_limit: int, output: Path | None) -> None:
    """Answer one SELECT over the views calls, cells, judgments, requests, spend, exclusions, labels and traces.

    They are views of the table events, in a database that follows the journal and may be deleted. It is only read.
    Money is in nano-dollars, with a decimal text beside it; what is unknown is NULL. content(DIGEST) is what was
    recorded under a digest. Without SQL the views and their columns are listed.
    """
    from commands.opening import read_journal  # noqa: PLC0415 - loaded when the command runs
    from commands.querying.asking import Query  # noqa: PLC0415 - as above
    from commands.querying.derived import carried_out, refreshed  # noqa: PLC0415 - as above

    with read_journal(root) as journal:
        path = refreshed(journal)
        if output is not None:
            carried_out(path, output)
            if sql is None:
                return
        query = Query(path, _contents(journal), seconds=time_limit)
        try:
            answer = _views(query) if sql is None else query.ask(sql)
            for line in _lines(answer, form, sql or "", journal):
                click.echo(line)
        finally:
            query.close()


def _views(query: Query) -> Answer:
    """Return the names of all views with their columns."""
    from commands.querying.asking import Answer  # noqa: PLC0415 - loaded when the command runs
    from commands.querying.views import VIEWS  # noqa: PLC0415 - as above

    return Answer(
        ("view", "columns"), ((name, ", ".join(query.columns(name))) for name in (*VIEWS, "events", "journal"))
    )


def _lines(answer: Answer, form: str, sql: str, journal: Journal) -> Iterator[str]:
    from commands.querying.printing import as_csv, as_json, as_table  # noqa: PLC0415 - loaded when the command runs

    if form == "csv":
        return as_csv(answer)
    if form == "json":
        return as_json(answer, journal.position()[0])
    return as_table(answer, sql)


def _contents(journal: Journal) -> Content:
    from ledger import digests  # noqa: PLC0415 - loaded when the command runs
    from ledger.refusals import ContentErased  # noqa: PLC0415 - as above

    def content(digest: str) -> str | bytes | None:
        try:
            digests.raw(digest)
        except ValueError:
            return None
        try:
            data = journal.blob(digest)
        except ContentErased:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    return content
