"""Writing a result to a file of its own, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from ledger.errors import Refusal


class FileUnwritable(Refusal, name="file-unwritable", exit_code=240):
    """A file can't be written where it was asked for."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the file can't be written: {problem}",
            where=str(path),
            remedy="name a file in a directory that can be written",
        )


def write(path: Path, content: str) -> None:
    """Write a file, replacing one that is there; FileUnwritable when that can't be done."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with fresh.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise FileUnwritable(path, error.strerror or str(error)) from error


class FileUnreadable(Refusal, name="file-unreadable", exit_code=243):
    """A file that was named can't be read."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the file can't be read: {problem}", where=str(path), remedy="give the path of a readable, regular file"
        )
