"""Reading: a finished optimization, put together from what the journal holds of it. Nothing is asked of anybody."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from commands.comparing.courses import Course, courses
from commands.optimizing.words import expectations
from commands.replaying.endpoints import Endpoints, base_url_of
from commands.replaying.runs import recorded_plan
from commands.reporting.calibrated import calibration_of, corrected_share
from commands.reporting.imported import Imported
from commands.reporting.resembling import resembled
from commands.reporting.rollouts import Rollouts
from commands.reporting.sheet import Asked, Calibrated, Cell, Origin, Resembled, Served, Sheet, Spent
from commands.reporting.spending import Wanted, spent
from commands.reporting.summary import summary
from ledger import digests
from ledger.errors import Refusal
from ledger.families.builds import artifact_id
from ledger.families.judging import JudgmentRecorded
from ledger.families.outcomes import RouterFittingStarted
from ledger.families.policies import OptimizationStarted
from projections import policy
from projections.calibration import share
from projections.exact import mean
from projections.retrieval import retrieval_text

if TYPE_CHECKING:
    from commands.calibrating import Bench
    from commands.optimizing.planning import Plan
    from commands.readings import Build
    from commands.reporting.meant import Meant
    from commands.reporting.sheet import Role
    from projections.report import Line, Report

NO_SETUP = "the judge isn't recorded"
NO_JUDGE = "scores came with the imported outcomes, and no judge that is known here gave them"
BROUGHT = "outcomes were imported, and no rollout came with them"


class _Reader:
    def __init__(self, meant: Meant) -> None:
        self.meant = meant
        self.journal = meant.journal
        self.endpoints = Endpoints(meant.journal)
        self.missing: dict[str, str] = {}
        self.routed = {one.task: one for one in meant.report.routed}
        self.imported = self._imported()
        self.plan = self._plan() if self.imported is None else None
        self.calibration, self.bench = self._calibration()

    def _plan(self) -> Plan | None:
        """Return the plan as it is recorded; when that can't be had, the sheet says why."""
        try:
            return recorded_plan(self.journal, self.endpoints, self.meant.unit.record)
        except Refusal as refusal:
            self.missing["cells"] = refusal.what
            return None

    def _imported(self) -> Imported | None:
        """Return the outcomes that a router was fitted on, when that is what happened."""
        event = self.meant.unit.record.event
        if not isinstance(event, RouterFittingStarted):
            return None
        self.missing["rollouts"] = BROUGHT
        return Imported(self.journal, event.inputs, self.routed)

    @property
    def evidence(self) -> Literal["cells", "outcomes", "report"]:
        """What the report rests on here."""
        return "outcomes" if self.imported is not None else "report" if self.plan is None else "cells"

    @property
    def started(self) -> OptimizationStarted | None:
        event = self.meant.unit.record.event
        return event if isinstance(event, OptimizationStarted) else None

    def _calibration(self) -> tuple[Calibrated, Bench | None]:
        if self.started is None:
            missing = NO_SETUP if self.imported is None else NO_JUDGE
            return Calibrated(id=None, seq=None, axes=(), keys={}, missing=missing), None
        inputs = self.started.inputs
        return calibration_of(self.journal, self.endpoints, inputs.project, inputs.setup)

    def cells(self) -> tuple[Cell, ...]:
        """Return the rollouts in the order of the plan: a task at a time."""
        if self.imported is not None:
            return tuple(self.imported.cells())
        if self.plan is None:
            return ()
        rollouts = Rollouts(self.journal, self.plan, {task: one.alias for task, one in self.routed.items()})
        return tuple(rollouts.cell(course) for course in self._courses.values())

    @property
    def _courses(self) -> dict[tuple[str, str, int], Course]:
        if self._read is None:
            self._read = {} if self.plan is None else courses(self.journal, self.plan)
        return self._read

    _read: dict[tuple[str, str, int], Course] | None = None

    def tasks(self) -> tuple[Asked, ...]:
        """Return the tasks, held-out ones first, since they are what the report is about."""
        routed = self.routed
        if self.imported is not None:
            return tuple(self.imported.tasks())
        if self.plan is None:
            return tuple(
                Asked(
                    id=one.task, label=one.task, part="held-out", lineage="", text="", routed=one.alias, why=one.reason
                )
                for one in routed.values()
            )
        build = self.plan.build
        ordered = sorted(build.tasks, key=lambda task: (task.part != "held-out", task.id))
        return tuple(
            Asked(
                id=task.id,
                label=build.trace_id(task.lineage),
                part=task.part,
                lineage=task.lineage,
                text=task.text,
                routed=routed[task.id].alias if task.id in routed else None,
                why=routed[task.id].reason if task.id in routed else None,
            )
            for task in ordered
        )

    def spent(self) -> tuple[Spent, ...]:
        """Return what this run's questions cost, and what building and calibrating did."""
        questions: dict[str, Role] = {
            step.question: step.role for course in self._courses.values() for step in course.steps
        }
        runs: dict[str, Role] = {}
        if self.plan is not None:
            name = self._build_run(self.plan.build)
            if name is not None:
                runs[name] = "build"
        for item in self.bench.sampled if self.bench is not None else ():
            for record in self.journal.events(JudgmentRecorded, stream=f"judgment:{item.subject}"):
                if isinstance(record.event, JudgmentRecorded):
                    questions[record.event.question] = "calibration"
        return spent(self.journal, Wanted(self.meant.unit.names[0], questions, runs))

    def _build_run(self, build: Build) -> str | None:
        """Return the name of the run that embedded a build's texts; when these are gone, the sheet says so."""
        try:
            texts = tuple(
                retrieval_text(build.trace(member.trace).task, turn.tool, turn.arguments)
                for member in build.manifest.members
                for turn in build.trace(member.trace).turns
            )
        except Refusal as refusal:
            self.missing["spend of the build"] = refusal.what
            return None
        return artifact_id("build-run", texts, build.completed.embedder)

    def expectations(self) -> tuple[str, ...]:
        """Return what so many tasks can and can't show; nothing where the policy can't be read."""
        try:
            made = msgspec.json.decode(self.journal.blob(self.meant.frozen.content.blob), type=policy.Policy)
        except Refusal as refusal:
            self.missing["policy"] = refusal.what
            return ()
        except msgspec.DecodeError:
            self.missing["policy"] = "this release can't read it"
            return ()
        return tuple(expectations(self.meant.report, made))[1:]  # the first one is in the summary

    def fidelity(self, cells: Sequence[Cell]) -> tuple[Resembled, ...]:
        """Return how near the world model came to what is recorded."""
        if self.plan is None:
            return ()
        build = self.plan.build
        try:
            return resembled(build, self.journal.blob(build.completed.vectors.blob), cells)
        except Refusal as refusal:
            self.missing["fidelity"] = refusal.what
            return ()

    def provenance(self) -> Iterator[Origin]:
        """Yield what all of it rests on, by the names that every command takes."""
        meant, record = self.meant, self.meant.unit.record
        yield Origin(what="report", name=meant.published.report)
        yield Origin(what="report content", name=meant.published.content.blob)
        yield Origin(what="policy", name=meant.frozen.policy)
        yield Origin(what="policy content", name=meant.frozen.content.blob)
        yield Origin(what="run", name=meant.unit.names[0])
        if self.started is not None:
            inputs = self.started.inputs
            yield Origin(what="build", name=inputs.build)
            yield Origin(what="judge setup", name=inputs.setup)
            for rival in inputs.rivals:
                yield Origin(what=f"candidate {rival.alias}", name=f"{rival.endpoint} at {rival.base_url}")
            yield Origin(what="rules", name=", ".join(inputs.versions))
        if self.imported is not None:
            yield from self.imported.provenance()
        if self.plan is not None:
            judge, world = self.plan.scene.judge, self.plan.scene.world_model
            yield Origin(
                what=f"judge {judge.setup.alias}", name=f"{judge.setup.judge} at {base_url_of(judge.endpoint)}"
            )
            yield Origin(what=f"world model {world.alias}", name=f"{world.digest} at {base_url_of(world)}")
            yield Origin(what=f"embedder {self.plan.embedder.alias}", name=self.plan.embedder.digest)
        yield Origin(what="calibration", name=self.calibration.id or f"none: {self.calibration.missing}")
        yield Origin(what="recorded by", name=record.envelope.actor)
        yield Origin(what="first event", name=f"{record.seq} {digests.named(record.id)}")
        checkpoint = self.journal.checkpoint()
        yield Origin(what="journal", name=checkpoint.origin)
        yield Origin(what="checkpoint", name=f"{checkpoint.size} events, {base64.b64encode(checkpoint.root).decode()}")


