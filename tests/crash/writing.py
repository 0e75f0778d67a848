"""A process that records notes as fast as it can and prints each once it is acknowledged: ROOT NAME MOST."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.ledger.notes import opened, worded


def main(root: Path, name: str, most: int) -> None:
    with opened(root, process=name) as journal:
        for start in range(0, most, 4):
            futures = []
            for number in range(start, start + 4):
                step, blobs = worded(f"{name} says {number} " * 20, f"{name}-{number}", "shared")
                futures.append(journal.submit(step, blobs=blobs))
            for future in futures:
                (record,) = future.result()
                print(record.seq, record.key, flush=True)  # noqa: T201 - how it tells what was acknowledged


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
