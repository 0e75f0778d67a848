"""Which item a person should label next: the one whose label would say most about the judge."""

from __future__ import annotations

from collections.abc import Sequence

from ledger import digests
from ledger.event import Fact
from ledger.families.judging import Axis, Scaled
from projections.calibration.monotone import LEAST_OF_A_CLASS
from projections.calibration.reporting import threshold


class Labelling(Fact):
    """An item on one axis: what the judge said (None: nothing yet, or nothing usable), and the label, if any."""

    subject: str
    judge: Scaled | None
    label: Scaled | None


class Next(Fact):
    """The item to label next, and why that one."""

    subject: str
    because: str


def next_to_label(items: Sequence[Labelling], axis: Axis) -> Next | None:
    """Return the unlabelled item that teaches most; None when all are labelled.

    While passes or fails are scarce among the labels, one that the judge puts on the scarce side: without it
    sensitivity or specificity stays unknown. Then the one whose score is nearest to the pass mark, where a judge errs
    most easily. Of equals, and where the judge has said nothing, by a digest of the subject: no order that means
    anything.
    """
    least = threshold(axis)
    waiting = sorted((one for one in items if one.label is None), key=lambda one: _drawn(one.subject))
    if not waiting:
        return None
    scored = [(one.subject, one.judge) for one in waiting if one.judge is not None]
    if not scored:
        return Next(subject=waiting[0].subject, because="the judge has said nothing of it, so any item teaches as much")
    labels = [one.label for one in items if one.label is not None]
    passes = sum(label >= least for label in labels)
    fails = len(labels) - passes
    scarce, side = (fails, "fail") if fails <= passes else (passes, "pass")
    if scarce < LEAST_OF_A_CLASS:
        there = [(subject, judge) for subject, judge in scored if (judge < least) == (side == "fail")]
        if there:
            unknown = "specificity" if side == "fail" else "sensitivity"
            subject = min(there, key=lambda one: (abs(one[1] - least), _drawn(one[0])))[0]
            return Next(
                subject=subject,
                because=f"{scarce} labelled items {side}, so {unknown} is hardly known; the judge's score says {side}",
            )
    subject = min(scored, key=lambda one: (abs(one[1] - least), _drawn(one[0])))[0]
    return Next(subject=subject, because="the judge's score is nearest to the pass mark")


def _drawn(subject: str) -> str:
    return digests.content_digest(f"label-order:{subject}".encode())
