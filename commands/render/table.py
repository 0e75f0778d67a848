"""Small tables in plain text: columns as wide as their widest cell, numbers to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.render.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the table; a column is set right when every one of its cells begins with a digit."""
    head, *cells = [[one_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [all(cell[:1].isdigit() for cell in column) for column in zip(*cells, strict=True)] or [False] * len(head)
    lines = [head, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )
