"""``exp quickstart``: the whole path on the shipped corpus, with the embedded provider, offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, non_interactive_option, rooted_at
from commands.render.result import Result

if TYPE_CHECKING:
    from commands.walkthrough import Walk

OWN_ROOT = Path(".exp-quickstart")  # apart from a project's own, whose roles it would otherwise take


@click.command(help="Take the whole path on a shipped corpus, offline.")
@rooted_at(OWN_ROOT)
@non_interactive_option
@json_option
def command(root: Path, *, non_interactive: bool, as_json: bool) -> None:
    """Build, judge, optimize, replay and serve; then say what was done, how long it took, and what to try next."""
    from commands.render.progress import Progress  # noqa: PLC0415 - not needed for --help
    from commands.walkthrough import REPLAYED, Walk  # noqa: PLC0415 - as above

    del non_interactive  # nothing is ever asked for here
    with Progress(Walk.steps(), "quickstart") as progress:
        walk = Walk(root, progress.advance)
        walk.take_all()
    result = Result(as_json)
    _say_steps(result, walk)
    for name, rows in walk.report.items():
        for row in rows:
            result.item(name, row)
    for note in walk.notes:
        result.line("degenerate", note)
    for name, value in walk.ids.items():
        result.line(name, value)
    result.line("replay", REPLAYED)
    if walk.fingerprint:
        result.line("answered by", f"{walk.fingerprint} (the embedded provider: rules, no model)")
    for line in _next(root):
        result.text(line)
    result.finish()


def _say_steps(result: Result, walk: Walk) -> None:
    if result.as_json:
        for done in walk.done:
            result.item("step", done._asdict())
        return
    from commands.render.table import table  # noqa: PLC0415 - text only

    rows = [[one.title, f"{one.milliseconds / 1000:.1f}", str(one.calls), str(one.events)] for one in walk.done]
    total = sum(one.milliseconds for one in walk.done) / 1000
    calls, events = sum(one.calls for one in walk.done), sum(one.events for one in walk.done)
    rows.append(["all", f"{total:.1f}", str(calls), str(events)])
    result.text(table(["step", "seconds", "calls", "events"], rows))
    result.text("")


def _next(root: Path) -> tuple[str, ...]:
    """Return what to try after this."""
    where = f" --root {root}"
    offers = {
        f"exp check --full{where}": "verify every event and every recorded text",
        f"exp run quickstart{where}": f"serve the router; its key is in {root}/gateway/",
        f"exp quickstart{'' if root == OWN_ROOT else where}": "the same again: nothing is asked twice",
        "exp build PROJECT TRACES": "your own traces; README.md has the five minutes in full",
    }
    widest = max(map(len, offers))
    return ("", "Try next:", *(f"  {command.ljust(widest)}  {what}" for command, what in offers.items()))
