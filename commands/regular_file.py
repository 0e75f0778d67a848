"""Reading what a command line names: regular files only, so that no pipe and no device holds a command up."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file to be read; OSError for what is none, at once even for a pipe that nobody writes to."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise OSError(errno.EINVAL, "no file has this name", str(path)) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_small(path: Path, most: int) -> bytes | None:
    """Return what a regular file of at most that many bytes holds; None for anything else; OSError as ``open``."""
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
    except IsADirectoryError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    return data if len(data) <= most else None
