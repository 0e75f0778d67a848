"""Checkpoints and proofs at the edge: files that are kept elsewhere, and what stands in the way of reading them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from commands.regular_file import read_small
from commands.whole_file import SHARED, fresh
from ledger.errors import Refusal
from ledger.merkle import Checkpoint, NotACheckpoint

if TYPE_CHECKING:
    from ledger.inspecting import Inspected

LARGEST = 1 << 20


class CheckpointWanted(Refusal, name="checkpoint-wanted", exit_code=100):
    """A file that was given as a checkpoint isn't one."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"expected a checkpoint and found {problem}",
            where=str(path),
            remedy="give a file that `exp checkpoint` wrote: the origin, the size and the root, a line each",
        )


class ProofUnwritable(Refusal, name="proof-unwritable", exit_code=101):
    """A checkpoint or a proof can't be written to the file that was named."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the file can't be written: {problem}; nothing was written",
            where=str(path),
            remedy="name another file; what was kept before is never overwritten",
        )


class CheckpointUnfit(Refusal, name="checkpoint-unfit", exit_code=102):
    """A proof against a checkpoint was asked for, and this journal isn't one that the checkpoint fits."""

    def __init__(self, path: Path, meaning: str) -> None:
        super().__init__(
            f"nothing can be proved against this checkpoint: {meaning}",
            where=str(path),
            remedy="`exp verify-checkpoint` says more; without --checkpoint the proof is against the journal as it is",
        )


class EventTooNew(Refusal, name="event-too-new", exit_code=103):
    """The event was recorded after the checkpoint that the proof was to be against."""

    def __init__(self, path: Path, seq: int, size: int) -> None:
        super().__init__(
            f"event {seq} isn't among the first {size} events, which are all that the checkpoint is of",
            where=str(path),
            remedy="give a later checkpoint, or none",
        )


def inspected(root: Path) -> Inspected:
    """Open the root's journal to look at every event; refuses by name what is no journal. The caller closes it."""
    from ledger.inspecting import Inspected  # noqa: PLC0415 - SQLite is loaded by the commands that need it
    from ledger.root_name import is_there  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - as above

    is_there(root, NAME)  # refuses a name that none can have
    return Inspected(root / NAME)


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in a file; CheckpointWanted for anything else."""
    try:
        content = read_small(path, LARGEST)
    except OSError as error:
        raise CheckpointWanted(path, f"no readable file: {error.strerror}") from error
    if content is None:
        raise CheckpointWanted(path, "something that is no regular file of less than a megabyte")
    try:
        return Checkpoint.read(content.decode())
    except (NotACheckpoint, UnicodeDecodeError) as error:
        raise CheckpointWanted(path, "another text") from error


def write_new(path: Path, text: str) -> None:
    """Write a file that isn't there yet, whole or not at all."""
    try:
        with fresh(path, SHARED) as made:
            with made.open("w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(made, path)  # unlike a rename, never over what is there
    except FileExistsError as error:
        raise ProofUnwritable(path, "it is there already") from error
    except OSError as error:
        raise ProofUnwritable(path, error.strerror or str(error)) from error
