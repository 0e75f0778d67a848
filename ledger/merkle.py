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


class NotACheckpoint(ValueError):
    """The text isn't a checkpoint: three lines, of which the second is a size and the third a root in base64."""


class Checkpoint(NamedTuple):
    """How much a journal held: whoever keeps one can later show that the journal only grew."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """Return the C2SP form: origin, size and base64 of the root, a line each."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @classmethod
    def read(cls, text: str) -> Checkpoint:
        """Read the C2SP form, ignoring extension lines and signatures; NotACheckpoint for anything else."""
        origin, size, root, *_ = [*text.split("\n"), "", "", ""]
        try:
            hashed = base64.b64decode(root, validate=True)
        except binascii.Error as error:
            raise NotACheckpoint(text) from error
        plain = size.isascii() and size.isdigit() and str(int(size)) == size
        if not origin or not plain or len(hashed) != HASH_BYTES:
            raise NotACheckpoint(text)
        return cls(origin, int(size), hashed)
