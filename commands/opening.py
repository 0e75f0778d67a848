"""Opening a root at the edge: the real clock, this release's name, and a lock that tells others we are alive."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ledger import __version__

if TYPE_CHECKING:
    from ledger.event import Family
    from ledger.journal import Journal


def now_us() -> int:
    """Return the time: UTC, microseconds since 1970."""
    return time.time_ns() // 1000


def open_journal(
    root: Path, command: str, *families: Family, create: bool = False, reading: str | None = None
) -> Journal:
    """Open the root's journal for a command such as ``build``; with ``create`` the root is made when it isn't there.

    ``reading`` names an origin whose imported events are read instead of the journal's own.
    The caller closes it. What stands in the way is refused by name.
    """
    from ledger.journal import Journal  # noqa: PLC0415 - SQLite is loaded by the commands that need it

    return Journal.open(
        root,
        families,
        actor=f"exp {command} {__version__}",
        clock=now_us,
        create=create,
        process=secrets.token_hex(8),
        reading=reading,
    )


def read_journal(root: Path, *families: Family, reading: str | None = None) -> Journal:
    """Open the root's journal to look at what is recorded; nobody waits for a process that only looks."""
    from ledger.journal import Journal  # noqa: PLC0415 - as above

    return Journal.open(root, families, actor=f"exp {__version__}", clock=now_us, reading=reading)
