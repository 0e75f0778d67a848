"""Printing an answer: a table, CSV or JSON, each as the rows come where it can be."""

from __future__ import annotations

import base64
import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from commands.querying.refusals import QueryRefused
from commands.render.json_text import json_text
from commands.render.plain import printable
from commands.render.table import table

if TYPE_CHECKING:
    from commands.querying.asking import Answer

MOST_ROWS = 10_000  # of a table, whose widths are known only once all rows are
SHOWN_BYTES = 16
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_table(answer: Answer, sql: str) -> Iterator[str]:
    """Yield the answer as one table; QueryRefused when it has too many rows for that."""
    rows = list(itertools.islice(answer.rows, MOST_ROWS + 1))
    if len(rows) > MOST_ROWS:
        raise QueryRefused(f"more than {MOST_ROWS} rows are no table; use --csv, --json or LIMIT", sql)
    yield table(answer.columns, [[_cell(value) for value in row] for row in rows])


def as_csv(answer: Answer) -> Iterator[str]:
    """Yield lines of CSV. Nothing in them acts on a terminal, and no text is a formula to a spreadsheet."""
    yield _csv_line([_harmless(column) for column in answer.columns])
    for row in answer.rows:
        yield _csv_line(["" if value is None else _harmless(value) for value in row])


def as_json(answer: Answer, position: int) -> Iterator[str]:
    """Yield one JSON object, a row a line: the journal's position, and the rows as objects."""
    names = _distinct(answer.columns)
    yield f'{{"position": {position}, "rows": ['
    before = ""
    for row in answer.rows:
        yield before + json_text(dict(zip(names, map(_plain, row), strict=True)))
        before = ","
    yield "]}"


def _csv_line(values: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue().removesuffix("\n")


def _harmless(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        more = "..." if len(value) > SHOWN_BYTES else ""
        return f"x'{value[:SHOWN_BYTES].hex()}{more}'"
    return str(value)


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value of SQL
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def _distinct(columns: Sequence[str]) -> list[str]:
    """Return names of which none is there twice, so that no value is lost."""
    names: list[str] = []
    for column in columns:
        name = column
        for number in itertools.count(2):
            if name not in names:
                break
            name = f"{column}_{number}"
        names.append(name)
    return names
