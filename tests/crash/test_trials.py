"""Processes that are killed, share one root, or find the disk full or not theirs; bench/trials.py does more of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import refusals
from ledger.verify import verify
from tests.ledger.notes import NOTES, note, opened, worded

PROJECT = Path(__file__).parents[2]


def trial(module: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", f"tests.crash.{module}", *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_twenty_kills_lose_nothing_and_leave_no_orphan_unreported(tmp_path: Path) -> None:
    told = trial("killing", tmp_path / "root", 4, 20, 1)
    assert (told["lost"], told["findings"], told["died of something else"]) == ([], [], 0)
    assert told["acknowledged"] > 20
    assert told["orphans"] > 0
    assert told["unreported"] == 0


def test_processes_that_append_at_once_see_no_error(tmp_path: Path) -> None:
    told = trial("sharing", tmp_path / "root", 4, 0.5)
    assert min(told["counts"]) > 0
    assert verify(tmp_path / "root" / "ledger.db", full=True) == []
    with opened(tmp_path / "root") as journal:
        assert journal.state(NOTES) == [4 + sum(told["counts"])]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT TRIED: a full disk needs a file system of its own, and mounting one fails: {done.stderr}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_refused_by_name_and_the_journal_goes_on_when_there_is_room(small_disk: Path) -> None:
    root, ballast = small_disk / "root", small_disk / "ballast"
    acknowledged = []
    with opened(root) as journal:
        journal.submit(note("a", name="first")).result()
        room = os.statvfs(small_disk)
        ballast.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - 400_000)))
        refused: list[BaseException] = []
        for number in range(60):
            step, blobs = worded(os.urandom(8_000).hex(), f"k{number}")
            try:
                journal.submit(step, blobs=blobs).result()
                acknowledged.append(f"k{number}")
            except refusals.NoRoom as refusal:
                refused.append(refusal)
                if len(refused) == 3:
                    break
        assert len(refused) == 3
        assert acknowledged
        assert journal.state(NOTES) == [1 + len(acknowledged)]
        ballast.unlink()
        assert journal.submit(note("a", name="last")).result()[0].seq == 2 + len(acknowledged)
    assert verify(root / "ledger.db", full=True) == []
    with opened(root, create=False) as journal:
        assert [record.key for record in journal.events()] == ["first", *acknowledged, "last"]


def test_a_journal_is_not_made_on_a_disk_without_room_and_is_made_when_there_is(small_disk: Path) -> None:
    root, ballast = small_disk / "root", small_disk / "ballast"
    room = os.statvfs(small_disk)
    ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - 60_000))
    with pytest.raises(refusals.NoRoom):
        opened(root)
    ballast.unlink()
    with opened(root) as journal:
        assert journal.submit(note("a")).result()[0].seq == 1
    assert verify(root / "ledger.db", full=True) == []


def test_a_root_of_another_user_is_refused_by_name(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TRIED: only root can start a process of another user")
    root = tmp_path / "root"
    opened(root).close()
    program = (
        "import os; from pathlib import Path; from tests.ledger.notes import opened\n"
        f"import ledger.refusals, ledger.writer\nos.chdir({str(tmp_path)!r})\nos.setuid(65534)\n"
        "try:\n    opened(Path('root'))\n"
        "except ledger.refusals.JournalUnwritable as refusal:\n    print(refusal.what)\n"
    )
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o711)
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=PROJECT)
    assert done.stdout == "the journal can't be written: Permission denied\n", done.stderr
    root.chmod(0o755)
    (root / "ledger.db").chmod(0o644)
    again = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=PROJECT)
    assert again.stdout == "the journal can't be written: Permission denied\n", again.stderr
