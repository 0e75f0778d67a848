"""The report as one page that needs nothing else: sentences first, then figures, cells, and what all of it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from commands.render.html import code, folded, page, recorded, section, table
from commands.render.plain import one_line
from commands.render.plots import bar
from commands.render.report_cells import heat_map, rollouts
from commands.render.report_figure import figure
from commands.render.report_style import STYLE
from commands.render.report_words import (
    NOT_MEASURED,
    corrected,
    count,
    dollars,
    interval,
    percent,
    percents,
    plural,
    score,
    signed,
)
from ledger.families.judging import in_words

if TYPE_CHECKING:
    from htpy import Node

    from commands.reporting.sheet import Resembled, Served, Sheet, Spent
    from projections.calibration import AxisReport, Share
    from projections.calibration.agreement import Coefficient
    from projections.report import Difference

SECTIONS = {
    "summary": "In plain words",
    "quality": "Quality and cost",
    "cells": "Cells",
    "rollouts": "Rollouts",
    "judge": "The judge",
    "exclusions": "Exclusions",
    "spend": "Spend",
    "environment": "The simulated environment",
    "provenance": "Provenance",
}
DIFFERENCES = {
    "perf-gain": "score gained over the incumbent",
    "cost-save": "share of the incumbent's cost saved",
    "routed-over-zero-router": "score over the best mix that ignores the request, at the same cost",
    "routed-over-random-mix": "score over a random mix",
    "gap-to-oracle": "score that the oracle has beyond routing",
    "aiq-over-zero-router": "area under the frontier over that mix (AIQ)",
}
MOST_DISAGREEMENTS = 20
MOST_SAID = 300
MOST_EXCLUSIONS = 200


def report_page(sheet: Sheet) -> str:
    """Return the page."""
    title = f"Report on {sheet.project}"
    made = {
        "summary": _summary(sheet),
        "quality": _quality(sheet),
        "cells": heat_map(sheet),
        "rollouts": rollouts(sheet),
        "judge": _judge(sheet),
        "exclusions": _exclusions(sheet),
        "spend": _spend(sheet),
        "environment": _environment(sheet),
        "provenance": _provenance(sheet),
    }
    return page(
        title,
        STYLE,
        [
            h.a(class_="skip", href="#main")["Skip to the report"],
            h.header[h.h1[one_line(title)], h.p(class_="muted")[code(sheet.report_id), " of ", code(sheet.run)]],
            h.nav(aria_label="Sections")[h.ul[[h.li[h.a(href=f"#{name}")[SECTIONS[name]]] for name in made]]],
            h.main(id="main")[[section(name, SECTIONS[name], *content) for name, content in made.items()]],
            h.footer[
                "Made from the journal alone; nothing here was asked of anybody anew. ",
                h.code[f"exp replay {sheet.run}"],
                " computes policy and report again and compares them.",
            ],
        ],
    )


def _summary(sheet: Sheet) -> list[Node]:
    said = h.ul[[h.li[one_line(sentence)] for sentence in sheet.summary]]
    if not sheet.notes:
        return [said]
    notes = h.ul[[h.li[one_line(note)] for note in sheet.notes]]
    return [said, h.aside(class_="warn", aria_label="Limits")[h.h3["What makes this say less than it seems to"], notes]]


# Quality and cost.


def _quality(sheet: Sheet) -> list[Node]:
    report = sheet.report
    header = ("way to serve", "mean score", "95% interval", "cost of a task", "passes, raw", "passes, corrected")
    rows = [
        (
            _way(line, sheet.incumbent),
            score(line.mean),
            interval(line.low, line.high),
            dollars(line.cost_a_task),
            _share(line.raw),
            corrected(line.corrected),
            f"{count(line.counted)} of {count(line.counted + line.excluded)}",
            count(line.calls),
        )
        for line in sheet.lines
    ]
    return [
        *figure(sheet),
        table("Ways to serve the held-out tasks", (*header, "tasks that count", "model calls"), rows),
        *_undefined(sheet.lines),
        table(
            "What routing changes",
            ("difference", "value", "95% interval", "reading"),
            [_difference(one) for one in report.differences],
        ),
        folded(
            "Along the dial, the frontier's area, and how much scores vary",
            table(
                "Routing at each setting of the dial",
                ("setting", "mean score", "cost of a task", "tasks moved"),
                [(one.dial, score(one.mean), dollars(one.cost), count(one.moved)) for one in report.curve],
            ),
            table(
                "AIQ: the mean score under the frontier, over the range of cost",
                ("way", "AIQ"),
                [(name, score(value)) for name, value in report.aiq.items()],
            ),
            table(
                "How much scores vary",
                ("candidate", "tasks", "samples", "within a task", "between tasks", "pass every time", "tasks wanting"),
                [
                    (
                        one.alias,
                        count(one.tasks),
                        count(one.samples),
                        score(one.within),
                        score(one.between),
                        ", ".join(f"{k}: {percent(share)}" for k, share in enumerate(one.pass_all, 1)) or NOT_MEASURED,
                        NOT_MEASURED if one.more_tasks is None else count(one.more_tasks),
                    )
                    for one in report.spreads
                ],
            ),
            h.p(class_="muted")[
                "Tasks wanting: how many more held-out tasks an interval of a tenth of a score would need."
            ],
            class_="table",
        ),
    ]


def _way(line: Served, incumbent: str) -> str:
    names = {"routed": "routed (the policy)", "incumbent": "incumbent", "oracle": "oracle (the best of each task)"}
    return names.get(line.name, f"{line.name} alone" if line.name != incumbent else f"{line.name} alone (incumbent)")


def _share(share: Share | None) -> str:
    if share is None:
        return NOT_MEASURED
    return f"{share.count} of {share.of} ({percents(share.low, share.high)})"


def _undefined(lines: Sequence[Served]) -> Iterator[Node]:
    why = dict.fromkeys(line.corrected.undefined for line in lines if line.corrected.undefined)
    if why:
        yield h.p(class_="muted")[f"Corrected shares are undefined: {'; '.join(map(one_line, why))}."]


def _difference(one: Difference) -> tuple[str, ...]:
    name = DIFFERENCES.get(one.name, one.name)
    if one.value is None:
        return name, "undefined", "-", one.undefined
    share = one.name == "cost-save"
    value = percent(one.value) if share else signed(one.value)
    within = interval(one.low, one.high)
    if share and one.low is not None:
        within = percents(one.low, one.high)
    if one.value == 0 and one.low == 0 and one.high == 0:
        return name, value, within, "exactly none"
    return name, value, within, "shown" if one.shown else "not shown by so few tasks"


# The judge.


def _judge(sheet: Sheet) -> list[Node]:
    calibration = sheet.calibration
    if calibration.missing:
        return [h.p[one_line(f"Not measured: {calibration.missing}.")]]
    named = h.p["By ", code(calibration.id or ""), ", the newest calibration of this judge that was approved."]
    return [named, *(_axis(axis, calibration.keys) for axis in calibration.axes)]


def _axis(axis: AxisReport, keys: dict[str, str]) -> Node:
    counts = axis.confusion
    shares = (
        ("agreement", axis.agreement),
        ("sensitivity (passes that it passes)", axis.sensitivity),
        ("specificity (fails that it fails)", axis.specificity),
        ("a judge that always says the same", axis.constant),
        ("same score when asked again", axis.repeatability.equal if axis.repeatability else None),
    )
    coefficients = (("kappa", axis.kappa), ("MCC", axis.matthews), ("AC1", axis.gwet))
    bias = axis.bias_interval
    measures = [(name, _share(share)) for name, share in shares]
    measures += [(name, _coefficient(one)) for name, one in coefficients]
    away = "-" if bias.low is None or bias.high is None else f"{in_words(bias.low)} to {in_words(bias.high)}"
    measures.append(
        ("bias (judge less label)", NOT_MEASURED if axis.bias is None else f"{in_words(axis.bias)} ({away})")
    )
    shown = axis.disagreements[:MOST_DISAGREEMENTS]
    return h.div[
        h.h3[one_line(axis.axis), ": ", axis.verdict],
        h.p[
            f"{plural(axis.counted, 'item')} counted, {count(axis.unlabelled)} without a label, "
            f"{count(axis.excluded)} excluded; a score of {in_words(axis.threshold)} or more is a pass."
        ],
        [h.p[one_line(note)] for note in axis.notes],
        table("How judge and people agree", ("measure", "value (95% interval)"), measures),
        table(
            "Labels against the judge",
            ("label", "judge passes", "judge fails"),
            [
                ("people pass", count(counts.pass_pass), count(counts.pass_fail)),
                ("people fail", count(counts.fail_pass), count(counts.fail_fail)),
            ],
        ),
        folded(
            f"Disagreements, worst first ({len(axis.disagreements)})",
            table(
                "Where label and judge differ",
                ("item", "label", "judge", "label given"),
                [
                    (
                        one_line(keys.get(one.subject, one.subject)),
                        in_words(one.label),
                        in_words(one.judge),
                        "blind" if one.blind else "with the judge's proposal in sight",
                    )
                    for one in shown
                ],
            ),
            class_="table",
        )
        if shown
        else None,
    ]


def _coefficient(one: Coefficient) -> str:
    return f"undefined: {one.undefined}" if one.value is None else score(one.value)


# Exclusions, spend, environment, provenance.


def _exclusions(sheet: Sheet) -> list[Node]:
    labels = {task.id: task.label for task in sheet.tasks}
    rows = [
        (one_line(labels.get(one.task, one.task)), one.alias, one.reason.replace("_", " "), _brief(one.problem))
        for one in sheet.report.exclusions
    ]
    fit = [cell for cell in sheet.cells if cell.part == "fit" and cell.reason is not None]
    learned = [
        (one_line(cell.label), cell.alias, str(cell.reason).replace("_", " "), _brief(cell.problem)) for cell in fit
    ]
    header = ("task", "candidate", "reason", "problem")
    uncovered = [
        (alias, count(len(tasks)), _brief(", ".join(labels.get(task, task) for task in tasks)))
        for alias, tasks in sheet.report.uncovered.items()
        if tasks
    ]
    said = [
        table(f"Held-out rollouts that can't count ({count(len(rows))})", header, rows[:MOST_EXCLUSIONS]),
        table(f"Fit rollouts that can't count ({count(len(learned))})", header, learned[:MOST_EXCLUSIONS]),
        table("Fit tasks without evidence", ("candidate", "tasks", "which"), uncovered),
    ]
    if max(len(rows), len(learned)) > MOST_EXCLUSIONS:
        said.append(h.p[f"Only the first {MOST_EXCLUSIONS} of each are listed; --json has all of them."])
    return [one for one in said if one] or [h.p["Nothing is excluded: every rollout counts."]]


def _brief(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= MOST_SAID else f"{shown[:MOST_SAID]}…"


def _spend(sheet: Sheet) -> list[Node]:
    if not sheet.spent:
        return [h.p["No call is recorded for this run."]]
    settled = sum(one.settled for one in sheet.spent)
    own = sum(one.settled for one in sheet.spent if one.own)
    ambiguous = sum(one.ambiguous for one in sheet.spent)
    unsure = f", and up to {dollars(ambiguous)} more that nobody knows" if ambiguous else ""
    return [
        h.p[
            f"This run itself spent {dollars(own)}; with what building, calibrating and earlier runs spent on the same"
            f" questions (vectors apart) it is {dollars(settled)}{unsure}."
        ],
        table(
            "Spend by part",
            ("part", "model", "paid by", "settled", "share", "ambiguous", "calls", "unanswered", "tokens in", "out"),
            [_spent(one, settled) for one in sheet.spent],
        ),
    ]


def _spent(one: Spent, settled: int) -> tuple[Node, ...]:
    share = 1000 * one.settled // settled if settled else 0
    return (
        one.part,
        one.alias,
        "this run" if one.own else code(one.run, 24),
        dollars(one.settled) + (f" + {one.unpriced} unpriced" if one.unpriced else ""),
        h.span(class_="share")[bar(share), percent(1000 * share)] if settled else "-",
        dollars(one.ambiguous),
        count(one.calls),
        count(one.unanswered),
        count(one.input_tokens),
        count(one.output_tokens),
    )


def _environment(sheet: Sheet) -> list[Node]:
    if not sheet.fidelity:
        why = next((sheet.missing[part] for part in ("fidelity", "cells", "rollouts") if part in sheet.missing), "")
        return [h.p[one_line(f"Not measured: {why}.")]]
    return [
        h.p[
            "Held-out traces say what really came back. The constant answers nothing to everything; the best retrieved "
            "answer is what is recorded of the most similar step of a fit trace. The world model can only be compared "
            "where a rollout took the very actions of the recording from its start. Words agree when both have them."
        ],
        table(
            "How near answers come to what was recorded",
            ("answers by", "steps", "compared", "equal", "words that agree"),
            [_resembled(one) for one in sheet.fidelity],
        ),
    ]


def _resembled(one: Resembled) -> tuple[str, ...]:
    steps = "all that held-out traces recorded" if one.steps == "recorded" else "those that rollouts reached"
    if one.nearness is None:
        return one.way, steps, NOT_MEASURED, NOT_MEASURED, f"{NOT_MEASURED}: {one.missing}"
    near = one.nearness
    return (
        one.way,
        steps,
        f"{plural(near.counted, 'step')} of {plural(one.lineages, 'source')}",
        f"{count(near.equal)} ({percent(near.equal * 1_000_000 // near.counted)})",
        percent(near.overlap),
    )


def _provenance(sheet: Sheet) -> list[Node]:
    lost = [f"{what}: {why}" for what, why in sheet.missing.items()]
    return [
        h.p["Every name can be given to ", h.code["exp show"], " and ", h.code["exp why"], "."],
        h.dl(class_="small")[[[h.dt[one_line(one.what)], h.dd[code(one.name)]] for one in sheet.provenance]],
        recorded("\n".join(lost), 4_000) if lost else None,
    ]
