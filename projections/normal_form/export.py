"""An export as a whole: documents to rows to traces. Each row is in a trace, or in an exclusion that counts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ledger.families.traces import Exclusion, Trace
from projections.normal_form.lines import Cleaner, Document, Documents, Line, Redact
from projections.normal_form.sources import Row, Source, source
from projections.normal_form.spans import Span
from projections.normal_form.steps import Formed, normal_form

_encode = msgspec.json.Encoder(order="sorted").encode
MOST_LISTED = 1_000  # of one reason; the rest is counted
MOST_DETAIL = 2_000


class Totals(msgspec.Struct):
    """What became of an input. ``units`` are its rows: each is used, or excluded once."""

    units: int = 0
    used: int = 0
    excluded: int = 0
    traces: int = 0
    turns: int = 0
    refused: int = 0  # traces without steps, or that can't be walked
    duplicate: int = 0  # traces that are there more than once, as a whole
    redactions: int = 0
    reasons: Counter[str] = msgspec.field(default_factory=Counter)  # units excluded, by reason
    findings: Counter[str] = msgspec.field(default_factory=Counter)  # what was found, by reason
    paired: Counter[str] = msgspec.field(default_factory=Counter)  # turns by how they were paired


class Export(msgspec.Struct):
    """What an export holds: its traces by name, and everything that isn't in them."""

    traces: tuple[Trace, ...]
    exclusions: tuple[Exclusion, ...]
    refused: int
    duplicate: int
    redactions: int
    totals: Totals


class Account:
    """Counts what becomes of rows, and lists what is excluded: the first thousand of a reason, then how many more."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._listed: Counter[str] = Counter()
        self._rest: dict[str, Exclusion] = {}

    def exclusions(self, found: Iterable[Exclusion]) -> Iterator[Exclusion]:
        """Yield what is to be listed of findings, one for each place and reason."""
        merged: dict[tuple[str, str], Exclusion] = {}
        for one in found:
            key = one.reason, one.place
            merged[key] = _joined(merged[key], one) if key in merged else one
        for one in merged.values():
            self.totals.excluded += one.units
            self.totals.reasons[one.reason] += one.units
            self.totals.findings[one.reason] += one.count
            self._listed[one.reason] += 1
            if self._listed[one.reason] <= MOST_LISTED:
                yield msgspec.structs.replace(one, detail=one.detail[:MOST_DETAIL])
            else:
                rest = self._rest.get(one.reason)
                more = msgspec.structs.replace(one, place="elsewhere", detail="")
                self._rest[one.reason] = _joined(rest, more) if rest else more

    def rest(self) -> Iterator[Exclusion]:
        """Yield one exclusion for all of a reason that weren't listed."""
        for reason in sorted(self._rest):
            yield self._rest[reason]

    def trace(self, rows: int, made: Made) -> None:
        """Count a trace, or none, of so many rows."""
        totals = self.totals
        totals.used += rows - sum(one.units for one in made.exclusions)
        totals.duplicate += made.duplicate
        if made.trace is None:
            totals.refused += 1
            return
        totals.traces += 1
        totals.turns += len(made.trace.turns)
        for turn in made.trace.turns:
            totals.paired[turn.paired or ("call-id" if turn.call_id else "span")] += 1


class Made(msgspec.Struct):
    """What all rows of one trace give; ``places`` are those of the rows that are in it."""

    trace: Trace | None
    exclusions: list[Exclusion]
    duplicate: bool = False
    places: tuple[str, ...] = ()


def rows(found: Iterable[Document | Exclusion], reader: Source) -> Iterator[Row | Exclusion]:
    """Yield the rows of documents; what can't be walked is an exclusion."""
    for one in found:
        if isinstance(one, Exclusion):
            yield one
            continue
        place, value, clean = one
        try:
            for row in reader.rows(value, place):
                if clean and isinstance(row, Row):
                    row.clean = True
                yield row
        except RecursionError:
            yield Exclusion(place=place, reason="nested-too-deeply", units=1)


