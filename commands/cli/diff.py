"""``exp diff``: where two results differ, from what was asked for to what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, root_option
from commands.render.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands.comparing.sections import Comparison, Row
    from commands.comparing.sides import Side

SHOWN_ROWS = 20
WIDEST = 48
NARROW = ("question", "question_a", "question_b", "attempt", "turn", "sample")  # in --json and --html only


@click.command(
    help="Compare two runs, builds or calibrations.\n\nA and B are ids in the root or beginnings of ids, ROOT:ID, or "
    "ROOT for its newest run; @ORIGIN behind one means what was imported from there."
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@root_option
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT",
    help="Write all of it to one HTML file too.",
)
@json_option
def command(a: str, b: str, root: Path, html: Path | None, *, as_json: bool) -> int:
    """Print nothing and exit 0 when there is no difference; exit 1 when there is one."""
    from commands.comparing.sides import KindsDiffer, opened  # noqa: PLC0415 - the journal is opened by who needs it

    with opened(a, root) as one, opened(b, root) as other:
        if one.unit.kind != other.unit.kind:
            raise KindsDiffer(one.unit, other.unit)
        comparison = _compared(one, other)
    if html is not None:
        from commands.comparing.page import page  # noqa: PLC0415 - as above
        from commands.whole_file import write  # noqa: PLC0415 - as above

        write(html, page(comparison))
    _say(comparison, as_json=as_json)
    return int(comparison.different)


def _compared(one: Side, other: Side) -> Comparison:
    from commands.comparing.sections import Comparison  # noqa: PLC0415 - as above

    kind = one.unit.kind
    if kind == "run":
        from commands.comparing.runs import compare_runs, run_of  # noqa: PLC0415 - as above

        sections = compare_runs(run_of(one), run_of(other))
    elif kind == "build":
        from commands.comparing.builds import compare_builds  # noqa: PLC0415 - as above

        sections = compare_builds(one, other)
    else:
        from commands.comparing.calibrations import compare_calibrations  # noqa: PLC0415 - as above

        sections = compare_calibrations(one, other)
    return Comparison(kind, one.label, other.label, sections)


def _say(comparison: Comparison, *, as_json: bool) -> None:
    result = Result(as_json)
    if as_json:
        result.line("kind", comparison.kind)
        result.line("a", comparison.a)
        result.line("b", comparison.b)
        result.line("different", comparison.different)
        for section in comparison.sections:
            for row in section.rows:
                result.item(section.name, row)
    elif comparison.different:
        for section in comparison.sections:
            if section.rows:
                result.text(f"{section.title} ({len(section.rows)})")
                result.text(_table(section.rows))
                if len(section.rows) > SHOWN_ROWS:
                    result.text(f"and {len(section.rows) - SHOWN_ROWS} more: --json and --html have all")
                result.text("")
    result.finish()


def _table(rows: Sequence[Row]) -> str:
    from commands.render.plain import one_line  # noqa: PLC0415 - as above
    from commands.render.table import table  # noqa: PLC0415 - as above

    columns = [name for name in rows[0] if name not in NARROW]

    def cell(row: Row, name: str) -> str:
        text = one_line("unknown" if row.get(name) is None else str(row[name]))
        return text if len(text) <= WIDEST or name in {"pointer", "why"} else f"{text[: WIDEST - 3]}..."

    return table(columns, [[cell(row, name) for name in columns] for row in rows[:SHOWN_ROWS]])
