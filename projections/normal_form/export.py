"""An export as a whole: lines to spans to traces, each counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ledger.families.traces import Exclusion, Trace
from projections.normal_form.lines import Cleaner, Documents, Line, Redact
from projections.normal_form.spans import Span, spans
from projections.normal_form.steps import normal_form

MOST_LISTED = 1_000  # of one reason; the rest is counted
MOST_DETAIL = 2_000


class Export(msgspec.Struct):
    """What an export holds: its traces by name, and everything that isn't in them."""

    traces: tuple[Trace, ...]
    exclusions: tuple[Exclusion, ...]
    refused: int
    duplicate: int
    redactions: int


class _Gathered(msgspec.Struct):
    """The spans of one trace by digest, and how often each was found."""

    spans: dict[str, Span] = msgspec.field(default_factory=dict)
    found: Counter[str] = msgspec.field(default_factory=Counter)
    again: str = ""

    def take(self, span: Span) -> None:
        """Keep a span once."""
        self.found[span.digest] += 1
        if span.digest in self.spans:
            self.again = self.again or span.place
        else:
            self.spans[span.digest] = span


def read_export(lines: Iterable[Line], redact: Redact) -> Export:
    """Return the traces of an export of OTLP spans. The order of its lines decides nothing but the places named."""
    cleaner = Cleaner(redact)
    documents = Documents(lines, cleaner)
    gathered: dict[str, _Gathered] = {}
    exclusions: list[Exclusion] = []
    for number, value in documents:
        for found in spans(value, f"line {number}"):
            if isinstance(found, Exclusion):
                exclusions.append(found)
            else:
                gathered.setdefault(found.trace, _Gathered()).take(found)
    traces: list[Trace] = []
    refused = duplicate = 0
    for name in sorted(gathered):
        trace = gathered[name]
        if trace.again:
            whole = min(trace.found.values()) > 1
            duplicate += whole
            reason = "trace-repeated" if whole else "span-repeated"
            extra = sum(trace.found.values()) - len(trace.spans)
            exclusions.append(Exclusion(place=trace.again, reason=reason, detail=name, count=extra))
        try:
            made, without = normal_form(name, trace.spans.values(), cleaner.text)
        except RecursionError:
            place = min(span.place for span in trace.spans.values())
            made, without = None, [Exclusion(place=place, reason="nested-too-deeply", detail=name)]
        exclusions += without
        if made is None:
            refused += 1
        else:
            traces.append(made)
    listed = _listed(documents.exclusions + exclusions)
    return Export(tuple(traces), listed, refused, duplicate, cleaner.redactions)


def _listed(exclusions: Iterable[Exclusion]) -> tuple[Exclusion, ...]:
    """Return one exclusion for each place and reason; beyond a thousand of a reason, one for all that remain."""
    merged: dict[tuple[str, str], Exclusion] = {}
    for one in exclusions:
        known = merged.get((one.reason, one.place))
        merged[one.reason, one.place] = msgspec.structs.replace(
            known or one, count=one.count + (known.count if known else 0), detail=one.detail[:MOST_DETAIL]
        )
    listed: list[Exclusion] = []
    seen: Counter[str] = Counter()
    rest: Counter[str] = Counter()
    for one in merged.values():
        seen[one.reason] += 1
        if seen[one.reason] > MOST_LISTED:
            rest[one.reason] += one.count
        else:
            listed.append(one)
    listed += [Exclusion(place="elsewhere", reason=reason, count=count) for reason, count in sorted(rest.items())]
    return tuple(listed)
