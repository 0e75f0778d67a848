"""Idempotency: one key and body, one answer, however often, from wherever and whenever it is asked for.

A key is known by the client's identity and the route. The journal is the only memory: an attempt under a key is an
accepted request, and what became of it is looked up. Flights are the attempts that this process is answering now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from commands.gateway import problems
from commands.gateway.books import Books
from commands.gateway.calls import Call, Desk, Ending, route_headers
from commands.gateway.exchange import JSON, Exchange, Headers
from commands.gateway.problems import Problem
from commands.gateway.requests import Request
from commands.opening import now_us
from ledger.errors import Refusal
from ledger.event import Event
from ledger.families import serving
from ledger.journal import Journal, Recorded
from ledger.locks import is_free

DAY_US = 24 * 3600 * 1_000_000
LONGEST_KEY = 255
FIRST_POLL, LAST_POLL = 0.002, 0.05
REPLAYED = (b"idempotent-replayed", b"true")


class Attempt(msgspec.Struct):
    """An accepted request under a key, and its ending, where it has one."""

    accepted: serving.RequestAccepted
    ending: Event | None

    @property
    def claim(self) -> serving.Claim:
        """The hold that it has, or had, on the key."""
        claim = self.accepted.claim
        if claim is None:
            raise AssertionError
        return claim


class Flight(msgspec.Struct):
    """An attempt that this process is answering: the future resolves to what its client gets, or to None."""

    fingerprint: str
    landed: asyncio.Future[Ending | None]


def check_key(exchange: Exchange, *, ghost: bool) -> str | None:
    """Return the request's idempotency key; a Problem when it can't be one."""
    key = exchange.header(b"idempotency-key")
    if key is None:
        return None
    if ghost:
        raise problems.Problem(
            400, "this gateway keeps no content, so it can't repeat an answer: leave Idempotency-Key out",
            code="idempotency_unavailable",
        )  # fmt: skip
    if b"idempotency-key" in exchange.repeated or not key.strip() or len(key) > LONGEST_KEY or not key.isprintable():
        raise problems.Problem(
            400, f"Idempotency-Key must be one text of 1 to {LONGEST_KEY} printable characters",
            code="invalid_idempotency_key",
        )  # fmt: skip
    return key


class Repeats:
    """Answers keyed requests."""

    def __init__(self, desk: Desk, *, clock: Callable[[], int] = now_us, keep_us: int = DAY_US) -> None:
        self.desk = desk
        self._journal: Journal = desk.books.journal
        self._clock = clock
        self._keep_us = keep_us
        self._flights: dict[str, Flight] = {}

    async def answer(self, exchange: Exchange, request: Request, key: str) -> None:
        """Answer from the journal, with the attempt in flight, or by a new attempt."""
        scope = serving.scope_of(exchange.identity, request.route, key)
        fingerprint = request.fingerprint()
        while not await self._answered(exchange, request, scope, fingerprint):
            continue

    async def _answered(self, exchange: Exchange, request: Request, scope: str, fingerprint: str) -> bool:
        """Answer, if that can be done without looking again first."""
        flight = self._flights.get(scope)
        if flight is not None:
            _check_same(flight.fingerprint, fingerprint)
            return await _repeated(exchange, await exchange.work(_landing(flight)))
        last = last_attempt(self._journal, scope)
        if last is not None and last.ending is None:
            _check_same(last.claim.fingerprint, fingerprint)
            return await _repeated(exchange, await exchange.work(self._elsewhere(last)))
        if last is not None and self._holds(last):
            _check_same(last.claim.fingerprint, fingerprint)
            await self._replay(exchange, last)
            return True
        return await self._attempt(exchange, request, self._next(scope, fingerprint, last))

    async def _attempt(self, exchange: Exchange, request: Request, claim: serving.Claim) -> bool:
        """Ask anew; False when another process was first."""
        flight = Flight(claim.fingerprint, asyncio.get_running_loop().create_future())
        self._flights[claim.scope] = flight
        ending: Ending | None = None
        try:
            ending = await Call(self.desk, exchange, request, claim).run()
        except serving.RequestAlreadyAccepted:
            self._journal.refresh()
            return False
        except Problem as problem:
            ending = failed(problem)
            raise
        finally:
            del self._flights[claim.scope]
            flight.landed.set_result(ending)
        return True

    def _holds(self, last: Attempt) -> bool:
        """Tell whether the last attempt's answer is still to be repeated."""
        return isinstance(last.ending, serving.RequestAnswered) and last.claim.keep_until > self._clock()

    def _next(self, scope: str, fingerprint: str, last: Attempt | None) -> serving.Claim:
        """Return the next claim. After an attempt whose end nobody knows, the provider gets the same key again."""
        number = 0 if last is None else last.claim.attempt + 1
        own = serving.claim_key(scope, number).removeprefix("b3:")[:40]
        unknown = last is not None and isinstance(last.ending, serving.RequestLost | serving.RequestAbandoned)
        same = unknown and last is not None and last.claim.fingerprint == fingerprint
        return serving.Claim(
            scope=scope,
            attempt=number,
            fingerprint=fingerprint,
            keep_until=self._clock() + self._keep_us,
            upstream_key=last.claim.upstream_key if same and last is not None else f"exp-{own}-{number}",
        )

    async def _replay(self, exchange: Exchange, last: Attempt) -> None:
        answered = last.ending
        if not isinstance(answered, serving.RequestAnswered) or answered.response is None:
            raise AssertionError
        try:
            body = self._journal.blob(answered.response.blob)
        except Refusal as refusal:
            raise problems.Problem(
                410, f"the recorded answer can't be repeated: {refusal.what}", kind=problems.INTERNAL,
                code="answer_not_kept", headers={"x-should-retry": "false"},
            ) from refusal  # fmt: skip
        headers = route_headers(answered.alias or last.accepted.alias, None, answered.decision)
        await _repeat(exchange, Ending(200, headers, body, last.accepted.streamed), answered.request)

    async def _elsewhere(self, attempt: Attempt) -> Ending | None:
        """Wait for an attempt that isn't in this process's hands; None when the key must be looked up again."""
        request, process = attempt.accepted.request, attempt.accepted.process
        pause = FIRST_POLL
        while True:
            gone = process != self.desk.process and is_free(self._journal.path.parent, process)
            ended = ending_of(self._journal, request)
            if ended is not None:
                return self._shared(ended)
            if gone:
                await lose(self.desk.books, request, process)
                return None
            await asyncio.sleep(pause)
            pause = min(LAST_POLL, pause * 1.5)

    def _shared(self, ended: Event) -> Ending | None:
        """Return a failure to share with those who waited for it; an answer is replayed by looking it up."""
        if not isinstance(ended, serving.RequestFailed) or ended.error is None:
            return None
        headers: Headers = []
        if ended.retry_after is not None:
            headers.append((b"retry-after", ended.retry_after.encode("latin-1")))
        return Ending(ended.status, headers, self._journal.blob(ended.error.blob), streamed=False)


