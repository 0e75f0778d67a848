"""Spending: what each part of an optimization cost, this run's own calls apart from those that other runs paid for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from commands.reporting.sheet import Role, Spent
from ledger.families.calls import (
    CallAnswered,
    CallEvent,
    CallFailed,
    CallLost,
    CallReleased,
    CallReserved,
    TextEmbedded,
)

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.money import NanoUSD

EMBEDDER: Role = "embedder"


class Wanted(NamedTuple):
    """Which calls are counted: those about these questions, and those of these runs, each as a part."""

    run: str
    questions: Mapping[str, Role]
    runs: Mapping[str, Role]


class _Sum:
    def __init__(self) -> None:
        self.calls = 0
        self.settled: NanoUSD = 0
        self.ambiguous: NanoUSD = 0
        self.unpriced = 0
        self.unanswered = 0
        self.tokens: list[tuple[int | None, int | None]] = []

    def open(self, worst: NanoUSD) -> None:
        self.calls += 1
        self.ambiguous += worst
        self.unanswered += 1

    def end(self, event: CallEvent, worst: NanoUSD) -> None:
        if isinstance(event, CallReleased):
            return
        self.calls += 1
        if isinstance(event, (CallFailed, CallLost)):
            self.unanswered += 1
        cost = getattr(event, "cost", None)
        if cost is None:
            self.ambiguous += worst
            self.unpriced += not isinstance(event, CallLost)
        else:
            self.settled += cost
        if isinstance(event, CallAnswered):
            self.tokens.append((event.usage.input_tokens, event.usage.output_tokens))


def spent(journal: Journal, wanted: Wanted) -> tuple[Spent, ...]:
    """Return what the calls cost, a part, model and run at a time, in the order in which they were first made."""
    embedding = {record.event.call for record in journal.events(TextEmbedded) if isinstance(record.event, TextEmbedded)}
    sums: dict[tuple[Role, str, str], _Sum] = {}
    reserved: dict[str, CallReserved] = {}
    for event in _ends(journal):
        if isinstance(event, CallReserved):
            reserved[event.key or ""] = event
            continue
        before = reserved.pop(f"{event.question}:{event.attempt}:{event.dispatch}", None)
        part = _part(wanted, event, embedding)
        if part is not None and before is not None:
            sums.setdefault((part, before.alias, event.run), _Sum()).end(event, before.worst_case or 0)
    for event in reserved.values():  # whoever made them is gone, or still waits: nobody knows what they cost
        part = _part(wanted, event, embedding)
        if part is not None:
            sums.setdefault((part, event.alias, event.run), _Sum()).open(event.worst_case or 0)
    return tuple(_row(wanted, place, one) for place, one in sums.items() if one.calls)


def _ends(journal: Journal) -> Iterable[CallEvent]:
    for record in journal.events(CallReserved, CallAnswered, CallFailed, CallReleased, CallLost):
        if isinstance(record.event, CallEvent):
            yield record.event


def _part(wanted: Wanted, event: CallEvent, embedding: set[str]) -> Role | None:
    part = wanted.runs.get(event.run) or wanted.questions.get(event.question)
    if part is None and event.run == wanted.run:
        return EMBEDDER if event.question in embedding else "other"
    return part


def _row(wanted: Wanted, place: tuple[Role, str, str], one: _Sum) -> Spent:
    part, alias, run = place
    return Spent(
        part=part,
        alias=alias,
        run=run,
        own=run == wanted.run,
        calls=one.calls,
        settled=one.settled,
        ambiguous=one.ambiguous,
        unpriced=one.unpriced,
        unanswered=one.unanswered,
        input_tokens=_total([tokens[0] for tokens in one.tokens]),
        output_tokens=_total([tokens[1] for tokens in one.tokens]),
    )


def _total(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
