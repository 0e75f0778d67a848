"""The name of a root: whether a journal can be kept under it, and whether one is there."""

from __future__ import annotations

import errno
from pathlib import Path

from ledger.refusals import RootUnusable

_UNUSABLE = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EILSEQ})


def is_there(root: Path, name: str) -> bool:
    """Tell whether the root holds a file of that name; RootUnusable when the root's own name can't be used."""
    path = root / name
    try:
        str(path).encode()  # SQLite takes names as UTF-8
        path.stat()
    except UnicodeEncodeError as error:
        raise RootUnusable(root, f"{error.encoding} has no bytes for a character of it") from error
    except OSError as error:
        if error.errno in _UNUSABLE:
            raise RootUnusable(root, error.strerror or str(error)) from error
        return False
    return True
