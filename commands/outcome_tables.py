"""Outcome tables: JSON lines of what models scored and cost on prompts, read exactly and recorded as events.

A line is an object with ``id``, ``prompt``, ``task`` and one of: ``models``, from name to ``score`` and ``cost`` (or a
list of objects that also have ``model``); ``scores`` and ``costs``, from name to number; or, as RouterBench has it,
``NAME`` and ``NAME|total_cost`` beside the rest. Scores are from 0 to 1, costs in dollars. What is null or not there is
missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from blake3 import blake3

from commands.regular_file import open_regular
from commands.whole_file import FileUnreadable
from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import outcomes
from ledger.families.outcomes import CompleteOutcomes, OutcomeImported, OutcomesImported, RecordOutcomes, Result
from ledger.money import NANO

if TYPE_CHECKING:
    from pathlib import Path

    from ledger.journal import Journal

SCALE = 1_000_000
MOST_COST = 10**6  # dollars a prompt
TOGETHER = 512
LONGEST_NAME = 200
MOST_DIGITS = 12
COST_MARK = "|total_cost"
IDS = ("id", "sample_id")
TASKS = ("task", "eval_name")
RESULTS = ("models", "outcomes", "results")
_BESIDE = frozenset({*IDS, *TASKS, "prompt", "lineage", "oracle_model_to_route_to"})


class OutcomesUnreadable(Refusal, name="outcomes-unreadable", exit_code=126):
    """A line of a table isn't an outcome; nothing was recorded."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(
            f"line {line} is no outcome: {problem}; nothing was recorded",
            where=str(path),
            remedy='a line is {"id": "...", "prompt": "...", "task": "...", "models": {"NAME": {"score": 0.5, "cost": '
            "0.002}}}, with scores from 0 to 1 and costs in dollars; leave out or null what is missing",
        )


class _Problem(Exception):
    """What is wrong with a line."""


class Row:
    """A line of a table, read."""

    def __init__(self, line: Mapping[str, Any]) -> None:
        self.id = _named(line, IDS) or ""
        prompt = line.get("prompt")
        if not self.id:
            raise _Problem("it has no id")
        if not isinstance(prompt, str):
            raise _Problem("it has no prompt, which is a text")
        self.text = canonical.encode({"id": self.id, "prompt": prompt, "task": _named(line, TASKS) or ""})
        # Equal prompts stay on one side of a split, and are drawn together.
        lineage = _named(line, ("lineage",))
        self.lineage = digests.content_digest((f"lineage:{lineage}" if lineage else f"prompt:{prompt}").encode())
        self.results = tuple(
            Result(model=name, score=score, cost=cost) for name, (score, cost) in sorted(_results(line).items())
        )
        if not self.results:
            raise _Problem("it has no model")


