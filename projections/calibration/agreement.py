"""Agreement beyond what chance would give: coefficients in millionths, or the reason why one is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from ledger.event import Fact
from ledger.families.judging import SCALE, Scaled

Pair = tuple[Scaled, Scaled]  # label, judge


class Coefficient(Fact):
    """A coefficient from -1 to 1 in millionths; ``undefined`` says why there is none."""

    value: Scaled | None = None
    undefined: str = ""


class Confusion(Fact):
    """Counts by label, then by judge."""

    pass_pass: int
    pass_fail: int
    fail_pass: int
    fail_fail: int

    @property
    def counted(self) -> int:
        """How many there are."""
        return self.pass_pass + self.pass_fail + self.fail_pass + self.fail_fail

    @property
    def margins(self) -> tuple[int, int, int, int]:
        """Labelled pass and fail, judged pass and fail."""
        return (
            self.pass_pass + self.pass_fail,
            self.fail_pass + self.fail_fail,
            self.pass_pass + self.fail_pass,
            self.pass_fail + self.fail_fail,
        )


def confusion(pairs: Sequence[Pair], least: Scaled) -> Confusion:
    """Return the counts of pairs, when scores from ``least`` upwards are passes."""
    sides = [(label >= least, judge >= least) for label, judge in pairs]
    return Confusion(
        pass_pass=sides.count((True, True)),
        pass_fail=sides.count((True, False)),
        fail_pass=sides.count((False, True)),
        fail_fail=sides.count((False, False)),
    )


def kappa(pairs: Sequence[Pair]) -> Coefficient:
    """Return Cohen's kappa of the scores with quadratic weights (Psychological Bulletin 70, 1968).

    Of two distinct scores it is the unweighted kappa (Educational and Psychological Measurement 20, 1960).
    """
    if not pairs:
        return Coefficient(undefined="nothing was counted")
    labels, judged = [label for label, _ in pairs], [judge for _, judge in pairs]
    count = len(pairs)
    apart = count * sum((label - judge) ** 2 for label, judge in pairs)
    expected = count * (sum(one * one for one in labels) + sum(one * one for one in judged))
    expected -= 2 * sum(labels) * sum(judged)
    if not expected:
        return Coefficient(undefined="labels and judge gave one and the same score throughout")
    return Coefficient(value=round(Fraction(expected - apart, expected) * SCALE))


def matthews(counts: Confusion) -> Coefficient:
    """Return the correlation of passes (Matthews, Biochimica et Biophysica Acta 405, 1975)."""
    product = 1
    for margin, name in zip(
        counts.margins, ("label passes", "label fails", "judge passes", "judge fails"), strict=True
    ):
        if not margin:
            return Coefficient(undefined=f"no {name}")
        product *= margin
    apart = counts.pass_pass * counts.fail_fail - counts.pass_fail * counts.fail_pass
    size = (isqrt(4 * apart * apart * SCALE * SCALE // product) + 1) // 2
    return Coefficient(value=size if apart >= 0 else -size)


def gwet(counts: Confusion) -> Coefficient:
    """Return the first-order agreement coefficient of passes (Gwet, Br. J. Math. Stat. Psychol. 61, 2008)."""
    count = counts.counted
    if not count:
        return Coefficient(undefined="nothing was counted")
    passes = Fraction(counts.margins[0] + counts.margins[2], 2 * count)
    chance = 2 * passes * (1 - passes)  # at most a half, so that the coefficient always exists
    observed = Fraction(counts.pass_pass + counts.fail_fail, count)
    return Coefficient(value=round((observed - chance) / (1 - chance) * SCALE))
