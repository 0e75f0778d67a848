"""Documents through one source, for the tests of sources: rows, spans and traces, and where each row went."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.families.traces import Exclusion, Trace
from projections.normal_form.export import trace_of
from projections.normal_form.lines import Cleaner
from projections.normal_form.sources import Row, source
from projections.normal_form.spans import Span

SHARED = Path(__file__).parents[4] / "shared" / "data" / "traces"


class Read(msgspec.Struct):
    """What a source made of documents."""

    rows: list[Row]
    exclusions: list[Exclusion]
    spans: dict[str, list[Span]]
    traces: dict[str, Trace]

    @property
    def only(self) -> Trace:
        (trace,) = self.traces.values()
        return trace

    @property
    def spoken(self) -> list[Span]:
        """The model calls, in their order."""
        found = [span for spans in self.spans.values() for span in spans]
        return sorted((span for span in found if operation(span) == "chat"), key=lambda span: span.order)

    @property
    def annotations(self) -> list[dict[str, str]]:
        found = [span for spans in self.spans.values() for span in spans]
        return [note for span in found for note in span.attributes.get("exp.annotations", [])]

    @property
    def reasons(self) -> list[str]:
        return sorted(one.reason for one in self.exclusions)

    def total(self, name: str) -> int:
        """The sum of an attribute over all model calls."""
        return sum(span.attributes.get(name, 0) for span in self.spoken)


def operation(span: Span) -> str:
    name: str = span.attributes.get("gen_ai.operation.name", "")
    return name


def read(name: str, *documents: Any) -> Read:
    """Read documents, one a line; what isn't in a span is an exclusion at its row's place, or this fails."""
    own = source(name)
    grouped: dict[str, list[Row]] = defaultdict(list)
    before: list[Exclusion] = []
    exclusions: list[Exclusion] = []
    for line, document in enumerate(documents, 1):
        for found in own.rows(document, f"line {line}"):
            if isinstance(found, Exclusion):
                before.append(found)
            else:
                grouped[found.trace].append(found)
    spans: dict[str, list[Span]] = {}
    traces: dict[str, Trace] = {}
    for key, rows in grouped.items():
        told = list(own.spans(rows))
        spans[key] = [one for one in told if not isinstance(one, Exclusion)]
        assert {one.trace for one in spans[key]} <= {key}
        placed = {one.place for one in told} | {place for span in spans[key] for place in span.merged}
        assert placed == {row.place for row in rows}
        made = trace_of(key, rows, own, Cleaner(lambda text: (text, 0)))
        assert sum(one.units for one in made.exclusions) <= len(rows)
        exclusions += made.exclusions
        if made.trace is not None:
            traces[key] = made.trace
    assert all(one.units == 1 for one in before)
    return Read([row for rows in grouped.values() for row in rows], before + exclusions, spans, traces)


def pairs(trace: Trace) -> list[tuple[str, str, str]]:
    return [(turn.tool, turn.arguments, turn.observation) for turn in trace.turns]


def shared(name: str) -> list[Any]:
    """The documents of a file of the shared data; without the folder, the test says so and is skipped."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the shared data isn't here: {path}")
    content = path.read_text()
    try:
        return [json.loads(content)]
    except ValueError:
        return [json.loads(line) for line in content.splitlines() if line.strip()]
