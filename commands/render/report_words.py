"""Words of a report: numbers as people read them, each rounded once, and what wasn't measured said as such."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.money import usd

if TYPE_CHECKING:
    from ledger.money import NanoUSD
    from projections.calibration import Corrected

SCALE = 1_000_000
NOT_MEASURED = "not measured"
UNKNOWN = "unknown"
_PLACES = ((1_000_000_000, 2), (10_000_000, 4), (10_000, 6), (0, 9))  # from so many nano-dollars on, so many decimals


def score(millionths: int | None, places: int = 3) -> str:
    """Return a score or a share as a decimal."""
    return NOT_MEASURED if millionths is None else _decimal(millionths, places)


def signed(millionths: int | None, places: int = 3) -> str:
    """Return a difference with its sign; nothing that is rounded to zero has one."""
    shown = score(millionths, places)
    return shown if millionths is None or millionths <= 0 or not shown.strip("0.") else f"+{shown}"


def _decimal(millionths: int, places: int) -> str:
    unit = 10 ** (6 - places)
    size = (2 * abs(millionths) + unit) // (2 * unit)
    sign = "-" if millionths < 0 and size else ""
    whole, rest = divmod(size, 10**places)
    return f"{sign}{whole}.{rest:0{places}d}"


def interval(low: int | None, high: int | None) -> str:
    """Return a 95% interval, rounded outwards to three places; a dash when there is none."""
    if low is None or high is None:
        return "-"
    return f"{_decimal(low // 1000 * 1000, 3)} to {_decimal(-(-high // 1000) * 1000, 3)}"


def percent(millionths: int | None) -> str:
    """Return a share in percent with one decimal."""
    return NOT_MEASURED if millionths is None else f"{_decimal(100 * millionths, 1)}%"


def percents(low: int | None, high: int | None) -> str:
    """Return a 95% interval of a share in percent, rounded outwards to one decimal; a dash when there is none."""
    if low is None or high is None:
        return "-"
    return f"{percent(low // 1000 * 1000)} to {percent(-(-high // 1000) * 1000)}"


def corrected(one: Corrected) -> str:
    """Return a share that was corrected for a judge's errors, with its interval, or that none can be given."""
    if one.value is None:
        return "undefined"
    if (one.low, one.high) == (0, SCALE):
        return "any share: labels are too few"
    return f"{percent(one.value)} ({percents(one.low, one.high)})"


def dollars(nano: NanoUSD | None) -> str:
    """Return an amount with as many decimals as its size asks for, never shown as less than it is."""
    if nano is None:
        return UNKNOWN
    if not nano:
        return "$0"
    return usd(nano, next(places for least, places in _PLACES if abs(nano) >= least))


def count(number: int | None) -> str:
    """Return a number in groups of three."""
    return UNKNOWN if number is None else f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def shortened(text: str, most: int) -> tuple[str, int, str]:
    """Return the beginning of a text, how many characters are left out, and its end."""
    if len(text) <= most:
        return text, 0, ""
    tail = most // 3
    return text[: most - tail], len(text) - most, text[len(text) - tail :]
