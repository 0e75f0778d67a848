"""Admission: who a client is by its key, and what it is told when its key, or a limit, doesn't let a request in."""

from __future__ import annotations

import base64
import contextlib
import hmac
import re
from collections.abc import Callable

from commands.gateway import problems
from commands.gateway.exchange import Exchange
from commands.gateway.keys import digest_of
from commands.gateway.problems import Problem
from commands.opening import now_us
from ledger import allowances
from ledger.allowances import SECOND, stamp
from ledger.errors import Refusal
from ledger.families import serving
from ledger.journal import Journal

TOO_MANY = 429
PAGE = "/usage"
_BASIC = re.compile(r"basic +([A-Za-z0-9+/=]+) *", re.IGNORECASE)
_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE)


class Gate:
    """Tells clients by their keys. What other processes recorded about keys counts at once.

    ``owner`` is who has the gateway's own key, the one in its file.
    """

    def __init__(
        self, journal: Journal, owner: str, met: Callable[[str], None], clock: Callable[[], int] = now_us
    ) -> None:
        self.owner = owner
        self.clock = clock
        self._journal = journal
        self._met = met
        self._seen: int | None = None

    def identify(self, exchange: Exchange) -> None:
        """Note who asks; a Problem 401 when that can't be told. ``met`` gets each valid key, to be kept out of texts.

        Keys are found by their digests: what could be timed is the digest of a guess, which nobody can steer.
        """
        shown = _shown(exchange)
        self._look()
        state: serving.Serving = self._journal.state(serving.FAMILY)
        digest = digest_of(shown)
        known = digest if state.valid(digest, self.clock()) else ""
        if not hmac.compare_digest(known, digest):
            raise problems.unauthorized(as_password=exchange.path == PAGE)
        exchange.identity, exchange.shown = state.keys[digest], digest
        self._met(shown)

    def _look(self) -> None:
        """Fold what other processes committed since the last look."""
        change = self._journal.change()
        if change != self._seen:
            self._journal.refresh()
            self._seen = change


def _shown(exchange: Exchange) -> str:
    """Return the key that is shown: as a bearer token, or to the page, for a browser, as a password."""
    given = exchange.header(b"authorization") or ""
    bearer = _BEARER.fullmatch(given)
    if bearer is not None:
        return bearer[1]
    basic = _BASIC.fullmatch(given) if exchange.path == PAGE else None
    if basic is not None:
        with contextlib.suppress(ValueError):
            return base64.b64decode(basic[1], validate=True).decode("ascii").partition(":")[2]
    raise problems.unauthorized(as_password=exchange.path == PAGE)


def problem_of(refusal: Refusal, now: int) -> Problem:
    """Return what a client is told when its request wasn't let in."""
    if isinstance(refusal, allowances.RateExceeded):
        return _later(refusal, now, "rate_limit_exceeded", final=refusal.alone)
    if isinstance(refusal, allowances.BudgetSpent):
        return _later(refusal, now, "insufficient_quota", final=not refusal.waiting)
    if isinstance(refusal, allowances.PriceUnknown):
        return Problem(400, f"{refusal.what}; {refusal.remedy}", code="price_unknown", param="model")
    if isinstance(refusal, serving.ModelNotAllowed):
        return Problem(404, refusal.what, code="model_not_found", param="model")
    return problems.unauthorized()


def _later(refusal: allowances.RateExceeded | allowances.BudgetSpent, now: int, code: str, *, final: bool) -> Problem:
    """Say when there is room again. ``final``: official clients would retry a 429, and for nothing."""
    resets = stamp(refusal.resets)
    seconds = max(1, -(-(refusal.resets - now) // SECOND))
    if not final and code == "insufficient_quota":  # what is reserved for others may be given back at any time
        seconds = 1
    headers = {"Retry-After": str(seconds), "x-exp-resets-at": resets}
    if final:
        headers["x-should-retry"] = "false"
    kind = code if code == "insufficient_quota" else "rate_limit_error"
    problem = Problem(TOO_MANY, f"{refusal.what}; {refusal.remedy}", kind=kind, code=code, headers=headers)
    problem.resets = resets
    return problem
