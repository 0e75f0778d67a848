"""Evidence: what each candidate scored on each fit task, as numbers that methods learn from.

Everything a method needs of a candidate is its distance to the incumbent on the tasks that count for both: so a task
that is missing for one of them, or hard for all, tips no scale.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ledger.event import Fact
from ledger.money import NanoUSD
from projections.policy.expected import shifts

if TYPE_CHECKING:
    from numpy.typing import NDArray


GREATEST = 2_000_000


class Candidate(Fact):
    """A candidate with what it cost on the fit tasks: ``cost`` in all, None when a call's cost is unknown."""

    alias: str
    endpoint: str
    cost: NanoUSD | None
    cells: int

    @property
    def price(self) -> Fraction | None:
        """What a cell costs on average; None is unknown."""
        return Fraction(self.cost, self.cells) if self.cost is not None and self.cells else None


class Row(Fact):
    """A fit task: its features (base64 of int8) and each candidate's score in millionths, None where none counts."""

    task: str
    lineage: str
    vector: str
    scores: tuple[int | None, ...]
    evidence: tuple[str, ...]


def packed(vector: NDArray[np.int8]) -> str:
    """Return a vector as it stands in a row."""
    return base64.b64encode(vector.astype(np.int8).tobytes()).decode()


class Evidence(msgspec.Struct, dict=True):
    """Rows as arrays, a row a task: features, distances to the incumbent (in millionths), and where both count.

    Features are integers held in float32: their products stay below 2^24, so that sums of them are exact.
    """

    features: NDArray[np.float32]
    distances: NDArray[np.int64]
    counts: NDArray[np.bool_]
    own: NDArray[np.int64]
    own_counts: NDArray[np.bool_]
    incumbent: int
    prices: tuple[Fraction | None, ...]

    @classmethod
    def of(cls, rows: Sequence[Row], candidates: Sequence[Candidate], incumbent: int) -> Evidence:
        """Return the evidence of rows in which ``incumbent`` is a place among the candidates."""
        width = len(candidates)
        vectors = [np.frombuffer(base64.b64decode(row.vector), dtype=np.int8) for row in rows]
        features = np.array(vectors, dtype=np.float32) if rows else np.zeros((0, 0), dtype=np.float32)
        there = np.array([[score is not None for score in row.scores] for row in rows], dtype=bool)
        scores = np.array([[score or 0 for score in row.scores] for row in rows], dtype=np.int64)
        there, scores = there.reshape(len(rows), width), scores.reshape(len(rows), width)
        counts = there & there[:, incumbent : incumbent + 1]
        distances = np.where(counts, scores - scores[:, incumbent : incumbent + 1], 0)
        prices = tuple(candidate.price for candidate in candidates)
        return cls(features, distances, counts, scores[:, incumbent], there[:, incumbent], incumbent, prices)

    def take(self, places: NDArray[np.int64]) -> Evidence:
        """Return the rows at these places."""
        return Evidence(
            self.features[places],
            self.distances[places],
            self.counts[places],
            self.own[places],
            self.own_counts[places],
            self.incumbent,
            self.prices,
        )

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.features)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """For which candidates a distance is known at all."""
        return np.asarray(self.counts.any(axis=0))

    @cached_property
    def overall(self) -> NDArray[np.int64]:
        """Each candidate's mean distance to the incumbent, in millionths, rounded once; 0 where none is known."""
        return quotient(self.distances.sum(axis=0), np.maximum(self.counts.sum(axis=0), 1))

    @cached_property
    def expected(self) -> NDArray[np.int64]:
        """What prices add to each candidate's predicted distance where a price of a unit of score decides."""
        totals, counts = self.distances.sum(axis=0).tolist(), self.counts.sum(axis=0).tolist()
        return np.array(shifts(totals, counts, self.prices, self.incumbent), dtype=np.int64)

    @cached_property
    def unit(self) -> int:
        """What distances are counted in before they are squared, so that sums of squares stay below 2^62."""
        return 1 + int(np.abs(self.distances).max(initial=0)) // GREATEST

    @cached_property
    def level(self) -> int | None:
        """The incumbent's mean score in millionths, rounded once; None when no task counts for it."""
        counted = int(self.own_counts.sum())
        return int(quotient(self.own[self.own_counts].sum(), np.int64(counted))) if counted else None


def quotient(numbers: NDArray[np.int64] | np.int64, by: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
    """Return whole quotients rounded once, halves away from zero; divisors are positive."""
    sizes = (2 * np.abs(numbers) + by) // (2 * by)
    return np.asarray(np.where(numbers < 0, -sizes, sizes), dtype=np.int64)
