"""Disks that fail: nothing acknowledged is lost, nothing is recorded twice, and every failure has a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ledger import refusals, writer
from ledger.errors import Refusal
from ledger.event import Step
from ledger.store import Store
from ledger.verify import verify
from tests.crash.faulty import Faults, FaultyVFS
from tests.ledger.notes import NOTES, TALLY, CloseTally, note, opened


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[FaultyVFS]:
    vfs = FaultyVFS(f"faulty-{request.node.name}")
    yield vfs
    vfs.unregister()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "WAITS", (0, 0.001, 0.002))


def _sound(root: Path) -> list[str]:
    assert verify(root / "ledger.db", full=True) == []
    with opened(root, create=False) as journal:
        return [record.key or "" for record in journal.events()]


@pytest.mark.parametrize(("operation", "torn"), [("write", False), ("write", True), ("sync", False)])
@pytest.mark.parametrize("later", range(6))
def test_a_failure_that_passes_is_never_noticed(
    tmp_path: Path,
    disk: FaultyVFS,
    operation: str,
    later: int,
    torn: bool,  # noqa: FBT001 - a parameter of the trial
) -> None:
    root = tmp_path / "root"
    opened(root).close()
    faults = disk.faults
    faults.torn = torn
    with opened(root, vfs=disk.name) as journal:
        journal.submit(note("a", name="first")).result()
        faults.once_more(operation, later)
        for number in range(8):
            journal.submit(note("a", name=f"k{number}")).result()
        journal.submit(Step(TALLY, CloseTally())).result()
        assert journal.state(TALLY) == (9, 1)
        assert journal.state(NOTES) == [9]
    assert faults.failed == 1
    assert _sound(root) == ["first", *(f"k{number}" for number in range(8)), ""]


@pytest.mark.parametrize(
    ("error", "refusal"), [(apsw.FullError, refusals.NoRoom), (apsw.IOError, refusals.StorageFailed)]
)
def test_a_failure_that_lasts_is_refused_by_name_and_the_journal_goes_on_after_it(
    tmp_path: Path, disk: FaultyVFS, error: type[Exception], refusal: type[Refusal]
) -> None:
    root = tmp_path / "root"
    opened(root).close()
    disk.faults.error = error
    with opened(root, vfs=disk.name) as journal:
        acknowledged = [journal.submit(note("a", name=f"k{number}")).result()[0] for number in range(5)]
        disk.faults.always()
        futures = [journal.submit(note("a", name=f"lost{number}")) for number in range(3)]
        for future in futures:
            with pytest.raises(refusal):
                future.result()
        assert journal.state(NOTES) == [5]
        disk.faults.never()
        assert journal.submit(note("a", name="lost1")).result()[0].seq == 6
        assert journal.state(NOTES) == [6]
    assert _sound(root) == [*(record.key or "" for record in acknowledged), "lost1"]


@pytest.mark.parametrize("seed", range(12))
def test_failures_at_any_rate_lose_nothing_that_was_acknowledged(tmp_path: Path, disk: FaultyVFS, seed: int) -> None:
    root = tmp_path / "root"
    opened(root).close()
    faults = disk.faults
    faults.torn = seed % 2 == 0
    faults.error = (apsw.FullError, apsw.IOError)[seed % 3 == 0]
    chance = 5 + 3 * seed
    with opened(root, vfs=disk.name) as journal:
        faults.failing = lambda operation, number: (number * 2654435761 + seed * 97) % 1000 < 1000 // chance
        acknowledged, refused = set(), 0
        for start in range(0, 120, 3):
            futures = [
                (f"k{number}", journal.submit(note("a", name=f"k{number}"))) for number in range(start, start + 3)
            ]
            for key, future in futures:
                try:
                    acknowledged.add(future.result()[0].key)
                except Refusal:
                    refused += 1
                    assert key not in acknowledged
        faults.never()
        assert journal.submit(note("a", name="last")).result()
        held = [record.key for record in journal.events()]
        assert journal.state(NOTES) == [len(held)]
    assert faults.failed > 0
    assert len(held) == len(set(held))
    assert acknowledged <= set(held)
    assert _sound(root) == held


def test_a_commit_that_reported_a_failure_and_was_made_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events without a key would be there twice if the batch were simply appended again."""
    commit = Store.commit
    failures = [apsw.IOError("disk I/O error"), apsw.FullError("full")]

    def commit_and_fail(self: Store) -> None:
        commit(self)
        if failures:
            raise failures.pop()

    with opened(tmp_path / "root") as journal:
        journal.submit(note("a")).result()
        monkeypatch.setattr(Store, "commit", commit_and_fail)
        (record,) = journal.submit(note("a")).result()
        (other,) = journal.submit(note("a")).result()
        assert failures == []
        assert (record.seq, other.seq) == (2, 3)
        assert journal.state(NOTES) == [3]
        assert [(seen.seq, seen.version) for seen in journal.events()] == [(1, 1), (2, 2), (3, 3)]
    assert _sound(tmp_path / "root") == ["", "", ""]


