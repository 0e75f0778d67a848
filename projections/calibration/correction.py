"""Correction: what a share of passes by an imperfect judge says of the share that people would pass."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from ledger.event import Fact
from ledger.families.judging import SCALE, Scaled
from projections.calibration.agreement import Confusion

_QUANTILE = Fraction(1_959_964, SCALE)  # the normal distribution's 97.5%
_HUNDREDTH = SCALE // 100


class Corrected(Fact):
    """A corrected share with its 95% interval, in millionths; ``undefined`` says why there is none."""

    value: Scaled | None = None
    low: Scaled | None = None
    high: Scaled | None = None
    undefined: str = ""


def corrected(passed: int, of: int, counts: Confusion) -> Corrected:
    """Return the share that people would pass, given that a judge with these counts passed ``passed`` of ``of``.

    The estimate is Rogan's and Gladen's (Am. J. Epidemiology 107, 1978), within 0 and 1. The interval is Lang's and
    Reiczigel's (Preventive Veterinary Medicine 113, 2014): it has both errors, that of few judged cells and that of few
    labels.
    """
    label_passes, label_fails, _, _ = counts.margins
    if not of:
        return Corrected(undefined="nothing was counted")
    if not label_passes or not label_fails:
        known = "sensitivity" if label_passes else "specificity" if label_fails else "nothing"
        return Corrected(undefined=f"the labels identify {known} only" if known != "nothing" else "there are no labels")
    sensitivity, specificity = Fraction(counts.pass_pass, label_passes), Fraction(counts.fail_fail, label_fails)
    informed = sensitivity + specificity - 1
    if informed <= 0:
        told = round((sensitivity + specificity) * 100)
        return Corrected(
            undefined=f"the judge tells passes from fails no better than chance: sensitivity and specificity add up to"
            f" {told // 100}.{told % 100:02d}"
        )
    value = _within((Fraction(passed, of) + specificity - 1) / informed)
    low, high = _interval(passed, of, counts)
    return Corrected(
        value=round(value * SCALE), low=min(low, round(value * SCALE)), high=max(high, round(value * SCALE))
    )


def _interval(passed: int, of: int, counts: Confusion) -> tuple[Scaled, Scaled]:
    label_passes, label_fails, _, _ = counts.margins
    square = _QUANTILE * _QUANTILE
    trials = of + square
    rate = (passed + square / 2) / trials
    sensitivity = Fraction(counts.pass_pass + 1, label_passes + 2)
    specificity = Fraction(counts.fail_fail + 1, label_fails + 2)
    informed = sensitivity + specificity - 1
    if informed <= 0:  # so few labels that chance isn't ruled out
        return 0, SCALE
    share = (rate + specificity - 1) / informed
    of_passes = sensitivity * (1 - sensitivity) / (label_passes + 2)
    of_fails = specificity * (1 - specificity) / (label_fails + 2)
    centre = share + 2 * square * (share * of_passes - (1 - share) * of_fails)
    variance = rate * (1 - rate) / trials + share * share * of_passes + (1 - share) ** 2 * of_fails
    scaled = square * variance / (informed * informed) * SCALE**2
    half = Fraction(isqrt(scaled.numerator // scaled.denominator) + 1, SCALE)
    low, high = _within(centre - half) * SCALE, _within(centre + half) * SCALE
    return low.numerator // low.denominator, -(-high.numerator // high.denominator)


def _within(share: Fraction) -> Fraction:
    return min(max(share, Fraction(0)), Fraction(1))