async def lose(books: Books, request: str, process: str) -> None:
    """Record that a request's process is gone."""
    await books.record(serving.EndRequest(ending=serving.RequestLost(request=request, process=process)))


def last_attempt(journal: Journal, scope: str) -> Attempt | None:
    """Return the newest attempt under a key. Attempts are numbered without gaps: found by doubling, then halving."""
    first = _accepted(journal, scope, 0)
    if first is None:
        return None
    low, accepted, step = 0, first, 1
    while (further := _accepted(journal, scope, low + step)) is not None:
        low, accepted, step = low + step, further, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        between = _accepted(journal, scope, middle)
        if between is None:
            high = middle
        else:
            low, accepted = middle, between
    return Attempt(accepted, ending_of(journal, accepted.request))


def ending_of(journal: Journal, request: str) -> Event | None:
    """Return how a request ended; None while it hasn't."""
    for kind in serving.ENDINGS:
        record = journal.find(kind, request)
        if record is not None:
            return record.event
    return None


def _accepted(journal: Journal, scope: str, attempt: int) -> serving.RequestAccepted | None:
    record: Recorded | None = journal.find(serving.RequestAccepted, serving.claim_key(scope, attempt))
    if record is None:
        return None
    event = record.event
    if not isinstance(event, serving.RequestAccepted):
        raise TypeError(event)
    return event


def failed(problem: Problem) -> Ending:
    """Return what everybody gets who waited for a call that failed."""
    named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in problem.headers.items()]
    return Ending(problem.status, named, problem.envelope(), streamed=False)


def _check_same(recorded: str, fingerprint: str) -> None:
    if recorded != fingerprint:
        raise problems.key_mismatch()


async def _repeated(exchange: Exchange, ending: Ending | None) -> bool:
    """Send what the first client got, where that is known."""
    if ending is not None:
        await _repeat(exchange, ending)
    return ending is not None


async def _landing(flight: Flight) -> Ending | None:
    return await asyncio.shield(flight.landed)


async def _repeat(exchange: Exchange, ending: Ending, request: str | None = None) -> None:
    """Send again what was sent, marked as a repetition."""
    headers = [*ending.headers, REPLAYED]
    exchange.replayed = True
    if request is not None:
        exchange.request_id = request
    if not ending.streamed:
        await exchange.reply(ending.status, [JSON, *headers], ending.body)
        return
    await exchange.begin(headers)
    await exchange.finish(ending.body)
