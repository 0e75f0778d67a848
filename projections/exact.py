"""Exact arithmetic that several readings share: integers in, integers out, rounded once where it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def mean(total: int, count: int) -> int | None:
    """Return a mean rounded once, halves up; None of nothing."""
    return (2 * total + count) // (2 * count) if count else None


def integer_roots(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the greatest integers whose squares are at most the numbers (each at most 2^62).

    A number rounded to a double is off by too little to bring its root below an integer that it has; it may be rounded
    up to a square that it isn't.
    """
    import numpy as np  # noqa: PLC0415 - means are taken without it

    roots = np.sqrt(numbers.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > numbers
    return roots
