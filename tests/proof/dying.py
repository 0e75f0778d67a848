"""Runs ``exp`` and ends it by SIGKILL right after its n-th commit: ``python dying.py N ARGUMENTS...``."""

from __future__ import annotations

import os
import signal
import sys

from commands.main import main
from ledger.store import Store


def die_after(commits: int) -> None:
    """Let the n-th commit return nowhere: it is on the disk, and nobody has been told."""
    committed = Store.commit
    left = commits

    def commit(store: Store) -> None:
        nonlocal left
        committed(store)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(Store, "commit", commit)  # noqa: B010 - assigning to a method is the point


if __name__ == "__main__":
    die_after(int(sys.argv[1]))
    sys.argv = ["exp", *sys.argv[2:]]
    main()
