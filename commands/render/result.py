"""The result of a command on stdout: ``key: value`` lines as they come, or one JSON object at the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from commands.render.json_text import json_text
from commands.render.plain import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | int | bool | None
UNKNOWN = "unknown"


def _shown(value: Value) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(str(value))


def _field(value: Value) -> str:
    """Return a field of an item; one with blanks or quotes in it is quoted, so that the line can be split again."""
    text = _shown(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(mark in text for mark in ' "=') else text


class Result:
    """What a command answers. Every line has its twin in JSON; a key given twice becomes a list there."""

    def __init__(self, as_json: bool) -> None:  # noqa: FBT001 - the flag is the whole constructor
        self.as_json = as_json
        self._values: dict[str, object] = {}
        self._repeated: set[str] = set()

    def line(self, key: str, value: Value) -> None:
        """Say one fact. In text it is printed at once, on one line whatever the terminal's width."""
        if not self.as_json:
            click.echo(f"{key}: {_shown(value)}")
        elif key in self._repeated:
            self._list(key).append(value)
        elif key in self._values:
            self._repeated.add(key)
            self._values[key] = [self._values[key], value]
        else:
            self._values[key] = value

    def item(self, key: str, fields: Mapping[str, Value]) -> None:
        """Say one row: ``key: FIRST second=2 third=3``; in JSON the rows of a key are a list of objects."""
        if self.as_json:
            self._list(key).append(dict(fields))
            return
        (_, first), *rest = fields.items()
        click.echo(" ".join([f"{key}: {_shown(first)}", *(f"{name}={_field(value)}" for name, value in rest)]))

    def document(self, key: str, value: object) -> None:
        """Say in JSON what text says in other lines: a value of plain lists, objects, texts and integers."""
        if self.as_json:
            self._values[key] = value

    def text(self, text: str) -> None:
        """Say something in words; in JSON it is among the ``notes``."""
        if self.as_json:
            self._list("notes").append(text)
        else:
            click.echo(printable(text))

    def finish(self) -> None:
        """Print the JSON object; nothing in text, where all has been said."""
        if self.as_json:
            click.echo(json_text(self._values, indent=2))

    def _list(self, key: str) -> list[object]:
        rows = self._values.setdefault(key, [])
        if not isinstance(rows, list):
            rows = self._values[key] = [rows]
        return rows
