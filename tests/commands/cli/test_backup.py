"""Backups: whole, verified, private, of one moment, and without what was erased."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from commands import backing_up
from commands.backing_up import BackupInTheWay, BackupNowhere, BackupUnsound
from commands.cli import backup
from ledger import refusals
from ledger.digests import content_digest
from ledger.event import Step
from ledger.families import contents
from ledger.journal import Journal
from ledger.store import Store
from ledger.verify import verify
from tests.ledger.notes import NOTES, note, opened, tamper, worded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with opened(tmp_path / "root") as journal:
        for number in range(5):
            step, blobs = worded(f"words {number} " * 50, f"k{number}")
            journal.submit(step, blobs=blobs).result()
    return tmp_path / "root"


def run(root: Path, output: Path, *more: str) -> Result:
    return CliRunner().invoke(backup.command, [str(output), "--root", str(root), *more], standalone_mode=False)


def restored(output: Path, root: Path) -> Path:
    root.mkdir()
    output.rename(root / "ledger.db")
    return root


def test_a_backup_is_the_journal_itself(root: Path, tmp_path: Path) -> None:
    result = run(root, tmp_path / "copy", "--json")
    assert result.exception is None
    with opened(root) as journal:
        seq, head = journal.position()
        text = journal.checkpoint().text()
    told = json.loads(result.output)
    assert told["journal"] == f"{seq} {head}"
    assert told["checkpoint"] == text.splitlines()[2]
    assert told["bytes"] == (tmp_path / "copy").stat().st_size
    again = restored(tmp_path / "copy", tmp_path / "again")
    assert verify(again / "ledger.db", full=True) == []
    with opened(again, create=False) as journal:
        assert journal.checkpoint().text() == text
        assert journal.state(NOTES) == [5]
        assert journal.submit(note("a")).result()[0].seq == 6
        assert (again / "ledger.db-wal").exists()


def test_a_backup_is_private_and_leaves_nothing_beside_it(root: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert run(root, tmp_path / "copy").exception is None
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "root"]


def test_a_backup_takes_the_place_of_nothing(root: Path, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere-yet")
    (tmp_path / "file").write_text("mine")
    for output in (tmp_path / "file", tmp_path / "dangling", tmp_path):
        assert isinstance(run(root, output).exception, BackupInTheWay)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "nowhere-yet").exists()


def test_what_came_to_its_place_meanwhile_is_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path, *, full: bool) -> list[object]:
        (tmp_path / "copy").write_text("mine")
        return []

    monkeypatch.setattr(backing_up, "verify", interrupted)
    assert isinstance(run(root, tmp_path / "copy").exception, BackupInTheWay)
    assert (tmp_path / "copy").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "root"]


def test_a_place_that_is_none_is_named(root: Path, tmp_path: Path) -> None:
    assert isinstance(run(root, tmp_path / "nowhere" / "copy").exception, BackupNowhere)
    assert isinstance(run(tmp_path / "no-root", tmp_path / "copy").exception, refusals.JournalWanted)
    assert not (tmp_path / "copy").exists()


def test_a_damaged_journal_has_no_backup(root: Path, tmp_path: Path) -> None:
    tamper(root, "UPDATE blobs SET bytes = zeroblob(9) WHERE rowid = 2")
    result = run(root, tmp_path / "copy")
    assert isinstance(result.exception, BackupUnsound)
    assert "isn't what its digest says" in result.exception.what or "doesn't verify" in result.exception.what
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root"]


def test_a_copy_of_another_journal_is_none(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "other") as journal:
        journal.submit(note("z")).result()
    other = Store(tmp_path / "other" / "ledger.db")
    copy_to = Store.copy_to
    monkeypatch.setattr(Store, "copy_to", lambda self, path: copy_to(other, path))
    result = run(root, tmp_path / "copy")
    other.close()
    assert isinstance(result.exception, BackupUnsound)
    assert not (tmp_path / "copy").exists()


def test_others_go_on_writing_meanwhile(root: Path, tmp_path: Path) -> None:
    done = threading.Event()
    acknowledged: list[int] = []

    def append() -> None:
        with opened(root) as journal:
            while not done.is_set():
                acknowledged.append(journal.submit(note("b")).result()[0].seq)

    writer = threading.Thread(target=append)
    writer.start()
    sizes = []
    for number in range(5):
        seen = acknowledged[-1] if acknowledged else 0
        result = run(root, tmp_path / f"copy{number}", "--json")
        assert result.exception is None
        sizes.append(int(json.loads(result.output)["journal"].split()[0]))
        assert sizes[-1] >= seen
    done.set()
    writer.join()
    assert sizes == sorted(sizes)
    assert verify(root / "ledger.db", full=True) == []


@pytest.mark.parametrize("while_open", [False, True])
def test_erased_bytes_are_in_neither_database_nor_log_nor_a_new_backup(
    root: Path, tmp_path: Path, while_open: bool  # noqa: FBT001 - a parameter of the trial
) -> None:  # fmt: skip
    secret = os.urandom(6_000).hex().encode()[:9_000]  # doesn't compress to nothing, and fills several pages
    plain = b"never to be seen again: " + os.urandom(12).hex().encode()
    with opened(root) as journal:
        for number, content in enumerate((secret, plain)):
            step, blobs = worded(content.decode(), f"secret-{number}")
            journal.submit(step, blobs=blobs).result()
    other = opened(root) if while_open else None
    with Journal.open(root, [contents.FAMILY], actor="t", clock=lambda: 1) as journal:
        for content in (secret, plain):
            digest = content_digest(content)
            journal.submit(Step(contents.FAMILY, contents.EraseContent(content=digest, reason="asked"))).result()
    if other is not None:
        other.close()
    assert run(root, tmp_path / "copy").exception is None
    stored = [path.read_bytes() for path in (*root.glob("ledger.db*"), tmp_path / "copy")]
    for needle in (secret[100:132], secret[4_000:4_032], plain):
        assert not any(needle in content for content in stored)
    assert verify(root / "ledger.db", full=True) == []


def test_a_backup_works_as_a_command(root: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "commands.main", "backup", str(tmp_path / "copy"), "--root", str(root)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"backup: {tmp_path / 'copy'}"
