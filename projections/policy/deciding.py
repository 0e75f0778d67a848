"""Deciding: a frozen policy, and where one request goes under it.

A policy holds everything that decides: the fit tasks with their scores, the method, the dial. Everything is decided on
integers and fractions, so that it is decided alike everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from ledger import canonical, digests
from ledger.event import Fact
from ledger.money import NanoUSD
from projections.policy.choice import Operating, Trial, fit
from projections.policy.dial import Dial, Field, Tolerance, Verdict, in_words
from projections.policy.evidence import Candidate, Evidence, Row
from projections.policy.methods import (
    Centres,
    Clusters,
    Method,
    Overall,
    by_clusters,
    clustered,
    leaned,
    nearest,
    predict,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHOWN = 25  # neighbours that a decision names

Reason = Literal[
    "cheapest-not-worse",
    "worth-more",
    "no-cheaper-candidate-is-as-good",
    "no-evidence-for-a-cheaper-candidate",
    "nothing-is-worth-more",
    "routing-did-not-pay",
]


class Scored(Fact):
    """A candidate as seen by one decision. ``score`` and ``incumbent`` are predicted, in millionths."""

    alias: str
    score: int | None
    incumbent: int | None
    cost: NanoUSD | None
    verdict: Verdict


class Neighbour(Fact):
    """A fit task near a request; ``similarity`` is the dot product of their features."""

    task: str
    similarity: int


class Decision(Fact):
    """Where a request goes and why. ``candidates`` are from the cheapest on, ``neighbours`` the nearest first."""

    alias: str
    reason: Reason
    candidates: tuple[Scored, ...]
    neighbours: tuple[Neighbour, ...]


class Policy(Fact, frozen=True, kw_only=True, dict=True):
    """Everything that decides: nothing outside of it is read when a request is routed.

    ``kept`` says that routing didn't pay on left-out fit tasks, so that the incumbent keeps every request.
    """

    version: str
    features: str
    project: str
    build: str
    setup: str
    incumbent: str
    candidates: tuple[Candidate, ...]
    rows: tuple[Row, ...]
    dial: Dial
    method: Method = Overall()
    leaning: int = 0
    kept: bool = False
    operating: Operating | None = None
    trials: tuple[Trial, ...] = ()
    curve: tuple[Operating, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        """The name of a policy: equal evidence gives an equal name."""
        return f"policy-{digests.content_digest(canonical.encode(self))[3:35]}"

    @property
    def uncovered(self) -> dict[str, tuple[str, ...]]:
        """The fit tasks without a score, a candidate."""
        return {
            candidate.alias: tuple(row.task for row in self.rows if row.scores[place] is None)
            for place, candidate in enumerate(self.candidates)
        }

    @cached_property
    def place(self) -> int:
        """Where among the candidates the incumbent is."""
        return next(place for place, one in enumerate(self.candidates) if one.alias == self.incumbent)

    @cached_property
    def evidence(self) -> Evidence:
        """The rows as methods read them."""
        return Evidence.of(self.rows, self.candidates, self.place)

    @cached_property
    def field(self) -> Field:
        """The candidates as the dial weighs them."""
        return Field(self.candidates, self.place)

    @cached_property
    def centres(self) -> Centres | None:
        """The clusters, where the method has some."""
        return clustered(self.method, self.evidence) if isinstance(self.method, Clusters) else None


def encode(policy: Policy) -> bytes:
    """Return the recorded form of a policy."""
    return canonical.encode(policy)


def frozen(policy: Policy) -> Policy:
    """Return the policy with what its rows carry: method, trials, curve, and whether routing pays at its dial.

    Rows are put in order of task.
    """
    rows = tuple(sorted(policy.rows, key=lambda row: row.task))
    fitted = fit(policy.dial, rows, policy.candidates, policy.place)
    return msgspec.structs.replace(
        policy,
        rows=rows,
        method=fitted.method,
        leaning=fitted.leaning,
        trials=fitted.trials,
        curve=fitted.curve,
        operating=fitted.operating,
        kept=not fitted.pays,
    )


def at_target(policy: Policy, met: Operating) -> Policy:
    """Return a frozen policy at the setting of its curve that meets a target: what was asked for pays."""
    return msgspec.structs.replace(policy, dial=met.dial, operating=met, kept=False)


def course(policy: Policy, requests: NDArray[np.int8]) -> dict[str, list[str]]:
    """Return, for each setting of the dial that was tried on fit tasks, the candidate that each request goes to."""
    features = requests.astype(np.float32)
    near = nearest(policy.evidence, features)
    found = predict(policy.method, policy.evidence, features, near)
    known = policy.evidence.known.tolist()
    return {
        in_words(one.dial): [
            policy.candidates[place].alias
            for place in policy.field.places(one.dial, leaned(found, one.dial, policy.leaning).tolist(), known)
        ]
        for one in policy.curve
    }


def routes(policy: Policy, requests: NDArray[np.int8]) -> list[tuple[str, Reason]]:
    """Return where each request goes and why, as ``decide`` does for one."""
    features = requests.astype(np.float32)
    near = nearest(policy.evidence, features)
    found = leaned(predict(policy.method, policy.evidence, features, near), policy.dial, policy.leaning).tolist()
    known = policy.evidence.known.tolist()
    decided = []
    for row in found:
        chosen, verdicts = policy.field.choose(policy.dial, row, known)
        alias = policy.candidates[policy.place if policy.kept else chosen].alias
        decided.append((alias, _reason(policy, policy.dial, chosen, verdicts, kept=policy.kept)))
    return decided


def decide(policy: Policy, features: NDArray[np.int8], dial: Dial | None = None) -> Decision:
    """Return the candidate for a request; ``dial`` is the request's own, where it has one."""
    request = features[None].astype(np.float32)
    near = nearest(policy.evidence, request)
    if isinstance(policy.method, Clusters) and policy.centres is not None:
        found = by_clusters(policy.method, policy.centres, policy.evidence, request)
    else:
        found = predict(policy.method, policy.evidence, request, near)
    turned = dial if dial is not None else policy.dial
    distances = found.distances[0].tolist()
    known = policy.evidence.known.tolist()
    chosen, verdicts = policy.field.choose(turned, leaned(found, turned, policy.leaning)[0].tolist(), known)
    kept = policy.kept and dial is None
    return Decision(
        alias=policy.candidates[policy.place if kept else chosen].alias,
        reason=_reason(policy, turned, chosen, verdicts, kept=kept),
        candidates=tuple(_scored(policy, place, distances, known, verdicts[place]) for place in policy.field.order),
        neighbours=tuple(
            Neighbour(task=policy.rows[row].task, similarity=similar)
            for row, similar in zip(near.rows[0, :SHOWN].tolist(), near.similar[0, :SHOWN].tolist(), strict=True)
        ),
    )


def _scored(policy: Policy, place: int, distances: Sequence[int], known: Sequence[bool], verdict: Verdict) -> Scored:
    level = policy.evidence.level
    price = policy.candidates[place].price
    there = level is not None and bool(known[place])
    return Scored(
        alias=policy.candidates[place].alias,
        score=(level or 0) + distances[place] if there else None,
        incumbent=level,
        cost=None if price is None else round(price),
        verdict=verdict,
    )


def _reason(policy: Policy, dial: Dial, chosen: int, verdicts: dict[int, Verdict], *, kept: bool) -> Reason:
    if kept and any(verdict in {"not-worse", "worth-more"} for verdict in verdicts.values()):
        return "routing-did-not-pay"
    if chosen != policy.place:
        return "cheapest-not-worse" if isinstance(dial, Tolerance) else "worth-more"
    if "no-evidence" in verdicts.values():
        return "no-evidence-for-a-cheaper-candidate"
    return "no-cheaper-candidate-is-as-good" if isinstance(dial, Tolerance) else "nothing-is-worth-more"
