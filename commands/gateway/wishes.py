"""Wishes: what a client asks for beside its request, in headers: a session, which models, quality or cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal

import msgspec

from commands.gateway import problems
from commands.gateway.exchange import Exchange
from ledger import digests

SESSION, ALLOWED, DIAL = b"x-exp-session", b"x-exp-allowed-models", b"x-exp-quality-cost"
LONGEST = 2_000
LONGEST_SESSION = 255
_DIAL = re.compile(r"(tolerance|price)=([0-9]{1,6}(?:\.[0-9]{1,9})?)")
_SCALES: dict[str, tuple[Literal["tolerance", "price"], int]] = {
    "tolerance": ("tolerance", 1_000_000),
    "price": ("price", 1_000_000_000),
}


class Turned(msgspec.Struct, frozen=True):
    """A request's own dial: how many millionths worse a cheaper model may be, or nano-dollars a unit of score."""

    by: Literal["tolerance", "price"]
    amount: int

    def __str__(self) -> str:
        """Return it as a decision records it."""
        return f"{self.by}={self.amount}"


class Wishes(msgspec.Struct, frozen=True):
    """What the headers say; None where they say nothing."""

    session: str | None = None
    allowed: tuple[str, ...] | None = None
    dial: Turned | None = None

    def allows(self, alias: str) -> bool:
        """Tell whether a model may answer."""
        return self.allowed is None or alias in self.allowed


NONE = Wishes()


def read_wishes(exchange: Exchange) -> Wishes:
    """Return what a request's headers ask for; a Problem when one can't be understood."""
    given = exchange.headers
    if SESSION not in given and ALLOWED not in given and DIAL not in given:
        return NONE
    for name in (SESSION, ALLOWED, DIAL):
        if name in exchange.repeated:
            raise _bad(name, "must be there once")
    return Wishes(_session(exchange.header(SESSION)), _allowed(exchange.header(ALLOWED)), _dial(exchange.header(DIAL)))


def beginning(messages: Sequence[Mapping[str, object]]) -> str:
    """Return the digest of how a conversation begins: all up to its first user turn."""
    until = next((at for at, message in enumerate(messages) if message.get("role") == "user"), len(messages) - 1)
    return digests.content_digest(_sorted.encode(messages[: until + 1]))


_sorted = msgspec.json.Encoder(order="sorted")


def _session(value: str | None) -> str | None:
    if value is None:
        return None
    if not value.strip() or len(value) > LONGEST_SESSION or not value.isprintable():
        raise _bad(SESSION, f"must be a text of 1 to {LONGEST_SESSION} printable characters")
    return digests.content_digest(value.encode())


def _allowed(value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not names or len(value) > LONGEST:
        raise _bad(ALLOWED, "must name models, with commas between them")
    return names


def _dial(value: str | None) -> Turned | None:
    if value is None:
        return None
    found = _DIAL.fullmatch(value)
    if not found:
        words = "must be tolerance=NUMBER (how much worse a cheaper model may be, as 0.05) or price=NUMBER"
        raise _bad(DIAL, f"{words} (what a unit of score is worth, in US dollars a request)")
    by, scale = _SCALES[found[1]]
    return Turned(by, int(Decimal(found[2]) * scale))


def _bad(name: bytes, words: str) -> problems.Problem:
    return problems.Problem(400, f"{name.decode()} {words}", code="invalid_header", param=name.decode())
