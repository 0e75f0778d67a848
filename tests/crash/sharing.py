"""Processes that append to one root at once: ROOT PROCESSES SECONDS; prints counts and latencies as JSON."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from tests.ledger.notes import note, opened, worded


def append(root: Path, name: str, ready: Any, seconds: float, told: Any) -> None:
    latencies = []
    with opened(root, process=name) as journal:
        journal.submit(note("ready")).result()
        ready.wait()
        begin, number = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            step, blobs = worded(f"{name} says {number} " * 100, f"{name}-{number}", name)
            started = time.monotonic()
            journal.submit(step, blobs=blobs).result()
            latencies.append(time.monotonic() - started)
            number += 1
    told.put(latencies)


def run(root: Path, processes: int, seconds: float) -> dict[str, object]:
    opened(root).close()
    context = multiprocessing.get_context("spawn")
    ready, told = context.Barrier(processes), context.Queue()
    names = [f"p{number}" for number in range(processes)]
    children = [context.Process(target=append, args=(root, name, ready, seconds, told)) for name in names]
    for child in children:
        child.start()
    each = [told.get(timeout=60 + seconds) for _ in children]
    for child in children:
        child.join()
    latencies = [latency for one in each for latency in one]
    counts = sorted(map(len, each))
    return {
        "counts": counts,
        "p99": statistics.quantiles(latencies, n=100)[98],
        "fastest by slowest": counts[-1] / max(1, counts[0]),
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))))  # noqa: T201 - how it tells
