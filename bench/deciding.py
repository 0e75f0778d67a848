"""Deciding: the CPU milliseconds of one routing decision, features included: ``deciding TASKS ROUNDS``."""

from __future__ import annotations

import base64
import sys
import time

from projections.features import VERSION as FEATURES
from projections.features import request_features
from projections.policy import VERSION, Candidate, Neighbours, Policy, Row, Tolerance, decide

WORDS = "Print the date and say what day of the week it is. " * 28


def median(tasks: int, rounds: int) -> float:
    """Return what the usual decision takes."""
    policy = _policy(tasks)
    times = []
    for number in range(rounds):
        began = time.process_time()
        decide(policy, request_features([{"role": "user", "content": f"{WORDS} {number}"}], []))
        times.append(time.process_time() - began)
    return 1000 * sorted(times)[rounds // 2]


def _policy(tasks: int) -> Policy:
    candidates = tuple(Candidate(alias=name, endpoint=name, cost=cost, cells=1) for name, cost in (("a", 2), ("b", 1)))
    rows = []
    for number in range(tasks):
        vector = request_features([{"role": "user", "content": f"task {number * number} of {tasks}"}], [])
        packed = base64.b64encode(vector.tobytes()).decode()
        scores = (1_000_000, 1_000_000 * (number % 2))
        rows.append(Row(task=f"t{number}", lineage=f"l{number}", vector=packed, scores=scores, evidence=("", "")))
    return Policy(
        version=VERSION,
        features=FEATURES,
        project="bench",
        build="b",
        setup="s",
        incumbent="a",
        candidates=candidates,
        rows=tuple(rows),
        dial=Tolerance(millionths=50_000),
        method=Neighbours(neighbours=25, shrink=25),
    )


if __name__ == "__main__":
    print(median(int(sys.argv[1]), int(sys.argv[2])))
