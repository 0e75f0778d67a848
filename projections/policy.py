"""Policy: which candidate a request goes to, from how the candidates did on similar fit tasks.

A candidate's score for a request is the mean of its scores on the nearest fit tasks, shrunk towards its mean over all
of them. The cheapest candidate that isn't worse than the incumbent beyond a tolerance gets the request; at equal cost
the incumbent keeps it. Everything is decided on integers and fractions, so that it is decided alike everywhere.

How near is near: 25 neighbours shrunk by 25, which holds up with few tasks. A bolder setting is taken for a candidate
only when, leaving out one task at a time, it predicts that candidate's distance to the incumbent better than that by
more than the standard error of the improvement. So noise stays shrunk, and a candidate that does half of the work well
and fails at the rest is told apart.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from ledger import canonical, digests
from ledger.event import Fact
from ledger.money import NanoUSD

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = "policy@1"
MILLION = 1_000_000
TOLERANCE = 50_000
WHOLE = 1_000

Verdict = Literal["incumbent", "not-worse", "worse", "no-evidence", "unpriced", "not-cheaper"]
Reason = Literal["cheapest-not-worse", "no-cheaper-candidate-is-as-good", "no-evidence-for-a-cheaper-candidate"]


class Setting(Fact):
    """How many neighbours speak, how many tasks' worth of the overall mean is mixed in, and how near ones are heard.

    A neighbour weighs (its similarity / the greatest) ** ``sharpness``: with 0 all weigh the same.
    """

    neighbours: int
    shrink: int
    sharpness: int = 0


MOST_NEIGHBOURS = 25
CAUTIOUS = Setting(neighbours=MOST_NEIGHBOURS, shrink=25)
BOLDER = tuple(
    Setting(neighbours=neighbours, shrink=shrink, sharpness=sharpness)
    for sharpness in (0, 2, 4)
    for neighbours, shrink in ((25, 5), (25, 1), (10, 1), (5, 0))
)


class Candidate(Fact):
    """A candidate with what it cost on the fit tasks: ``cost`` in all, None when a call's cost is unknown."""

    alias: str
    endpoint: str
    setting: Setting
    cost: NanoUSD | None
    cells: int


class Row(Fact):
    """A fit task: its features (base64 of int8) and each candidate's score in millionths, None where none counts."""

    task: str
    lineage: str
    vector: str
    scores: tuple[int | None, ...]
    evidence: tuple[str, ...]


