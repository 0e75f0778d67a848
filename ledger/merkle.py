"""Merkle trees of RFC 6962 shape over event ids, and checkpoints in the C2SP text form.

A leaf is an event's id. A frontier holds the roots of the perfect subtrees that cover the leaves so far, largest
first: enough to append and to compute the root, and never more than one hash a bit of the size.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from blake3 import blake3

from ledger.digests import NODE

EMPTY_ROOT = blake3(b"").digest()
HASH_BYTES = 32
LINES = 3
DIGITS = 20


def parent(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node: blake3(01 || left || right)."""
    return blake3(NODE + left + right).digest()


class Frontier:
    """The right edge of a growing tree."""

    __slots__ = ("peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        self.peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add a leaf; each trailing one bit of the size merges two peaks of equal height."""
        size = self.size
        while size & 1:
            leaf = parent(self.peaks.pop(), leaf)
            size >>= 1
        self.peaks.append(leaf)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        for leaf in leaves:
            self.append(leaf)

    def root(self) -> bytes:
        """Return the tree's root; of no leaves, the hash of nothing."""
        if not self.peaks:
            return EMPTY_ROOT
        node = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            node = parent(peak, node)
        return node


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root over all leaves by the definition of RFC 6962, section 2.1."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return parent(root_of(leaves[:split]), root_of(leaves[split:]))


class AuditPath(NamedTuple):
    """The path of one leaf as RFC 6962 has it, section 2.1.1: its place from 0, and hashes from its sibling up."""

    place: int
    hashes: tuple[bytes, ...]

    def root(self, leaf: bytes, size: int) -> bytes | None:
        """Return the root of a tree of that size in which the leaf has this path; None when no tree has."""
        node, last = self.place, size - 1
        if not 0 <= node <= last:
            return None
        for other in self.hashes:
            if not last:
                return None
            if node & 1 or node == last:
                leaf = parent(other, leaf)
                while not node & 1 and node:
                    node, last = node >> 1, last >> 1
            else:
                leaf = parent(leaf, other)
            node, last = node >> 1, last >> 1
        return None if last else leaf


def path_of(index: int, leaves: Iterable[bytes], size: int) -> tuple[AuditPath, bytes]:
    """Return the path of a leaf and the root, from so many leaves in order, each looked at once.

    From the root down each split leaves one half without the leaf: its root is a hash of the path.
    """
    ranges = []
    low, high = 0, size
    while high - low > 1:
        split = low + (1 << (high - low - 1).bit_length() - 1)
        if index < split:
            ranges.append((split, high))
            high = split
        else:
            ranges.append((low, split))
            low = split
    wanted = dict(ranges) | {index: index + 1}
    rest, roots, start = iter(leaves), {}, 0
    while start < size:
        half = Frontier()
        half.extend(next(rest) for _ in range(wanted[start] - start))
        roots[start] = half.root()
        start = wanted[start]
    path = AuditPath(index, tuple(roots[start] for start, _ in reversed(ranges)))
    root = path.root(roots[index], size)
    if root is None:
        raise AssertionError((index, size))
    return path, root


class NotACheckpoint(ValueError):
    """The text isn't a checkpoint: three lines, of which the second is a size and the third a root in base64."""


class Checkpoint(NamedTuple):
    """How much a journal held: whoever keeps one can later show that the journal only grew.

    ``more`` is what stood below in the text it was read from: extensions and signatures, kept and not looked at.
    """

    origin: str
    size: int
    root: bytes
    more: str = ""

    def text(self) -> str:
        """Return the C2SP form: origin, size and base64 of the root, a line each."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n{self.more}"

    @classmethod
    def read(cls, text: str) -> Checkpoint:
        """Read the C2SP form; NotACheckpoint for anything else."""
        origin, size, root, more = [*text.split("\n", 3), "", "", ""][:4]
        try:
            hashed = base64.b64decode(root, validate=True)
        except (binascii.Error, ValueError) as error:
            raise NotACheckpoint(text) from error
        plain = size.isascii() and size.isdigit() and len(size) < DIGITS and str(int(size)) == size
        if not origin or not plain or len(hashed) != HASH_BYTES or text.count("\n") < LINES:
            raise NotACheckpoint(text)
        return cls(origin, int(size), hashed, more)


class Proof(NamedTuple):
    """That an event is in the journal that a checkpoint is of."""

    path: AuditPath
    checkpoint: Checkpoint

    def text(self) -> str:
        """Return the C2SP form, tlog-proof: the index and the path's hashes, an empty line, the checkpoint."""
        hashes = "".join(f"{_base64(one)}\n" for one in self.path.hashes)
        return f"c2sp.org/tlog-proof@v1\nindex {self.path.place}\n{hashes}\n{self.checkpoint.text()}"


def _base64(hashed: bytes) -> str:
    return base64.b64encode(hashed).decode()
