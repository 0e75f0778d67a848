"""Measuring: CPU seconds and memory of a process, from the kernel, since wall time on shared machines says little."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

EXP = (sys.executable, "-P", "-m", "commands.main")


class Measured(NamedTuple):
    """What a process took."""

    cpu: float
    wall: float
    megabytes: float
    stdout: str
    status: int


class Bar(NamedTuple):
    """A figure and the most that it may be, or the least; ``peer`` is what a published system takes for the same."""

    what: str
    measured: float
    most: float | None
    unit: str
    peer: str = ""
    least: bool = False

    @property
    def holds(self) -> bool:
        """Tell whether the figure is within its bar."""
        if self.most is None:
            return True
        return self.measured >= self.most if self.least else self.measured <= self.most

    @property
    def limit(self) -> str:
        """Return the bar in words."""
        return "" if self.most is None else f"{'>=' if self.least else '<='} {self.most:,.2f}"


def measure(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> Measured:
    """Run a command to its end and return what it took.

    Compiled modules may be kept, as they are for whoever installs the program: otherwise each run compiles them anew.
    """
    environment = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        started = time.monotonic()
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    kilobytes = used.ru_maxrss if sys.platform != "darwin" else used.ru_maxrss / 1024
    return Measured(
        cpu=used.ru_utime + used.ru_stime,
        wall=wall,
        megabytes=kilobytes / 1024,
        stdout=(folder / "stdout").read_text("utf-8"),
        status=process.returncode,
    )


def cpu_of(pid: int) -> float | None:
    """Return the CPU seconds that a running process has taken so far; None where nothing says."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return None
    fields = stat.read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size(root: Path) -> tuple[int, int]:
    """Return the bytes and the number of files below a folder."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files), len(files)
