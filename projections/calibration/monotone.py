"""A monotone map from the judge's scores to what people would have said, where the labels carry one.

Isotonic least squares by pooling adjacent violators (Ayer and others, Ann. Math. Stat. 26, 1955), with straight lines
between the pooled points. It is kept only when, left out a group of lineages at a time, it errs less than the scores
themselves by more than the standard error of the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ledger import digests
from ledger.event import Fact
from ledger.families.judging import Scaled

LEAST_LABELS = 30
LEAST_OF_A_CLASS = 5
FOLDS = 5

Labelled = tuple[str, Scaled, Scaled]  # lineage, judge, label


class Knot(Fact):
    """A point of the map: a judge's score, and the score that it stands for."""

    judge: Scaled
    stands_for: Scaled


class Map(Fact):
    """The map by its points, least first; without points it is the identity, and ``identity`` says why."""

    knots: tuple[Knot, ...] = ()
    identity: str = ""


def fitted(labelled: Sequence[Labelled], least: Scaled) -> Map:
    """Return the map that labels carry; scores from ``least`` upwards are passes."""
    passes = sum(label >= least for _, _, label in labelled)
    fails = len(labelled) - passes
    if not passes or not fails:
        return Map(identity="labels of one side only identify no map")
    if len(labelled) < LEAST_LABELS or min(passes, fails) < LEAST_OF_A_CLASS:
        return Map(
            identity=f"a map needs {LEAST_LABELS} labels with {LEAST_OF_A_CLASS} passes and {LEAST_OF_A_CLASS} fails;"
            f" there are {len(labelled)}, with {passes} passes and {fails} fails"
        )
    better = _gains(labelled)
    total, count = sum(better), len(better)
    spread = count * sum(gain * gain for gain in better) - total * total
    # mean > standard error of the mean, squared so that no root is needed
    if total <= 0 or total * total * (count - 1) <= spread:
        return Map(identity="on labels left out, a map errs no less than the judge's own scores")
    return Map(knots=tuple(Knot(judge=judge, stands_for=round(value)) for judge, value in _isotonic(labelled)))


def _gains(labelled: Sequence[Labelled]) -> list[Fraction]:
    """Return by how much a map errs less than the scores, squared, for each label left out with its fold."""
    folds = [int.from_bytes(digests.raw(_digest(lineage))) % FOLDS for lineage, _, _ in labelled]
    gains = []
    for fold in sorted(set(folds)):
        rest = [one for one, own in zip(labelled, folds, strict=True) if own != fold]
        if not rest:
            return []
        knots = _isotonic(rest)
        gains += [
            Fraction((judge - label) ** 2) - (_at(knots, judge) - label) ** 2
            for (_, judge, label), own in zip(labelled, folds, strict=True)
            if own == fold
        ]
    return gains


def _digest(lineage: str) -> str:
    return digests.content_digest(f"calibration-fold:{lineage}".encode())


def _isotonic(labelled: Sequence[Labelled]) -> list[tuple[Scaled, Fraction]]:
    """Return the fitted value at each distinct score, never falling."""
    by_score: dict[Scaled, list[Scaled]] = {}
    for _, judge, label in labelled:
        by_score.setdefault(judge, []).append(label)
    blocks: list[tuple[list[Scaled], int, int]] = []  # scores, sum of labels, how many
    for score in sorted(by_score):
        blocks.append(([score], sum(by_score[score]), len(by_score[score])))
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][2] >= blocks[-1][1] * blocks[-2][2]:
            scores, total, count = blocks.pop()
            before = blocks.pop()
            blocks.append((before[0] + scores, before[1] + total, before[2] + count))
    return [(score, Fraction(total, count)) for scores, total, count in blocks for score in scores]


def _at(knots: Sequence[tuple[Scaled, Fraction]], score: Scaled) -> Fraction:
    """Return the map at a score: straight between points, level beyond the outermost."""
    before = [knot for knot in knots if knot[0] <= score]
    after = [knot for knot in knots if knot[0] >= score]
    if not before or not after:
        return (before or after)[-1 if before else 0][1]
    (left, low), (right, high) = before[-1], after[0]
    return low if left == right else low + (high - low) * Fraction(score - left, right - left)
