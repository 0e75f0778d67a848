"""The report: every way of serving the held-out tasks, side by side, and how they differ.

Routed, incumbent, each candidate and the oracle are read off the same cells; the random mix and the zero router (the
best mix of candidates that ignores the request) are mixtures of those. Intervals come from resampling lineages, the
unit that is independent; the draws come from digests, so that they are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from blake3 import blake3

from ledger import canonical, digests
from ledger.event import Fact
from ledger.families.cells import Outcome
from ledger.money import NanoUSD
from projections.exact import mean
from projections.report.frontier import at, improvement, upper_hull
from projections.report.spread import Spread, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = "report@3"
SCALE = 1_000_000
RESAMPLES = 2_000
# How many of a million resamples are left out at either end of a 95% interval, from so many lineages on. One in forty
# are with many; with few their spread is too narrow, so fewer are: as many as are beyond Student's quantile times the
# root of n / (n - 1) in a normal distribution (the expanded percentile interval of Hesterberg, 2015).
OUTSIDE = (
    (2, 0), (4, 119), (5, 954), (6, 2_432), (7, 4_109), (8, 5_738), (9, 7_225), (10, 8_551), (12, 10_757),
    (15, 13_207), (20, 15_881), (25, 17_582), (30, 18_754), (40, 20_258), (50, 21_179), (75, 22_430), (100, 23_064),
    (150, 23_704), (200, 24_026), (300, 24_349), (1_000, 24_800), (10_000, 25_000),
)  # fmt: skip
FINER = 1_000  # mean costs are compared in thousandths of a nano-dollar


class Line(Fact):
    """One way to serve the held-out tasks. Scores are in millionths; None is not measured, or unknown.

    ``passed`` counts tasks whose score is a pass; ``calls`` are the calls of models that it took.
    """

    name: str
    counted: int
    excluded: int
    mean: int | None
    low: int | None
    high: int | None
    cost: NanoUSD | None
    passed: int = 0
    calls: int = 0


class Difference(Fact):
    """How two ways differ, with a 95% interval, in millionths; ``undefined`` says why there is none.

    ``shown`` tells whether the interval leaves out 0: otherwise so few tasks don't show that there is a difference.
    """

    name: str
    value: int | None = None
    low: int | None = None
    high: int | None = None
    shown: bool = False
    undefined: str = ""


class Point(Fact):
    """Routing at one setting of the dial: mean score in millionths, and mean cost in nano-dollars."""

    dial: str
    mean: int
    cost: NanoUSD
    moved: int


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
    fit_tasks: int = 0
    pass_from: int = SCALE // 2
    differences: tuple[Difference, ...] = ()
    aiq: dict[str, int | None] = msgspec.field(default_factory=dict)
    curve: tuple[Point, ...] = ()
    spreads: tuple[Spread, ...] = ()

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

    def difference(self, name: str) -> Difference:
        """Return the difference of that name; KeyError when there is none."""
        for difference in self.differences:
            if difference.name == name:
                return difference
        raise KeyError(name)


class Basis(Fact):
    """What a report says of the policy beside the held-out cells.

    ``course`` has, for each setting of the dial in words, which candidate each held-out task goes to.
    """

    policy: str
    incumbent: str
    candidates: tuple[str, ...]
    uncovered: dict[str, tuple[str, ...]]
    degenerate: tuple[str, ...]
    fit_tasks: int = 0
    pass_from: int = SCALE // 2
    course: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class Cell(msgspec.Struct, frozen=True):
    """A task as served by a candidate: the mean of its samples that count, and what one cost on average."""

    alias: str
    lineage: str
    score: int | None
    cost: NanoUSD | None
    calls: int


Served = Mapping[str, Cell | None]


def report(basis: Basis, outcomes: Sequence[Outcome], routes: Mapping[str, tuple[str, str]]) -> Report:
    """Return the report. ``routes`` says for each held-out task which candidate gets it and why."""
    held = sorted(
        (outcome for outcome in outcomes if outcome.part == "held-out"),
        key=lambda one: (one.task, one.alias, one.sample),
    )
    by_task = _cells(held)
    draws = _Draws(held)
    served: dict[str, Served] = {
        "routed": {task: cells.get(routes[task][0]) for task, cells in by_task.items()},
        "incumbent": {task: cells.get(basis.incumbent) for task, cells in by_task.items()},
        **{alias: {task: cells.get(alias) for task, cells in by_task.items()} for alias in basis.candidates},
        "oracle": {task: _best(cells, basis.incumbent) for task, cells in by_task.items()},
    }
    course = {
        dial: {task: cells.get(aliases.get(task, "")) for task, cells in by_task.items()}
        for dial, aliases in basis.course.items()
    }
    compared = _Compared(basis, served, course, draws)
    return Report(
        version=VERSION,
        policy=basis.policy,
        incumbent=basis.incumbent,
        tasks=len(by_task),
        lineages=len({outcome.lineage for outcome in held}),
        lines=tuple(_line(name, cells, draws, basis.pass_from) for name, cells in served.items()),
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
        fit_tasks=basis.fit_tasks,
        pass_from=basis.pass_from,
        differences=compared.differences(),
        aiq=compared.aiq(),
        curve=compared.curve(basis.course),
        spreads=tuple(_spread(alias, held, basis.pass_from) for alias in basis.candidates),
    )


def _cells(held: Sequence[Outcome]) -> dict[str, dict[str, Cell]]:
    """Return the cells by task and candidate, samples put together."""
    samples: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in held:
        samples.setdefault(outcome.task, {}).setdefault(outcome.alias, []).append(outcome)
    return {task: {alias: _cell(own) for alias, own in by_alias.items()} for task, by_alias in samples.items()}


def _cell(own: Sequence[Outcome]) -> Cell:
    scores = [one.score for one in own if one.score is not None]
    costs = [one.cost for one in own if one.cost is not None]
    return Cell(
        alias=own[0].alias,
        lineage=own[0].lineage,
        score=mean(sum(scores), len(scores)),
        cost=mean(sum(costs), len(costs)) if len(costs) == len(own) else None,
        calls=sum(one.model_calls for one in own),
    )


def _best(cells: Mapping[str, Cell], incumbent: str) -> Cell | None:
    """Return the cell with the best score: of equals the cheapest, then the incumbent's, then by name."""
    counted = [cell for cell in cells.values() if cell.score is not None]
    return min(
        counted,
        key=lambda cell: (-(cell.score or 0), cell.cost is None, cell.cost or 0, cell.alias != incumbent, cell.alias),
        default=None,
    )


