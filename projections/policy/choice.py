"""Choice: which method a policy uses, and what it would do along the dial, by cross-validation on fit data.

Lineages are put in five folds by digest. Each method predicts the distances of a fold's tasks from the other folds. Of
the methods, the most cautious is taken whose squared error isn't above the least one's by more than the standard error
of the difference (the one-standard-error rule of Breiman and others, 1984, paired by task). The same predictions say
what routing at each setting of the dial would have scored and cost on tasks that the prediction hadn't seen.

A prediction has an error of its own. Under a tolerance the cheaper candidate gets the benefit of one standard error, as
long as routing so keeps within the tolerance on left-out tasks; if it doesn't, it gets none.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ledger import digests
from ledger.event import Fact
from ledger.money import NanoUSD
from projections.policy.dial import MOST_PRICE, SCALE, Dial, Field, Price, Tolerance
from projections.policy.evidence import Candidate, Evidence, Row
from projections.policy.methods import (
    METHODS,
    Clusters,
    Method,
    Neighbours,
    Predicted,
    in_words,
    leaned,
    nearest,
    predict,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDS = 5
LEAST_OF_A_CLUSTER = 20
LEAVING = 2  # standard errors that a method must gain over the first: the best of many gains some by chance
LEAST_TASKS = 10  # with fewer, nothing is told apart
TOLERANCES = (0, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
STEPS = (1, 2, 5)
MOST_TURNING = 20
LEANINGS = (1_000, 0)


class Trial(Fact):
    """A method by the root of its mean squared error on left-out tasks, in millionths, rounded down."""

    method: str
    error: int


class Operating(Fact):
    """Routing at one setting of the dial, on left-out fit tasks: mean score in millionths, mean cost in nano-dollars.

    ``moved`` counts the tasks that left the incumbent, of the ``tasks`` that count for whoever got them.
    """

    dial: Dial
    score: int
    incumbent: int
    cost: NanoUSD
    tasks: int
    moved: int


class Fitted(msgspec.Struct, frozen=True):
    """What cross-validation found: the method, every trial, and the curve from the cheapest setting on.

    ``leaning`` is how many thousandths of a standard error go to the cheaper candidate; ``operating`` is what that does
    at the dial that was asked for, None when no task counts, and ``pays`` whether that is worth it.
    """

    method: Method
    leaning: int
    trials: tuple[Trial, ...]
    curve: tuple[Operating, ...]
    operating: Operating | None
    pays: bool


def fit(dial: Dial, rows: Sequence[Row], candidates: Sequence[Candidate], incumbent: int) -> Fitted:
    """Return the method that rows carry and what it does along the dial. Rows are in order of task."""
    evidence = Evidence.of(rows, candidates, incumbent)
    folds = np.array([_fold(row.lineage) for row in rows], dtype=np.int64)
    predicted = _left_out(evidence, folds)
    errors = [_errors(evidence, one.distances) for one in predicted]
    place = _chosen(errors, int(_measured(evidence).sum()))
    trials = tuple(
        Trial(method=in_words(method), error=isqrt(sum(own) // max(len(own), 1)))
        for method, own in zip(METHODS, errors, strict=True)
    )
    course = _Course(evidence, predicted[place], Field(candidates, incumbent))
    for leaning in LEANINGS:
        operating = course.at(dial, leaning)
        if pays := clears(operating, course.field):
            break
    return Fitted(METHODS[place], leaning, trials, course.along(leaning), operating, pays)


def _fold(lineage: str) -> int:
    return int.from_bytes(digests.raw(digests.content_digest(f"policy-fold:{lineage}".encode()))) % FOLDS


def _left_out(evidence: Evidence, folds: NDArray[np.int64]) -> list[Predicted]:
    """Return, a method, what is predicted for each row from the rows of other folds."""
    found = [Predicted(*(np.zeros_like(evidence.distances) for _ in range(3))) for _ in METHODS]
    for fold in range(FOLDS):
        out = np.flatnonzero(folds == fold)
        if not len(out):
            continue
        rest = evidence.take(np.flatnonzero(folds != fold))
        near = nearest(rest, evidence.features[out])
        for method, whole in zip(METHODS, found, strict=True):
            part = predict(method, rest, evidence.features[out], near)
            whole.distances[out], whole.errors[out], whole.expected[out] = part.distances, part.errors, part.expected
    return found


def _measured(evidence: Evidence) -> NDArray[np.bool_]:
    """Return the tasks that say something of a candidate other than the incumbent."""
    counted: NDArray[np.bool_] = evidence.counts.sum(axis=1) > 1
    return counted


def _errors(evidence: Evidence, predicted: NDArray[np.int64]) -> list[int]:
    """Return each task's squared error over the candidates that count for it."""
    off = np.where(evidence.counts, predicted - evidence.distances, 0)[_measured(evidence)]
    return [sum(one * one for one in row) for row in off.tolist()]


