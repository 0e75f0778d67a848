"""Imported outcomes: tasks and scores of a router that was fitted on tables, where there is no rollout to be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from commands.optimizing import fitting
from commands.reporting.sheet import Asked, Cell, Origin
from ledger.errors import Refusal

if TYPE_CHECKING:
    from typing import Literal

    from ledger.families.outcomes import FitInputs, OutcomeImported
    from ledger.journal import Journal
    from projections.report import Routed


class _Text(msgspec.Struct):
    id: str
    prompt: str


class Imported:
    """The rows that a router was fitted and measured on, those that it was measured on first."""

    def __init__(self, journal: Journal, inputs: FitInputs, routed: Mapping[str, Routed]) -> None:
        self._journal = journal
        self._inputs = inputs
        self._routed = routed
        parts = fitting.split(journal, inputs)
        self._rows: tuple[tuple[Literal["fit", "held-out"], Sequence[OutcomeImported]], ...] = (
            ("held-out", parts.held_out),
            ("fit", parts.fit),
        )

    def tasks(self) -> Iterator[Asked]:
        """Yield the tasks, with their texts as far as these are still there."""
        for part, rows in self._rows:
            for row in rows:
                text = self._text(row)
                routed = self._routed.get(row.row)
                yield Asked(
                    id=row.row,
                    label=text.id or row.row,
                    part=part,
                    lineage=row.lineage,
                    text=text.prompt,
                    routed=routed.alias if routed else None,
                    why=routed.reason if routed else None,
                )

    def _text(self, row: OutcomeImported) -> _Text:
        try:
            return msgspec.json.decode(self._journal.blob(row.text.blob), type=_Text)
        except Refusal as gone:
            return _Text(id="", prompt=f"not reproducible: {gone.what}")

    def cells(self) -> Iterator[Cell]:
        """Yield what the candidates scored and cost; nobody's words came with it."""
        for part, rows in self._rows:
            for row in rows:
                routed = self._routed.get(row.row)
                for one in row.results:
                    if one.model in self._inputs.candidates:
                        yield Cell(
                            id=f"{row.row}:{one.model}",
                            task=row.row,
                            label=row.row,
                            part=part,
                            alias=one.model,
                            sample=0,
                            score=one.score,
                            reason=None if one.score is not None else "missing in the table",
                            problem="",
                            ended=None,
                            cost=one.cost,
                            routed=routed is not None and routed.alias == one.model,
                        )

    def provenance(self) -> Iterator[Origin]:
        """Yield the tables and rules."""
        for what, tables in (("fitted on table", self._inputs.tables), ("measured on table", self._inputs.held_out)):
            yield from (Origin(what=what, name=table) for table in tables)
        yield Origin(what="rules", name=", ".join(self._inputs.versions))
