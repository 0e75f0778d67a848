"""``exp why``: what a value comes from, down to the traces."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import Count, json_option, root_option

DEPTH = 32
WIDTH = 8


@click.command(short_help="Show what a value comes from.")
@click.argument("id_", metavar="ID")
@root_option
@click.option("--depth", type=Count(0, 1000), default=DEPTH, show_default=True, help="How many steps back to go.")
@click.option("--all", "whole", is_flag=True, help=f"Show all that something rests on, not only the first {WIDTH}.")
@click.option(
    "--traces",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of traces that was imported: the lines of each trace are named. Repeatable.",
)
@json_option
def command(id_: str, root: Path, depth: int, files: tuple[Path, ...], *, whole: bool, as_json: bool) -> None:
    """Show what ID rests on, as a tree: artifacts, events, cells, gateway requests, traces and contents.

    A gateway decision leads to its policy and the neighbouring tasks, these to judgments, rollouts, calls and traces.
    Each line names an event, its id, and the contents that it holds the digests of. What was shown before isn't shown
    again. With --traces the files are read again, and the lines of those traces named whose digests come out equal.
    """
    from commands.explaining.lineage import Lineage  # noqa: PLC0415 - loaded when the command runs
    from commands.explaining.tree import Tree, lines, plain, traces_in  # noqa: PLC0415 - as above
    from commands.naming import located  # noqa: PLC0415 - as above
    from commands.render.json_text import json_text  # noqa: PLC0415 - as above
    from ledger.families import providers  # noqa: PLC0415 - as above

    with located(root, id_, providers.FAMILY) as (journal, named):
        lineage = Lineage(journal)
        branch = Tree(lineage, depth=depth, width=None if whole else WIDTH).grow(lineage.of(named))
        if files:
            from commands.explaining.origins import places  # noqa: PLC0415 - only where files are to be read

            shown = list(traces_in(branch))
            found = places(journal, files, {digest for digest, _ in shown})
            for digest, trace in shown:
                trace.places = found.get(digest, ())
        if as_json:
            click.echo(json_text(plain(branch), indent=2))
        else:
            for line in lines(branch):
                click.echo(line)
