"""Verdicts: what a replay found about one thing that was published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from ledger.differences import Difference, first_difference

Status = Literal["identical", "differs", "not-reproducible"]
Kind = Literal["build", "calibration", "run", "policy", "report", "decision"]


class Verdict(NamedTuple):
    """Whether recomputing gives what was published; if not, where it differs first, and from which events it came."""

    kind: Kind
    id: str
    project: str
    status: Status
    difference: Difference | None = None
    events: tuple[int, ...] = ()
    why: str = ""


class Subject(NamedTuple):
    """What a verdict is about."""

    kind: Kind
    id: str
    project: str

    def identical(self) -> Verdict:
        return Verdict(*self, "identical")

    def differs(self, why: str, events: Sequence[int], difference: Difference | None = None) -> Verdict:
        return Verdict(*self, "differs", difference, tuple(events), why)

    def lost(self, why: str, events: Sequence[int]) -> Verdict:
        """Return that it can't be computed again, and why; that is neither a yes nor a no."""
        return Verdict(*self, "not-reproducible", None, tuple(events), why)

    def compared(self, recorded: object, derived: object, origins: Callable[[str], Sequence[int]]) -> Verdict:
        """Compare two JSON values; ``origins`` returns the events that what is at a pointer comes from."""
        difference = first_difference(recorded, derived)
        if difference is None:
            return self.identical()
        return self.differs("the recorded facts lead to another value", origins(difference.pointer), difference)
