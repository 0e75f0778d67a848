"""Showing what an optimization results in, alike for simulated cells and imported outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from commands.optimizing import words
from projections.policy.dial import in_words

if TYPE_CHECKING:
    from commands.optimizing.freezing import Frozen
    from commands.render.result import Result

SHOWN_TASKS = 20
SCALES = {"scores": 1_000_000, "shares": 1_000_000, "costs_a_dollar": 1_000_000_000}


def show_measured(frozen: Frozen, result: Result) -> None:
    """Print candidates, the ways to serve held-out tasks, how they differ, and how sure that is."""
    report = frozen.report
    for standing in frozen.standings:
        fields: dict[str, Any] = {"alias": standing.alias, "counted": standing.counted, "excluded": standing.excluded}
        fields |= {"mean": words.score(standing.mean), "cost_usd": words.dollars(standing.cost)}
        result.item("candidate", fields)
    for line in report.lines:
        result.item("held-out", words.line(line))
    for difference in report.differences:
        result.item("difference", words.difference(difference))
    for name, area in report.aiq.items():
        result.item("aiq", {"name": name, "value": words.score(area)})
    for spread in report.spreads:
        result.item("spread", words.spread(spread))
    for alias, count in words.routes(report.routed):
        result.item("routed", {"alias": alias, "tasks": count, "of": report.tasks})


def show_policy(frozen: Frozen, result: Result) -> None:
    """Print what the policy is and how it was chosen, and in JSON all of the report in integers."""
    policy, report = frozen.policy, frozen.report
    result.line("method", words.method(policy.method))
    result.line("dial", in_words(policy.dial))
    for text in words.expectations(report, policy):
        result.line("known", text)
    result.line("policy", policy.id)
    result.line("report", report.id)
    if result.as_json:
        result.document("scales", SCALES)
        result.document("report-in-full", msgspec.to_builtins(report))
        result.document("curve-on-fit-tasks", msgspec.to_builtins(policy.curve))


def show_uncovered(frozen: Frozen, result: Result) -> None:
    """Print the fit tasks that say nothing of a candidate."""
    for alias, missing in frozen.report.uncovered.items():
        if missing:
            cut = len(missing) > SHOWN_TASKS and not result.as_json
            listed = " ".join(missing[:SHOWN_TASKS] if cut else missing) + (" ..." if cut else "")
            result.item("uncovered", {"alias": alias, "tasks": len(missing), "ids": listed})
