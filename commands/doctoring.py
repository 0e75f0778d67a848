"""Doctoring: what a root and the machine under it are like, and what needs doing about it."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ledger import __version__, locks, snapshots, store
from ledger.errors import Refusal
from ledger.families import calls, serving
from ledger.journal import Journal
from ledger.money import usd
from ledger.recorded import Recorded
from ledger.store import FORMAT, NAME, WAL_LIMIT_BYTES, Store
from ledger.verify import Finding

MEGABYTE = 1 << 20
LITTLE_ROOM = 256 * MEGABYTE
MUCH_LOG = 4 * WAL_LIMIT_BYTES  # the writer empties it at a fourth of this
SECOND_US = 1_000_000
CLOCK_US = 60 * SECOND_US  # clocks of two machines that share a root may differ so much
SHOWN = 5
PRIVATE = ("ledger.*", "locks", "locks/*", "snapshots", "snapshots/*", "gateway", "gateway/*")  # below the root


class Examined(NamedTuple):
    """What a root is like: facts by name, and what needs doing."""

    facts: dict[str, str | int | None]
    findings: list[Finding]


def examine(root: Path, now_us: int) -> Examined:
    """Look at the root without changing anything in it."""
    facts: dict[str, str | int | None] = {"exp": __version__, "python": platform.python_version(), **store.engine()}
    findings = [*_modes(root), *_leftovers(root)]
    facts["free megabytes"] = room = shutil.disk_usage(root if root.is_dir() else ".").free // MEGABYTE
    if room * MEGABYTE < LITTLE_ROOM:
        meaning = f"there are {room} MB left on the disk; a full disk stops whatever records"
        findings.append(Finding("little-room", 0, str(root), meaning, "free some space"))
    alive = locks.alive(root)
    facts["processes"] = sum(alive.values())
    try:
        findings += _journal(root, now_us, facts, alive)
    except Refusal as refusal:
        findings.append(Finding(refusal.name, 0, refusal.where, refusal.what, refusal.remedy))
    return Examined(facts, findings)


def _modes(root: Path) -> Iterator[Finding]:
    """Find what others than its owner may read or write, and what belongs to someone else."""
    for path in [root, *(path for pattern in PRIVATE for path in sorted(root.glob(pattern)))]:
        try:
            there = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue  # no root yet, or a lock file or a log that went away meanwhile
        name = str(path)
        if there.st_uid != os.geteuid():
            meaning = f"{name} belongs to user {there.st_uid}, not to you"
            yield Finding("owner-differs", 0, name, meaning, f"run `chown {os.geteuid()} {name}` as its owner or root")
        elif there.st_mode & 0o077 and not stat.S_ISLNK(there.st_mode):
            meaning = f"others than you may use {name} (mode {stat.S_IMODE(there.st_mode):04o})"
            yield Finding("mode-open", 0, name, meaning, f"run `chmod {'700' if path.is_dir() else '600'} {name}`")


def _leftovers(root: Path) -> Iterator[Finding]:
    for path in sorted(root.glob(f"{NAME}.new*")):
        meaning = f"{path.name} is left from a journal that was being made when its process ended"
        yield Finding(
            "leftover", 0, str(path), meaning, "the next command that makes a journal removes it; or delete it"
        )


def _journal(root: Path, now_us: int, facts: dict[str, str | int | None], alive: dict[str, bool]) -> Iterator[Finding]:
    path = root / NAME
    facts["format"] = FORMAT
    reading = Store(path)
    try:
        log = reading.wal_bytes()
        seq, _ = reading.last()
        row = reading.row(seq)
    finally:
        reading.close()
    facts |= {"events": seq, "journal bytes": path.stat().st_size, "log bytes": log}
    if log > MUCH_LOG:
        meaning = f"the write-ahead log has {log // MEGABYTE} MB: a reader has been in the way of emptying it"
        yield Finding(
            "log-long", 0, f"{path}-wal", meaning, "end programs that keep ledger.db open, then run any command"
        )
    if row is not None:
        yield from _clock(Recorded(row), now_us, facts)
    yield from _owed(root, alive)
    kept = snapshots.positions(root)
    facts["snapshots"] = ", ".join(f"{name} at {position}" for name, position in kept.items()) or "none"


def _clock(last: Recorded, now_us: int, facts: dict[str, str | int | None]) -> Iterator[Finding]:
    facts["seconds since the last event"] = (now_us - last.at) // SECOND_US
    if last.at > now_us + CLOCK_US:
        meaning = f"the last event was recorded {(last.at - now_us) // SECOND_US} seconds after now"
        yield Finding(
            "clock-behind", last.seq, "this machine's clock", meaning, "set the clock; order doesn't depend on it"
        )


def _owed(root: Path, alive: dict[str, bool]) -> Iterator[Finding]:
    """Find what dead processes set money aside for: nobody knows how these calls ended."""
    with Journal.open(root, (calls.FAMILY, serving.FAMILY), actor="exp doctor", clock=lambda: 0) as journal:
        owed: calls.Calls = journal.state(calls.FAMILY)
        requests: serving.Serving = journal.state(serving.FAMILY)
    lost = {place: call.worst_case for place, call in owed.open.items() if not alive.get(call.process)}
    if lost:
        yield Finding(
            "calls-orphaned",
            0,
            ", ".join(sorted({owed.open[place].run for place in lost})[:SHOWN]),
            f"{_counted(len(lost), 'call')} of processes that are gone may have cost up to {_sum(lost)}",
            "run the same command again: it counts them as lost and goes on",
        )
    dropped = {name: one.worst_case for name, one in requests.open.items() if not alive.get(one.process)}
    if dropped:
        yield Finding(
            "requests-orphaned",
            0,
            ", ".join(sorted(dropped)[:SHOWN]),
            f"{_counted(len(dropped), 'request')} of gateways that are gone may have cost up to {_sum(dropped)}",
            "start `exp run`: it records them as lost, and their idempotency keys are free again",
        )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


def _sum(costs: dict[str, int | None]) -> str:
    known = usd(sum(cost for cost in costs.values() if cost is not None), 6)
    return f"{known} and what has no known price" if None in costs.values() else known
