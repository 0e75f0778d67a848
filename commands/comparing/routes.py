"""Routes: why a policy sends a task where it sends it, beside another policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from commands.optimizing.words import UNKNOWN, dollars
from projections import features, policy
from projections.policy import Decision, Policy, Scored

if TYPE_CHECKING:
    from commands.optimizing.planning import Plan
    from ledger.families.policies import PolicyFrozen
    from ledger.journal import Journal

SHOWN = 5


class Router:
    """A frozen policy, and the tasks that it is asked about."""

    def __init__(self, journal: Journal, plan: Plan, frozen: PolicyFrozen) -> None:
        self._policy = msgspec.json.decode(journal.blob(frozen.content.blob), type=Policy)
        self._plan = plan
        self._texts = {task.id: task.text for task in plan.build.tasks}
        self._lineages = {task.id: task.lineage for task in plan.build.tasks}

    def against(self, other: Router, task: str, twin: str) -> Iterator[str]:
        """Yield what differs between two decisions about a task, in words."""
        mine, theirs = self.decided(task), other.decided(twin)
        twins = {one.alias: one for one in theirs.candidates}
        if self._policy.incumbent != other._policy.incumbent:
            yield f"the incumbent was {self._policy.incumbent} and is {other._policy.incumbent}"
        for one in mine.candidates:
            after = twins.pop(one.alias, None)
            if after is None:
                yield f"{one.alias} is no candidate any more"
            elif one != after:
                yield f"{one.alias}: {_words(one)}, now {_words(after)}"
        for alias, after in twins.items():
            yield f"{alias} is a candidate now: {_words(after)}"
        if changed := self._neighbours(other, mine):
            yield f"neighbours with other scores: {' '.join(changed[:SHOWN])}" + (
                f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            )

    def decided(self, task: str) -> Decision:
        """Return the decision about a task."""
        vector = features.task_features([self._texts[task]], self._plan.build.tools)[0]
        return policy.decide(self._policy, vector)

    def scores(self) -> dict[str, dict[str, int | None]]:
        """Return each candidate's score by lineage of the fit task."""
        aliases = [candidate.alias for candidate in self._policy.candidates]
        return {row.lineage: dict(zip(aliases, row.scores, strict=True)) for row in self._policy.rows}

    def _neighbours(self, other: Router, mine: Decision) -> list[str]:
        before, after = self.scores(), other.scores()
        lineages = [self._lineages[near.task] for near in mine.neighbours]
        return [self._plan.build.trace_id(one) for one in lineages if one in after and before[one] != after[one]]


def _words(one: Scored) -> str:
    scores = [UNKNOWN if value is None else str(value) for value in (one.score, one.incumbent)]
    return f"{one.verdict} ({scores[0]} against {scores[1]} millionths, {dollars(one.cost)} USD a cell)"
