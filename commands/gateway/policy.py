"""Policy: a project's frozen policy as the gateway asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commands.gateway.routing import Decided, Routed
from commands.gateway.wishes import Turned
from commands.policies import read_policy
from ledger.families.serving import Considered, Neighbour
from projections.features import request_features
from projections.policy import Dial, Policy, Price, Tolerance, decide

if TYPE_CHECKING:
    from ledger.journal import Journal


def routed(journal: Journal, project: str) -> Routed:
    """Return how a project's requests are routed; PolicyWanted when it has no policy."""
    policy = read_policy(journal, project)

    def decided(messages: list[dict[str, Any]], tools: list[dict[str, Any]], turned: Turned | None) -> Decided:
        return _decided(policy, messages, tools, turned)

    decided([{"role": "user", "content": ""}], [], None)  # what is computed once is computed before the first request
    return Routed(
        project=project,
        policy=policy.id,
        incumbent=policy.incumbent,
        evidence={candidate.alias: candidate.endpoint for candidate in policy.candidates},
        decide=decided,
    )


def _decided(
    policy: Policy, messages: list[dict[str, Any]], tools: list[dict[str, Any]], turned: Turned | None
) -> Decided:
    decision = decide(policy, request_features(messages, tools), _dial(turned))
    return Decided(
        alias=decision.alias,
        reason=decision.reason,
        candidates=tuple(
            Considered(alias=one.alias, score=one.score, incumbent=one.incumbent, cost=one.cost, verdict=one.verdict)
            for one in decision.candidates
        ),
        neighbours=tuple(Neighbour(task=one.task, similarity=one.similarity) for one in decision.neighbours),
    )


def _dial(turned: Turned | None) -> Dial | None:
    if turned is None:
        return None
    return Tolerance(millionths=turned.amount) if turned.by == "tolerance" else Price(nano_usd=turned.amount)
