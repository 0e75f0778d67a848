"""Writers that are killed over and over: ROOT WRITERS KILLS SEED; prints what came of it as JSON.

Each is a child that records calls with money set aside and prints each once it is acknowledged. Children are forked
from a process that has no journal open, so that two thousand of them don't each load the program.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import cast

from commands.doctoring import examine
from ledger import locks
from ledger.event import Blobs, Step
from ledger.families import calls
from ledger.journal import Journal
from ledger.verify import verify
from tests.ledger.notes import NOTES, TALLY, note

FAMILIES = (NOTES, TALLY, calls.FAMILY)


def write(root: Path, name: str, out: int) -> None:
    """Set money aside, record a note, and release the call: for ever."""
    clock = time.time_ns
    with Journal.open(root, FAMILIES, actor="t", clock=lambda: clock() // 1_000, create=True, process=name) as journal:
        number = 0
        while True:
            blobs = Blobs()
            question = f"b3:{name}-{number}"
            reserve = calls.ReserveCall(
                question=question,
                attempt=0,
                run="run",
                ceiling=None,
                alias="a",
                worst_case=1,
                process=name,
                asked=blobs.put(f"{name} asks {number} " * 20),
            )
            journal.submit(Step(calls.FAMILY, reserve), blobs=blobs).result()
            os.write(out, f"reserved {question}\n".encode())
            words = blobs.put(f"{name} says {number} " * 20)
            (record,) = journal.submit(note("all", name=f"{name}-{number}", text=words), blobs=blobs).result()
            os.write(out, f"noted {record.key}\n".encode())
            end = calls.CallReleased(question=question, attempt=0, dispatch=0, run="run")
            journal.submit(Step(calls.FAMILY, calls.SettleCall(end=end))).result()
            number += 1


def start(root: Path, name: str, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        write(root, name, os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    finally:
        os._exit(status)


def run(root: Path, writers: int, kills: int, seed: int) -> dict[str, object]:
    chance = random.Random(seed)  # noqa: S311 - a trial that can be repeated
    folder = root.parent / "acknowledged"
    folder.mkdir()
    names = (f"w{number}" for number in range(kills + writers))
    living = {start(root, name, folder): name for name in [next(names) for _ in range(writers)]}
    died = 0
    for killed in range(kills):
        time.sleep(chance.random() * 0.02)
        child = chance.choice(list(living))
        os.kill(child, signal.SIGKILL)
        died += os.waitpid(child, 0)[1] != signal.SIGKILL
        del living[child]
        name = next(names)
        living[start(root, name, folder)] = name
        del killed
    time.sleep(0.5)
    for child in living:
        os.kill(child, signal.SIGKILL)
        died += os.waitpid(child, 0)[1] != signal.SIGKILL
    return {"died of something else": died, **outcome(root, folder)}


def outcome(root: Path, folder: Path) -> dict[str, object]:
    """Compare what was acknowledged with what is recorded, and what is owed with what the doctor says."""
    said = [line for file in folder.iterdir() for line in file.read_text().split("\n")[:-1]]
    with Journal.open(root, FAMILIES, actor="t", clock=lambda: 0) as journal:
        held = {f"noted {record.key}" for record in journal.events() if record.kind == "test-note-taken@1"}
        reserved = [cast("calls.CallReserved", record.event) for record in journal.events(calls.CallReserved)]
        held |= {f"reserved {event.question}" for event in reserved}
        owed = [one for one in journal.state(calls.FAMILY).open.values() if locks.is_free(root, one.process)]
    reported = [finding.meaning for finding in examine(root, 2**53).findings if finding.name == "calls-orphaned"]
    counted = int(reported[0].split()[0]) if reported else 0
    return {
        "acknowledged": len(said),
        "lost": sorted(set(said) - held),
        "findings": [finding.meaning for finding in verify(root / "ledger.db", full=True)],
        "orphans": len(owed),
        "unreported": len(owed) - counted,
    }


if __name__ == "__main__":
    answer = run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps(answer))  # noqa: T201 - how it tells what came of it
