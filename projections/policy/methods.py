"""Methods: how a candidate's distance to the incumbent on a request is predicted. Integers in, integers out.

All of them mix what tasks like the request say with what all tasks say, as if the latter were ``shrink`` tasks more; so
little evidence stays near the mean. None of them looks at a held-out task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ledger.event import Fact
from projections.exact import integer_roots
from projections.policy.dial import Dial, Tolerance
from projections.policy.evidence import Evidence, quotient

if TYPE_CHECKING:
    from numpy.typing import NDArray

WHOLE = 1_000
LENGTH = 127
ROUNDS = 8
_BLOCK = 512


class Overall(Fact, tag="overall", tag_field="name"):
    """Every request gets the mean over all fit tasks: the request isn't looked at."""


class Neighbours(Fact, tag="neighbours", tag_field="name"):
    """The nearest fit tasks speak. One weighs (its similarity / the greatest) ** ``sharpness``: with 0 all alike."""

    neighbours: int
    shrink: int
    sharpness: int = 0


class Clusters(Fact, tag="clusters", tag_field="name"):
    """Fit tasks are put in so many clusters, and the tasks of the request's cluster speak."""

    clusters: int
    shrink: int


Method = Overall | Neighbours | Clusters

# The first is what few tasks carry, whatever they are about; it is left only for a method that is clearly better. Then
# from the most cautious on: of methods that can't be told apart, the first is taken.
METHODS: tuple[Method, ...] = (
    Neighbours(neighbours=25, shrink=25, sharpness=2),
    Neighbours(neighbours=100, shrink=100),
    Neighbours(neighbours=50, shrink=50),
    Neighbours(neighbours=25, shrink=25),
    Neighbours(neighbours=100, shrink=10),
    Clusters(clusters=2, shrink=5),
    Clusters(clusters=8, shrink=25),
    Clusters(clusters=16, shrink=25),
    Neighbours(neighbours=50, shrink=10),
    Clusters(clusters=32, shrink=10),
    *(
        Neighbours(neighbours=neighbours, shrink=shrink, sharpness=sharpness)
        for sharpness in (0, 2, 4)
        for neighbours, shrink in ((25, 5), (25, 1), (10, 1), (10, 0))
    ),
    Overall(),  # what the others are measured against; never chosen, since it can't hedge between candidates
)
MOST_NEIGHBOURS = max(method.neighbours for method in METHODS if isinstance(method, Neighbours))


def in_words(method: Method) -> str:
    """Return a method in a few words."""
    if isinstance(method, Neighbours):
        louder = f", nearer ones louder (power {method.sharpness})" if method.sharpness else ""
        return f"{method.neighbours} neighbours shrunk by {method.shrink}{louder}"
    if isinstance(method, Clusters):
        return f"{method.clusters} clusters shrunk by {method.shrink}"
    return "the mean over all tasks"


class Predicted(msgspec.Struct):
    """Predicted distances, a row a request and a column a candidate, and their standard errors, in millionths.

    ``expected`` is what prices add to them where a price decides.
    """

    distances: NDArray[np.int64]
    errors: NDArray[np.int64]
    expected: NDArray[np.int64]


class Nearest(msgspec.Struct):
    """For each request the nearest rows, nearest first, and their similarities; ties go to the earlier row."""

    rows: NDArray[np.int64]
    similar: NDArray[np.int64]


def nearest(evidence: Evidence, requests: NDArray[np.float32], most: int = MOST_NEIGHBOURS) -> Nearest:
    """Return so many nearest rows of each request."""
    size = evidence.size
    kept = min(most, size)
    found = [_nearest(evidence.features, block, kept) for block in _blocks(requests)] if size else []
    if not found:
        empty = np.zeros((len(requests), 0), dtype=np.int64)
        return Nearest(empty, empty)
    return Nearest(np.concatenate([rows for rows, _ in found]), np.concatenate([similar for _, similar in found]))


def _blocks(requests: NDArray[np.float32]) -> Sequence[NDArray[np.float32]]:
    return [requests[at : at + _BLOCK] for at in range(0, len(requests), _BLOCK)]


