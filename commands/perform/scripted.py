"""Scripted: answers that a test or a rehearsal has ready."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from commands.perform.outcome import Outcome
from ledger.families.providers import Endpoint
from ledger.prompt import Question
from ledger.redaction import Redactor


class Scripted:
    """Answers with what a function returns, at once or when awaited, and keeps what was asked."""

    asks = True

    def __init__(
        self, script: Callable[[Endpoint, Question], Outcome | Awaitable[Outcome]], redactor: Redactor | None = None
    ) -> None:
        self.redactor = redactor or Redactor()
        self.asked: list[Question] = []
        self._script = script

    async def __call__(self, endpoint: Endpoint, question: Question) -> Outcome:
        """Return what the script says."""
        self.asked.append(question)
        outcome = self._script(endpoint, question)
        return await outcome if inspect.isawaitable(outcome) else outcome
