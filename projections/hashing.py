"""Hashing embedder: text to a vector of small integers, without a model and equal on every machine.

Method: signed feature hashing of character trigrams. Code points are lowered in ASCII only (Unicode's tables differ
between Python versions), each text is framed by two markers on both sides, every trigram is mixed by integer
multiplication to a bucket and a sign, signs are summed, and the sums are scaled to length 127 and rounded once. All
arithmetic is on integers, so equal text gives equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from projections.exact import integer_roots

if TYPE_CHECKING:
    from numpy.typing import NDArray

METHOD = "hashing-trigram@1"
DIMENSIONS = 1024
LENGTH = 127
_BATCH_CODE_POINTS = 1 << 18
_BATCH_CELLS = 1 << 20
_OPENING, _CLOSING = "\x02\x02", "\x03\x03"
_FIRST, _SECOND, _THIRD = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(33)
_LOW = np.uint64(0x7FFFFFFF)
_ONE = np.uint64(1)
_SCALE_BITS = 10
_GREATEST_SUM = (1 << 15) - 1  # keeps squares within 63 bits for up to 4,096 dimensions


def embed(text: str, dimensions: int = DIMENSIONS) -> NDArray[np.int8]:
    """Return the vector of one text: ``dimensions`` integers of length about 127."""
    row: NDArray[np.int8] = embed_many((text,), dimensions)[0]
    return row


def embed_many(texts: Sequence[str], dimensions: int = DIMENSIONS) -> NDArray[np.int8]:
    """Return one row a text; each row depends on its own text alone."""
    rows = np.empty((len(texts), dimensions), dtype=np.int8)
    for first, batch in _batches(texts, max(1, _BATCH_CELLS // dimensions)):
        rows[first : first + len(batch)] = _scaled(trigram_sums(batch, dimensions))
    return rows


def trigram_sums(texts: Sequence[str], dimensions: int = DIMENSIONS) -> NDArray[np.int64]:
    """Return the sums of signs before scaling. No row is all zero: a text whose signs cancel keeps one mark."""
    framed = [f"{_OPENING}{text}{_CLOSING}" for text in texts]
    points = np.frombuffer("".join(framed).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    points = points + ((points >= ord("A")) & (points <= ord("Z"))) * np.uint32(32)
    wide = points.astype(np.uint64)
    mixed = wide[:-2] * _FIRST + wide[1:-1] * _SECOND + wide[2:] * _THIRD
    mixed ^= mixed >> _SHIFT
    mixed *= _MIX
    mixed ^= mixed >> _SHIFT
    slots = (((mixed & _LOW) * np.uint64(dimensions)) >> np.uint64(31)) << _ONE
    slots |= mixed >> np.uint64(63)
    lengths = np.fromiter(map(len, framed), dtype=np.int64, count=len(framed))
    owners = np.repeat(np.arange(len(framed), dtype=np.int64), lengths)[:-2]
    # A trigram that runs over the frame of its text belongs to no text.
    whole = np.ones(len(mixed), dtype=bool)
    ends = np.cumsum(lengths)[:-1]
    whole[ends - 1] = whole[ends - 2] = False
    cells = owners * (2 * dimensions) + slots.astype(np.int64)
    counts = np.bincount(cells[whole], minlength=len(framed) * 2 * dimensions).reshape(len(framed), dimensions, 2)
    sums: NDArray[np.int64] = counts[:, :, 0] - counts[:, :, 1]
    sums[~sums.any(axis=1), 0] = 1
    clipped: NDArray[np.int64] = np.clip(sums, -_GREATEST_SUM, _GREATEST_SUM)
    return clipped


def _scaled(sums: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return round(127 x sum / length), halves away from zero, with an integer square root."""
    squares = (sums * sums).sum(axis=1)
    roots = integer_roots(squares << (2 * _SCALE_BITS))[:, None]
    magnitudes = ((np.abs(sums) * (2 * LENGTH) << _SCALE_BITS) + roots) // (2 * roots)
    scaled: NDArray[np.int8] = (np.sign(sums) * magnitudes).astype(np.int8)
    return scaled


def _batches(texts: Sequence[str], most: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield slices whose working memory stays small."""
    first = size = 0
    for index, text in enumerate(texts):
        if index > first and (index - first >= most or size + len(text) > _BATCH_CODE_POINTS):
            yield first, texts[first:index]
            first, size = index, 0
        size += len(text)
    if len(texts) > first:
        yield first, texts[first:]
