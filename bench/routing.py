"""Routing: whether routers are worth what they say, on tables and planted corpora; their intervals; and what it costs.

The tables are synthetic and have the structure of published ones: prompts of a few kinds with words of their own among
words of all, binary scores, dearer models better on average but not on every kind, costs that vary by prompt.
Published tables can be tried with `exp import outcomes`.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.measuring import EXP, Bar, measure
from ledger.families.cells import Outcome
from projections import features
from projections.calibration import Confusion, corrected, mean_interval, share
from projections.policy import (
    Candidate,
    Policy,
    Price,
    Row,
    Tolerance,
    course,
    decide,
    frozen,
    packed,
    routes,
)
from projections.report import Basis, improvement, report

M = 1_000_000
FINER = 1_000
SHARE, MEAN, CORRECTED = 800_000, 600_000, 700_000  # the truths that intervals are to hold
PEER_GAIN = "+0.008, worse in 0 to 1 of 20"


class Sizes(NamedTuple):
    """How much is measured."""

    rows: int
    models: int
    seeds: int
    simulations: int
    tasks: int


FULL = Sizes(6_000, 9, 20, 2_000, 10_000)
SMALL = Sizes(90, 3, 1, 4, 100)


class Kind(NamedTuple):
    """A structure of tables: mean ability and price a model, and how much ability varies by topic and by prompt."""

    name: str
    abilities: tuple[float, ...]
    prices: tuple[int, ...]
    topics: int
    by_topic: float
    by_prompt: float


KINDS = (
    Kind("cheap, middling and dear", (0.45, 0.66, 0.85), (20_000, 80_000, 500_000), 6, 0.12, 0.3),
    Kind("topics that matter little", (0.5, 0.65, 0.8), (20_000, 60_000, 200_000), 12, 0.08, 0.3),
    Kind("topics that matter more than models", (0.45, 0.58, 0.72), (20_000, 44_000, 96_800), 12, 0.18, 0.12),
)


class Prompt(NamedTuple):
    """A row of a table."""

    text: str
    scores: tuple[int, ...]
    costs: tuple[int, ...]


def table(kind: Kind, count: int, seed: int) -> list[Prompt]:
    """Return a synthetic table."""
    chance = random.Random(seed)  # noqa: S311 - a table that can be made again
    ability = [[one + chance.gauss(0, kind.by_topic) for one in kind.abilities] for _ in range(kind.topics)]
    rows = []
    for _ in range(count):
        topic = chance.randrange(kind.topics)
        words = [
            f"w{topic}_{chance.randrange(40)}" if chance.random() < 0.35 else f"c{chance.randrange(200)}"  # noqa: PLR2004 - a third
            for _ in range(25)
        ]
        hard = chance.gauss(0, kind.by_prompt)
        scores = tuple(M if chance.random() < own + hard else 0 for own in ability[topic])
        rows.append(Prompt(" ".join(words), scores, tuple(int(p * chance.uniform(0.5, 1.5)) for p in kind.prices)))
    return rows


def fitted(rows: Sequence[Prompt], vectors: NDArray[np.int8], *, tolerance: int = 0) -> Policy:
    """Return a policy on rows, the last model the incumbent."""
    models = len(rows[0].scores)
    return frozen(
        Policy(
            version="bench",
            features=features.VERSION,
            project="bench",
            build="bench",
            setup="bench",
            incumbent=f"m{models - 1}",
            dial=Tolerance(millionths=tolerance),
            candidates=tuple(
                Candidate(alias=f"m{m}", endpoint="", cost=sum(row.costs[m] for row in rows), cells=len(rows))
                for m in range(models)
            ),
            rows=tuple(
                Row(task=f"{n:06d}", lineage=f"f{n}", vector=packed(vector), scores=row.scores, evidence=())
                for n, (row, vector) in enumerate(zip(rows, vectors, strict=True))
            ),
        )
    )


def gain(policy: Policy, rows: Sequence[Prompt], vectors: NDArray[np.int8]) -> int:
    """Return the AIQ of a policy on other rows less that of the zero router, as a report has them."""
    aliases = [one.alias for one in policy.candidates]

    def place(chosen: Sequence[str]) -> tuple[int, int]:
        picked = [aliases.index(alias) for alias in chosen]
        cost = sum(row.costs[m] for row, m in zip(rows, picked, strict=True))
        return FINER * cost // len(rows), sum(row.scores[m] for row, m in zip(rows, picked, strict=True)) // len(rows)

    single = [place([alias] * len(rows)) for alias in aliases]
    reached = [place(chosen) for chosen in course(policy, vectors).values()]
    least, most = min(single)[0], max(cost for cost, _ in single)
    own, other = improvement([*reached, min(single)], least, most), improvement(single, least, most)
    return (own or 0) - (other or 0)


def run(folder: Path, sizes: Sizes) -> list[Bar]:
    """Return the figures."""
    return [
        *_halves(folder, sizes),
        *(_fifty(kind, sizes) for kind in KINDS),
        *_planted(sizes.seeds),
        *_decisions(sizes.tasks),
        *_covered(sizes.simulations),
    ]


def _halves(folder: Path, sizes: Sizes) -> list[Bar]:
    """Fit on half of a table by the command, and measure on the other half."""
    models = sizes.models
    kind = Kind(
        "", tuple(0.45 + 0.4 * m / models for m in range(models)), tuple(int(20_000 * 2.2**m) for m in range(models)),
        30, 0.18, 0.12,
    )  # fmt: skip
    lines = [
        {
            "id": str(n),
            "prompt": row.text,
            "models": {f"m{m}": {"score": row.scores[m] / M, "cost": row.costs[m] / 1e9} for m in range(models)},
        }
        for n, row in enumerate(table(kind, sizes.rows, 1))
    ]
    path, root = folder / "table.jsonl", folder / "root"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    own = dict(os.environ)
    measure([*EXP, "import", "outcomes", str(path), "--project", "p", "--root", str(root)], own, folder)
    words = ["optimize", "router", "p", "--evidence", "outcomes", "--incumbent", f"m{models - 1}", "--json"]
    done = measure([*EXP, *words, "--held-out-fraction", "0.5", "--root", str(root)], own, folder)
    found = json.loads(done.stdout)["report-in-full"]["differences"]
    gain = next(one for one in found if one["name"] == "aiq-over-zero-router")
    what = f"routers: half of {sizes.rows:,} x {models}"
    return [
        Bar(
            f"{what}: AIQ over the zero router, lower bound",
            (gain["low"] or 0) / M,
            0.000_001,
            "",
            "+0.045",
            least=True,
        ),
        Bar(f"{what}: fit and report", done.cpu, 10, "CPU s"),
    ]


def _fifty(kind: Kind, sizes: Sizes) -> Bar:
    worse = 0
    for seed in range(sizes.seeds):
        rows = table(kind, 50 + (1_000 if sizes.seeds > 1 else 50), 100 + seed)
        vectors = features.task_features([row.text for row in rows], ())
        worse += gain(fitted(rows[:50], vectors[:50]), rows[50:], vectors[50:]) < 0
    return Bar(
        f"routers: fitted on 50, {kind.name}: worse than the zero router", worse, 1, f"of {sizes.seeds}", PEER_GAIN
    )


SAID = (
    "Sort the rows of ledger {n} by amount and write them down",
    "Count the words in chapter {n} of the essay",
    "Download release {n} from the archive and verify its checksum",
    "Compile prog{n}.c with all warnings as errors",
)


def _planted(seeds: int) -> list[Bar]:
    """Plant a cheap candidate that does two of four kinds as well, one that is middling and one that is bad."""
    right, wrong = [], []
    for seed in range(seeds):
        chance = random.Random(seed)  # noqa: S311 - as above
        rows, texts = [], [SAID[n % 4].format(n=n * 37 + seed) for n in range(90)]
        vectors = features.task_features(texts, ())
        for n in range(50):
            means = (0.9 if n % 4 < 2 else 0.2, 0.5, 0.1, 0.9)  # noqa: PLR2004 - two kinds of four
            noisy = [min(M, max(0, int(M * (one + chance.gauss(0, 0.1))))) for one in means]
            seen = tuple(None if place < 3 and chance.random() < 0.2 else one for place, one in enumerate(noisy))  # noqa: PLR2004 - a fifth
            rows.append(Row(task=f"{n:03d}", lineage=f"{n}", vector=packed(vectors[n]), scores=seen, evidence=()))
        policy = frozen(
            Policy(
                version="bench", features=features.VERSION, project="p", build="b", setup="s", incumbent="dear",
                dial=Tolerance(millionths=50_000), rows=tuple(rows),
                candidates=tuple(
                    Candidate(alias=alias, endpoint="", cost=cost * 50, cells=50)
                    for alias, cost in (("cheap", 100), ("middling", 500), ("bad", 50), ("dear", 1_000))
                ),
            )
        )  # fmt: skip
        aliases = [alias for alias, _ in routes(policy, vectors[50:])]
        right += [alias == "cheap" for n, alias in enumerate(aliases, 50) if n % 4 < 2]  # noqa: PLR2004 - as above
        wrong += [alias != "dear" for n, alias in enumerate(aliases, 50) if n % 4 >= 2]  # noqa: PLR2004 - as above
    what = "routers: planted, 4 candidates, a fifth of cells missing, noisy judge: leave the dear one"
    return [
        Bar(f"{what} where another is as good", 100 * sum(right) / len(right), 80, "%", least=True),
        Bar(f"{what} where none is", 100 * sum(wrong) / len(wrong), 20, "%"),
    ]


def _decisions(most: int) -> list[Bar]:
    bars = []
    for tasks, limit in ((50, 0.7), (most, 3.0)):
        rows = table(KINDS[0], tasks, 5)
        policy = fitted(rows, features.task_features([row.text for row in rows], ()))
        asked = [[{"role": "user", "content": row.text}] for row in table(KINDS[0], 40, 6)]
        decide(policy, features.request_features(asked[0], ()))
        taken = []
        for messages in asked:
            started = time.process_time()
            decide(policy, features.request_features(messages, ()), Price(nano_usd=10**6))
            taken.append(time.process_time() - started)
        middle = sorted(taken)[len(taken) // 2] * 1_000
        bars.append(Bar(f"routers: decision on {tasks:,} fit tasks, hashing embedder", middle, limit, "CPU ms"))
    return bars


def _covered(times: int) -> list[Bar]:
    """Count how often 95% intervals hold the truth that chance was given."""
    chance = random.Random(9)  # noqa: S311 - as above
    held = dict.fromkeys(("share", "corrected share", "mean of repeated judgments", "mean", "difference"), 0)
    made = dict.fromkeys(held, 0)
    for trial in range(times):
        passed = sum(chance.random() < 0.8 for _ in range(30))  # noqa: PLR2004 - the truth
        one = share(passed, 30)
        made["share"] += 1
        held["share"] += one is not None and one.low <= SHARE <= one.high
        _corrected(chance, made, held)
        numbers = [round(M * chance.gauss(0.6, 0.1)) for _ in range(20)]
        mean = mean_interval(numbers)
        made["mean of repeated judgments"] += 1
        held["mean of repeated judgments"] += mean.low is not None and mean.low <= MEAN <= (mean.high or 0)
        _resampled(chance, trial, made, held)
    return [
        Bar(
            f"intervals: {name}, of 95% in {times:,} simulations",
            100 * held[name] / max(made[name], 1),
            93,
            "%",
            least=True,
        )
        for name in held
    ]


def _corrected(chance: random.Random, made: dict[str, int], held: dict[str, int]) -> None:
    """Let a judge that sees 90% of passes and 80% of fails, known from 30 and 20 labels, judge 100: 70% pass."""
    seen, fails = sum(chance.random() < 0.9 for _ in range(30)), sum(chance.random() < 0.8 for _ in range(20))  # noqa: PLR2004 - the truth
    said = sum(chance.random() < (0.9 if chance.random() < 0.7 else 0.2) for _ in range(100))  # noqa: PLR2004 - the truth
    found = corrected(said, 100, Confusion(pass_pass=seen, pass_fail=30 - seen, fail_pass=20 - fails, fail_fail=fails))
    if found.low is not None and found.high is not None:
        made["corrected share"] += 1
        held["corrected share"] += found.low <= CORRECTED <= found.high


def _resampled(chance: random.Random, trial: int, made: dict[str, int], held: dict[str, int]) -> None:
    """Twenty held-out tasks with scores of the beta(3, 2) and beta(2, 2) distributions."""
    cells = [
        Outcome(
            task=f"{trial}-{n}", lineage=f"{trial}-{n}", part="held-out", alias=alias, sample=0,
            score=int(M * chance.betavariate(shape, 2)), reason=None, problem="", ended=None, cost=1, model_calls=1,
            evidence="",
        )
        for n in range(20)
        for alias, shape in (("cheap", 2), ("dear", 3))
    ]  # fmt: skip
    basis = Basis(policy="p", incumbent="dear", candidates=("cheap", "dear"), uncovered={}, degenerate=())
    found = report(basis, cells, {f"{trial}-{n}": ("cheap", "r") for n in range(20)})
    line, gain = found.line("dear"), found.difference("perf-gain")
    for name, low, high, truth in (
        ("mean", line.low, line.high, 600_000),
        ("difference", gain.low, gain.high, -100_000),
    ):
        made[name] += 1
        held[name] += low is not None and high is not None and low <= truth <= high
