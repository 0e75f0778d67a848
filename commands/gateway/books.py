"""Books: the gateway's way to the journal. A reply waits for its events, but never for ever.

What a call cost was paid whether or not it could be written down: an ending that couldn't be recorded is kept and tried
again until it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

from commands.gateway import problems
from commands.opening import now_us
from ledger import digests
from ledger.errors import Refusal
from ledger.event import Blobs, Command, Step
from ledger.families import serving
from ledger.journal import Journal, Recorded

PATIENCE = 5.0
RETRY_AFTER = 0.5
_DECIDED = (serving.RequestAlreadyAccepted, serving.SessionKeptElsewhere, *serving.NOT_ADMITTED)


class Books:
    """Records what happens to requests."""

    def __init__(self, journal: Journal, *, patience: float = PATIENCE, clock: Callable[[], int] = now_us) -> None:
        self.journal = journal
        self.clock = clock
        self.well = True
        self._patience = patience
        self._owed: list[tuple[serving.EndRequest, Blobs | None]] = []
        self._collecting: asyncio.Task[None] | None = None

    async def record(self, *commands: Command, blobs: Blobs | None = None) -> tuple[Recorded, ...]:
        """Record commands, all or none; a Problem 503 when that can't be done in time."""
        try:
            async with asyncio.timeout(self._patience):
                recorded = await self.journal.record(
                    *(Step(serving.FAMILY, command) for command in commands), blobs=blobs
                )
        except Refusal as refusal:
            if isinstance(refusal, _DECIDED):
                raise
            self.well = False
            raise problems.journal_unavailable() from refusal
        except Exception as error:
            self.well = False
            raise problems.journal_unavailable() from error
        self.well = True
        return recorded

    async def accept(self, command: serving.AcceptRequest, blobs: Blobs) -> str | None:
        """Accept a request and its route, and return the id of the decision.

        A request that was accepted too late is ended: nothing is asked for it.
        """
        accepted = command.accepted
        try:
            recorded = await self.record(command, blobs=blobs)
        except problems.Problem as problem:
            never_sent = serving.RequestFailed(
                request=accepted.request, status=problem.status, code=problem.code or "", error=None, cost=0
            )
            self._owe(serving.EndRequest(ending=never_sent), None)
            raise
        return digests.named(recorded[1].id) if len(recorded) > 1 else None

    async def end(self, ending: serving.Ended, blobs: Blobs | None = None) -> None:
        """End a request; when that can't be recorded now, it will be as soon as it can."""
        command = serving.EndRequest(ending=ending)
        try:
            await self.record(command, blobs=blobs)
        except problems.Problem:
            self._owe(command, blobs)
            raise

    async def close(self) -> None:
        """Try once more to record what is owed."""
        if self._collecting is not None:
            self._collecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._collecting
        with contextlib.suppress(problems.Problem):
            await self._collect()

    def _owe(self, command: serving.EndRequest, blobs: Blobs | None) -> None:
        self._owed.append((command, blobs))
        if self._collecting is None or self._collecting.done():
            self._collecting = asyncio.get_running_loop().create_task(self._collect_until_done())

    async def _collect_until_done(self) -> None:
        while self._owed:
            await asyncio.sleep(RETRY_AFTER)
            with contextlib.suppress(problems.Problem):
                await self._collect()

    async def _collect(self) -> None:
        while self._owed:
            command, blobs = self._owed[0]
            try:
                await self.record(command, blobs=blobs)
            except problems.Problem as problem:
                if isinstance(problem.__cause__, Refusal | TimeoutError):
                    raise
                sys.stderr.write(f"exp: the end of request {command.ending.request} has no form to be recorded in\n")
            self._owed.pop(0)
