"""Money: integer nano-dollars, so that sums are exact on every machine."""

from __future__ import annotations

from decimal import Decimal, Inexact, localcontext

NanoUSD = int
NANO = 1_000_000_000
TOKENS_PER_PRICE = 1_000_000


def nano_usd(dollars: str | int) -> NanoUSD:
    """Return nano-dollars of a decimal amount in dollars; ValueError when it isn't one or is finer than a nano."""
    try:
        with localcontext() as exactly:
            exactly.traps[Inexact] = True
            amount = Decimal(str(dollars)) * NANO
    except ArithmeticError as error:
        raise ValueError(dollars) from error
    if not amount.is_finite() or amount != amount.to_integral_value():
        raise ValueError(dollars)
    return int(amount)


def usd(nano: NanoUSD, places: int = 2) -> str:
    """Return ``$`` and the amount rounded up (never shown as less than it is) at the given decimal places."""
    unit = 10 ** (9 - places)
    units = -(-nano // unit) if nano >= 0 else -(nano // -unit)
    sign = "-" if units < 0 else ""
    whole, rest = divmod(abs(units), 10**places)
    return f"{sign}${whole}.{rest:0{places}d}" if places else f"{sign}${whole}"


def cost(tokens: int, price_per_million: NanoUSD) -> NanoUSD:
    """Return nano-dollars for tokens at a price in nano-dollars a million tokens, rounded up once."""
    return -(-tokens * price_per_million // TOKENS_PER_PRICE)
