"""``exp report``: everything that is to be seen of a finished optimization, in tables or as one page."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option


@click.command(short_help="Show what an optimization came to, as tables or a page.")
@click.argument("run")
@root_option
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one self-contained page to this file instead; a page that is there already is replaced.",
)
@json_option
def command(run: str, root: Path, page: Path | None, *, as_json: bool) -> None:
    """Show what RUN came to: quality and cost, cells, judge, exclusions, spend, environment and provenance.

    RUN is a run, its policy or its report, by any unique beginning of the id, or a project, which means its newest run.
    The page loads nothing and runs no script; --json has every number as an integer, with its scale, and every text.
    """
    from commands.reporting.meant import meant  # noqa: PLC0415 - loaded when the command runs
    from commands.reporting.reading import read  # noqa: PLC0415 - as above

    with meant(root, run) as found:
        sheet = read(found)
    if page is not None:
        from commands.render.report_page import report_page  # noqa: PLC0415 - as above
        from commands.reporting.writing import write  # noqa: PLC0415 - as above

        write(page, report_page(sheet))
    if as_json:
        from msgspec import to_builtins  # noqa: PLC0415 - as above

        from commands.render.json_text import json_text  # noqa: PLC0415 - as above

        click.echo(json_text(to_builtins(sheet), indent=2))
    elif page is not None:
        from commands.render.plain import one_line  # noqa: PLC0415 - as above

        click.echo(one_line(f"report: {sheet.report_id} page={page}"))
    else:
        from commands.render.plain import printable  # noqa: PLC0415 - as above
        from commands.render.report_text import report_text  # noqa: PLC0415 - as above

        click.echo("\n\n".join(map(printable, report_text(sheet))))
