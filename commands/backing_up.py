"""Backing up: a copy of the journal while others write it, verified before it has its name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from commands.whole_file import fresh
from ledger import digests, store
from ledger.errors import Refusal
from ledger.inspecting import Inspected
from ledger.proving import checkpoint
from ledger.store import DISK_ERRORS, Store, named
from ledger.verify import Finding, verify


class BackupInTheWay(Refusal, name="backup-in-the-way", exit_code=105):
    """Something is where the backup would go."""

    def __init__(self, output: Path) -> None:
        super().__init__(
            "there is something of this name already; it was left as it is and nothing was copied",
            where=str(output),
            remedy="give a name that is free; a backup never takes the place of another",
        )


class BackupNowhere(Refusal, name="backup-nowhere", exit_code=106):
    """The folder of the backup can't be written."""

    def __init__(self, output: Path, reason: str) -> None:
        super().__init__(
            f"no file can be made there: {reason}; nothing was copied",
            where=str(output),
            remedy="give a file in a folder that exists and that you may write",
        )


class BackupUnsound(Refusal, name="backup-unsound", exit_code=107):
    """The copy doesn't verify, so it was not kept."""

    def __init__(self, path: Path, findings: list[Finding]) -> None:
        more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
        super().__init__(
            f"the copy doesn't verify, so it was removed: {findings[0].meaning}{more}",
            where=f"{path}, {findings[0].place}",
            remedy="run `exp check --full`: what it finds is in the journal itself; else look at the disk of the copy",
        )


class BackedUp(NamedTuple):
    """What a backup holds: its events, the head after them, its checkpoint's text, and its size in bytes."""

    events: int
    head: str
    checkpoint: str
    size: int


def back_up(path: Path, output: Path, *, vfs: str | None = None) -> BackedUp:
    """Copy the journal to a file that isn't there yet; it appears whole and verified, or not at all."""
    if os.path.lexists(output):  # found again at the end, by the link
        raise BackupInTheWay(output)
    source = Store(path, vfs=vfs)
    try:
        with _private(output) as partial:
            source.copy_to(partial)
            made = _verified(source, partial)
            os.link(partial, output)  # unlike a rename, never over what came there meanwhile
            store.sync(output.parent)
    except FileExistsError:
        raise BackupInTheWay(output) from None
    except DISK_ERRORS as error:
        raise named(output, error) from error
    finally:
        source.close()
    return made


@contextlib.contextmanager
def _private(output: Path) -> Iterator[Path]:
    """Make the file that is to become the backup; BackupNowhere when none can be made. It leaves nothing behind."""
    with contextlib.ExitStack() as made:
        try:
            str(output).encode()  # SQLite takes names as UTF-8
            with contextlib.suppress(FileNotFoundError):
                output.lstat()  # whether it can be a name, before anything is copied for it
            partial = made.enter_context(fresh(output))
        except UnicodeEncodeError as error:
            raise BackupNowhere(output, "its name isn't UTF-8") from error
        except OSError as error:
            raise BackupNowhere(output, error.strerror or str(error)) from error
        for end in ("-wal", "-shm", "-journal"):
            made.callback(partial.with_name(partial.name + end).unlink, missing_ok=True)
        yield partial


def _verified(source: Store, partial: Path) -> BackedUp:
    """Check the copy in full, and that it is of this journal."""
    findings = verify(partial, full=True)
    copy = Inspected(partial)
    try:
        seq, head = copy.last()
        if not findings and seq and source.head(seq) != head:
            findings = [Finding("chain-broken", seq, f"event {seq}", "it isn't a copy of this journal", "")]
        if findings:
            raise BackupUnsound(partial, findings)
        return BackedUp(seq, digests.named(head), checkpoint(copy).text(), partial.stat().st_size)
    finally:
        copy.close()
