"""What a calibration reports: everything is derived from the labels, the judge's scores and their counts.

A score counts as a pass from the middle of its axis' range upwards; sensitivity is the share of labelled passes that
the judge passes, specificity the share of labelled fails that it fails, each with its own n. What wasn't measured is
None or ``undefined``, never 0. A calibration reports; it never changes a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ledger import canonical, digests
from ledger.event import Fact
from ledger.families.judging import SCALE, Axis, Rubric, Scaled, in_words
from projections.calibration.agreement import Coefficient, Confusion, confusion, gwet, kappa, matthews
from projections.calibration.intervals import Interval, Share, mean_interval, share
from projections.calibration.monotone import LEAST_LABELS, LEAST_OF_A_CLASS, Map, fitted

VERSION = 2
MOST_ROWS = 10
_PERCENT = SCALE // 100

Verdict = Literal["calibrated", "agreement-only", "not-identified", "path-exercise"]


class Sample(Fact):
    """A judged and labelled item on one axis. ``judge`` is None when the judge gave no usable score: it is excluded.

    Rationales are digests of their texts. ``blind`` says whether the label was given without the judge's proposal in
    sight. ``again`` are the judge's scores when it was asked the same once more. ``stand_in`` says that what judged, or
    labelled, is no model or person.
    """

    subject: str
    axis: str
    judge: Scaled | None
    judge_rationale: str | None
    label: Scaled | None
    label_rationale: str | None
    lineage: str = ""
    blind: bool = False
    again: tuple[Scaled, ...] = ()
    stand_in: bool = False


class Row(Fact):
    """A row of a histogram: scores from ``low`` to ``high`` (equal for a single score), and how many."""

    low: Scaled
    high: Scaled
    count: int


class Disagreement(Fact):
    """An item on which label and judge differ; rationales are digests of their texts."""

    subject: str
    label: Scaled
    judge: Scaled
    label_rationale: str | None
    judge_rationale: str | None
    blind: bool


class Repeatability(Fact):
    """The judge asked again: pairs of replies, how often the score and the side are the same, and how far apart."""

    pairs: int
    equal: Share
    same_side: Share
    mean_difference: Scaled


class AxisReport(Fact):
    """One axis: what was counted, how it agrees, and what the evidence can't show (``notes``, in plain words)."""

    axis: str
    threshold: Scaled
    verdict: Verdict
    counted: int
    excluded: int
    unlabelled: int
    blind: Confusion
    anchored: Confusion
    labels: tuple[Row, ...]
    judge: tuple[Row, ...]
    confusion: Confusion
    agreement: Share | None
    sensitivity: Share | None
    specificity: Share | None
    constant: Share | None
    kappa: Coefficient
    matthews: Coefficient
    gwet: Coefficient
    exact: int
    bias: Scaled | None
    bias_interval: Interval
    mean_difference: Scaled | None
    repeatability: Repeatability | None
    disagreements: tuple[Disagreement, ...]
    map: Map
    notes: tuple[str, ...] = ()


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
    counted = [
        (sample, (sample.label, sample.judge))
        for sample in samples
        if sample.label is not None and sample.judge is not None
    ]
    pairs = [pair for _, pair in counted]
    labels, judged = [label for label, _ in pairs], [judge for _, judge in pairs]
    least = threshold(axis)
    counts = confusion(pairs, least)
    agreement = share(counts.pass_pass + counts.fail_fail, len(pairs))
    sensitivity = share(counts.pass_pass, counts.margins[0])
    specificity = share(counts.fail_fail, counts.margins[1])
    differences = [judge - label for label, judge in pairs]
    report = AxisReport(
        axis=axis.name,
        threshold=least,
        verdict=_verdict(counts, sensitivity, specificity, stand_in=any(sample.stand_in for sample, _ in counted)),
        counted=len(pairs),
        excluded=sum(sample.judge is None for sample in samples),
        unlabelled=sum(sample.judge is not None and sample.label is None for sample in samples),
        blind=confusion([pair for sample, pair in counted if sample.blind], least),
        anchored=confusion([pair for sample, pair in counted if not sample.blind], least),
        labels=histogram(labels, axis),
        judge=histogram(judged, axis),
        confusion=counts,
        agreement=agreement,
        sensitivity=sensitivity,
        specificity=specificity,
        constant=share(max(counts.margins[:2]), len(pairs)),
        kappa=kappa(pairs),
        matthews=matthews(counts),
        gwet=gwet(counts),
        exact=sum(label == judge for label, judge in pairs),
        bias=_mean(differences),
        bias_interval=mean_interval(differences),
        mean_difference=_mean([abs(difference) for difference in differences]),
        repeatability=_repeatability(samples, least),
        disagreements=_disagreements(samples),
        map=fitted([(sample.lineage or sample.subject, judge, label) for sample, (label, judge) in counted], least),
    )
    notes = tuple(_notes(report, labels, judged))
    return AxisReport(
        **{name: getattr(report, name) for name in report.__struct_fields__ if name != "notes"}, notes=notes
    )


def _verdict(counts: Confusion, sensitivity: Share | None, specificity: Share | None, *, stand_in: bool) -> Verdict:
    """Return what the evidence amounts to.

    Calibrated: enough labels of both sides, and even the low ends of sensitivity and specificity are, together, better
    than chance. Agreement only: both are measured, but not that well. Not identified: one of them isn't measured.
    """
    if stand_in:
        return "path-exercise"
    if sensitivity is None or specificity is None:
        return "not-identified"
    enough = counts.counted >= LEAST_LABELS and min(counts.margins[:2]) >= LEAST_OF_A_CLASS
    return "calibrated" if enough and sensitivity.low + specificity.low > SCALE else "agreement-only"


def _repeatability(samples: Sequence[Sample], least: Scaled) -> Repeatability | None:
    pairs = [(sample.judge, again) for sample in samples if sample.judge is not None for again in sample.again]
    if not pairs:
        return None
    equal = share(sum(first == again for first, again in pairs), len(pairs))
    same = share(sum((first >= least) == (again >= least) for first, again in pairs), len(pairs))
    apart = _mean([abs(first - again) for first, again in pairs])
    if equal is None or same is None or apart is None:
        return None
    return Repeatability(pairs=len(pairs), equal=equal, same_side=same, mean_difference=apart)


def _disagreements(samples: Sequence[Sample]) -> tuple[Disagreement, ...]:
    """Return the items on which label and judge differ, worst first; of equals, by subject."""
    found = [
        Disagreement(
            subject=sample.subject,
            label=sample.label,
            judge=sample.judge,
            label_rationale=sample.label_rationale,
            judge_rationale=sample.judge_rationale,
            blind=sample.blind,
        )
        for sample in samples
        if sample.label is not None and sample.judge is not None and sample.label != sample.judge
    ]
    return tuple(sorted(found, key=lambda one: (-abs(one.judge - one.label), one.subject)))


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
    if report.anchored.counted:
        yield (
            f"{report.anchored.counted} of {len(labels)} labels were given with the judge's proposal in sight, which"
            " draws labels towards it: agreement is an upper bound."
        )
    if report.unlabelled:
        yield f"{report.unlabelled} judged items have no label yet."
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


def _mean(numbers: Sequence[int]) -> int | None:
    """Return the mean rounded once, half to even; None of nothing."""
    if not numbers:
        return None
    whole, rest = divmod(sum(numbers), len(numbers))
    return whole + (2 * rest > len(numbers) or (2 * rest == len(numbers) and whole % 2 == 1))