class Scored(Fact):
    """A candidate as seen by one decision. ``score`` and ``incumbent`` are in millionths under its own setting."""

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
    """Everything that decides: nothing outside of it is read when a request is routed."""

    version: str
    features: str
    project: str
    build: str
    setup: str
    incumbent: str
    tolerance: int
    candidates: tuple[Candidate, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        """The name of a policy: equal evidence gives an equal name."""
        return f"policy-{digests.content_digest(canonical.encode(self))[3:35]}"

    @cached_property
    def matrix(self) -> NDArray[np.int32]:
        """The features of the fit tasks, a row a task."""
        rows = [np.frombuffer(base64.b64decode(row.vector), dtype=np.int8) for row in self.rows]
        return np.array(rows, dtype=np.int32) if rows else np.zeros((0, 0), dtype=np.int32)

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
    def prices(self) -> tuple[Fraction | None, ...]:
        """What a cell of each candidate costs on average; None is unknown."""
        return tuple(
            Fraction(one.cost, one.cells) if one.cost is not None and one.cells else None for one in self.candidates
        )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The candidates from the cheapest on, at equal cost the incumbent first; unpriced ones last."""

        def rank(place: int) -> tuple[bool, Fraction, bool, str]:
            price = self.prices[place]
            return price is None, price or Fraction(0), place != self.place, self.candidates[place].alias

        return tuple(sorted(range(len(self.candidates)), key=rank))


class Near(NamedTuple):
    """Rows from the nearest on, and the similarity of each row."""

    nearest: Sequence[int]
    similar: Sequence[int]


class Estimate(NamedTuple):
    """What a candidate and the incumbent would score, by the same neighbours."""

    candidate: Fraction
    incumbent: Fraction


def encode(policy: Policy) -> bytes:
    """Return the recorded form of a policy."""
    return canonical.encode(policy)


def decide(policy: Policy, features: NDArray[np.int8]) -> Decision:
    """Return the candidate for a request."""
    near = policy.matrix @ features.astype(np.int32) if policy.rows else np.zeros(0, dtype=np.int32)
    nearest = np.argsort(-near, kind="stable").tolist()
    seen_from = Near(nearest, near.tolist())
    scored: list[Scored] = []
    chosen = policy.place
    for place in policy.order:
        seen = _scored(
            policy, place, seen_from, settled=any(one.verdict in {"incumbent", "not-worse"} for one in scored)
        )
        if seen.verdict == "not-worse":
            chosen = place
        scored.append(seen)
    return Decision(
        alias=policy.candidates[chosen].alias,
        reason=_reason(policy, chosen, scored),
        candidates=tuple(scored),
        neighbours=tuple(
            Neighbour(task=policy.rows[row].task, similarity=int(near[row])) for row in nearest[: CAUTIOUS.neighbours]
        ),
    )


def _scored(policy: Policy, place: int, near: Near, *, settled: bool) -> Scored:
    candidate = policy.candidates[place]
    estimate = _estimate(_pairs(policy.rows, (place, policy.place), near), candidate.setting)
    verdict: Verdict = "worse"
    if place == policy.place:
        verdict = "incumbent"
    elif policy.prices[place] is None or policy.prices[policy.place] is None:
        verdict = "unpriced"
    elif settled:
        verdict = "not-cheaper"
    elif estimate is None:
        verdict = "no-evidence"
    elif estimate.incumbent - estimate.candidate <= Fraction(policy.tolerance):
        verdict = "not-worse"
    price = policy.prices[place]
    return Scored(
        alias=candidate.alias,
        score=None if estimate is None else rounded(estimate.candidate),
        incumbent=None if estimate is None else rounded(estimate.incumbent),
        cost=None if price is None else rounded(price),
        verdict=verdict,
    )


def _reason(policy: Policy, chosen: int, scored: Sequence[Scored]) -> Reason:
    if chosen != policy.place:
        return "cheapest-not-worse"
    if any(one.verdict == "no-evidence" for one in scored):
        return "no-evidence-for-a-cheaper-candidate"
    return "no-cheaper-candidate-is-as-good"


class _Pairs(NamedTuple):
    """Scores of a candidate and the incumbent on the tasks that count for both, each with its similarity."""

    near: list[tuple[int, int, int]]
    tasks: int
    totals: tuple[int, int]


def _pairs(rows: Sequence[Row], places: tuple[int, int], near: Near) -> _Pairs:
    """Return the pairs, nearest first."""
    nearest, similar = near
    pairs = [
        (one, other, similar[row])
        for row in nearest
        if (one := rows[row].scores[places[0]]) is not None and (other := rows[row].scores[places[1]]) is not None
    ]
    return _Pairs(pairs[:MOST_NEIGHBOURS], len(pairs), (sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)))


def _estimate(pairs: _Pairs, setting: Setting) -> Estimate | None:
    """Return both shrunk means; None when no task counts for both."""
    if not pairs.tasks:
        return None
    near = pairs.near[: setting.neighbours]
    most = max(near[0][2], 1)
    weights = [WHOLE * max(pair[2], 0) ** setting.sharpness // most**setting.sharpness for pair in near]
    mixed = WHOLE * setting.shrink
    if not mixed and not any(weights):
        mixed = WHOLE
    whole = pairs.tasks * (sum(weights) + mixed)
    heard = [sum(weight * pair[side] for weight, pair in zip(weights, near, strict=True)) for side in (0, 1)]
    return Estimate(
        Fraction(pairs.tasks * heard[0] + mixed * pairs.totals[0], whole),
        Fraction(pairs.tasks * heard[1] + mixed * pairs.totals[1], whole),
    )


def chosen_setting(rows: Sequence[Row], places: tuple[int, int], similar: NDArray[np.int32]) -> Setting:
    """Return the setting that predicts a candidate's distance to the incumbent best, cautious unless clearly beaten.

    ``similar`` holds the dot products of every two rows.
    """
    counted = [
        at for at, row in enumerate(rows) if row.scores[places[0]] is not None and row.scores[places[1]] is not None
    ]
    if places[0] == places[1] or len(counted) < CAUTIOUS.neighbours // 5:
        return CAUTIOUS
    among = set(counted)
    trials = []
    for at in counted:
        nearest = [
            other for other in np.argsort(-similar[at], kind="stable").tolist() if other != at and other in among
        ]
        truth = (rows[at].scores[places[0]] or 0) - (rows[at].scores[places[1]] or 0)
        trials.append((_pairs(rows, places, Near(nearest, similar[at].tolist())), truth))
    cautious = _errors(trials, CAUTIOUS)
    best, least = CAUTIOUS, sum(cautious)
    for setting in BOLDER:
        errors = _errors(trials, setting)
        if sum(errors) < least and clearly_lower(errors, cautious):
            best, least = setting, sum(errors)
    return best


def clearly_lower(errors: Sequence[int], than: Sequence[int]) -> bool:
    """Tell whether paired errors are lower by more than the standard error of the mean difference."""
    gains = [other - one for one, other in zip(errors, than, strict=True)]
    count, total = len(gains), sum(gains)
    spread = count * sum(gain * gain for gain in gains) - total * total
    return total > 0 and (count - 1) * total * total > spread


def _errors(trials: Sequence[tuple[_Pairs, int]], setting: Setting) -> list[int]:
    """Return the squared errors, in millionths squared, of predicting each task's distance from the other tasks."""
    found = []
    for pairs, truth in trials:
        estimate = _estimate(pairs, setting)
        predicted = 0 if estimate is None else rounded(estimate.candidate - estimate.incumbent)
        found.append((predicted - truth) ** 2)
    return found


def frozen(policy: Policy) -> Policy:
    """Return the policy with a setting for each candidate, learned from its rows; rows are put in order of task."""
    rows = tuple(sorted(policy.rows, key=lambda row: row.task))
    sorted_policy = msgspec.structs.replace(policy, rows=rows)
    matrix = sorted_policy.matrix
    similar = matrix @ matrix.T if rows else np.zeros((0, 0), dtype=np.int32)
    candidates = tuple(
        msgspec.structs.replace(one, setting=chosen_setting(rows, (place, policy.place), similar))
        for place, one in enumerate(policy.candidates)
    )
    return msgspec.structs.replace(sorted_policy, candidates=candidates)


def rounded(value: Fraction) -> int:
    """Return the nearest integer, halves away from zero: fractions are rounded once, here."""
    doubled = 2 * abs(value.numerator) + value.denominator
    size = doubled // (2 * value.denominator)
    return size if value >= 0 else -size


def packed(vector: NDArray[np.int8]) -> str:
    """Return a vector as it stands in a row."""
    return base64.b64encode(vector.astype(np.int8).tobytes()).decode()
