"""A disk that loses power: what was written and not yet synced may be there, be gone, or be there in part.

Files are written through to the real ones, so that the program under trial goes on; beside that, each file's durable
content and its writes since the last sync are kept. A loss picks, sector by sector, which of these writes reached the
disk. That covers writes that are dropped, reordered and torn. Names of files are durable once their folder is synced,
or the file is, as SQLite does it for a new log.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512


class Platter:
    """One file: what surely is on the disk, and what may be."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []  # an offset and what was written there; None cuts the file
        self.named = False

    def synced(self) -> None:
        for offset, data in self.pending:
            _put(self.durable, offset, data)
        self.pending.clear()

    def lost(self, chance: random.Random) -> bytes:
        """Return what is found after a loss of power."""
        image = bytearray(self.durable)
        kept = chance.choice((0.0, 1.0, chance.random(), chance.random()))
        stop = chance.randrange(len(self.pending) + 1) if chance.random() < 1 / 3 else len(self.pending)
        for offset, data in self.pending[:stop]:
            if data is None:
                if chance.random() < kept:
                    _put(image, offset, None)
                continue
            start = 0
            while start < len(data):
                end = min(len(data), (offset + start) // SECTOR * SECTOR + SECTOR - offset)
                if chance.random() < kept:
                    _put(image, offset + start, data[start:end])
                start = end
        return bytes(image)


def _put(image: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """The operating system's files below one folder, on a disk that loses power at chosen moments."""

    def __init__(self, name: str, folder: Path, chance: random.Random) -> None:
        self.name = name
        self.folder = folder
        self.chance = chance
        self.files: dict[str, Platter] = {}
        self.unnamed: list[Callable[[dict[str, bytes]], None]] = []
        self.moment: Callable[[], None] = lambda: None
        self.lock = threading.RLock()
        super().__init__(name, "")

    # What SQLite asks for.

    def xOpen(self, name: Any, flags: Any) -> PowerlessFile:  # noqa: N802 - SQLite's name
        return PowerlessFile(name, flags, self)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: FBT001, N802 - SQLite's name
        super().xDelete(name, syncdir)
        with self.lock:
            self.moment()
            self.files.pop(self.known(name), None)  # a log that was emptied; if it came back, it would be empty

    # What the program does beside SQLite.

    def known(self, name: str | Path) -> str:
        return os.path.relpath(name, self.folder)

    def sync(self, folder: Path) -> None:
        """Take the place of ``store.sync``."""
        with self.lock:
            self.moment()
            for name, platter in self.files.items():
                platter.named |= (self.folder / name).parent == folder
            self.unnamed.clear()
            self.moment()

    def moved(self, old: Path, new: Path) -> None:
        """Note that a file has another name, or a second one, which is durable when the folder is synced."""
        with self.lock:
            before, after = self.known(old), self.known(new)
            platter = self.files[before]
            self.files[after] = platter
            if not old.exists():
                del self.files[before]

            def undo(image: dict[str, bytes]) -> None:
                if after in image and self.chance.random() < 1 / 2:
                    image[before] = image.pop(after)

            self.unnamed.append(undo)
            self.moment()

    def lost(self) -> dict[str, bytes]:
        """Return the files that are found when power is lost now."""
        with self.lock:
            image = {
                name: platter.lost(self.chance)
                for name, platter in self.files.items()
                if platter.named or self.chance.random() < 1 / 2
            }
            for undo in reversed(self.unnamed):
                undo(image)
            return image


class PowerlessFile(apsw.VFSFile):
    """A file whose writes are noted until they are synced."""

    def __init__(self, name: Any, flags: Any, disk: Disk) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        filename = name.filename() if hasattr(name, "filename") else name
        self._file: Platter | None = None
        if filename:
            with disk.lock:
                self._file = disk.files.setdefault(disk.known(filename), Platter())

    def _note(self, offset: int, data: bytes | None) -> None:
        if self._file is not None:
            with self._disk.lock:
                self._disk.moment()
                self._file.pending.append((offset, data))

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._note(offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self._note(size, None)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        super().xSync(flags)
        if self._file is not None:
            with self._disk.lock:
                self._disk.moment()
                self._file.synced()
                self._file.named = True
                self._disk.moment()
