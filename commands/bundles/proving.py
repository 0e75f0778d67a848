"""One proof for many events: which places of a journal's tree they have, and the hashes of everything between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ledger.event import Fact
from ledger.merkle import EMPTY_ROOT, parent, root_of


class Places(Fact):
    """Positions (1, 2, ...) of the proven events, and the hashes of the widest subtrees without any, left to right."""

    nodes: tuple[str, ...]
    positions: tuple[int, ...]


def nodes_beside(leaves: Sequence[bytes], positions: Sequence[int]) -> list[bytes]:
    """Return the hashes that, with the leaves at these positions, give the root over all leaves."""
    return list(_beside(leaves, positions, 0, len(leaves))) if leaves else []


def _beside(leaves: Sequence[bytes], positions: Sequence[int], low: int, high: int) -> Iterator[bytes]:
    if not _any(positions, low, high):
        yield root_of(leaves[low:high])
    elif high - low > 1:
        middle = low + split(high - low)
        yield from _beside(leaves, positions, low, middle)
        yield from _beside(leaves, positions, middle, high)


def proven_root(size: int, positions: Sequence[int], leaves: Sequence[bytes], nodes: Sequence[bytes]) -> bytes | None:
    """Return the root that leaves at positions and the hashes beside them give; None when they don't make a tree.

    Positions must rise, and there must be a leaf for each.
    """
    rises = all(one < other for one, other in pairwise(positions))
    if not rises or len(leaves) != len(positions) or (positions and not 1 <= positions[0] <= positions[-1] <= size):
        return None
    if not size:
        return EMPTY_ROOT
    beside = iter(nodes)

    def root(low: int, high: int) -> bytes:
        if not _any(positions, low, high):
            return next(beside)
        if high - low == 1:
            return leaves[bisect_left(positions, high)]
        middle = low + split(high - low)
        left = root(low, middle)
        return parent(left, root(middle, high))

    try:
        made = root(0, size)
    except (StopIteration, RecursionError):
        return None
    return None if next(beside, None) is not None else made


def split(size: int) -> int:
    """Return how many leaves are on the left: the largest power of two smaller than the size."""
    return 1 << (size - 1).bit_length() - 1


def _any(positions: Sequence[int], low: int, high: int) -> bool:
    """Tell whether a position stands for a leaf from one place (counted from 0) up to another."""
    at = bisect_left(positions, low + 1)
    return at < len(positions) and positions[at] <= high
