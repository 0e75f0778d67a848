"""The summary: what an optimization came to, in sentences for somebody who has never seen one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from commands.render.report_words import SCALE, dollars, interval, percent, percents, plural, score, signed

if TYPE_CHECKING:
    from commands.reporting.sheet import Served, Sheet
    from projections.report import Difference, Report

FEW = 30  # tasks, below which a difference must be large to be shown


def summary(sheet: Sheet) -> Iterator[str]:
    """Yield the sentences."""
    lines = {line.name: line for line in sheet.lines}
    yield _what(sheet)
    yield _routes(sheet.report)
    if "routed" in lines and "incumbent" in lines:
        yield _quality(sheet, lines["routed"], lines["incumbent"])
        yield _cost(sheet, lines["routed"], lines["incumbent"])
        yield _passes(lines["routed"], sheet)
    yield from _judge(sheet)
    yield _missing(sheet) if sheet.evidence == "outcomes" else _exclusions(sheet.report)
    yield from _environment(sheet)


def _what(sheet: Sheet) -> str:
    report = sheet.report
    return (
        f"For project {sheet.project}, a router was learned from {plural(report.fit_tasks, 'task')} to choose among"
        f" {_listed(sheet.candidates)}; {sheet.incumbent} is the incumbent, which answers whenever nothing better is"
        f" known. Everything below is measured on {plural(report.tasks, 'held-out task')} from"
        f" {plural(report.lineages, 'independent source')}, which nothing was learned from."
    )


def _routes(report: Report) -> str:
    counts = Counter(one.alias for one in report.routed)
    moved = len(report.routed) - counts[report.incumbent]
    if not moved:
        return f"The router sends every held-out task to the incumbent, {report.incumbent}: it changes nothing."
    elsewhere = [f"{count:,} to {alias}" for alias, count in sorted(counts.items()) if alias != report.incumbent]
    return f"The router sends {moved:,} of {len(report.routed):,} held-out tasks elsewhere: {_listed(elsewhere)}."


def _quality(sheet: Sheet, routed: Served, incumbent: Served) -> str:
    said = (
        f"Routing scores {score(routed.mean)} on average ({_interval(routed)}), always asking {sheet.incumbent}"
        f" {score(incumbent.mean)} ({_interval(incumbent)}), where 1 is the best."
    )
    return f"{said} {_difference('The difference', _of(sheet.report, 'perf-gain'), sheet.report.tasks)}"


def _interval(line: Served) -> str:
    return "no interval" if line.low is None else f"95% interval {interval(line.low, line.high)}"


def _cost(sheet: Sheet, routed: Served, incumbent: Served) -> str:
    if routed.cost is None or incumbent.cost is None:
        return "What these tasks cost is unknown, since at least one call came without a price or a count of tokens."
    said = f"Answering these tasks cost {dollars(routed.cost)} routed and {dollars(incumbent.cost)} by the incumbent."
    if incumbent.cost == 0:
        return f"{said} What is free can't be saved on."
    saved = _of(sheet.report, "cost-save")
    if saved is None or saved.value is None:
        return f"{said} What share is saved is undefined{_because(saved)}."
    if saved.value == 0 and saved.low == 0 and saved.high == 0:
        return f"{said} Nothing is saved."
    shown = "" if saved.shown else "; so few tasks don't show whether anything is saved"
    within = f"(95% interval {percents(saved.low, saved.high)})"
    if saved.value < 0:
        return f"{said} Routing costs {percent(-saved.value)} more: the share saved is negative {within}{shown}."
    return f"{said} Routing saves {percent(saved.value)} {within}{shown}."


def _difference(what: str, one: Difference | None, tasks: int) -> str:
    if one is None or one.value is None:
        return f"{what} is undefined{_because(one)}."
    if one.value == 0 and one.low == 0 and one.high == 0:
        return f"{what} is exactly 0."
    said = f"{what} is {signed(one.value)} (95% interval {interval(one.low, one.high)})"
    if one.shown:
        return f"{said}; chance alone hardly explains it."
    few = "so few tasks" if tasks < FEW else "these tasks"
    return f"{said}: {few} don't show that there is one."


def _because(one: Difference | None) -> str:
    return "" if one is None or not one.undefined else f": {one.undefined}"


def _of(report: Report, name: str) -> Difference | None:
    return next((one for one in report.differences if one.name == name), None)


def _passes(routed: Served, sheet: Sheet) -> str:
    if routed.raw is None:
        return "No routed task counts, so no share of passes is measured."
    if sheet.evidence == "outcomes":
        least = score(sheet.report.pass_from)
        return f"{routed.passed:,} of {routed.counted:,} routed tasks score {least} or more, which counts as a pass."
    said = (
        f"The judge passes {routed.passed:,} of {routed.counted:,} routed tasks"
        f" (95% interval {percents(routed.raw.low, routed.raw.high)})."
    )
    corrected = routed.corrected
    if sheet.calibration.missing:
        return f"{said} How many people would pass isn't known."
    if corrected.value is None:
        return f"{said} How many people would pass isn't known: {corrected.undefined}."
    if (corrected.low, corrected.high) == (0, SCALE):
        return f"{said} Labels are too few to say what share people would pass: it could be any."
    return (
        f"{said} Given how often judge and people disagreed, people would pass about {percent(corrected.value)}"
        f" (95% interval {percents(corrected.low, corrected.high)})."
    )


_VERDICTS = {
    "calibrated": "scores can be read with the errors that are shown",
    "agreement-only": "labels are too few, or too alike, to say how good it is",
    "not-identified": "labels of one side only can't show whether it tells good from bad",
    "path-exercise": "a stand-in judged or labelled, so this shows that the path works and nothing else",
}


def _judge(sheet: Sheet) -> Iterator[str]:
    for axis in sheet.calibration.axes:
        agreed = "" if axis.agreement is None else f", agreeing on {axis.agreement.count} of {axis.agreement.of}"
        yield (
            f"The judge was compared with people on {plural(axis.counted, 'item')} for {axis.axis}{agreed}:"
            f" {axis.verdict}, that is, {_VERDICTS[axis.verdict]}."
        )
    if sheet.calibration.missing:
        yield f"Scores are taken at their word: {sheet.calibration.missing}."


def _exclusions(report: Report) -> str:
    if not report.exclusions:
        return "No held-out rollout is excluded."
    counts = Counter(one.reason for one in report.exclusions)
    why = _listed([f"{count:,} for {reason.replace('_', ' ')}" for reason, count in sorted(counts.items())])
    return f"{plural(len(report.exclusions), 'held-out rollout')} can't count and lower no mean: {why}."


def _missing(sheet: Sheet) -> str:
    held = [cell for cell in sheet.cells if cell.part == "held-out"]
    lacking = sum(cell.score is None for cell in held) + sheet.report.tasks * len(sheet.candidates) - len(held)
    if not lacking:
        return "No held-out outcome is missing."
    return f"{plural(lacking, 'held-out outcome')} of the table are missing, and lower no mean."


def _environment(sheet: Sheet) -> Iterator[str]:
    for one in sheet.fidelity:
        if one.way != "world model" or one.steps != "reached":
            continue
        if one.nearness is None:
            yield f"How true the simulated environment is isn't measured: {one.missing}."
        else:
            yield (
                f"Where rollouts took the recorded actions ({plural(one.nearness.counted, 'step')}), the simulated"
                f" environment gave the recorded answer {one.nearness.equal:,} times;"
                f" {percent(one.nearness.overlap)} of the words agree on average."
            )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"
