"""The name of a root: whether a journal can be kept under it, and whether one is there."""

from __future__ import annotations

import errno
from pathlib import Path

from ledger.refusals import JournalUnwritable, RootUnusable

_UNUSABLE = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EILSEQ})

_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR})  # nobody can tell what is there


def is_there(root: Path, name: str) -> bool:
    """Tell whether the root holds a file of that name; a Refusal when that can't be told."""
    path = root / name
    try:
        str(path).encode()  # SQLite takes names as UTF-8
        path.stat()
    except UnicodeEncodeError as error:
        raise RootUnusable(root, f"{error.encoding} has no bytes for a character of it") from error
    except OSError as error:
        if error.errno in _UNUSABLE:
            raise RootUnusable(root, error.strerror or str(error)) from error
        if error.errno in _CLOSED:
            raise JournalUnwritable(path, error.strerror or str(error)) from error
        return False
    return True
