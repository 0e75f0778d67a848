"""The report in tables, for a terminal: the same facts as the page, without the rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from commands.render.report_words import (
    NOT_MEASURED,
    corrected,
    count,
    dollars,
    interval,
    percent,
    percents,
    score,
    signed,
)
from commands.render.table import table

if TYPE_CHECKING:
    from commands.reporting.sheet import Served, Sheet
    from projections.calibration import Share

MOST_TASKS = 30
WIDTH = 100


def report_text(sheet: Sheet) -> Iterator[str]:
    """Yield the paragraphs."""
    yield f"report {sheet.report_id} of {sheet.run}"
    yield "\n".join(_folded(f"- {sentence}") for sentence in sheet.summary)
    if sheet.notes:
        yield "\n".join(("What makes this say less than it seems to:", *(_folded(f"- {one}") for one in sheet.notes)))
    for title, header, rows in _tables(sheet):
        if rows:
            yield f"{title}\n{table(header, rows)}"


Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


def _tables(sheet: Sheet) -> Iterator[Table]:
    yield _lines(sheet)
    yield _differences(sheet)
    yield _cells(sheet)
    yield _calibration(sheet)
    labels = {task.id: task.label for task in sheet.tasks}
    yield (
        "Held-out rollouts that can't count",
        ("task", "candidate", "reason", "problem"),
        [(labels.get(one.task, one.task), one.alias, one.reason, one.problem) for one in sheet.report.exclusions],
    )
    yield _spend(sheet)
    yield _fidelity(sheet)
    yield "Provenance", ("what", "name"), [(one.what, one.name) for one in sheet.provenance]
    yield "Not shown", ("what", "why"), list(sheet.missing.items())


def _lines(sheet: Sheet) -> Table:
    header = ("way", "mean", "95% interval", "a task", "passes", "raw", "corrected", "counted", "excluded", "calls")
    return "Ways to serve the held-out tasks", header, [_line(one) for one in sheet.lines]


def _line(one: Served) -> tuple[str, ...]:
    return (
        one.name,
        score(one.mean),
        interval(one.low, one.high),
        dollars(one.cost_a_task),
        count(one.passed),
        NOT_MEASURED if one.raw is None else percents(one.raw.low, one.raw.high),
        corrected(one.corrected),
        count(one.counted),
        count(one.excluded),
        count(one.calls),
    )


def _differences(sheet: Sheet) -> Table:
    rows = [
        (
            one.name,
            f"undefined: {one.undefined}" if one.value is None else signed(one.value),
            interval(one.low, one.high),
            "yes" if one.shown else "no",
        )
        for one in sheet.report.differences
    ]
    return "What routing changes", ("difference", "value", "95% interval", "shown"), rows


def _cells(sheet: Sheet) -> Table:
    by_place: dict[tuple[str, str], list[str]] = {}
    for cell in sheet.cells:
        shown = score(cell.score, 2) if cell.score is not None else "excluded"
        by_place.setdefault((cell.task, cell.alias), []).append(shown + ("*" if cell.routed else ""))
    held = [task for task in sheet.tasks if task.part == "held-out" and sheet.cells]
    rows = [
        (task.label, *(" ".join(by_place.get((task.id, alias), ["-"])) for alias in sheet.candidates))
        for task in held[:MOST_TASKS]
    ]
    if len(held) > MOST_TASKS:
        rows.append((f"and {len(held) - MOST_TASKS} more", *("" for _ in sheet.candidates)))
    return "Held-out cells (* where the policy sends the task)", ("task", *sheet.candidates), rows


def _calibration(sheet: Sheet) -> Table:
    header = ("axis", "verdict", "counted", "agreement", "sensitivity", "specificity")
    rows = [
        (
            axis.axis,
            str(axis.verdict),
            count(axis.counted),
            _share(axis.agreement),
            _share(axis.sensitivity),
            _share(axis.specificity),
        )
        for axis in sheet.calibration.axes
    ]
    if not rows:
        rows = [("all", f"{NOT_MEASURED}: {sheet.calibration.missing}", "-", "-", "-", "-")]
    return "The judge beside people", header, rows


def _share(share: Share | None) -> str:
    return NOT_MEASURED if share is None else f"{share.count}/{share.of} ({percents(share.low, share.high)})"


def _spend(sheet: Sheet) -> Table:
    header = ("part", "model", "paid by", "settled", "ambiguous", "calls", "unanswered", "unpriced")
    rows = [
        (
            one.part,
            one.alias,
            "this run" if one.own else one.run,
            dollars(one.settled),
            dollars(one.ambiguous),
            count(one.calls),
            count(one.unanswered),
            count(one.unpriced),
        )
        for one in sheet.spent
    ]
    return "Spend by part", header, rows


def _fidelity(sheet: Sheet) -> Table:
    rows = []
    for one in sheet.fidelity:
        near = one.nearness
        if near is None:
            rows.append((one.way, one.steps, NOT_MEASURED, "-", one.missing))
        else:
            rows.append((one.way, one.steps, count(near.counted), count(near.equal), percent(near.overlap)))
    return "The simulated environment beside recordings", ("answers by", "steps", "compared", "equal", "words"), rows


def _folded(text: str) -> str:
    """Return a sentence in lines of a terminal's width, those after the first indented."""
    import textwrap  # noqa: PLC0415 - only for people

    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