def _nearest(
    features: NDArray[np.float32], requests: NDArray[np.float32], kept: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    size = len(features)
    similar = (requests @ features.T).astype(np.int64)
    order = similar * size - np.arange(size)  # all different, so that a partition has one answer
    if kept < size:
        rows = np.argpartition(order, size - kept, axis=1)[:, size - kept :]
    else:
        rows = np.broadcast_to(np.arange(size), similar.shape)
    ranked = np.take_along_axis(rows, np.argsort(-np.take_along_axis(order, rows, axis=1), axis=1), axis=1)
    return ranked, np.take_along_axis(similar, ranked, axis=1)


def by_neighbours(method: Neighbours, evidence: Evidence, near: Nearest) -> Predicted:
    """Return what the nearest rows say of each request."""
    rows, similar = near.rows[:, : method.neighbours], near.similar[:, : method.neighbours]
    if not evidence.size:
        return _nothing(len(rows), evidence)
    greatest = np.maximum(similar[:, :1], 1)
    weights = np.full_like(similar, WHOLE)
    if method.sharpness:
        share = WHOLE * np.maximum(similar, 0) // greatest
        weights = share**method.sharpness // WHOLE ** (method.sharpness - 1)
    distances = evidence.distances[rows]
    heard = weights[:, :, None] * evidence.counts[rows]
    weight = heard.sum(axis=1)
    total = (heard * distances).sum(axis=1)
    mixed = WHOLE * method.shrink
    whole = weight + mixed
    mean = np.where(whole > 0, quotient(total + mixed * evidence.overall, np.maximum(whole, 1)), evidence.overall)
    own = quotient(total, np.maximum(weight, 1))
    off = (distances - own[:, None, :]) // evidence.unit
    spread = quotient((heard * off * off).sum(axis=1), np.maximum(weight, 1))
    # A weighted mean of so many tasks is worth this many that weigh alike (Kish, 1965), in thousandths.
    alike = WHOLE * weight * weight // np.maximum((heard * heard).sum(axis=1), 1)
    return _predicted(mean, _error(spread, alike, evidence), evidence)


def _error(spread: NDArray[np.int64], alike: NDArray[np.int64], evidence: Evidence) -> NDArray[np.int64]:
    """Return standard errors: of a spread (square units) over so many thousandths of a task; two are the least."""
    enough = alike >= 2 * WHOLE
    roots = integer_roots(np.where(enough, WHOLE * spread // np.maximum(alike - WHOLE, 1), 0))
    return np.where(enough, roots * evidence.unit, 0)


def _nothing(requests: int, evidence: Evidence) -> Predicted:
    zeros = np.zeros((requests, evidence.distances.shape[1]), dtype=np.int64)
    return _predicted(zeros, zeros, evidence)


def _predicted(distances: NDArray[np.int64], errors: NDArray[np.int64], evidence: Evidence) -> Predicted:
    return Predicted(distances, errors, np.broadcast_to(evidence.expected, distances.shape))


class Centres(msgspec.Struct):
    """Cluster centres as vectors of length about 127, and what each cluster says of each candidate."""

    vectors: NDArray[np.float32]
    totals: NDArray[np.int64]
    counts: NDArray[np.int64]
    spreads: NDArray[np.int64]


def clustered(method: Clusters, evidence: Evidence) -> Centres:
    """Return the clusters of the evidence: the same for the same rows in the same order.

    Lloyd's algorithm on integers. The first centre is the first row, each next one the row that is least like its
    nearest centre; then a few rounds, ties to the earlier centre. A centre that loses its rows stays where it is.
    """
    features = evidence.features
    seeds = [0] if evidence.size else []
    nearest_seed = features @ features[0] if evidence.size else np.zeros(0, dtype=np.float32)
    while len(seeds) < min(method.clusters, evidence.size):
        seeds.append(int(np.argmin(nearest_seed)))
        nearest_seed = np.maximum(nearest_seed, features @ features[seeds[-1]])
    vectors = features[seeds]
    owner = np.zeros(evidence.size, dtype=np.int64)
    for _ in range(ROUNDS if evidence.size else 0):
        owner = (features @ vectors.T).argmax(axis=1)
        moved = _centres(features, owner, vectors)
        if np.array_equal(moved, vectors):
            break
        vectors = moved
    totals = np.zeros((len(vectors), evidence.distances.shape[1]), dtype=np.int64)
    counts = np.zeros_like(totals)
    np.add.at(totals, owner, evidence.distances)
    np.add.at(counts, owner, evidence.counts.astype(np.int64))
    off = (evidence.distances - quotient(totals, np.maximum(counts, 1))[owner]) // evidence.unit
    spreads = np.zeros_like(totals)
    np.add.at(spreads, owner, off * off * evidence.counts)
    return Centres(vectors, totals, counts, quotient(spreads, np.maximum(counts, 1)))


def _centres(
    features: NDArray[np.float32], owner: NDArray[np.int64], before: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return each cluster's mean, scaled to the length of features and rounded once."""
    sums = np.zeros(before.shape, dtype=np.int64)
    np.add.at(sums, owner, features.astype(np.int64))
    members = np.bincount(owner, minlength=len(before))[:, None]
    means = quotient(64 * sums, np.maximum(members, 1))
    lengths = integer_roots((means * means).sum(axis=1) << 20)[:, None]
    scaled = quotient((means * LENGTH) << 10, np.maximum(lengths, 1)).astype(np.float32)
    return np.where((members > 0) & (lengths > 0), scaled, before)


def by_clusters(method: Clusters, centres: Centres, evidence: Evidence, requests: NDArray[np.float32]) -> Predicted:
    """Return what the nearest cluster says of each request."""
    if not len(centres.vectors):
        return _nothing(len(requests), evidence)
    owner = (requests @ centres.vectors.T).argmax(axis=1)
    counts = centres.counts[owner]
    mean = quotient(centres.totals[owner] + method.shrink * evidence.overall, np.maximum(counts + method.shrink, 1))
    return _predicted(mean, _error(centres.spreads[owner], WHOLE * counts, evidence), evidence)


def by_mean(evidence: Evidence, requests: int) -> Predicted:
    """Return what all rows say, the same for every request."""
    counts = evidence.counts.sum(axis=0)
    off = (evidence.distances - evidence.overall) // evidence.unit
    spread = quotient((off * off * evidence.counts).sum(axis=0), np.maximum(counts, 1))
    shape = (requests, len(evidence.overall))
    error = _error(spread, WHOLE * counts, evidence)
    return _predicted(np.broadcast_to(evidence.overall, shape), np.broadcast_to(error, shape), evidence)


def predict(method: Method, evidence: Evidence, requests: NDArray[np.float32], near: Nearest) -> Predicted:
    """Return what a method says of requests, given their nearest rows."""
    if isinstance(method, Neighbours):
        return by_neighbours(method, evidence, near)
    if isinstance(method, Clusters):
        return by_clusters(method, clustered(method, evidence), evidence, requests)
    return by_mean(evidence, len(requests))


def leaned(predicted: Predicted, dial: Dial, leaning: int) -> NDArray[np.int64]:
    """Return the distances that a dial weighs.

    Under a tolerance that is with so many thousandths of their errors on top, under a price with what prices say.
    """
    if isinstance(dial, Tolerance):
        return predicted.distances + predicted.errors * leaning // WHOLE
    return predicted.distances + predicted.expected
