"""Tallies: what traces hold and what was left out, counted the same way while reading and from the journal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from commands.render.result import Result
    from ledger.families.traces import Trace


class Left(msgspec.Struct):
    """What was left out for one reason: units that are in no trace, how often it was found, and where first."""

    units: int = 0
    count: int = 0
    first: str = ""


class Tally(msgspec.Struct):
    """Sums over traces and exclusions. ``units`` of the input are ``used``, or excluded for one of the reasons."""

    units: int = 0
    used: int = 0
    traces: int = 0
    new: int = 0
    refused: int = 0
    repeated: int = 0
    turns: int = 0
    empty: int = 0
    errors: int = 0
    annotations: int = 0
    tasks: int = 0
    conversations: int = 0
    pairing: Counter[str] = msgspec.field(default_factory=Counter)
    redactions: Counter[str] = msgspec.field(default_factory=Counter)
    left: dict[str, Left] = msgspec.field(default_factory=dict)

    @property
    def excluded(self) -> int:
        """How many units are in no trace."""
        return sum(one.units for one in self.left.values())

    def take(self, trace: Trace) -> None:
        """Count a trace."""
        self.traces += 1
        self.turns += len(trace.turns)
        self.annotations += len(trace.annotations)
        self.tasks += bool(trace.task_id)
        self.conversations += bool(trace.conversation_id)
        for turn in trace.turns:
            self.empty += not turn.observation
            self.errors += turn.error
            self.pairing[turn.paired or ("call-id" if turn.call_id else "span")] += 1

    def leave(self, reason: str, units: int, count: int, place: str) -> None:
        """Count an exclusion or a finding."""
        left = self.left.setdefault(reason, Left(first=place))
        left.units += units
        left.count += count

    def add(self, other: Tally) -> None:
        """Count all that another tally counts."""
        for field in _SUMS:
            setattr(self, field, getattr(self, field) + getattr(other, field))
        self.pairing.update(other.pairing)
        self.redactions.update(other.redactions)
        for reason, one in other.left.items():
            self.leave(reason, one.units, one.count, one.first)


_SUMS = tuple(field.name for field in msgspec.structs.fields(Tally) if field.type is int)


def say(result: Result, tally: Tally) -> None:
    """Say a tally: its totals, then what was left out, and what was found, by reason."""
    for key, value in (
        ("units", tally.units),
        ("used", tally.used),
        ("excluded-units", tally.excluded),
        ("traces", tally.traces),
        ("traces-without-steps", tally.refused),
        ("turns", tally.turns),
        ("observations-empty", tally.empty),
        ("observations-error", tally.errors),
        ("repeated", tally.repeated),
        ("annotations", tally.annotations),
        ("traces-with-task-id", tally.tasks),
        ("traces-with-conversation-id", tally.conversations),
    ):
        result.line(key, value)
    for way, count in sorted(tally.pairing.items()):
        result.item("paired", {"by": way, "count": count})
    result.line("redactions", tally.redactions.total())
    for detector, count in sorted(tally.redactions.items()):
        result.item("redacted", {"detector": detector, "count": count})
    for name, left in sorted(tally.left.items()):
        facts: dict[str, str | int | None] = {"count": left.count, "first": left.first}
        if left.units:
            result.item("excluded", {"reason": name, "units": left.units, **facts})
        else:
            result.item("finding", {"reason": name, **facts})
