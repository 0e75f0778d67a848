"""Calibration: how far a judge's proposals and a person's labels agree, and what so few labels can show.

A score counts as a pass from the middle of its axis' range upwards; sensitivity is the share of labelled passes that
the judge passes, specificity the share of labelled fails that it fails. Each share has its own n and its exact
(Clopper-Pearson) 95% interval, computed on integers and rounded outwards once, to millionths. What wasn't measured is
None, never 0. A calibration reports; it never changes a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import comb

from ledger import canonical, digests
from ledger.event import Fact
from ledger.families.judging import SCALE, Axis, Rubric, Scaled, in_words

VERSION = 1
TAIL = (1, 40)  # 2.5% on each side
MOST_ROWS = 10
_PERCENT = SCALE // 100


class Sample(Fact):
    """A judged and labelled item on one axis. ``judge`` is None when the judge gave no usable score: it is excluded.

    Rationales are digests of their texts.
    """

    subject: str
    axis: str
    judge: Scaled | None
    judge_rationale: str | None
    label: Scaled | None
    label_rationale: str | None


class Share(Fact):
    """``count`` of ``of``, and its exact 95% interval, in millionths."""

    count: int
    of: int
    low: Scaled
    high: Scaled


class Row(Fact):
    """A row of a histogram: scores from ``low`` to ``high`` (equal for a single score), and how many."""

    low: Scaled
    high: Scaled
    count: int


class Confusion(Fact):
    """Counts by label, then by judge."""

    pass_pass: int
    pass_fail: int
    fail_pass: int
    fail_fail: int


class AxisReport(Fact):
    """One axis: what was counted, how it agrees, and what the evidence can't show (``notes``, in plain words)."""

    axis: str
    threshold: Scaled
    counted: int
    excluded: int
    labels: tuple[Row, ...]
    judge: tuple[Row, ...]
    confusion: Confusion
    agreement: Share | None
    sensitivity: Share | None
    specificity: Share | None
    exact: int
    bias: Scaled | None
    mean_difference: Scaled | None
    notes: tuple[str, ...]


class Calibration(Fact):
    """A calibration's id and its report, an axis at a time in the rubric's order."""

    id: str
    axes: tuple[AxisReport, ...]


def calibration(setup: str, rubric: Rubric, samples: Iterable[Sample]) -> Calibration:
    """Return the calibration of the samples; their order doesn't matter."""
    ordered = sorted(samples, key=lambda sample: (sample.subject, sample.axis))
    named = digests.content_digest(canonical.digest_input("calibration", VERSION, setup, rubric, ordered))
    return Calibration(
        id=f"calibration-{named.removeprefix(digests.PREFIX)[:32]}",
        axes=tuple(_report(axis, [sample for sample in ordered if sample.axis == axis.name]) for axis in rubric.axes),
    )


