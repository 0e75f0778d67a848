"""Retrieval: recorded steps that resemble an action, best first, by exact cosine over quantised vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ledger import digests
from ledger.event import Fact
from projections.exact import integer_roots

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RETRIEVAL_BYTES = 8_000
SCALE = 1_000_000
CUT = "\n[...]\n"
NOTHING = "(no text)"
_EXACT_IN_FLOAT32 = 1 << 24
_ROWS_AT_ONCE = 8_192


class Example(Fact):
    """A recorded step as it is shown to a world model; ``score`` is its cosine in millionths."""

    lineage: str
    digest: str
    task: str
    tool: str
    arguments: str
    observation: str
    error: bool
    score: int


class Entry(msgspec.Struct, frozen=True):
    """A step by its place: which trace, and the how-manieth turn of it."""

    lineage: str
    trace: str
    turn: int

    @property
    def digest(self) -> str:
        """Names the step, and breaks ties."""
        return digests.content_digest(f"{self.trace}:{self.turn}".encode())


def elided(text: str, most: int) -> str:
    """Return the text within this many bytes of UTF-8, its middle left out where it is longer."""
    content = text.encode()
    if len(content) <= most:
        return text
    room = most - len(CUT)
    if room <= 0:
        return content[:most].decode(errors="ignore")
    head, tail = content[: room - room // 2], content[len(content) - room // 2 :]
    return f"{head.decode(errors='ignore')}{CUT}{tail.decode(errors='ignore')}"


def retrieval_text(task: str, tool: str, arguments: str) -> str:
    """Return what is embedded of a task and an action: at most 8,000 bytes, never empty.

    Where it would be longer, task and action get half each, or one what the other leaves.
    """
    task = task.encode(errors="replace").decode()
    action = f"{tool} {arguments}".strip().encode(errors="replace").decode()
    room = RETRIEVAL_BYTES - 1
    long_task, long_action = len(task.encode()), len(action.encode())
    if long_task + long_action > room:
        for_action = max(room // 2, room - long_task)
        action = elided(action, for_action)
        task = elided(task, room - len(action.encode()))
    return f"{task}\n{action}".strip() or NOTHING


class Index:
    """Steps with their vectors. ``read`` gives the example at an entry, without its score, when it is found."""

    def __init__(
        self, entries: Sequence[Entry], vectors: NDArray[np.int8], read: Callable[[Entry], Example] | None = None
    ) -> None:
        import numpy as np  # noqa: PLC0415 - a build may be read without its vectors

        self.entries = tuple(entries)
        self.vectors = vectors
        self._read = read
        if len(vectors) != len(self.entries):
            raise ValueError((len(vectors), len(self.entries)))
        order = sorted(range(len(self.entries)), key=lambda row: self.entries[row].digest)
        self._rank = np.empty(len(order), dtype=np.int64)
        self._rank[order] = np.arange(len(order))
        self._squares = squares(vectors)
        numbers: dict[str, int] = {}
        of_rows = [numbers.setdefault(entry.lineage, len(numbers)) for entry in self.entries]
        self._lineages = numbers
        self._lineage_of = np.array(of_rows, dtype=np.int64)
        self._wide: dict[Any, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def search(self, vector: bytes, k: int, *, without_lineage: str) -> tuple[Example, ...]:
        """Return the k most similar steps of other lineages."""
        return self.search_many((vector,), k, without_lineages=(without_lineage,))[0]

    def search_many(
        self, vectors: Sequence[bytes], k: int, *, without_lineages: Sequence[str]
    ) -> list[tuple[Example, ...]]:
        """Return what ``search`` returns for each vector."""
        found = self.nearest(vectors, k, without_lineages=without_lineages)
        return [tuple(self._example(row, score) for row, score in rows) for rows in found]

    def nearest(
        self, vectors: Sequence[bytes], k: int, *, without_lineages: Sequence[str]
    ) -> list[list[tuple[int, int]]]:
        """Return rows and scores, best first, equal scores by digest."""
        import numpy as np  # noqa: PLC0415 - as above

        if not self.entries or not vectors or k <= 0:
            return [[] for _ in vectors]
        asked = np.frombuffer(b"".join(vectors), dtype=np.int8).reshape(len(vectors), -1)
        scores = self._cosines(asked)
        found = []
        for row, lineage in zip(scores, without_lineages, strict=True):
            allowed = np.flatnonzero(self._lineage_of != self._lineages.get(lineage, -1))
            found.append(self._best(row, allowed, k))
        return found

    def _best(self, scores: NDArray[np.int64], allowed: NDArray[np.int64], k: int) -> list[tuple[int, int]]:
        import numpy as np  # noqa: PLC0415 - as above

        if len(allowed) > k:
            least = np.partition(scores[allowed], len(allowed) - k)[len(allowed) - k]
            allowed = allowed[scores[allowed] >= least]
        best = allowed[np.lexsort((self._rank[allowed], -scores[allowed]))][:k]
        return [(int(row), int(scores[row])) for row in best]

    def _cosines(self, asked: NDArray[np.int8]) -> NDArray[np.int64]:
        """Return cosines in millionths, rounded down, from integers alone."""
        import numpy as np  # noqa: PLC0415 - as above

        lengths = squares(asked)
        # No sum of a part of a dot product exceeds the product of both lengths, so below 2^24 float32 is exact.
        most = int(lengths.max()) * int(self._squares.max())
        exact = np.float32 if most < _EXACT_IN_FLOAT32**2 else np.float64
        dots = np.empty((len(asked), len(self.entries)), dtype=np.int64)
        wide = asked.astype(exact)
        for first in range(0, len(self.entries), _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            dots[:, rows] = wide @ self._widened(rows, exact).T
        norms = integer_roots(lengths[:, None] * self._squares[None, :])
        cosines: NDArray[np.int64] = dots * SCALE // np.maximum(norms, 1)
        return cosines

    def _widened(self, rows: slice, exact: Any) -> NDArray[Any]:  # noqa: ANN401 - a numpy scalar type
        """Return rows as floats; those of a small index are kept between searches."""
        if len(self.entries) > _ROWS_AT_ONCE:
            return self.vectors[rows].astype(exact)
        if exact not in self._wide:
            self._wide = {exact: self.vectors[rows].astype(exact)}
        return self._wide[exact]

    def _example(self, row: int, score: int) -> Example:
        if self._read is None:
            raise LookupError(row)
        return msgspec.structs.replace(self._read(self.entries[row]), score=score)


def squares(vectors: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return each row's squared length."""
    import numpy as np  # noqa: PLC0415 - as above

    lengths = np.empty(len(vectors), dtype=np.int64)
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = vectors[first : first + _ROWS_AT_ONCE].astype(np.int32)
        lengths[first : first + _ROWS_AT_ONCE] = np.einsum("ij,ij->i", rows, rows)
    return lengths
