"""Wishes: what a client asks for beside its request, in headers: a session, which models, quality or cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from commands.gateway import problems
from commands.gateway.exchange import Exchange
from ledger import digests

SESSION, ALLOWED, DIAL = b"x-exp-session", b"x-exp-allowed-models", b"x-exp-quality-cost"
LONGEST = 2_000
LONGEST_SESSION = 255
POLICYS_OWN, MOST = 50, 100
_NUMBER = re.compile(r"[0-9]{1,3}")


class Wishes(msgspec.Struct, frozen=True):
    """What the headers say; None where they say nothing.

    ``dial`` goes from 0, the best predicted score whatever it costs, over 50, the policy's own rule, to 100, the
    cheapest with evidence.
    """

    session: str | None = None
    allowed: tuple[str, ...] | None = None
    dial: int | None = None

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


def _dial(value: str | None) -> int | None:
    if value is None:
        return None
    if not _NUMBER.fullmatch(value) or int(value) > MOST:
        raise _bad(DIAL, f"must be a whole number from 0 (quality) to {MOST} (cost); {POLICYS_OWN} is the policy's own")
    return int(value)


def _bad(name: bytes, words: str) -> problems.Problem:
    return problems.Problem(400, f"{name.decode()} {words}", code="invalid_header", param=name.decode())
