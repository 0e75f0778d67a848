"""The dial between quality and cost: what a request's candidate must be worth.

Two ways to say it. A tolerance: the cheapest candidate that isn't predicted to be worse than the incumbent by more than
that. A price: the candidate whose predicted quality, at so much a unit, less its cost is greatest. At equal worth the
incumbent keeps the request, then the cheaper candidate, then the earlier name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Literal

from ledger.event import Fact
from ledger.money import NanoUSD

if TYPE_CHECKING:
    from projections.policy.evidence import Candidate

SCALE = 1_000_000
MOST_PRICE: NanoUSD = 10**15

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
        (chosen,) = self.places(dial, (distances,), known)
        verdicts: dict[int, Verdict] = {}
        settled = False
        for place in self.order:
            settled = settled or place == self.incumbent
            if place == self.incumbent:
                verdicts[place] = "incumbent"
            elif self.prices[place] is None or self.prices[self.incumbent] is None:
                verdicts[place] = "unpriced"
            elif settled and isinstance(dial, Tolerance):
                verdicts[place] = "not-cheaper"
            elif not known[place]:
                verdicts[place] = "no-evidence"
            elif place == chosen:
                verdicts[place] = "not-worse" if isinstance(dial, Tolerance) else "worth-more"
                settled = True
            else:
                verdicts[place] = "worse"
        return chosen, verdicts

    def places(self, dial: Dial, rows: Iterable[Sequence[int]], known: Sequence[bool]) -> list[int]:
        """Return the place of the candidate that each request gets, given its predicted distances."""
        rivals = [
            place
            for place in self.order
            if place != self.incumbent and known[place] and self.prices[place] is not None and self._priced
        ]
        if isinstance(dial, Tolerance):
            cheaper = set(self.order[: self.order.index(self.incumbent)])
            rivals = [place for place in rivals if place in cheaper]
            least = -dial.millionths
            return [next((place for place in rivals if row[place] >= least), self.incumbent) for row in rows]
        scale = lcm(*(price.denominator for price in self.prices if price is not None))
        weight = dial.nano_usd * scale
        offsets = [(place, self._dearer(place, scale)) for place in rivals]
        found = []
        for row in rows:
            chosen, most = self.incumbent, 0
            for place, dearer in offsets:
                worth = weight * row[place] - dearer
                if worth > most:
                    chosen, most = place, worth
            found.append(chosen)
        return found

    @property
    def _priced(self) -> bool:
        return self.prices[self.incumbent] is not None

    def _dearer(self, place: int, scale: int) -> int:
        """Return how much more a candidate costs than the incumbent, in millionths of a nano-dollar x ``scale``."""
        own, other = self.prices[place], self.prices[self.incumbent]
        return 0 if own is None or other is None else int((own - other) * SCALE * scale)

    def breakpoints(self, overall: Sequence[int], known: Sequence[bool]) -> list[NanoUSD]:
        """Return prices of a unit of score, each just above one at which another candidate is the best for all."""
        places = [
            place
            for place in self.order
            if self.prices[place] is not None and (known[place] or place == self.incumbent)
        ]
        found = set()
        for one, other in itertools.combinations(places, 2):
            first, second = self.prices[one], self.prices[other]
            gained = overall[other] - overall[one]
            if first is not None and second is not None and gained > 0 and second > first:
                found.add(int((second - first) * SCALE / gained) + 1)
        return sorted(price for price in found if price <= MOST_PRICE)
