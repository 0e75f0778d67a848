"""Dispatching: the calls to providers that one request leads to, one after another, until one brings an answer.

Nothing is tried again, here or elsewhere, once a byte of an answer was passed on; and no call leaves before it is
recorded that the one before it failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from commands.gateway import accounting, attempts, problems, upstream
from commands.gateway.books import Books
from commands.gateway.dialects import Outgoing, outgoing
from commands.gateway.problems import Problem
from commands.gateway.requests import Request
from commands.gateway.routing import FAILOVER, Directory, Route
from commands.gateway.upstream import UpstreamProblem
from ledger import digests
from ledger.families import serving
from ledger.families.providers import Endpoint
from ledger.money import NanoUSD

MICRO = 1_000_000
T = TypeVar("T")


class Dispatching:
    """Where a request goes now: the model, what is sent to it, and what that may cost."""

    def __init__(self, directory: Directory, request: Request, route: Route, *, ghost: bool) -> None:
        self.reason = route.reason
        self.dispatch = 0
        self._directory = directory
        self._request = request
        self._elsewhere = list(route.elsewhere)
        self._ghost = ghost
        self._tried = 1
        self._refusals = 0
        self._aim(route.endpoint)

    def _aim(self, endpoint: Endpoint) -> None:
        sent = outgoing(endpoint, self._request)
        self.worst_case: NanoUSD | None = accounting.reservation(endpoint, self._request, sent.body)
        self.tokens = accounting.most_tokens(endpoint, self._request, sent.body)
        self.endpoint = endpoint
        self.outgoing: Outgoing = sent

    @property
    def timeout(self) -> float:
        """The seconds that the provider may be silent."""
        return self._directory.rules.of(self.endpoint).timeout

    @property
    def sent(self) -> str:
        """The digest of what is sent; nothing where content isn't kept."""
        return "" if self._ghost else digests.content_digest(self.outgoing.body)

    def upstream_key(self, claim: serving.Claim | None) -> str | None:
        """Return the idempotency key for the provider: the same one, until it answered under it with an error."""
        if claim is None:
            return None
        return claim.upstream_key if not self._refusals else f"{claim.upstream_key}-{self._refusals}"

    async def answered(
        self, books: Books, request: str, ask: Callable[[], Awaitable[T]], started: Callable[[], bool]
    ) -> T:
        """Return what asking brings, from this model or another; the last Problem when no more may be tried."""
        circuits = self._directory.circuits
        while True:
            alias = self.endpoint.alias
            circuits.asked(alias)
            try:
                brought = await ask()
            except Problem as problem:
                circuits.failed(alias, problem)
                if started() or not await self._goes_on(books, request, problem):
                    raise self._last(problem) from problem.__cause__
            except BaseException:
                circuits.ceased(alias)
                raise
            else:
                circuits.answered(alias)
                return brought

    def _last(self, problem: Problem) -> Problem:
        retried = self.dispatch > 0 and self._directory.rules.of(self.endpoint).retries > 0
        return attempts.unrepeated(problem) if retried and attempts.may_go_elsewhere(problem) else problem

    async def _goes_on(self, books: Books, request: str, problem: Problem) -> bool:
        """Tell whether there is another dispatch, once that is recorded and its time has come."""
        pause = None
        if self._tried <= self._directory.rules.of(self.endpoint).retries:
            pause = attempts.pause(problem, self._tried)
        failed, endpoint = self._failed(request, problem, pause or 0.0), self.endpoint
        try:
            if pause is not None:
                await self._record(books, failed, None)
                await asyncio.sleep(pause)
            elif attempts.may_go_elsewhere(problem) and self._turned():
                await self._record(books, failed, self._rerouted(request))
                self.reason = FAILOVER
            else:
                return False
        except serving.NOT_ADMITTED:  # what failed may have been charged for, and no more fits under the budget
            self._aim(endpoint)
            return False
        if getattr(problem, "upstream_status", None) is not None:
            self._refusals += 1
        return True

    async def stale(self, books: Books, request: str, reason: str) -> None:
        """Record that a kept connection gave nothing back, before the request is sent once more."""
        problem = upstream.UpstreamProblem(502, reason, kind=problems.UPSTREAM, code=reason)
        problem.cost = None
        try:
            await self._record(books, self._failed(request, problem), None)
        except serving.NOT_ADMITTED:
            raise problem from None

    async def _record(
        self, books: Books, failed: serving.AttemptFailed, rerouted: serving.RequestRerouted | None
    ) -> None:
        await books.record(serving.RetryDispatch(failed=failed, rerouted=rerouted, when=books.clock()))
        self.dispatch += 1
        self._tried = 1 if rerouted else self._tried + (failed.pause_us > 0)

    def _turned(self) -> bool:
        """Aim at the next model that isn't resting and can be sent the request."""
        while self._elsewhere:
            endpoint = self._elsewhere.pop(0)
            if self._directory.circuits.rests(endpoint.alias):
                continue
            try:
                self._aim(endpoint)
            except Problem:
                continue
            return True
        return False

    def _failed(self, request: str, problem: Problem, pause: float = 0.0) -> serving.AttemptFailed:
        return serving.AttemptFailed(
            request=request,
            dispatch=self.dispatch,
            reason=problems.name_of(problem),
            worst_case=self.worst_case,
            alias=self.endpoint.alias,
            status=getattr(problem, "upstream_status", None),
            cost=problem.cost if isinstance(problem, UpstreamProblem) else 0,
            pause_us=int(pause * MICRO),
        )

    def _rerouted(self, request: str) -> serving.RequestRerouted:
        return serving.RequestRerouted(
            request=request,
            dispatch=self.dispatch + 1,
            alias=self.endpoint.alias,
            reason=FAILOVER,
            api=self.outgoing.api,
            base_url=self.outgoing.base_url,
            sent=self.sent,
            worst_case=self.worst_case,
        )