def _chosen(errors: Sequence[Sequence[int]], tasks: int) -> int:
    if tasks < LEAST_TASKS:
        return 0
    totals = {place: sum(errors[place]) for place, method in enumerate(METHODS) if _fits(method, tasks)}
    best = min(totals, key=lambda place: (totals[place], place))
    if not clearly_lower(errors[best], errors[0], times=LEAVING):
        return 0
    return next(place for place in totals if place and not clearly_lower(errors[best], errors[place]))


def _fits(method: Method, tasks: int) -> bool:
    """Tell whether there are enough tasks for a method: a cluster of a few tasks is a memory of them."""
    if isinstance(method, Clusters):
        return tasks >= LEAST_OF_A_CLUSTER * method.clusters
    return isinstance(method, Neighbours)


def clearly_lower(errors: Sequence[int], than: Sequence[int], *, times: int = 1) -> bool:
    """Tell whether paired errors are lower by more than so many standard errors of the mean difference."""
    gains = [other - one for one, other in zip(errors, than, strict=True)]
    count, total = len(gains), sum(gains)
    spread = count * sum(gain * gain for gain in gains) - total * total
    return total > 0 and (count - 1) * total * total > times * times * spread


class _Course:
    """What routing by predictions for left-out tasks would have done."""

    def __init__(self, evidence: Evidence, predicted: Predicted, field: Field) -> None:
        self.evidence = evidence
        self.predicted = predicted
        self.field = field

    def along(self, leaning: int) -> tuple[Operating, ...]:
        """Return what happens along the dial, from the cheapest setting on."""
        dials: list[Dial] = [Tolerance(millionths=one) for one in TOLERANCES]
        overall = self.evidence.overall + self.evidence.expected
        turning = self.field.breakpoints(overall.tolist(), self.evidence.known.tolist())
        prices = sorted({*_prices(self.field), *turning[:MOST_TURNING]})
        dials += [Price(nano_usd=one) for one in prices]
        found = [self.at(dial, leaning) for dial in dials]
        return tuple(sorted(filter(None, found), key=lambda one: (one.cost, one.score)))

    def at(self, dial: Dial, leaning: int) -> Operating | None:
        """Return what happens at one setting; None when no task counts, or a cost is unknown."""
        evidence, known = self.evidence, self.evidence.known.tolist()
        seen = leaned(self.predicted, dial, leaning)
        chosen = np.array(self.field.places(dial, seen.tolist(), known), dtype=np.int64)
        tasks = np.arange(len(chosen))
        counted = evidence.counts[tasks, chosen]
        prices = [self.field.prices[place] for place in chosen[counted].tolist()]
        count = int(counted.sum())
        if not count or any(price is None for price in prices):
            return None
        own = int(evidence.own[counted].sum())
        gained = int(evidence.distances[tasks, chosen][counted].sum())
        return Operating(
            dial=dial,
            score=_rounded(Fraction(own + gained, count)),
            incumbent=_rounded(Fraction(own, count)),
            cost=_rounded(sum((price for price in prices if price is not None), Fraction(0)) / count),
            tasks=count,
            moved=int((chosen != self.field.incumbent).sum()),
        )


def meeting(curve: Sequence[Operating], *, quality: int | None, cost: NanoUSD | None) -> Operating | None:
    """Return the setting that meets a target on fit tasks: the cheapest of that quality, or the best of that cost."""
    if quality is not None:
        good = [one for one in curve if one.score >= quality]
        return min(good, key=lambda one: (one.cost, -one.score), default=None)
    cheap = [one for one in curve if cost is None or one.cost <= cost]
    return max(cheap, key=lambda one: (one.score, -one.cost), default=None)


def _prices(field: Field) -> list[NanoUSD]:
    """Return prices of a unit of score, a few a decade, over the range in which they can matter."""
    known = sorted(price for price in field.prices if price is not None)
    apart = [int(other - one) for one, other in itertools.pairwise(known) if other - one >= 1]
    if not apart:
        return []
    first, last = len(str(min(apart))) - 1, len(str(max(apart))) + 3
    prices = (step * 10**power for power in range(first, last) for step in STEPS)
    return [0, *(price for price in prices if price <= MOST_PRICE)]


def clears(operating: Operating | None, field: Field) -> bool:
    """Tell whether routing is worth it at its setting, on left-out tasks; otherwise the incumbent keeps everything.

    With a tolerance, the mean may be below the incumbent's by that much and no more; with a price, what is gained in
    quality must be worth more than what is paid for it.
    """
    price = field.prices[field.incumbent]
    if operating is None or price is None:
        return False
    gained = operating.score - operating.incumbent
    if isinstance(operating.dial, Tolerance):
        return gained >= -operating.dial.millionths
    return Fraction(operating.dial.nano_usd * gained, SCALE) - (operating.cost - price) > 0


def _rounded(value: Fraction) -> int:
    """Return the nearest integer, halves away from zero."""
    size = (2 * abs(value.numerator) + value.denominator) // (2 * value.denominator)
    return size if value >= 0 else -size
