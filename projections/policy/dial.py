"""The dial between quality and cost: what a request's candidate must be worth.

Two ways to say it. A tolerance: the cheapest candidate that isn't predicted to be worse than the incumbent by more than
that. A price: the candidate whose predicted quality, at so much a unit, less its cost is greatest. At equal worth the
incumbent keeps the request, then the cheaper candidate, then the earlier name.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ledger.event import Fact
from ledger.money import NanoUSD

if TYPE_CHECKING:
    from projections.policy.evidence import Candidate

SCALE = 1_000_000

Verdict = Literal["incumbent", "not-worse", "worth-more", "worse", "no-evidence", "unpriced", "not-cheaper"]


class Tolerance(Fact, tag="tolerance", tag_field="name"):
    """How much worse than the incumbent a cheaper candidate may be, in millionths of a score."""

    millionths: int


class Price(Fact, tag="price", tag_field="name"):
    """What a unit of score is worth, in nano-dollars a request."""

    nano_usd: NanoUSD


Dial = Tolerance | Price


def in_words(dial: Dial) -> str:
    """Return a dial in a few words."""
    if isinstance(dial, Tolerance):
        return f"tolerance {dial.millionths} millionths"
    return f"a unit of score is worth {dial.nano_usd} nano-dollars"


class Field:
    """The candidates of a policy, as a dial weighs them."""

    def __init__(self, candidates: Sequence[Candidate], incumbent: int) -> None:
        self.incumbent = incumbent
        self.prices = tuple(candidate.price for candidate in candidates)

        def rank(place: int) -> tuple[bool, Fraction, bool, str]:
            price = self.prices[place]
            return price is None, price or Fraction(0), place != incumbent, candidates[place].alias

        self.order = tuple(sorted(range(len(candidates)), key=rank))

    def choose(self, dial: Dial, distances: Sequence[int], known: Sequence[bool]) -> tuple[int, dict[int, Verdict]]:
        """Return the place of the candidate that gets a request, and a verdict on each.

        ``distances`` are predicted scores above the incumbent's, in millionths; ``known`` says where evidence is.
        """
        if isinstance(dial, Tolerance):
            return self._cheapest(dial, distances, known)
        return self._worthiest(dial, distances, known)

    def _unfit(self, place: int, known: Sequence[bool]) -> Verdict | None:
        """Return why a candidate can't be weighed at all."""
        if place == self.incumbent:
            return "incumbent"
        if self.prices[place] is None or self.prices[self.incumbent] is None:
            return "unpriced"
        return None if known[place] else "no-evidence"

    def _cheapest(
        self, dial: Tolerance, distances: Sequence[int], known: Sequence[bool]
    ) -> tuple[int, dict[int, Verdict]]:
        verdicts: dict[int, Verdict] = {}
        chosen, settled = self.incumbent, False
        for place in self.order:
            unfit = self._unfit(place, known)
            if unfit == "incumbent":
                verdicts[place], settled = unfit, True
            elif unfit == "unpriced":
                verdicts[place] = unfit
            elif settled:
                verdicts[place] = "not-cheaper"
            elif unfit is not None:
                verdicts[place] = unfit
            elif -distances[place] <= dial.millionths:
                verdicts[place], chosen, settled = "not-worse", place, True
            else:
                verdicts[place] = "worse"
        return chosen, verdicts

    def _worthiest(
        self, dial: Price, distances: Sequence[int], known: Sequence[bool]
    ) -> tuple[int, dict[int, Verdict]]:
        verdicts: dict[int, Verdict] = {}
        chosen, most = self.incumbent, Fraction(0)
        for place in self.order:
            unfit = self._unfit(place, known)
            if unfit is not None:
                verdicts[place] = unfit
                continue
            verdicts[place] = "worse"
            worth = self.worth(dial, place, distances[place])
            if worth > most:
                chosen, most = place, worth
        if chosen != self.incumbent:
            verdicts[chosen] = "worth-more"
        return chosen, verdicts

    def worth(self, dial: Price, place: int, distance: int) -> Fraction:
        """Return what a candidate is worth above the incumbent, in nano-dollars a request."""
        own, other = self.prices[place], self.prices[self.incumbent]
        if own is None or other is None:
            return Fraction(0)
        return Fraction(dial.nano_usd * distance, SCALE) - (own - other)