def _named(line: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    value = next((line[key] for key in keys if line.get(key) is not None), None)
    if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
        raise _Problem(f"its {keys[0]} is no text")
    return None if value is None else str(value)


def _results(line: Mapping[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    given = next((line[key] for key in RESULTS if key in line), None)
    if isinstance(given, list):
        given = {one.get("model"): one for one in given if isinstance(one, dict)}
    if isinstance(given, dict):
        pairs = {
            name: (one.get("score"), _either(one)) if isinstance(one, dict) else (one, None)
            for name, one in given.items()
        }
    elif isinstance(line.get("scores"), dict):
        costs = line.get("costs")
        costs = costs if isinstance(costs, dict) else {}
        pairs = {name: (score, costs.get(name)) for name, score in line["scores"].items()}
    else:
        flat = [key for key in line if f"{key}{COST_MARK}" in line and key not in _BESIDE]
        pairs = {name: (line[name], line[f"{name}{COST_MARK}"]) for name in flat}
    return {_model(name): (_score(name, score), _cost(name, cost)) for name, (score, cost) in pairs.items()}


def _either(one: Mapping[str, Any]) -> object:
    return one["cost"] if "cost" in one else one.get("cost_usd")


def _model(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isascii() or not name.isprintable():
        raise _Problem(f"{name!r} is no name of a model: printable ASCII, at most {LONGEST_NAME} characters")
    return name


def _number(value: object, scale: int) -> int | None:
    """Return a number in units of a scale, rounded once, halves up; None for one that is missing."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise _Problem(f"{value!r} is no number")
    number = Decimal(value)
    if number.adjusted() > MOST_DIGITS:
        raise _Problem(f"{value} is too large")
    return int((number * scale).to_integral_value(ROUND_HALF_UP))


def _score(name: object, value: object) -> int | None:
    score = _number(value, SCALE)
    if score is not None and not 0 <= score <= SCALE:
        raise _Problem(f"the score {value} of {name} isn't from 0 to 1")
    return score


def _cost(name: object, value: object) -> int | None:
    cost = _number(value, NANO)
    if cost is not None and not 0 <= cost <= MOST_COST * NANO:
        raise _Problem(f"the cost {value} of {name} isn't from 0 to {MOST_COST} dollars")
    return cost


def _no_constant(name: str) -> None:
    raise _Problem(f"{name} is no number")


def read_table(path: Path) -> tuple[list[Row], str]:
    """Return the rows of a table in order of their texts, and the digest of its bytes."""
    digest, rows, seen = blake3(), [], set()
    try:
        with open_regular(path) as file:
            for number, line in enumerate(file, 1):
                digest.update(line)
                if not line.strip():
                    continue
                try:
                    row = _row(line)
                except _Problem as problem:
                    raise OutcomesUnreadable(path, number, str(problem)) from None
                if row.id in seen:
                    raise OutcomesUnreadable(path, number, f"the id {row.id!r} was there before")
                seen.add(row.id)
                rows.append(row)
    except OSError as error:
        raise FileUnreadable(path, error.strerror or str(error)) from error
    if not rows:
        raise OutcomesUnreadable(path, 1, "the file is empty")
    return sorted(rows, key=lambda row: row.text), digests.named(digest.digest())


def _row(line: bytes) -> Row:
    try:
        read = json.loads(line, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _Problem(f"it isn't JSON ({error})") from None
    if not isinstance(read, dict):
        raise _Problem("it is no object")
    try:
        return Row(read)
    except (canonical.NotCanonical, UnicodeEncodeError):
        raise _Problem("its text has half of a character") from None


def record_table(
    journal: Journal, project: str, path: Path, *, held_out: bool = False
) -> tuple[OutcomesImported, bool]:
    """Record a table that isn't there yet; return it, and whether it is new. The journal folds the family."""
    rows, source = read_table(path)
    named = digests.content_digest(
        canonical.digest_input("outcomes", [[row.text.decode(), row.lineage, *_plain(row)] for row in rows])
    )
    table = f"outcomes-{named[3:35]}"
    state: outcomes.Outcomes = journal.state(outcomes.FAMILY)
    if (known := state.known(project, held_out=held_out).get(table)) is not None:
        return known, False
    names = sorted({result.model for row in rows for result in row.results})
    completed = OutcomesImported(
        project=project,
        table=table,
        source=source,
        rows=len(rows),
        models=tuple(names),
        missing=len(names) * len(rows) - sum(one.score is not None for row in rows for one in row.results),
        held_out=held_out,
    )
    waiting = iter(rows)
    while group := list(islice(waiting, TOGETHER)):
        blobs = Blobs()
        events = tuple(_event(project, table, row, blobs) for row in group)
        journal.submit(Step(outcomes.FAMILY, RecordOutcomes(rows=events)), blobs=blobs).result()
    journal.submit(Step(outcomes.FAMILY, CompleteOutcomes(completed=completed))).result()
    return completed, True


def _plain(row: Row) -> Iterator[list[object]]:
    for result in row.results:
        yield [result.model, result.score, result.cost]


def _event(project: str, table: str, row: Row, blobs: Blobs) -> OutcomeImported:
    text = blobs.put(row.text, "application/json")
    return OutcomeImported(
        project=project, table=table, row=row_of(text.blob), lineage=row.lineage, text=text, results=row.results
    )


def row_of(text: str) -> str:
    """Return the name of a row, given the digest of its text."""
    return f"row-{text[3:35]}"


def recorded_rows(journal: Journal, project: str, table: str) -> list[OutcomeImported]:
    """Return the rows of a table in order of their names."""
    records = journal.events(OutcomeImported, stream=f"outcomes:{project}:{table}")
    return sorted((cast("OutcomeImported", record.event) for record in records), key=lambda row: row.row)