def read(meant: Meant) -> Sheet:
    """Return everything that a report shows."""
    reader = _Reader(meant)
    report = meant.report
    cells = reader.cells()
    made = Sheet(
        run=meant.unit.names[0],
        project=meant.unit.project,
        report_id=meant.published.report,
        policy=meant.frozen.policy,
        incumbent=report.incumbent,
        candidates=_candidates(report),
        report=report,
        summary=(),
        notes=(*report.degenerate, *reader.expectations()),
        lines=tuple(_served(line, report, reader.calibration) for line in report.lines),
        tasks=reader.tasks(),
        cells=cells,
        calibration=reader.calibration,
        spent=reader.spent(),
        fidelity=reader.fidelity(cells),
        provenance=tuple(reader.provenance()),
        evidence=reader.evidence,
        missing=reader.missing,
    )
    return _with_summary(made)


def _with_summary(made: Sheet) -> Sheet:
    return msgspec.structs.replace(made, summary=tuple(summary(made)))


def _candidates(report: Report) -> tuple[str, ...]:
    """Return the candidates in the order in which they were given: that of their lines."""
    return tuple(dict.fromkeys(line.name for line in report.lines[2:] if line.name in report.uncovered))


def _served(line: Line, report: Report, calibration: Calibrated) -> Served:
    return Served(
        name=line.name,
        counted=line.counted,
        excluded=line.excluded,
        mean=line.mean,
        low=line.low,
        high=line.high,
        cost=line.cost,
        cost_a_task=None if line.cost is None else mean(line.cost, report.tasks),
        calls=line.calls,
        passed=line.passed,
        raw=share(line.passed, line.counted),
        corrected=corrected_share(line, calibration, report),
    )
