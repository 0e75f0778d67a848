"""Access log: one JSON object a line for each request, with nothing of its content and nothing of any key."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from commands.gateway.exchange import Exchange
from ledger.errors import Refusal

STDOUT = "-"
PRIVATE = 0o600
LONGEST_PATH = 200


class AccessLogUnwritable(Refusal, name="access-log-unwritable", exit_code=225):
    """The access log can't be opened for writing."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"the access log can't be written: {reason}",
            where=path,
            remedy="name a file in a folder that can be written to, or - for standard output",
        )


class Line(msgspec.Struct, omit_defaults=True):
    """What is said of a request. Times are in microseconds; ``key`` is the name of a key, never the key."""

    at: int
    method: str
    path: str
    status: int
    bytes: int
    duration_us: int
    request: str = ""
    key: str = ""
    model: str = ""
    alias: str = ""
    streamed: bool = False
    replayed: bool = False
    error: str = ""


class AccessLog:
    """Appends lines to a file that only its owner reads, or to standard output."""

    def __init__(self, where: str, clock: Callable[[], int], clean: Callable[[str], str]) -> None:
        self._clock = clock
        self._clean = clean
        self._told = False
        self._owned = where != STDOUT
        self._descriptor = _opened(where) if self._owned else sys.stdout.fileno()

    def note(self, exchange: Exchange) -> None:
        """Write a request's line. One that can't be written is said once on stderr and stops nothing."""
        line = Line(
            at=self._clock(),
            method=exchange.method,
            path=self._clean(exchange.path[:LONGEST_PATH]),
            status=exchange.status,
            bytes=exchange.sent,
            duration_us=exchange.elapsed(),
            request=exchange.request_id,
            key=exchange.identity,
            model=self._clean(exchange.model[:LONGEST_PATH]),
            alias=exchange.alias,
            streamed=exchange.streamed,
            replayed=exchange.replayed,
            error=exchange.error,
        )
        try:
            os.write(self._descriptor, msgspec.json.encode(line) + b"\n")
        except OSError as error:
            if not self._told:
                sys.stderr.write(f"exp: the access log can't be written: {error.strerror or error}\n")
            self._told = True

    def close(self) -> None:
        """Let go of the file."""
        if self._owned:
            os.close(self._descriptor)


def _opened(where: str) -> int:
    """Return a descriptor that appends, whole lines at once; the file is its owner's only."""
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(Path(where), flags, PRIVATE)
    except OSError as error:
        raise AccessLogUnwritable(where, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise AccessLogUnwritable(where, "it is no regular file")
    os.fchmod(descriptor, PRIVATE)
    return descriptor