def test_acknowledged_events_that_are_gone_after_a_failure_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that forgets what it synced: opening anew finds less than was acknowledged, and nothing is added."""
    root = tmp_path / "root"
    with opened(root) as journal:
        journal.submit(note("a")).result()
    before = (root / "ledger.db").read_bytes()
    journal = opened(root)
    journal.submit(note("a")).result()
    commit = Store.commit

    def forget(self: Store) -> None:
        self.rollback()
        self.close()
        for name in ("ledger.db-wal", "ledger.db-shm"):
            (root / name).unlink(missing_ok=True)
        (root / "ledger.db").write_bytes(before)
        monkeypatch.setattr(Store, "commit", commit)
        raise apsw.IOError("disk I/O error")

    journal._store.close()
    monkeypatch.setattr(Store, "commit", forget)
    with pytest.raises(refusals.JournalDamaged, match="isn't the end that was there before"):
        journal.submit(note("a")).result()
    journal.close()


def test_a_failure_while_deciding_is_one_of_the_disk_and_not_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_key = Store.by_key

    def failing(self: Store, kind: str, key: str) -> object:
        monkeypatch.setattr(Store, "by_key", by_key)
        raise apsw.IOError("disk I/O error")

    with opened(tmp_path / "root") as journal:
        monkeypatch.setattr(Store, "by_key", failing)
        assert journal.submit(note("a", name="k")).result()[0].seq == 1


def test_emptying_the_log_may_fail_without_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Store, *, even_small: bool = False) -> None:
        raise apsw.IOError("disk I/O error")

    with opened(tmp_path / "root") as journal:
        monkeypatch.setattr(Store, "truncate_wal", failing)
        for number in range(3):
            assert journal.submit(note("a")).result()[0].seq == number + 1
        assert journal.state(NOTES) == [3]
    monkeypatch.undo()
    assert _sound(tmp_path / "root") == ["", "", ""]


def test_a_connection_that_can_not_even_be_closed_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, commit = Store.close, Store.commit

    def fail_to_close(self: Store) -> None:
        monkeypatch.setattr(Store, "close", close)
        close(self)
        raise apsw.IOError("disk I/O error")

    def fail_to_commit(self: Store) -> None:
        monkeypatch.setattr(Store, "commit", commit)
        raise apsw.IOError("disk I/O error")

    with opened(tmp_path / "root") as journal:
        monkeypatch.setattr(Store, "close", fail_to_close)
        monkeypatch.setattr(Store, "commit", fail_to_commit)
        assert journal.submit(note("a")).result()[0].seq == 1
    assert _sound(tmp_path / "root") == [""]


def test_faults_count_what_they_let_happen() -> None:
    faults = Faults()
    assert not faults.happen("write")
    faults.once_more("write", 1)
    assert [faults.happen("write"), faults.happen("write"), faults.happen("write")] == [False, True, False]
    assert faults.failed == 1