def _line(name: str, cells: Served, draws: _Draws, pass_from: int) -> Line:
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
        passed=sum((cell.score or 0) >= pass_from for cell in counted),
        calls=sum(cell.calls for cell in cells.values() if cell is not None),
    )


def _spread(alias: str, held: Sequence[Outcome], pass_from: int) -> Spread:
    scores: dict[str, list[int]] = {}
    for outcome in held:
        if outcome.alias == alias and outcome.score is not None:
            scores.setdefault(outcome.task, []).append(outcome.score)
    return spread(alias, scores, pass_from)


class _Draws:
    """Resamples of lineages, the same for every line so that lines can be compared."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.lineages = sorted({outcome.lineage for outcome in outcomes})
        count = len(self.lineages)
        seed = canonical.digest_input("report-draws", self.lineages)
        stream = blake3(seed).digest(length=4 * RESAMPLES * count) if count else b""
        drawn = np.frombuffer(stream, dtype="<u4").astype(np.int64).reshape(RESAMPLES, count) % max(count, 1)
        self.places = {lineage: place for place, lineage in enumerate(self.lineages)}
        # How often each lineage is drawn: integers held in float64, whose products with sums stay exact below 2^53.
        times = np.zeros((RESAMPLES, count), dtype=np.float64)
        np.add.at(times, (np.arange(RESAMPLES)[:, None], drawn), 1)
        self.times = times

    def totals(self, cells: Sequence[Cell], value: Callable[[Cell], int | None]) -> tuple[NDArray[np.int64], ...]:
        """Return sums of a value and how many cells have it: the sample's own, then each resample's."""
        sums = np.zeros(len(self.places), dtype=np.int64)
        counts = np.zeros(len(self.places), dtype=np.int64)
        for cell in cells:
            if (own := value(cell)) is not None:
                sums[self.places[cell.lineage]] += own
                counts[self.places[cell.lineage]] += 1
        drawn = [self._drawn(sums), self._drawn(counts)]
        return tuple(np.concatenate([[own.sum()], rest]) for own, rest in zip((sums, counts), drawn, strict=True))

    def _drawn(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        high, low = sums >> 20, sums & ((1 << 20) - 1)
        return (((self.times @ high).astype(np.int64)) << 20) + (self.times @ low).astype(np.int64)

    def means(self, cells: Sequence[Cell], value: Callable[[Cell], int | None], finer: int = 1) -> NDArray[np.int64]:
        """Return the mean of the sample and of each resample, rounded once; NOTHING where none counts."""
        sums, counts = self.totals(cells, value)
        return np.where(counts > 0, (2 * finer * sums + counts) // np.maximum(2 * counts, 1), NOTHING)

    def interval(self, counted: Sequence[Cell]) -> tuple[int | None, int | None]:
        """Return the bounds of the mean score in millionths; None when fewer than two lineages count."""
        if len({cell.lineage for cell in counted}) < 2:  # noqa: PLR2004 - one lineage can't vary
            return None, None
        return bounds(self.means(counted, _score)[1:], len({cell.lineage for cell in counted}))


NOTHING = np.iinfo(np.int64).min


def bounds(resampled: NDArray[np.int64], lineages: int) -> tuple[int | None, int | None]:
    """Return the 95% interval of what resamples of so many lineages gave, leaving out those that gave nothing."""
    some = np.sort(resampled[resampled != NOTHING])
    if not len(some):
        return None, None
    outside = len(some) * max(rare for least, rare in OUTSIDE if least <= lineages) // SCALE
    return int(some[outside]), int(some[len(some) - 1 - outside])


def _score(cell: Cell) -> int | None:
    return cell.score


def _cost(cell: Cell) -> int | None:
    return cell.cost


class _Compared:
    """Means of every way in the sample (place 0) and in each resample, and what follows from them."""

    def __init__(self, basis: Basis, served: Mapping[str, Served], course: Mapping[str, Served], draws: _Draws) -> None:
        self.basis = basis
        self.lineages = len(draws.lineages)
        ways: dict[str, Served] = {**served, **{f"dial:{dial}": cells for dial, cells in course.items()}}
        self.scores: dict[str, NDArray[np.int64]] = {}
        self.costs: dict[str, NDArray[np.int64]] = {}
        self.whole: dict[str, bool] = {}
        alike: dict[tuple[str, ...], str] = {}  # many settings of the dial serve all tasks alike
        for name, cells in ways.items():
            first = alike.setdefault(tuple("" if cell is None else cell.alias for cell in cells.values()), name)
            if first != name:
                self.scores[name], self.costs[name] = self.scores[first], self.costs[first]
                self.whole[name] = self.whole[first]
                continue
            counted = [cell for cell in cells.values() if cell is not None and cell.score is not None]
            self.scores[name] = draws.means(counted, _score)
            self.costs[name] = draws.means(counted, _cost, FINER)
            self.whole[name] = bool(counted) and all(cell.cost is not None for cell in counted)
        self.dials = tuple(f"dial:{dial}" for dial in course)

    def curve(self, course: Mapping[str, Mapping[str, str]]) -> tuple[Point, ...]:
        """Return the points along the dial, from the cheapest on."""
        found = [
            Point(
                dial=name.removeprefix("dial:"),
                mean=int(self.scores[name][0]),
                cost=(2 * int(self.costs[name][0]) + FINER) // (2 * FINER),
                moved=sum(alias != self.basis.incumbent for alias in course[name.removeprefix("dial:")].values()),
            )
            for name in self.dials
            if self.whole[name]
        ]
        return tuple(sorted(found, key=lambda one: (one.cost, one.mean, one.dial)))

    def aiq(self) -> dict[str, int | None]:
        """Return the AIQ of the router, the zero router, the random mix and the oracle, in millionths."""
        router, zero = self._areas()
        return {
            "router": _or_none(router[0]),
            "zero-router": _or_none(zero[0]),
            "random-mix": self._random(),
            "oracle": _or_none(self.scores["oracle"][0]),
        }

    def _random(self) -> int | None:
        means = [int(self.scores[alias][0]) for alias in self.basis.candidates]
        return None if NOTHING in means else mean(sum(means), len(means))

    def differences(self) -> tuple[Difference, ...]:
        """Return every difference with its interval."""
        unpriced = next((name for name in ("routed", "incumbent") if not self.whole[name]), None)
        priced = "" if unpriced is None else f"what {unpriced} cost is unknown"
        router, zero = self._areas()
        flat = "" if router[0] != NOTHING else "the costs of the candidates are equal or unknown, or no dial was tried"
        gap = self._apart(self.scores["oracle"], self.scores["routed"])
        mixed = [self.scores[alias] for alias in self.basis.candidates]
        return (
            self._difference("perf-gain", self._apart(self.scores["routed"], self.scores["incumbent"])),
            self._difference("cost-save", self._saved("routed", "incumbent"), priced),
            self._difference("routed-over-zero-router", self._over_zero(), flat or priced),
            self._difference("routed-over-random-mix", self._over_mix(mixed)),
            self._difference("gap-to-oracle", gap),
            self._difference("aiq-over-zero-router", self._apart(router, zero), flat),
        )

    def _difference(self, name: str, values: NDArray[np.int64], undefined: str = "") -> Difference:
        if not undefined and (values[0] == NOTHING or self.lineages < 2):  # noqa: PLR2004 - one lineage can't vary
            undefined = "nothing counts" if values[0] == NOTHING else "fewer than two lineages count"
        if undefined:
            return Difference(name=name, undefined=undefined)
        low, high = bounds(values[1:], self.lineages)
        shown = low is not None and high is not None and (low > 0 or high < 0)
        return Difference(name=name, value=int(values[0]), low=low, high=high, shown=shown)

    def _apart(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
        there = (one != NOTHING) & (other != NOTHING)
        return np.where(there, np.where(there, one, 0) - np.where(there, other, 0), NOTHING)

    def _saved(self, name: str, other: str) -> NDArray[np.int64]:
        """Return the share of the other's cost that is saved, in millionths."""
        own, base = self.costs[name], self.costs[other]
        there = (own != NOTHING) & (base != NOTHING) & (base > 0)
        safe = np.where(there, base, 1)
        return np.where(there, SCALE - (2 * SCALE * np.where(there, own, 0) // safe + 1) // 2, NOTHING)

    def _over_mix(self, mixed: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        there = np.all([one != NOTHING for one in mixed], axis=0)
        total = np.sum([np.where(there, one, 0) for one in mixed], axis=0)
        count = max(len(mixed), 1)
        return self._apart(self.scores["routed"], np.where(there, (2 * total + count) // (2 * count), NOTHING))

    def _over_zero(self) -> NDArray[np.int64]:
        """Return how much better routing is than the best mix of the same cost that ignores the request."""
        found = np.full(len(self.scores["routed"]), NOTHING)
        names = self.basis.candidates
        if not all(self.whole[name] for name in (*names, "routed")):
            return found
        columns = [(self.costs[name].tolist(), self.scores[name].tolist()) for name in names]
        routed = zip(self.costs["routed"].tolist(), self.scores["routed"].tolist(), strict=True)
        for place, (cost, score) in enumerate(routed):
            single = [(costs[place], scores[place]) for costs, scores in columns]
            if score == NOTHING or any(one == NOTHING for _, one in single):
                continue
            hull = upper_hull(single)
            other = at(hull, max(cost, hull[0][0])) or Fraction(0)
            found[place] = (2 * (score - other) + 1) // 2
        return found

    def _areas(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the AIQ of the router and of the zero router, in the sample and in each resample."""
        if self._found is None:
            self._found = self._measured_areas()
        return self._found

    _found: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def _measured_areas(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        count = len(self.scores["routed"])
        router, zero = np.full(count, NOTHING), np.full(count, NOTHING)
        names = self.basis.candidates
        if not self.dials or not all(self.whole[name] for name in (*names, *self.dials)):
            return router, zero
        singles = [(self.costs[name].tolist(), self.scores[name].tolist()) for name in names]
        distinct = {id(self.scores[name]): name for name in self.dials}.values()
        dials = [(self.costs[name].tolist(), self.scores[name].tolist()) for name in distinct]
        for place in range(count):
            single = [(costs[place], scores[place]) for costs, scores in singles]
            reached = [(costs[place], scores[place]) for costs, scores in dials]
            if any(score == NOTHING for _, score in (*single, *reached)):
                continue
            cheapest = min(single)
            least, most = cheapest[0], max(cost for cost, _ in single)
            own, other = improvement([*reached, cheapest], least, most), improvement(single, least, most)
            if own is not None and other is not None:
                router[place], zero[place] = own, other
        return router, zero


def _or_none(value: np.int64) -> int | None:
    return None if value == NOTHING else int(value)


def _degenerate(basis: Basis, served: Mapping[str, Served], routes: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
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
