"""Two optimizations: inputs, answers, questions, and what follows in cells, costs, report and routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from commands.comparing import inputs
from commands.comparing.builds import environment
from commands.comparing.courses import Course, Place, Step, answer, asked, courses, part_of, said
from commands.comparing.sections import Row, Section, rows, shortened, words
from commands.optimizing.words import dollars, score
from commands.replaying.runs import recorded_plan
from ledger.differences import Difference, differences, first_difference
from ledger.families.judging import CalibrationPublished
from ledger.families.policies import PolicyFrozen, ReportPublished
from projections.report import Report

if TYPE_CHECKING:
    from commands.comparing.sides import Side
    from commands.optimizing.planning import Plan
    from ledger.journal import Journal
    from ledger.recorded import Recorded

NEIGHBOURS = 5
UNREAD = {"api": None}


class Run(NamedTuple):
    """One optimization with all that is compared of it."""

    journal: Journal
    plan: Plan
    started: Recorded
    courses: Mapping[Place, Course]
    policy: Recorded
    report: Report

    @property
    def inputs(self) -> dict[str, Any]:
        """What it started from."""
        return inputs.of_run(self.journal, self.plan, self.started)


def run_of(side: Side) -> Run:
    """Return the optimization of a side."""
    journal, started = side.journal, side.unit.record
    plan = recorded_plan(journal, side.endpoints, started)
    policy, published = (cast("Recorded", journal.find(kind, plan.run)) for kind in (PolicyFrozen, ReportPublished))
    content = journal.blob(cast("ReportPublished", published.event).content.blob)
    return Run(journal, plan, started, courses(journal, plan), policy, msgspec.json.decode(content, type=Report))


def compare_runs(one: Run, other: Run) -> list[Section]:
    """Return the sections in which two optimizations are compared, causes before consequences."""
    found = inputs.compared(one.inputs, other.inputs, (one.journal, other.journal))
    environments = [environment(run.plan.build) for run in (one, other)]
    pairs = [(one.courses[place], other.courses[place]) for place in one.courses if place in other.courses]
    return [
        Section("inputs", "Inputs that differ", rows(found)),
        Section("answers", "Answers that differ to the same question", list(_answers(one, other))),
        Section("questions", "Questions that only one asked", _questions(one, other, pairs)),
        Section("cells", "Cells that only one has", [*_only(one, other, "a"), *_only(other, one, "b")]),
        Section("environment", "Tasks and tools that differ", rows(differences(environments[0], environments[1]))),
        Section("exclusions", "Cells that count in one only", list(_exclusions(pairs))),
        Section("scores", "Scores that differ", list(_scores(pairs))),
        Section("costs", "Costs that differ", list(_costs(one, other))),
        Section("report", "Lines of the report that differ", list(_lines(one.report, other.report))),
        Section("routes", "Held-out tasks that go elsewhere", list(_routes(one, other))),
        Section("latency", "How long answers took", _latencies(one, other), said=True),
        Section("names", "Names that differ", list(_names(one, other)), said=True),
    ]


# Causes.


def _answers(one: Run, other: Run) -> Iterator[Row]:
    """Yield where two answers to the same question say something else."""
    theirs = {step.asked: step for course in other.courses.values() for step in course.steps}
    seen: set[tuple[str, int]] = set()
    for course in one.courses.values():
        for step in course.steps:
            twin = theirs.get(step.asked)
            if twin is None or twin.reply == step.reply or step.asked in seen:
                continue
            seen.add(step.asked)
            for found in differences(said(one.journal, step), said(other.journal, twin)):
                left, right = shortened(words(found.left), words(found.right))
                yield {
                    **_where(course, step),
                    "pointer": found.pointer,
                    "a": left,
                    "b": right,
                    "question": step.question,
                    "attempt": step.attempt,
                }


def _where(course: Course, step: Step) -> dict[str, str | int | None]:
    return {"role": step.role, "task": course.task, "candidate": course.part.alias, "turn": step.turn}


def _questions(one: Run, other: Run, pairs: Sequence[tuple[Course, Course]]) -> list[Row]:
    """Return where cells first ask something else, cells alike in one row; what follows an answer is no cause."""
    grouped: dict[tuple[str, str], dict[str, str | int | None]] = {}
    for left, right in pairs:
        steps = _parting(one, other, left, right)
        if steps is None:
            continue
        found = _parted(one, other, *steps)
        first = cast("Step", steps[0] or steps[1])
        row = grouped.get((first.role, found.pointer))
        if row is not None:
            row["cells"] = cast("int", row["cells"]) + 1
            continue
        texts = shortened(words(found.left), words(found.right))
        grouped[first.role, found.pointer] = {
            "role": first.role,
            "part": part_of(found.pointer) if found.pointer else "course",
            "pointer": found.pointer,
            "cells": 1,
            "task": left.task,
            "candidate": left.part.alias,
            "turn": first.turn,
            "a": texts[0],
            "b": texts[1],
            "question_a": steps[0].question if steps[0] else None,
            "question_b": steps[1].question if steps[1] else None,
        }
    return list(grouped.values())


def _parting(one: Run, other: Run, left: Course, right: Course) -> tuple[Step | None, Step | None] | None:
    """Return the first steps of a cell that ask different questions although all answers before were the same."""
    for mine, theirs in zip_longest(left.steps, right.steps):
        if mine is None or theirs is None or mine.question != theirs.question:
            return mine, theirs
        if mine.reply != theirs.reply and said(one.journal, mine) != said(other.journal, theirs):
            return None  # this answer led elsewhere, and it is named
    return None


def _parted(one: Run, other: Run, mine: Step | None, theirs: Step | None) -> Difference:
    """Return where two questions differ first; for steps of different kinds, which ones they are."""
    if mine is None or theirs is None or mine[:4] != theirs[:4]:
        return Difference(
            "", *("the end" if step is None else f"{step.role}, turn {step.turn}" for step in (mine, theirs))
        )
    found = first_difference(asked(one.journal, mine) or UNREAD, asked(other.journal, theirs) or UNREAD)
    return found or Difference("", mine.question, theirs.question)


def _only(one: Run, other: Run, side: str) -> Iterator[Row]:
    """Yield the cells that one run has and the other hasn't, a candidate in one row."""
    by_alias: dict[str, list[Course]] = {}
    for place, course in one.courses.items():
        if place not in other.courses:
            by_alias.setdefault(course.part.alias, []).append(course)
    for alias, some in by_alias.items():
        tasks = list(dict.fromkeys(course.task for course in some))
        steps = sum(len(course.steps) for course in some)
        yield {"side": side, "candidate": alias, "cells": len(some), "questions": steps, "tasks": " ".join(tasks)}


