"""Locks that tell who is alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ledger import locks
from tests.ledger.notes import opened

HOLDER = """
import sys, time
from pathlib import Path
from ledger.locks import hold
held = hold(Path(sys.argv[1]), "other")
print("held", flush=True)
time.sleep(60)
"""


def test_a_name_is_free_until_it_is_held_and_again_after(tmp_path: Path) -> None:
    assert locks.is_free(tmp_path, "me")
    held = locks.hold(tmp_path, "me")
    assert held.name == "me"
    assert not locks.is_free(tmp_path, "me")
    held.release()
    held.release()
    assert locks.is_free(tmp_path, "me")
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_lock_file_is_private(tmp_path: Path) -> None:
    held = locks.hold(tmp_path, "me")
    assert held.path.stat().st_mode & 0o777 == 0o600
    assert held.path.parent.stat().st_mode & 0o777 == 0o700
    held.release()


def test_the_name_of_a_killed_process_is_free_and_its_file_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert not locks.is_free(tmp_path, "other")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "locks" / "other").exists()
    assert locks.is_free(tmp_path, "other")
    assert not (tmp_path / "locks" / "other").exists()


def test_sweeping_removes_the_files_of_the_dead_only(tmp_path: Path) -> None:
    locks.sweep(tmp_path)
    held = locks.hold(tmp_path, "alive")
    (tmp_path / "locks" / "dead").touch()
    locks.sweep(tmp_path)
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["alive"]
    held.release()
    locks.hold(tmp_path, "left").release()


def test_a_name_that_was_swept_while_it_was_taken_is_taken_again(tmp_path: Path) -> None:
    first = locks.hold(tmp_path, "me")
    taken: list[locks.Held] = []
    waiter = threading.Thread(target=lambda: taken.append(locks.hold(tmp_path, "me")))
    waiter.start()
    while _opened(first.path) < 2:  # until the waiter has opened the file that is about to go
        pass
    first.release()
    waiter.join()
    assert not locks.is_free(tmp_path, "me")
    taken[0].release()


def test_a_file_that_was_replaced_since_it_was_opened_is_not_the_locks_own(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert locks._still_at(path, descriptor)
    path.unlink()
    assert not locks._still_at(path, descriptor)
    path.touch()
    kept = tmp_path / "other"
    kept.touch()
    kept.replace(path)
    assert not locks._still_at(path, descriptor)
    os.close(descriptor)


def test_a_name_that_was_taken_anew_while_it_was_probed_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks.hold(tmp_path, "me").release()
    path = tmp_path / "locks" / "me"
    path.touch()
    monkeypatch.setattr(locks, "_still_at", lambda path, descriptor: False)
    assert locks.is_free(tmp_path, "me")
    assert path.exists()


def _opened(path: Path) -> int:
    return [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()].count(str(path))


def test_opening_a_journal_sweeps_what_killed_processes_left(tmp_path: Path) -> None:
    with opened(tmp_path, process="alive"):
        left = tmp_path / locks.FOLDER / "killed"
        left.touch()
        with opened(tmp_path, process="second"):
            assert sorted(path.name for path in left.parent.iterdir()) == ["alive", "second"]
