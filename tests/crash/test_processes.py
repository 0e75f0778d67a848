"""Several processes on one root: appending at once, and killed in the middle of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger import locks, refusals, writer
from ledger.errors import Refusal
from ledger.event import Step
from ledger.store import named
from ledger.verify import verify
from tests.ledger.notes import NOTES, TALLY, CloseTally, NoteTaken, TallyClosed, note, opened, tamper

PROJECT = Path(__file__).parents[2]


def _start(root: Path, name: str, most: int, output: Path) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "tests.crash.writing", str(root), name, str(most)]
    with output.open("wb") as stdout:
        return subprocess.Popen(program, stdout=stdout, cwd=PROJECT)


def _acknowledged(output: str) -> dict[str, int]:
    """Return seq by key; a last line that was cut was not acknowledged to anyone."""
    lines = output.split("\n")[:-1]
    return {line.split(" ", 1)[1]: int(line.split(" ", 1)[0]) for line in lines}


def test_two_processes_append_to_one_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    outputs = [tmp_path / "left", tmp_path / "right"]
    processes = [_start(root, output.name, 200, output) for output in outputs]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    acknowledged = _acknowledged("".join(output.read_text() for output in outputs))
    assert sorted(acknowledged.values()) == list(range(1, 401))
    assert verify(root / "ledger.db", full=True) == []
    with opened(root) as journal:
        records = list(journal.events())
        assert [record.version for record in records] == list(range(1, 401))
        assert {record.key: record.seq for record in records} == acknowledged
        assert journal.state(NOTES) == [400]
    assert list((root / "locks").iterdir()) == []
    assert not (root / "ledger.db-wal").exists() or (root / "ledger.db-wal").stat().st_size == 0


def test_decisions_are_made_on_what_others_recorded(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root) as left, opened(root) as right:
        left.submit(note("a", 1)).result()
        right.submit(note("b", 2)).result()
        left.submit(note("a", 4, name="k")).result()
        (closed,) = right.submit(Step(TALLY, CloseTally())).result()
        assert closed.event == TallyClosed(total=7)
        (again,) = right.submit(note("a", 4, name="k")).result()
        assert again.seq == 3
        assert right.state(NOTES) == [7]
        assert left.state(NOTES) == [7]
        left.refresh()
        assert left.position() == right.position()
        assert left.state(TALLY) == right.state(TALLY) == (7, 1)
        left.refresh()
        assert left.find(NoteTaken, "k") is not None


def test_a_state_that_is_kept_folds_what_others_record_meanwhile(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root) as left, opened(root) as right:
        for turn in range(1, 4):
            left.submit(note("a", 2)).result()
            (closed,) = right.submit(Step(TALLY, CloseTally())).result()
            assert closed.event == TallyClosed(total=2 * turn)


def test_a_stream_goes_on_where_others_left_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that was remembered too long would be refused by the file, and the recovery from that would hide it."""
    root = tmp_path / "root"
    failures: list[BaseException] = []

    def noticed(path: Path, error: BaseException) -> Refusal:
        failures.append(error)
        return named(path, error)

    monkeypatch.setattr(writer, "named", noticed)
    with opened(root) as left, opened(root) as right:
        versions = [journal.submit(note("a")).result()[0].version for journal in (left, right) * 3]
    assert versions == [1, 2, 3, 4, 5, 6]
    assert failures == []


def test_nothing_is_written_while_another_holds_the_lock(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root) as journal:
        journal.submit(note("a")).result()
        other = locks.Sidecar(root / "ledger.lock")
        with other.held():
            future = journal.submit(note("b"))
            time.sleep(0.1)
            assert not future.done()
            journal.refresh()
            assert journal.position()[0] == 1
        assert future.result(timeout=30)[0].seq == 2
        other.close()


def test_what_others_recorded_is_checked_before_it_is_folded(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root) as journal:
        with opened(root) as other:
            other.submit(note("a")).result()
        tamper(root, "UPDATE events SET head = zeroblob(32)")
        with pytest.raises(refusals.JournalDamaged, match="event 1 doesn't follow event 0"):
            journal.refresh()
        assert journal.state(NOTES) == [0]


def test_a_reader_follows_what_others_record(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root) as appender, opened(root) as reader:
        for number in range(1, 6):
            appender.submit(note("a"), note("b")).result()
            assert reader.position()[0] == 2 * (number - 1)
            assert len(list(reader.events())) == len(list(reader.events(NoteTaken))) == 2 * (number - 1)
            reader.refresh()
            assert reader.position() == appender.position()
            assert reader.state(NOTES) == [2 * number]
        reader.submit(note("c")).result()
        appender.submit(note("c")).result()
        appender.refresh()
        reader.refresh()
        assert reader.checkpoint() == appender.checkpoint()
        assert appender.state(NOTES) == [12]


@pytest.mark.parametrize("rounds", [4])
def test_killed_writers_lose_nothing_that_they_acknowledged(tmp_path: Path, rounds: int) -> None:
    root = tmp_path / "root"
    opened(root).close()
    acknowledged: dict[str, int] = {}
    for turn in range(rounds):
        outputs = {f"{turn}-{who}": tmp_path / f"{turn}-{who}" for who in "abc"}
        processes = [_start(root, name, 100_000, output) for name, output in outputs.items()]
        while not all(output.stat().st_size for output in outputs.values()):
            time.sleep(0.005)
        time.sleep(0.05 * turn)
        for process in processes:
            process.send_signal(signal.SIGKILL)
        assert {process.wait(timeout=60) for process in processes} == {-signal.SIGKILL}
        for output in outputs.values():
            acknowledged |= _acknowledged(output.read_text())
        assert all(locks.is_free(root, name) for name in outputs)
        assert verify(root / "ledger.db", full=True) == []
    with opened(root) as journal:
        recorded = {record.key: record.seq for record in journal.events()}
        assert acknowledged.items() <= recorded.items()
        assert journal.submit(note("after")).result()[0].seq == len(recorded) + 1
    assert len(acknowledged) > rounds * 3


def test_processes_that_start_at_once_make_one_journal(tmp_path: Path) -> None:
    root = tmp_path / "root"
    outputs = [tmp_path / f"p{number}" for number in range(4)]
    processes = [_start(root, output.name, 4, output) for output in outputs]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    seqs = [seq for output in outputs for seq in _acknowledged(output.read_text()).values()]
    assert sorted(seqs) == list(range(1, 17))
    assert verify(root / "ledger.db", full=True) == []
