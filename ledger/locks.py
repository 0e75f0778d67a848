"""Locks: files that tell other processes who is writing and who is alive.

All are ``flock`` locks, which the kernel releases when a process ends however it ends. A name under ``ROOT/locks/`` is
held for the life of one process; whoever finds it free knows that the process is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Self

FOLDER = "locks"
PRIVATE = 0o600


class Held:
    """A lock that is held until it is released or the process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.name = path.name
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Remove the file, then let go of it. A second release does nothing."""
        if self._descriptor is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


def hold(root: Path, name: str) -> Held:
    """Hold the name for the life of this process; waits while another holds it."""
    folder = root / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _still_at(path, descriptor):
            return Held(path, descriptor)
        os.close(descriptor)  # swept between opening and locking: the lock is on a file that has no name


def is_free(root: Path, name: str) -> bool:
    """Tell whether the process that held the name is gone; a file left behind by it is removed."""
    path = root / FOLDER / name
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _still_at(path, descriptor):
            path.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def alive(root: Path) -> dict[str, bool]:
    """Return the names of processes that have a file here, and whether each still runs; nothing is removed."""
    folder = root / FOLDER
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = _is_locked(path)
    return found


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def sweep(root: Path) -> None:
    """Remove the files of processes that are gone."""
    folder = root / FOLDER
    if folder.is_dir():
        for path in folder.iterdir():
            is_free(root, path.name)


def _still_at(path: Path, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


class Sidecar:
    """The lock under which a journal is written: a file beside it, never removed."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)

    def held(self) -> Self:
        """Return what holds the lock inside of a ``with``."""
        return self

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._descriptor)