def threshold(axis: Axis) -> Scaled:
    """Return the least score that counts as a pass: the middle of the range, rounded up."""
    return -(-(axis.low + axis.high) // 2)


def _report(axis: Axis, samples: Sequence[Sample]) -> AxisReport:
    pairs = [
        (sample.label, sample.judge) for sample in samples if sample.label is not None and sample.judge is not None
    ]
    least = threshold(axis)
    sides = [(label >= least, judge >= least) for label, judge in pairs]
    confusion = Confusion(
        pass_pass=sides.count((True, True)),
        pass_fail=sides.count((True, False)),
        fail_pass=sides.count((False, True)),
        fail_fail=sides.count((False, False)),
    )
    labels, judged = [label for label, _ in pairs], [judge for _, judge in pairs]
    report = AxisReport(
        axis=axis.name,
        threshold=least,
        counted=len(pairs),
        excluded=sum(sample.judge is None for sample in samples),
        labels=histogram(labels, axis),
        judge=histogram(judged, axis),
        confusion=confusion,
        agreement=share(confusion.pass_pass + confusion.fail_fail, len(pairs)),
        sensitivity=share(confusion.pass_pass, confusion.pass_pass + confusion.pass_fail),
        specificity=share(confusion.fail_fail, confusion.fail_pass + confusion.fail_fail),
        exact=sum(label == judge for label, judge in pairs),
        bias=_mean([judge - label for label, judge in pairs]),
        mean_difference=_mean([abs(judge - label) for label, judge in pairs]),
        notes=(),
    )
    notes = tuple(_notes(report, labels, judged))
    return AxisReport(
        **{name: getattr(report, name) for name in report.__struct_fields__ if name != "notes"}, notes=notes
    )


def _notes(report: AxisReport, labels: Sequence[Scaled], judged: Sequence[Scaled]) -> Iterable[str]:
    """Say in plain words what the evidence can't show."""
    if not labels:
        yield "Nothing was counted, so nothing is known about this axis."
        return
    if report.sensitivity is not None and report.specificity is None:
        yield _one_sided(labels, "passing", "sensitivity", report.sensitivity, "Specificity")
    elif report.specificity is not None and report.sensitivity is None:
        yield _one_sided(labels, "failing", "specificity", report.specificity, "Sensitivity")
    if len(labels) > 1 and len(set(judged)) == 1:
        yield f"The judge gave every counted item the same score, {in_words(judged[0])}: it told nothing apart."
    if report.agreement is not None and report.specificity is not None and report.sensitivity is not None:
        constant = max(report.sensitivity.of, report.specificity.of)
        if report.agreement.count <= constant:
            yield (
                f"A judge that always says the same would agree on {constant} of {len(labels)}; "
                f"this one agrees on {report.agreement.count}."
            )
    if report.excluded:
        yield f"{report.excluded} sampled items are excluded because the judge's replies to them were unusable."


def _one_sided(labels: Sequence[Scaled], side: str, known: str, share: Share, unknown: str) -> str:
    uniform = len(set(labels)) == 1
    which = f"Uniform labels (all {len(labels)} are {in_words(labels[0])})" if uniform else "One-sided labels"
    does = {"passing": "passes", "failing": "fails"}[side]
    return (
        f"{which}, all on the {side} side: only {known} is identified, {_in_words(share)}. "
        f"{unknown} was not measured: a judge that {does} everything would agree as well."
    )


def _in_words(share: Share) -> str:
    """Return a share with its interval to two places, rounded outwards."""
    low, high = share.low // _PERCENT * _PERCENT, -(-share.high // _PERCENT) * _PERCENT
    return f"{share.count} of {share.of} (95% interval {in_words(low)} to {in_words(high)})"


def histogram(scores: Sequence[Scaled], axis: Axis) -> tuple[Row, ...]:
    """Return how often each score was given; when there are more than ten scores, ten equal parts of the range."""
    distinct = sorted(set(scores))
    if len(distinct) <= MOST_ROWS:
        return tuple(Row(low=score, high=score, count=scores.count(score)) for score in distinct)
    edges = [axis.low + (axis.high - axis.low) * part // MOST_ROWS for part in range(MOST_ROWS + 1)]
    places = [max(part for part in range(MOST_ROWS) if edges[part] <= score) for score in scores]
    return tuple(Row(low=edges[part], high=edges[part + 1], count=places.count(part)) for part in range(MOST_ROWS))


def share(count: int, of: int) -> Share | None:
    """Return a share with its exact 95% interval; None when it is of nothing."""
    if not of:
        return None
    # Below the low end, so many or more are too improbable; above the high end, so few or fewer.
    low = 0 if count == 0 else _last(lambda p: _rare(_tail(range(count, of + 1), of, p), of))
    high = SCALE if count == of else SCALE - _last(lambda p: _rare(_tail(range(count + 1), of, SCALE - p), of))
    return Share(count=count, of=of, low=low, high=high)


def _tail(counts: range, of: int, millionths: int) -> int:
    """Return the probability of these counts at a rate, times a million to the power ``of``: an integer."""
    other = SCALE - millionths
    return sum(comb(of, count) * millionths**count * other ** (of - count) for count in counts)


def _rare(tail: int, of: int) -> bool:
    rare: bool = tail * TAIL[1] <= TAIL[0] * SCALE**of
    return rare


def _last(holds: Callable[[int], bool]) -> int:
    """Return the greatest rate in millionths at which it holds; it holds at 0 and stops holding once."""
    least, most = 0, SCALE
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if holds(middle) else (least, middle - 1)
    return least


def _mean(numbers: Sequence[int]) -> int | None:
    """Return the mean rounded once, half to even; None of nothing."""
    if not numbers:
        return None
    whole, rest = divmod(sum(numbers), len(numbers))
    return whole + (2 * rest > len(numbers) or (2 * rest == len(numbers) and whole % 2 == 1))
