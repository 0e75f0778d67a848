"""Losses of power on each path that commits: what was acknowledged before the loss is there after it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from commands.backing_up import back_up
from ledger import store
from ledger.digests import content_digest
from ledger.event import Step
from ledger.families import contents
from ledger.journal import Journal
from ledger.verify import verify
from tests.crash.power import Disk
from tests.ledger.notes import NOTES, TALLY, note, worded

SMALL_LOG = 100_000
EVENTS = 24


class Loss(NamedTuple):
    """A moment: what is on the disk, and what had been acknowledged by then."""

    image: dict[str, bytes]
    acknowledged: frozenset[str]
    erased: frozenset[bytes]
    backups: frozenset[str]


class Trial:
    """One run of a program on a disk that is asked, now and then, what it would hold if power were lost."""

    def __init__(self, folder: Path, seed: int, every: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a trial that can be repeated
        self.root = folder / "root"
        self.disk = Disk(f"powerless-{seed}-{os.getpid()}", folder, self.chance)
        self.disk.moment = self.moment
        self.every = every
        self.acknowledged: set[str] = set()
        self.erased: set[bytes] = set()
        self.backups: set[str] = set()
        self.losses: list[Loss] = []

    def moment(self) -> None:
        if self.chance.randrange(self.every) == 0:
            done = frozenset(self.acknowledged), frozenset(self.erased), frozenset(self.backups)
            self.losses.append(Loss(self.disk.lost(), *done))

    def opened(self) -> Journal:
        families = [NOTES, TALLY, contents.FAMILY]
        return Journal.open(
            self.root, families, actor="t", clock=lambda: 1, create=True, vfs=self.disk.name, origin="example.org/t"
        )

    def append(self, journal: Journal, together: int) -> None:
        """Append events and note each once it is acknowledged."""
        for start in range(0, EVENTS, together):
            futures = []
            for number in range(start, start + together):
                name = f"{len(self.acknowledged)}-{number}"
                step, blobs = worded(f"{name} says so " * 40, name, f"s{number % 3}")
                futures.append((name, journal.submit(step, note("b"), blobs=blobs)))
            for name, future in futures:
                future.result()
                self.acknowledged.add(name)


def _one_by_one(trial: Trial) -> None:
    with trial.opened() as journal:
        trial.append(journal, 1)


def _in_groups(trial: Trial) -> None:
    with trial.opened() as journal:
        trial.append(journal, 8)


def _created(trial: Trial) -> None:
    with trial.opened() as journal:
        journal.submit(note("a", name="first")).result()
        trial.acknowledged.add("first")


def _emptying(trial: Trial) -> None:
    for _ in range(2):
        with trial.opened() as journal:
            trial.append(journal, 2)


def _erasing(trial: Trial) -> None:
    with trial.opened() as journal:
        for number in range(5):
            words = f"secret {number} " + trial.chance.randbytes(4_000).hex()
            step, blobs = worded(words, f"secret-{number}")
            journal.submit(step, blobs=blobs).result()
            trial.acknowledged.add(f"secret-{number}")
            erase = contents.EraseContent(content=content_digest(words.encode()), reason="asked")
            journal.submit(Step(contents.FAMILY, erase)).result()
            trial.erased.add(words.encode())


def _backing_up(trial: Trial) -> None:
    with trial.opened() as journal:
        for number in range(3):
            trial.append(journal, 8)
            backup = trial.root.parent / f"backup-{number}"
            back_up(trial.root / "ledger.db", backup, vfs=trial.disk.name)
            trial.backups.add(backup.name)


PATHS: dict[str, Callable[[Trial], None]] = {
    "append": _one_by_one,
    "group commit": _in_groups,
    "creation": _created,
    "emptying the log": _emptying,
    "erasing": _erasing,
    "backup": _backing_up,
}


@contextmanager
def _on(trial: Trial) -> Iterator[None]:
    """Let what the program does to files beside SQLite be seen by the disk."""
    sync, renamed, linked, limit = store.sync, Path.rename, os.link, store.WAL_LIMIT_BYTES

    def rename(path: Path, target: Path) -> Path:
        moved = renamed(path, target)
        trial.disk.moved(path, Path(target))
        return moved

    def link(source: Path, target: Path) -> None:
        linked(source, target)
        trial.disk.moved(source, target)

    store.sync = trial.disk.sync
    Path.rename = rename  # type: ignore[method-assign, assignment]  # for the time of the trial
    os.link = link  # type: ignore[assignment]  # as above
    store.WAL_LIMIT_BYTES = SMALL_LOG
    try:
        yield
    finally:
        store.sync, store.WAL_LIMIT_BYTES = sync, limit
        Path.rename, os.link = renamed, linked  # type: ignore[method-assign]  # as above
        trial.disk.unregister()


def losses(path: str, folder: Path, seed: int, every: int) -> list[Loss]:
    """Take a path once, and return the losses that happened on it."""
    trial = Trial(folder, seed, every)
    with _on(trial):
        PATHS[path](trial)
    return trial.losses


def problems(loss: Loss, folder: Path) -> list[str]:
    """Return what is wrong after a loss: nothing, if the journal is what it promises to be."""
    for name, content in loss.image.items():
        file = folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_bytes(content)
    root = folder / "root"
    if not (root / "ledger.db").exists() and not loss.acknowledged:
        Journal.open(root, [NOTES], actor="t", clock=lambda: 1, create=True).close()
    found = [finding.meaning for finding in verify(root / "ledger.db", full=True)]
    with Journal.open(root, [NOTES], actor="t", clock=lambda: 1) as journal:
        held = {record.key for record in journal.events()}
        found += [f"{name} was acknowledged and is lost" for name in loss.acknowledged - held]
        journal.submit(note("after")).result()
    found += [finding.meaning for finding in verify(root / "ledger.db", full=True)]
    stored = (root / "ledger.db").read_bytes()
    found += ["an erased content is still there" for content in loss.erased if content[100:140] in stored]
    for name in loss.backups:
        if not (folder / name).exists():
            found.append(f"{name} was reported and is lost")
        else:
            found += [f"{name}: {finding.meaning}" for finding in verify(folder / name, full=True)]
    return found
