"""A calibration in rows: an axis at a time, every number with its n and its interval, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from commands.render.result import Result, Value
    from ledger.families.judging import Scaled
    from projections.calibration import AxisReport, Coefficient, Confusion, Share

UNMEASURED = "not measured"
MOST_DISAGREEMENTS = 20


def report_axis(result: Result, report: AxisReport, keys: Mapping[str, str]) -> None:
    """Say all that a calibration found on one axis; ``keys`` are the names that subjects have on a command line."""
    bias = report.bias_interval
    result.item(
        "axis",
        {
            "axis": report.axis,
            "verdict": report.verdict,
            "counted": report.counted,
            "excluded": report.excluded,
            "unlabelled": report.unlabelled,
            "pass_from": _score(report.threshold),
            "equal": report.exact,
            "bias": _score(report.bias),
            "bias_low": (bias.undefined and f"undefined: {bias.undefined}") or _score(bias.low),
            "bias_high": (bias.undefined and f"undefined: {bias.undefined}") or _score(bias.high),
            "mean_difference": _score(report.mean_difference),
        },
    )
    for name, rows in (("label-histogram", report.labels), ("judge-histogram", report.judge)):
        for row in rows:
            result.item(name, {"axis": report.axis, "from": _score(row.low), "to": _score(row.high), "n": row.count})
    result.item("confusion", {"axis": report.axis, **_counts(report.confusion)})
    if report.blind.counted and report.anchored.counted:
        result.item("confusion-blind", {"axis": report.axis, **_counts(report.blind)})
        result.item("confusion-anchored", {"axis": report.axis, **_counts(report.anchored)})
    for name, share in (
        ("agreement", report.agreement),
        ("constant-judge", report.constant),
        ("sensitivity", report.sensitivity),
        ("specificity", report.specificity),
    ):
        result.item(name, {"axis": report.axis, **_share(share)})
    coefficients = (("kappa", report.kappa), ("mcc", report.matthews), ("ac1", report.gwet))
    result.item("coefficients", {"axis": report.axis, **{name: _coefficient(one) for name, one in coefficients}})
    _repeatability(result, report)
    _map(result, report)
    for one in report.disagreements[:MOST_DISAGREEMENTS]:
        facts: dict[str, Value] = {"axis": report.axis, "key": keys.get(one.subject, one.subject)}
        result.item(
            "disagreement", {**facts, "label": _score(one.label), "judge": _score(one.judge), "blind": one.blind}
        )
    if len(report.disagreements) > MOST_DISAGREEMENTS:
        result.text(f"{report.axis}: {len(report.disagreements) - MOST_DISAGREEMENTS} more disagreements, less wide")
    for note in report.notes:
        result.text(f"{report.axis}: {note}")


def _repeatability(result: Result, report: AxisReport) -> None:
    again = report.repeatability
    if again is None:
        return
    result.item("repeatability", {"axis": report.axis, "of": "same score", **_share(again.equal)})
    result.item("repeatability", {"axis": report.axis, "of": "same side", **_share(again.same_side)})


def _map(result: Result, report: AxisReport) -> None:
    if report.map.identity:
        result.item("map", {"axis": report.axis, "kept": "identity", "because": report.map.identity})
    for knot in report.map.knots:
        result.item("map", {"axis": report.axis, "judge": _score(knot.judge), "stands_for": _score(knot.stands_for)})


def _counts(counts: Confusion) -> dict[str, Value]:
    return {
        "pass_pass": counts.pass_pass,
        "pass_fail": counts.pass_fail,
        "fail_pass": counts.fail_pass,
        "fail_fail": counts.fail_fail,
    }


def _share(share: Share | None) -> dict[str, Value]:
    if share is None:
        return {"count": UNMEASURED, "n": 0, "low": UNMEASURED, "high": UNMEASURED}
    return {"count": share.count, "n": share.of, "low": _score(share.low), "high": _score(share.high)}


def _coefficient(coefficient: Coefficient) -> str:
    return f"undefined: {coefficient.undefined}" if coefficient.undefined else _score(coefficient.value)


def _score(score: Scaled | None) -> str:
    from ledger.families.judging import in_words  # noqa: PLC0415 - loaded when there is something to say

    return UNMEASURED if score is None else in_words(score)
