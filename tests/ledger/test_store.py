"""What stands in the way of opening a journal, by name."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ledger import refusals, store
from ledger.errors import Refusal
from tests.ledger.notes import note, opened


def _made(root: Path) -> Path:
    with opened(root) as journal:
        journal.submit(note("a")).result()
    return root / "ledger.db"


def _foreign(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.close()


def _newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()


def _older(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 0")
    connection.close()


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "refusal", "words"),
    [
        (Path.unlink, refusals.JournalWanted, "there is no journal here yet"),
        (lambda path: path.write_bytes(b""), refusals.NotAJournal, "found an empty file"),
        (
            lambda path: path.write_bytes(b"text " * 999),
            refusals.NotAJournal,
            "found a file that is no SQLite database",
        ),
        (_directory, refusals.NotAJournal, "found a directory"),
        (_foreign, refusals.NotAJournal, "found another program's database"),
        (_older, refusals.JournalTooOld, "has format 0 and this release writes format 1"),
        (_newer, refusals.JournalTooNew, "has format 9 and this release reads up to format 1"),
    ],
)
def test_what_is_no_journal_is_refused_by_name_and_left_as_it_is(
    tmp_path: Path, spoil: Callable[[Path], object], refusal: type[Refusal], words: str
) -> None:
    path = _made(tmp_path / "root")
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(refusal, match=words) as refused:
        opened(tmp_path / "root", create=False)
    assert refused.value.where == str(path)
    assert refused.value.remedy
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_is_not_taken_for_a_place_to_start(tmp_path: Path) -> None:
    path = _made(tmp_path / "root")
    path.write_bytes(b"")
    with pytest.raises(refusals.NotAJournal, match="an empty file"):
        opened(tmp_path / "root", create=True)


@pytest.mark.parametrize("target", ["ledger.db", "."])
def test_a_journal_that_may_not_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    path = _made(tmp_path / "root")
    refused_path = path.parent / target

    def access(asked: Path, mode: int) -> bool:
        return Path(asked) != refused_path

    monkeypatch.setattr(os, "access", access)  # the tests may run as root, whom no mode stops
    with pytest.raises(refusals.JournalUnwritable, match="can't be written: Permission denied"):
        opened(tmp_path / "root")


def test_a_root_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(refusals.JournalUnwritable):
        opened(tmp_path / "file" / "root", create=True)
    with pytest.raises(refusals.JournalUnwritable):
        opened(tmp_path / "file" / "root", create=False)


def test_a_creation_that_was_cut_short_is_begun_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "ledger.db.new").write_bytes(b"half of a page")
    (root / "ledger.db.new-wal").write_bytes(b"half of a log")
    _made(root)
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", "ledger.db", "ledger.lock"]


def test_what_another_process_made_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _made(tmp_path / "root")
    exists = Path.exists
    answers = iter([False])
    monkeypatch.setattr(Path, "exists", lambda self, **more: next(answers, None) is not False and exists(self))
    with opened(tmp_path / "root", create=True) as journal:
        assert journal.position()[0] == 1
    assert path.exists()


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (apsw.FullError("full"), refusals.NoRoom),
        (apsw.ReadOnlyError("read only"), refusals.JournalUnwritable),
        (apsw.CantOpenError("no"), refusals.JournalUnwritable),
        (PermissionError(13, "Permission denied"), refusals.JournalUnwritable),
        (OSError(28, "No space left on device"), refusals.NoRoom),
        (OSError(30, "Read-only file system"), refusals.JournalUnwritable),
        (apsw.NotADBError("not"), refusals.NotAJournal),
        (apsw.BusyError("busy"), refusals.JournalBusy),
        (apsw.IOError("disk I/O error"), refusals.StorageFailed),
        (apsw.CorruptError(""), refusals.StorageFailed),
        (OSError(5, "Input/output error"), refusals.StorageFailed),
    ],
)
def test_each_failure_of_the_disk_has_a_name(error: Exception, refusal: type[Refusal]) -> None:
    assert type(store.named(Path("ledger.db"), error)) is refusal


def test_a_failure_while_opening_or_reading_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _made(tmp_path / "root")

    def failing(*arguments: object) -> object:
        raise apsw.IOError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(store.Store, "last", failing)
        with pytest.raises(refusals.StorageFailed, match="disk I/O error"):
            opened(tmp_path / "root")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_pragma", failing)
        with pytest.raises(refusals.StorageFailed, match="disk I/O error"):
            opened(tmp_path / "root")
        with pytest.raises(refusals.StorageFailed, match="disk I/O error"):
            opened(tmp_path / "other")
    with pytest.raises(refusals.StorageFailed):
        opened(tmp_path / "root", vfs="no such file system")
    with opened(tmp_path / "root") as journal, monkeypatch.context() as patch:
        patch.setattr(store.Store, "blob", failing)
        with pytest.raises(refusals.StorageFailed, match="disk I/O error"):
            journal.blob("b3:" + "0" * 64)


def test_an_altered_end_of_the_journal_is_noticed_when_something_is_added(tmp_path: Path) -> None:
    """Two journals in one place, one after the other: the first never writes to the second."""
    root = tmp_path / "root"
    journal = opened(root)
    journal.submit(note("a")).result()
    (root / "ledger.db").rename(root / "moved.db")
    with pytest.raises(refusals.JournalReplaced):
        journal.submit(note("a")).result()
    for leftover in ("ledger.db-wal", "ledger.db-shm"):
        (root / leftover).unlink(missing_ok=True)
    with opened(root) as other:
        other.submit(note("b")).result()
        with pytest.raises(refusals.JournalDamaged, match="isn't the end that was there before"):
            journal.submit(note("a")).result()
        other.submit(note("b")).result()
        with pytest.raises(refusals.JournalDamaged, match="event 2 doesn't follow event 1"):
            journal.submit(note("a")).result()
        assert other.position()[0] == 2
    journal.close()


def test_a_digest_of_another_form_is_a_mistake(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal, pytest.raises(ValueError, match="sha256"):
        journal.blob("sha256:00")


def test_a_blob_is_compressed_only_when_that_pays() -> None:
    digest = bytes(32)
    assert store.pack(digest, b"short") == (digest, 5, "plain", b"short")
    noise = os.urandom(4000)
    assert store.pack(digest, noise) == (digest, 4000, "plain", noise)
    _, size, codec, stored = store.pack(digest, b"again " * 100)
    assert (size, codec, store.unpack(size, codec, stored)) == (600, "zlib", b"again " * 100)
    assert len(stored) < 100


def test_what_unpacks_to_another_size_is_not_unpacked() -> None:
    _, size, codec, stored = store.pack(bytes(32), b"again " * 100)
    assert store.unpack(size - 1, codec, stored) is None
    assert store.unpack(size + 1, codec, stored) is None
    assert store.unpack(size, codec, stored[:-9]) is None
    assert store.unpack(size, codec, b"no zlib") is None
    assert store.unpack(4, "plain", b"five!") is None


def test_a_content_that_repeats_itself_far_apart_is_packed_with_a_window_that_sees_it() -> None:
    block = random.Random(1).randbytes(8_000)  # noqa: S311 - bytes that repeat nothing, the same each time
    _, size, codec, packed = store.pack(bytes(32), block * 3)
    assert (size, codec) == (24_000, "zlib")
    assert len(packed) < 9_000


def test_a_disk_that_is_full_before_there_is_a_journal_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(refusals.NoRoom):
        opened(tmp_path / "root")
