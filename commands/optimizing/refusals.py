"""What an optimization declines to do, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger.differences import Difference
from ledger.errors import Refusal
from ledger.money import NanoUSD, usd

if TYPE_CHECKING:
    from projections.policy import Operating

SHOWN = 5


class CellsOwed(Refusal, name="cells-owed", exit_code=65):
    """Some calls brought no answer, so their cells are still owed and nothing is frozen."""

    def __init__(self, owed: int, cells: int, cause: Refusal) -> None:
        super().__init__(
            f"{owed} of {cells} cells are still owed, nothing is frozen; the first stopped at: {cause.what}",
            where=cause.where,
            remedy=f"{cause.remedy}\nthe same command goes on from what is recorded and asks nothing twice",
        )
        self.owed = owed
        self.cause = cause


class IncumbentUncovered(Refusal, name="incumbent-uncovered", exit_code=66):
    """No fit cell of the incumbent counts, so there is nothing to compare with."""

    def __init__(self, incumbent: str, tasks: int, reasons: dict[str, int]) -> None:
        why = ", ".join(f"{count} by {reason}" for reason, count in sorted(reasons.items())) or "none was planned"
        super().__init__(
            f"the incumbent {incumbent} covers none of {tasks} fit tasks ({why}); no policy is frozen",
            where="--incumbent",
            remedy="name another candidate as incumbent, or mend what excluded its cells: world model, judge or rubric",
        )


class JudgmentsAboveLimit(Refusal, name="judgments-above-limit", exit_code=67):
    """The plan has more cells than may be judged."""

    def __init__(self, cells: int, tasks: int, candidates: int, limit: int) -> None:
        super().__init__(
            f"{candidates} candidates on {tasks} tasks are {cells} cells and at most {limit} may be judged; "
            "nothing was called",
            where="--maximum-judgments",
            remedy=f"use --maximum-judgments {cells}, drop a candidate, or build with fewer tasks",
        )


class ReplayDiffers(Refusal, name="replay-differs", exit_code=69):
    """What the recorded answers lead to isn't what is recorded."""

    def __init__(self, seq: int, kind: str, how: str, difference: Difference | None = None) -> None:
        at = f", first at {difference.pointer}" if difference else ""
        super().__init__(
            f"event {seq} doesn't fit: {how}{at}",
            where=f"ledger.db, event {seq} ({kind})",
            remedy="run `exp check --full` and restore the root from a copy; nothing was called",
        )
        self.seq = seq
        self.difference = difference


class JournalUnsound(Refusal, name="journal-unsound", exit_code=80):
    """The journal that a result rests on has findings."""

    def __init__(self, findings: Sequence[tuple[int, str]]) -> None:
        damaged = sorted({seq for seq, _ in findings if seq})
        first = sorted(findings, key=lambda finding: not finding[0])[:SHOWN]  # what is wrong with the file comes last
        shown = "; ".join(meaning for _, meaning in first)
        more = f"; and {len(findings) - SHOWN} more" if len(findings) > SHOWN else ""
        places = ", ".join(map(str, damaged[:SHOWN])) + (", ..." if len(damaged) > SHOWN else "")
        super().__init__(
            f"the journal doesn't verify: {shown}{more}",
            where=f"ledger.db, event {places}" if damaged else "ledger.db",
            remedy="run `exp check --full`, and restore the root from a copy; nothing was called",
        )
        self.seqs = tuple(seq for seq, _ in findings)


class OptimizationGaps(Refusal, name="optimization-gaps", exit_code=81):
    """What an optimization needs is missing or contradicts itself; every gap is listed."""

    def __init__(self, gaps: Sequence[str]) -> None:
        super().__init__(
            f"the optimization has {len(gaps)} gap{'s' * (len(gaps) != 1)}; nothing was called",
            where="exp optimize router",
            remedy="\n".join(gaps),
        )


class NoTasks(Refusal, name="no-tasks", exit_code=82):
    """The build has no task to fit on, or none to measure on."""

    def __init__(self, project: str, part: str) -> None:
        super().__init__(
            f"the build of project {project} has no {part} task; nothing was called",
            where=f"project {project}",
            remedy="build from more traces",
        )


class TargetUnmet(Refusal, name="target-unmet", exit_code=230):
    """No setting of the dial does on fit tasks what was asked for."""

    def __init__(self, curve: Sequence[Operating], quality: int | None, cost: NanoUSD | None) -> None:
        if quality is not None:
            best = max((one.score for one in curve), default=None)
            reached = "nothing was measured" if best is None else f"the most is {best} millionths"
            what, flag = f"a mean score of {quality} millionths", "--target-quality"
        else:
            least = min((one.cost for one in curve), default=None)
            reached = "no cost is known" if least is None else f"the least is {usd(least, 9)}"
            what, flag = f"a mean cost of {usd(cost or 0, 9)} a request", "--target-cost"
        super().__init__(
            f"no setting of the dial reaches {what} on fit tasks: {reached}; nothing is frozen",
            where=flag,
            remedy=f"ask for less with {flag}, or fit on more candidates",
        )


class TrafficUnjudged(Refusal, name="traffic-unjudged", exit_code=231):
    """Requests of the gateway are answered by one model each and judged by nobody, so they compare nothing."""

    def __init__(self, project: str, answered: int) -> None:
        super().__init__(
            f"the gateway answered {answered} requests of this project, each by one model and none of them judged: "
            "that says nothing of how candidates compare; nothing was fitted",
            where=f"--evidence traffic, project {project}",
            remedy=f"build from the traffic and simulate: `exp build {project} --from-gateway`, then `exp optimize "
            f"router {project}`; or import judged outcomes: `exp import outcomes FILE --project {project}`",
        )


class SpendStopped(Refusal, name="spend-stopped", exit_code=83):
    """The ceiling was reached before all cells were done; what was answered is recorded."""

    def __init__(self, owed: int, cells: int, ceiling: NanoUSD, cause: Refusal) -> None:
        super().__init__(
            f"{owed} of {cells} cells are still owed under the ceiling of {usd(ceiling)}, "
            f"nothing is frozen: {cause.what}",
            where=cause.where,
            remedy=cause.remedy,
        )
