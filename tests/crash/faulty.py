"""A file system that fails when it is told to: what a full or dying disk does to a journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw


class Faults:
    """Which of the writes and syncs still to come fail, and how."""

    def __init__(self) -> None:
        self.writes = 0
        self.syncs = 0
        self.failing: Callable[[str, int], bool] = lambda operation, number: False
        self.error: type[Exception] = apsw.IOError
        self.failed = 0
        self.torn = False

    def happen(self, operation: str) -> bool:
        number = self.writes if operation == "write" else self.syncs
        if operation == "write":
            self.writes += 1
        else:
            self.syncs += 1
        if self.failing(operation, number):
            self.failed += 1
            return True
        return False

    def never(self) -> None:
        self.failing = lambda operation, number: False

    def always(self) -> None:
        self.failing = lambda operation, number: True

    def once_more(self, operation: str, later: int = 0) -> None:
        """Let the next operation of this name fail, or one so many later."""
        at = (self.writes if operation == "write" else self.syncs) + later
        self.failing = lambda asked, number: asked == operation and number == at


class FaultyFile(apsw.VFSFile):
    """A file whose writes and syncs may fail; a torn write leaves half of its bytes."""

    def __init__(self, inherits: str, name: Any, flags: Any, faults: Faults) -> None:
        super().__init__(inherits, name, flags)
        self._faults = faults

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._faults.happen("write"):
            if self._faults.torn:
                super().xWrite(data[: len(data) // 2], offset)
            raise self._faults.error
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        if self._faults.happen("sync"):
            raise self._faults.error
        super().xSync(flags)


class FaultyVFS(apsw.VFS):
    """The operating system's files, with faults."""

    def __init__(self, name: str) -> None:
        self.faults = Faults()
        self.name = name
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: Any) -> FaultyFile:  # noqa: N802 - SQLite's name
        return FaultyFile("", name, flags, self.faults)
