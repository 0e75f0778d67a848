"""Writing a result to a file of its own, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.errors import Refusal

PRIVATE, SHARED = 0o600, 0o666  # less what the umask takes
SHOWN = 40  # characters of a name, so that what is added to it always fits


@contextmanager
def fresh(path: Path, mode: int = PRIVATE) -> Iterator[Path]:
    """Make an empty file beside ``path``, of a name that no other process has or had; it is gone at the end."""
    beside = path.parent / f".{path.name[:SHOWN]}.{os.urandom(8).hex()}.new"
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
    try:
        yield beside
    finally:
        beside.unlink(missing_ok=True)


class FileUnwritable(Refusal, name="file-unwritable", exit_code=240):
    """A file can't be written where it was asked for."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the file can't be written: {problem}",
            where=str(path) if path.name else "a path without a file's name",
            remedy="name another file, in a directory that can be written",
        )


def write(path: Path, content: str) -> None:
    """Write a file, replacing one that is there; FileUnwritable when that can't be done."""
    try:
        with fresh(path, SHARED) as made:
            made.write_text(content, encoding="utf-8", errors="backslashreplace")
            made.replace(path)
    except OSError as error:
        raise FileUnwritable(path, error.strerror or str(error)) from error


class FileUnreadable(Refusal, name="file-unreadable", exit_code=243):
    """A file that was named can't be read."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the file can't be read: {problem}", where=str(path), remedy="give the path of a readable, regular file"
        )
