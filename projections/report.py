"""Report: what a policy is worth, on held-out tasks only.

Routed, incumbent, each candidate and the oracle are read off the same cells. Intervals come from resampling lineages,
the unit that is independent; the draws come from digests, so that they are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from blake3 import blake3

from ledger import canonical, digests
from ledger.event import Fact
from ledger.families.cells import Outcome
from ledger.money import NanoUSD
from projections.exact import mean

VERSION = "report@1"
RESAMPLES = 2_000
OUTSIDE = 40  # one in forty below and one in forty above: a 95% interval


class Line(Fact):
    """One way to serve the held-out tasks. Scores are in millionths; None is not measured, or unknown."""

    name: str
    counted: int
    excluded: int
    mean: int | None
    low: int | None
    high: int | None
    cost: NanoUSD | None


class Exclusion(Fact):
    """A held-out cell that can't count."""

    alias: str
    task: str
    reason: str
    problem: str


class Routed(Fact):
    """Where a held-out task goes, and why."""

    task: str
    alias: str
    reason: str
    score: int | None


class Report(Fact):
    """A policy on held-out tasks."""

    version: str
    policy: str
    incumbent: str
    tasks: int
    lineages: int
    lines: tuple[Line, ...]
    routed: tuple[Routed, ...]
    exclusions: tuple[Exclusion, ...]
    uncovered: dict[str, tuple[str, ...]]
    degenerate: tuple[str, ...]

    @property
    def id(self) -> str:
        """The name of a report."""
        return f"report-{digests.content_digest(canonical.encode(self))[3:35]}"

    def line(self, name: str) -> Line:
        """Return the line of that name; KeyError when there is none."""
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)


class Basis(Fact):
    """What a report says of the policy beside the held-out cells."""

    policy: str
    incumbent: str
    candidates: tuple[str, ...]
    uncovered: dict[str, tuple[str, ...]]
    degenerate: tuple[str, ...]


def report(basis: Basis, outcomes: Sequence[Outcome], routes: Mapping[str, tuple[str, str]]) -> Report:
    """Return the report. ``routes`` says for each held-out task which candidate gets it and why."""
    held = sorted(
        (outcome for outcome in outcomes if outcome.part == "held-out"),
        key=lambda one: (one.task, one.alias, one.sample),
    )
    by_task: dict[str, dict[str, Outcome]] = {}
    for outcome in held:
        by_task.setdefault(outcome.task, {})[outcome.alias] = outcome
    draws = _Draws(held)
    served = {
        "routed": {task: cells.get(routes[task][0]) for task, cells in by_task.items()},
        "incumbent": {task: cells.get(basis.incumbent) for task, cells in by_task.items()},
        **{alias: {task: cells.get(alias) for task, cells in by_task.items()} for alias in basis.candidates},
        "oracle": {task: _best(cells, basis.incumbent) for task, cells in by_task.items()},
    }
    return Report(
        version=VERSION,
        policy=basis.policy,
        incumbent=basis.incumbent,
        tasks=len(by_task),
        lineages=len({outcome.lineage for outcome in held}),
        lines=tuple(_line(name, cells, draws) for name, cells in served.items()),
        routed=tuple(
            Routed(task=task, alias=routes[task][0], reason=routes[task][1], score=cell.score if cell else None)
            for task, cell in served["routed"].items()
        ),
        exclusions=tuple(
            Exclusion(alias=one.alias, task=one.task, reason=one.reason, problem=one.problem)
            for one in held
            if one.reason is not None
        ),
        uncovered=basis.uncovered,
        degenerate=(*basis.degenerate, *_degenerate(basis, served, routes)),
    )


def _best(cells: Mapping[str, Outcome], incumbent: str) -> Outcome | None:
    """Return the cell with the best score: of equals the cheapest, then the incumbent's, then by name."""
    counted = [cell for cell in cells.values() if cell.score is not None]
    return min(
        counted,
        key=lambda cell: (-(cell.score or 0), cell.cost is None, cell.cost or 0, cell.alias != incumbent, cell.alias),
        default=None,
    )


def _line(name: str, cells: Mapping[str, Outcome | None], draws: _Draws) -> Line:
    counted = [cell for cell in cells.values() if cell is not None and cell.score is not None]
    total = sum(cell.score or 0 for cell in counted)
    costs = [cell.cost if cell is not None else None for cell in cells.values()]
    known = [cost for cost in costs if cost is not None]
    low, high = draws.interval(counted)
    return Line(
        name=name,
        counted=len(counted),
        excluded=len(cells) - len(counted),
        mean=mean(total, len(counted)),
        low=low,
        high=high,
        cost=sum(known) if len(known) == len(costs) else None,
    )


class _Draws:
    """Resamples of lineages, the same for every line so that lines can be compared."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.lineages = sorted({outcome.lineage for outcome in outcomes})
        count = len(self.lineages)
        seed = canonical.digest_input(VERSION, self.lineages)
        stream = blake3(seed).digest(length=4 * RESAMPLES * count) if count else b""
        drawn = np.frombuffer(stream, dtype="<u4").astype(np.int64).reshape(RESAMPLES, count)
        self.drawn = drawn % max(count, 1)

    def interval(self, counted: Sequence[Outcome]) -> tuple[int | None, int | None]:
        """Return the bounds of the mean in millionths; None when fewer than two lineages count."""
        if len({outcome.lineage for outcome in counted}) < 2:  # noqa: PLR2004 - one lineage can't vary
            return None, None
        places = {lineage: place for place, lineage in enumerate(self.lineages)}
        totals = np.zeros(len(places), dtype=np.int64)
        counts = np.zeros(len(places), dtype=np.int64)
        for outcome in counted:
            totals[places[outcome.lineage]] += outcome.score or 0
            counts[places[outcome.lineage]] += 1
        drawn_totals, drawn_counts = totals[self.drawn].sum(axis=1), counts[self.drawn].sum(axis=1)
        some = drawn_counts > 0
        means = np.sort((2 * drawn_totals[some] + drawn_counts[some]) // (2 * drawn_counts[some]))
        outside = len(means) // OUTSIDE
        return int(means[outside]), int(means[len(means) - 1 - outside])


def _degenerate(
    basis: Basis, served: Mapping[str, Mapping[str, Outcome | None]], routes: Mapping[str, tuple[str, str]]
) -> tuple[str, ...]:
    """Return what makes the evidence say less than it seems to."""
    said = []
    scores = {
        cell.score for alias in basis.candidates for cell in served[alias].values() if cell and cell.score is not None
    }
    if not scores:
        said.append("no held-out cell counts: the report measures nothing")
    elif len(scores) == 1:
        said.append(
            "constant scores: every held-out cell has the same score, so the report can't tell candidates apart"
        )
    if routes and all(alias == basis.incumbent for alias, _ in routes.values()):
        said.append("every request falls back: each held-out task goes to the incumbent, so routing changes nothing")
    return tuple(said)