# Consequences.


def _exclusions(pairs: Sequence[tuple[Course, Course]]) -> Iterator[Row]:
    for left, right in pairs:
        if left.reason != right.reason:
            yield {**_cell(left), "a": left.reason or "counts", "b": right.reason or "counts"}


def _scores(pairs: Sequence[tuple[Course, Course]]) -> Iterator[Row]:
    for left, right in pairs:
        if left.score != right.score:
            yield {**_cell(left), "a": score(left.score), "b": score(right.score)}


def _cell(course: Course) -> dict[str, str | int | None]:
    cell = course.part.cell
    return {"task": course.task, "part": cell.part, "candidate": course.part.alias, "sample": cell.sample}


def _costs(one: Run, other: Run) -> Iterator[Row]:
    sums = [_cost_by_alias(run) for run in (one, other)]
    for alias in sorted(sums[0].keys() | sums[1].keys()):
        left, right = (side.get(alias, "no cell") for side in sums)
        if left != right:
            yield {"candidate": alias, "a": left, "b": right}


def _cost_by_alias(run: Run) -> dict[str, str]:
    costs: dict[str, list[int | None]] = {}
    for course in run.courses.values():
        costs.setdefault(course.part.alias, []).append(course.cost)
    return {
        alias: dollars(None if None in some else sum(cost for cost in some if cost is not None))
        for alias, some in costs.items()
    }


def _lines(one: Report, other: Report) -> Iterator[Row]:
    lines = [{line.name: line for line in report.lines} for report in (one, other)]
    for name in dict.fromkeys((*lines[0], *lines[1])):
        left, right = (msgspec.to_builtins(side[name]) if name in side else {} for side in lines)
        for found in differences(left, right):
            yield {"line": name, "pointer": found.pointer, "a": words(found.left), "b": words(found.right)}


def _routes(one: Run, other: Run) -> Iterator[Row]:
    """Yield the held-out tasks that another candidate gets now, and what makes the difference."""
    routed = [{_label(run, entry.task): entry for entry in run.report.routed} for run in (one, other)]
    moved = [task for task in routed[0] if task in routed[1] and routed[0][task].alias != routed[1][task].alias]
    if not moved:
        return
    from commands.comparing.routes import Router  # noqa: PLC0415 - numpy is loaded where a route differs

    routers = [Router(run.journal, run.plan, cast("PolicyFrozen", run.policy.event)) for run in (one, other)]
    for task in moved:
        left, right = routed[0][task], routed[1][task]
        yield {
            "task": task,
            "a": left.alias,
            "b": right.alias,
            "reason_a": left.reason,
            "reason_b": right.reason,
            "why": "; ".join(routers[0].against(routers[1], left.task, right.task)),
        }


def _label(run: Run, task: str) -> str:
    build = run.plan.build
    return build.trace_id(next(one.lineage for one in build.tasks if one.id == task))


# What makes nothing different.


def _latencies(one: Run, other: Run) -> list[Row]:
    found: list[Row] = []
    sides = [_latency_by_role(run) for run in (one, other)]
    for role in sorted(sides[0].keys() | sides[1].keys()):
        left, right = (side.get(role, []) for side in sides)
        if sorted(left) != sorted(right):
            medians = [median_low(side) if side else None for side in (left, right)]
            row: Row = {"role": role, "calls_a": len(left), "calls_b": len(right), "median_us_a": medians[0]}
            found.append({**row, "median_us_b": medians[1]})
    return found


def _latency_by_role(run: Run) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for course in run.courses.values():
        for step in course.steps:
            answered = answer(run.journal, step)
            if answered is not None:
                found.setdefault(step.role, []).append(answered.latency_us)
    return found


def _names(one: Run, other: Run) -> Iterator[Row]:
    for (what, left), right in zip(_named(one).items(), _named(other).values(), strict=True):
        if left != right:
            yield {"what": what, "a": left, "b": right}


def _named(run: Run) -> dict[str, str | None]:
    plan, started = run.plan, run.plan.started
    calibrations = [
        record.event.calibration
        for record in run.journal.events(CalibrationPublished, stream=f"calibration:{plan.request.project}")
        if isinstance(record.event, CalibrationPublished) and record.seq < run.started.seq
    ]
    return {
        "project": plan.request.project,
        "run": started.run,
        "build": started.inputs.build,
        "setup": started.inputs.setup,
        "calibration": calibrations[-1] if calibrations else None,
        "policy": cast("PolicyFrozen", run.policy.event).policy,
        "report": run.report.id,
    }
