"""What a query is refused for, by name."""

from __future__ import annotations

from pathlib import Path

from commands.render.plain import one_line
from ledger.errors import Refusal

SHOWN = 200


class QueryRefused(Refusal, name="query-refused", exit_code=110):
    """SQL that can't be understood, that asks for what isn't there, or that would do more than read."""

    def __init__(self, problem: str, sql: str) -> None:
        text = one_line(sql)
        super().__init__(
            f"the query can't be answered: {problem}",
            where="an empty query" if not text.strip() else text if len(text) <= SHOWN else f"{text[:SHOWN]}...",
            remedy="one SELECT over the views, which `exp query` lists; docs/reading.md describes their columns",
        )


class QueryTooLong(Refusal, name="query-too-long", exit_code=218):
    """A query took more time than it was given."""

    def __init__(self, seconds: int, sql: str) -> None:
        text = one_line(sql)
        super().__init__(
            f"the query was stopped after {seconds} seconds",
            where=text if len(text) <= SHOWN else f"{text[:SHOWN]}...",
            remedy="ask for less, or give it more time with --time-limit",
        )


class DatabaseInTheWay(Refusal, name="database-in-the-way", exit_code=219):
    """The database of views can't be written where it belongs or was asked for."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the views can't be written: {problem}; nothing was replaced",
            where=str(path),
            remedy="with --output name a file that isn't there yet, in a directory that can be written; "
            "a views.db in the root may be deleted",
        )
