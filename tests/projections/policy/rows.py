"""Rows of evidence with hand-made vectors, and the candidates they are about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from projections.policy import Candidate, Dial, Method, Overall, Policy, Row, Tolerance, packed

Scores = tuple[int | None, ...]


def vector(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.array(numbers, dtype=np.int8)


def row(task: str, numbers: Sequence[int], scores: Scores, lineage: str = "") -> Row:
    return Row(task=task, lineage=lineage or task, vector=packed(vector(*numbers)), scores=scores, evidence=())


def candidates(*costs: int | None, cells: int = 1) -> tuple[Candidate, ...]:
    names = ("a", "b", "c", "d")
    return tuple(
        Candidate(alias=name, endpoint=f"e-{name}", cost=cost, cells=cells)
        for name, cost in zip(names, costs, strict=False)
    )


def policy(
    rows: Sequence[Row],
    costs: Sequence[int | None],
    *,
    method: Method | None = None,
    dial: Dial | None = None,
    incumbent: str = "b",
) -> Policy:
    """Return a policy with its method given, not chosen."""
    return Policy(
        version="policy@3",
        features="features@2",
        project="p",
        build="b",
        setup="s",
        incumbent=incumbent,
        candidates=candidates(*costs),
        rows=tuple(sorted(rows, key=lambda one: one.task)),
        dial=dial or Tolerance(millionths=0),
        method=method or Overall(),
    )