def trace_of(name: str, given: Sequence[Row], reader: Source, cleaner: Cleaner) -> Made:
    """Return what rows of one trace give; each of them is in the trace, or counted by one exclusion."""
    clean = str if all(row.clean for row in given) else cleaner.text
    exclusions: list[Exclusion] = []
    spans: dict[str, Span] = {}
    again: list[Span] = []
    try:
        for one in reader.spans(given):
            if isinstance(one, Exclusion):
                exclusions.append(one)
                continue
            before = spans.setdefault(one.digest, one)
            if before is not one:
                if before.resource != one.resource and _told(one) > _told(before):
                    spans[one.digest], one = one, before  # noqa: PLW2901 - which of them is used isn't up to their order
                again.append(one)
        formed = normal_form(name, spans.values(), clean) if spans else Formed(None, [], set())
    except RecursionError:
        place = min(row.place for row in given)
        formed = Formed(None, [Exclusion(place=place, reason="nested-too-deeply", detail=name)], set())
    whole = bool(again) and spans.keys() == {one.digest for one in again}
    repeated = "trace-repeated" if whole else "span-repeated"
    exclusions += formed.exclusions
    exclusions += _reused(spans.values())
    merged = [span.merged for span in spans.values() if span.merged and span.place in formed.used]
    places = formed.used.intersection([span.place for span in spans.values()]).union(*merged)
    unused = [row.place for row in given if row.place not in places]
    if not unused and not exclusions:
        return Made(formed.trace, [], whole, tuple([row.place for row in given]))
    counted = _counted(unused, {span.place for span in again}, exclusions, repeated)
    named = {span.place: f"{span.span} {span.name}" for span in spans.values()}
    counted = [
        msgspec.structs.replace(one, detail=clean(named[one.place]))
        if one.units and one.place in named and not one.detail
        else one
        for one in counted
    ]
    return Made(formed.trace, counted, whole, tuple(row.place for row in given if row.place in places))


def _told(span: Span) -> tuple[int, bytes]:
    """Return what decides between spans that only differ in their resource: the most said, then any order."""
    return len(span.resource), _encode(span.resource)


def _counted(unused: Sequence[str], again: set[str], exclusions: Sequence[Exclusion], repeated: str) -> list[Exclusion]:
    """Return exclusions that count every unused row once: by the first that names its place, or a new one."""
    left = Counter(unused)  # an input that is named twice has the same places
    listed: list[Exclusion] = []
    if extra := [place for place in left if place in again]:
        units = sum(left.pop(place) for place in extra)
        listed.append(Exclusion(place=extra[0], reason=repeated, count=len(extra), units=units))
    listed += [msgspec.structs.replace(one, units=left.pop(one.place, 0)) for one in exclusions]
    refused = next((at for at, one in enumerate(listed) if one.reason in _REFUSALS), None)
    if refused is not None:
        units = listed[refused].units + left.total()
        listed[refused] = msgspec.structs.replace(listed[refused], units=units)
        return listed
    return [*listed, *(Exclusion(place=place, reason="row-adds-nothing", units=count) for place, count in left.items())]


_REFUSALS = frozenset({"trace-without-steps", "nested-too-deeply"})


def _reused(spans: Iterable[Span]) -> Iterator[Exclusion]:
    """Yield a finding for each span id that spans of different content have; all of them are read."""
    ids: set[str] = set()
    for span in spans:
        if span.span in ids:
            yield Exclusion(place=span.place, reason="span-id-reused", detail=span.span)
        ids.add(span.span)


def _joined(one: Exclusion, other: Exclusion) -> Exclusion:
    return msgspec.structs.replace(
        one, count=one.count + other.count, units=one.units + other.units, detail=one.detail or other.detail
    )


def read_export(lines: Iterable[Line], redact: Redact, name: str = "otlp") -> Export:
    """Return the traces of an export that fits into memory. The order of its lines decides nothing but places."""
    cleaner, reader, account = Cleaner(redact), source(name), Account()
    gathered: dict[str, list[Row]] = {}
    before: list[Exclusion] = []
    for one in rows(Documents(lines, cleaner), reader):
        if isinstance(one, Exclusion):
            before.append(one)
            account.totals.units += one.units
        else:
            account.totals.units += 1
            gathered.setdefault(one.trace, []).append(one)
    exclusions = list(account.exclusions(before))
    traces: list[Trace] = []
    for key in sorted(gathered):
        made = trace_of(key, gathered[key], reader, cleaner)
        account.trace(len(gathered[key]), made)
        exclusions += account.exclusions(made.exclusions)
        if made.trace is not None:
            traces.append(made.trace)
    totals = account.totals
    totals.redactions = cleaner.redactions
    exclusions += account.rest()
    return Export(tuple(traces), tuple(exclusions), totals.refused, totals.duplicate, totals.redactions, totals)
