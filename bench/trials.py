"""Trials in full: losses of power, kills, and processes that share a root. A trial that fails is a figure above 0."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from bench.measuring import Bar
from tests.crash import losses

PROJECT = Path(__file__).resolve().parent.parent


class Counts(NamedTuple):
    """How much is tried: losses a path, kills, and seconds of sharing."""

    losses: int
    kills: int
    seconds: float


FULL = Counts(2_000, 2_000, 5.0)
SMALL = Counts(6, 4, 0.2)


def run(folder: Path, counts: Counts) -> list[Bar]:
    """Return the figures."""
    return [
        *(_lost(folder, path, counts.losses) for path in losses.PATHS),
        *_killed(folder / "killed", counts.kills),
        *_shared(folder / "shared", counts.seconds),
    ]


def _lost(folder: Path, path: str, trials: int) -> Bar:
    done = failed = seed = 0
    while done < trials:
        seed += 1
        place = folder / path.replace(" ", "-") / str(seed)
        seen = losses.losses(path, place / "run", seed, every=2)
        chance = random.Random(seed)  # noqa: S311 - a trial that can be repeated
        for number, loss in enumerate(chance.sample(seen, min(len(seen), 60, trials - done))):
            failed += bool(losses.problems(loss, place / str(number)))
            done += 1
        subprocess.run(["rm", "-rf", str(place)], check=True)
    return Bar(f"power lost {done:,} times, {path}: trials with a loss or damage", failed, 0, "")


def _trial(module: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", f"tests.crash.{module}", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _killed(folder: Path, kills: int) -> list[Bar]:
    folder.mkdir()
    told = _trial("killing", folder / "root", 8, kills, 1)
    what = f"{kills:,} kills of 8 writers"
    return [
        Bar(f"{what}: acknowledged", told["acknowledged"], None, "events"),
        Bar(f"{what}: acknowledged and lost", len(told["lost"]), 0, "events"),
        Bar(f"{what}: findings of a full check", len(told["findings"]), 0, ""),
        Bar(f"{what}: orphans", told["orphans"], None, "calls"),
        Bar(f"{what}: orphans that the doctor doesn't report", told["unreported"], 0, "calls"),
    ]


def _shared(folder: Path, seconds: float) -> list[Bar]:
    folder.mkdir()
    told = _trial("sharing", folder / "root", 8, seconds)
    what = f"8 processes append for {seconds:g} s"
    return [
        Bar(f"{what}: together", sum(told["counts"]) / seconds, None, "events/s"),
        Bar(f"{what}: p99", told["p99"] * 1_000, 100, "ms"),
        Bar(f"{what}: fastest / slowest", told["fastest by slowest"], 2, ""),
    ]
