"""What came of a physical call: the one seam between asking and the world."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ledger.families.providers import Endpoint
from ledger.prompt import Question
from ledger.redaction import Redactor


class Answered(msgspec.Struct, frozen=True):
    """The provider's bytes, whether they can be read or not."""

    body: bytes
    latency_us: int = 0


class Failed(msgspec.Struct, frozen=True):
    """No answer. ``sent`` says whether the request left; ``charged`` whether it may cost something all the same."""

    reason: str
    status: int | None = None
    message: str = ""
    sent: bool = True
    charged: bool = False
    again: bool = True
    retry_after: float | None = None


Outcome = Answered | Failed


class Perform(Protocol):
    """Answers questions: live, replaying and scripted are its values."""

    asks: bool  # whether the world is asked, so that each call must be reserved
    redactor: Redactor

    async def __call__(self, endpoint: Endpoint, question: Question) -> Outcome:
        """Return what came of asking; a Refusal when the question can't even be sent."""
        ...
