"""Where the journal stands: printed with every published result, so that anyone can show later that it only grew."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from commands.render.result import Result
    from ledger.journal import Journal


def say_checkpoint(result: Result, journal: Journal) -> None:
    """Say the checkpoint on one line: origin, size and root, the three lines of its text form."""
    now = journal.checkpoint()
    result.line("checkpoint", f"{now.origin} {now.size} {base64.b64encode(now.root).decode()}")
