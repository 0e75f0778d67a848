"""Expected: what prices say of candidates before tasks do. Of three and more, dearer ones tend to be better.

With few tasks a candidate's mean is off by chance, and a router that believes it leaves the candidate out for good. So
where a price of a unit of score decides, means are drawn towards the line of means over the logarithm of prices, as
strongly as if ``STRENGTH`` tasks had said so: with thousands of tasks that is nothing. Two candidates are their own
line. Under a tolerance nothing is expected: not to be worse is for the tasks to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

STRENGTH = 200
_LINE = 3  # the fewest candidates that a line can be too straight for
_BITS = 16
_WORD = 62


def logarithm(number: Fraction) -> int:
    """Return the logarithm to base 2 of a positive number, in 65,536ths, rounded down; the same on any machine."""
    whole = number.numerator.bit_length() - number.denominator.bit_length()
    if number < Fraction(2) ** whole:
        whole -= 1
    mantissa = int(number * Fraction(2) ** (_WORD - whole))
    found = whole
    for _ in range(_BITS):
        mantissa = mantissa * mantissa >> _WORD
        found <<= 1
        if mantissa >> (_WORD + 1):
            mantissa >>= 1
            found += 1
    return found


def shifts(
    totals: Sequence[int], counts: Sequence[int], prices: Sequence[Fraction | None], incumbent: int
) -> tuple[int, ...]:
    """Return what to add to each candidate's predicted distance to the incumbent, in millionths, rounded once.

    ``totals`` are sums of distances over so many tasks that count. A candidate that costs nothing, or an unknown
    amount, or has no evidence is on no line.
    """
    places = [place for place, price in enumerate(prices) if price and counts[place]]
    line = _line({place: logarithm(prices[place] or Fraction(1)) for place in places}, totals, counts)
    if len(places) < _LINE or incumbent not in line:
        return (0,) * len(prices)
    drawn = {
        place: (line[place] - Fraction(totals[place], counts[place])) * Fraction(STRENGTH, counts[place] + STRENGTH)
        for place in places
    }
    return tuple(round(drawn[place] - drawn[incumbent]) if place in drawn else 0 for place in range(len(prices)))


def _line(logs: dict[int, int], totals: Sequence[int], counts: Sequence[int]) -> dict[int, Fraction]:
    """Return what a straight line through the means, by least squares, says of each; empty when all cost the same."""
    size = max(len(logs), 1)
    means = {place: Fraction(totals[place], counts[place]) for place in logs}
    centre, level = Fraction(sum(logs.values()), size), sum(means.values(), Fraction(0)) / size
    spread = sum(((log - centre) ** 2 for log in logs.values()), Fraction(0))
    if not spread:
        return {}
    slope = sum(((log - centre) * (means[place] - level) for place, log in logs.items()), Fraction(0)) / spread
    return {place: level + slope * (log - centre) for place, log in logs.items()}
