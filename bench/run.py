"""Measure the bars, and fail when one doesn't hold.

Usage: python bench/run.py [--traces FILE] [--small]

The figures that count are taken on the pinned export (50 fit and 20 held-out tasks, three candidates: 210 cells);
without --traces the shipped corpus stands in for it. With --small everything runs once on a few tasks and no time is
judged: that is what the gate does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from bench import (  # noqa: E402 - the project comes first
    admitting,
    appending,
    gateway,
    ingesting,
    path,
    replaying,
    reporting,
    routing,
    starting,
    trials,
    verifying,
)
from commands.render.table import table  # noqa: E402 - as above
from commands.walkthrough import corpus  # noqa: E402 - as above


def main() -> int:
    """Measure, print, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=None)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    traces = given.traces or corpus()
    sizes = path.Sizes(4, 2) if given.small else path.Sizes(50, 20)
    with tempfile.TemporaryDirectory() as folder:
        bars = []
        places = [
            Path(folder, name)
            for name in (
                "path",
                "appending",
                "gateway",
                "starting",
                "replaying",
                "trials",
                "verifying",
                "ingesting",
                "admitting",
                "routing",
            )
        ]
        for place in places:
            place.mkdir()
        bars += path.run(places[0], traces, sizes)
        bars += appending.run(places[1], 64 if given.small else 6_400)
        bars += gateway.run(places[2], 64 if given.small else 3_200)
        bars += starting.run(places[3], 300 if given.small else 1_000_000)
        bars += admitting.run(places[8], 620 if given.small else 1_000_000)
        bars += replaying.run(places[0] / "root", places[4])
        bars += reporting.run(places[0] / "root", places[4])
        bars += verifying.run(places[6], 300 if given.small else 100_000, 30 if given.small else 10_000)
        bars += ingesting.run(places[7], traces, 2_000 if given.small else 1_000_000)
        bars += routing.run(places[9], routing.SMALL if given.small else routing.FULL)
        bars += trials.run(places[5], trials.SMALL if given.small else trials.FULL)
    rows = [(bar.what, f"{bar.measured:,.2f}", bar.limit, bar.unit, bar.peer) for bar in bars]
    if given.small:
        print("\n".join(bar.what for bar in bars))
        return 0
    print(table(["what", "measured", "bar", "unit", "peer"], rows))
    missed = [bar.what for bar in bars if not bar.holds]
    print(f"\nnot within its bar: {', '.join(missed)}" if missed else "\nevery bar holds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
