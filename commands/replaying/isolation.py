"""Isolation: while it lasts, this process opens no socket and starts no other process that could."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ledger.errors import Refusal

STARTS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    }
)


class ReplayReachedOut(Refusal, name="replay-reached-out", exit_code=210):
    """A replay tried to open a socket or to start a process. It never has a reason to: this is a bug."""

    def __init__(self, event: str) -> None:
        super().__init__(
            f"the replay tried {event} and was stopped; nothing left this process",
            where="the replay, which may only read the journal",
            remedy="don't trust this release's replays; report this with the command that you ran",
        )


class _Gate:
    """Whether this process may reach out. A hook can't be taken away again, so it asks this."""

    def __init__(self) -> None:
        self.shut = 0
        self.guarded = False

    def hook(self, event: str, _: object) -> None:
        if self.shut and (event.startswith("socket.") or event in STARTS):
            raise ReplayReachedOut(event)


_gate = _Gate()


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Refuse every socket and every process, in all threads, until the end of the block."""
    if not _gate.guarded:
        sys.addaudithook(_gate.hook)
        _gate.guarded = True
    _gate.shut += 1
    try:
        yield
    finally:
        _gate.shut -= 1
