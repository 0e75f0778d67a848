"""``exp config budget``: read or set the ceiling for one command."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, non_interactive_option, root_option, usd
from commands.render.result import Result


@click.command(help="Read or set the ceiling for one command.")
@click.argument("ceiling", metavar="[USD]", type=usd, required=False)
@root_option
@non_interactive_option
@json_option
def command(ceiling: int | None, root: Path, *, non_interactive: bool, as_json: bool) -> None:
    """Print the ceiling in force, after setting it when one is given."""
    del non_interactive  # nothing is ever asked for here
    from commands.opening import open_journal  # noqa: PLC0415 - the journal is opened by commands that need it
    from ledger import money  # noqa: PLC0415 - as above
    from ledger.event import Step  # noqa: PLC0415 - as above
    from ledger.families import budget  # noqa: PLC0415 - as above
    from ledger.root_name import is_there  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - as above

    result = Result(as_json)
    if ceiling is None and not is_there(root, NAME):
        result.line("budget", f"{money.usd(budget.DEFAULT_CEILING)} for one command (the default)")
        result.finish()
        return
    with open_journal(root, "config budget", budget.FAMILY, create=True) as journal:
        if ceiling is not None:
            recorded = journal.submit(Step(budget.FAMILY, budget.SetBudget(ceiling=ceiling))).result()
            result.line("recorded", f"{len(recorded)} event" if recorded else "nothing new")
        result.line("budget", f"{money.usd(journal.state(budget.FAMILY).ceiling)} for one command")
        seq, head = journal.position()
        result.line("journal", f"{seq} {head}")
    result.finish()
