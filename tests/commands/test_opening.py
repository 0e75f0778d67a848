"""Opening a root at the edge."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from commands.opening import now_us, open_journal
from ledger import __version__, refusals
from ledger.locks import is_free
from tests.ledger.notes import NOTES, note


def test_an_opened_root_knows_the_time_the_command_and_that_its_process_lives(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with open_journal(root, "build", NOTES, create=True) as journal:
        (record,) = journal.submit(note("a")).result()
        assert record.actor == f"exp build {__version__}"
        assert abs(record.at - time.time() * 1_000_000) < 60_000_000
        assert len(journal.process) == 16
        assert not is_free(root, journal.process)
    with open_journal(root, "build", NOTES) as again:
        assert again.process != journal.process
        assert again.state(NOTES) == [1]
    assert is_free(root, journal.process)


def test_a_root_that_is_not_there_is_refused_unless_it_is_to_be_made(tmp_path: Path) -> None:
    with pytest.raises(refusals.JournalWanted):
        open_journal(tmp_path / "root", "build")
    assert not (tmp_path / "root").exists()


def test_the_time_is_in_microseconds() -> None:
    assert 1_700_000_000_000_000 < now_us() < 9_000_000_000_000_000
