"""Power that is lost at any moment takes nothing that was acknowledged; bench/trials.py does this many more times."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ledger.store import Store
from tests.crash import losses
from tests.crash.power import Platter

EACH = 17


@pytest.mark.parametrize("path", losses.PATHS)
def test_nothing_acknowledged_is_lost_with_the_power(tmp_path: Path, path: str) -> None:
    seen = losses.losses(path, tmp_path / "run", 1, every=4)
    some = random.Random(1).sample(seen, min(EACH, len(seen)))  # noqa: S311 - a trial that can be repeated
    assert len(some) >= min(EACH, 10)
    for number, loss in enumerate(some):
        assert losses.problems(loss, tmp_path / str(number)) == []


def test_the_disk_notices_a_journal_that_does_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With synchronous=NORMAL acknowledged events are lost: a trial that can't see this would prove nothing."""
    commit = Store.commit

    def hurried(self: Store) -> None:
        self._connection.execute("COMMIT")
        self._connection.execute("PRAGMA synchronous = NORMAL")

    monkeypatch.setattr(Store, "commit", hurried)
    seen = losses.losses("append", tmp_path / "run", 2, every=3)
    monkeypatch.setattr(Store, "commit", commit)
    found = [losses.problems(loss, tmp_path / str(number)) for number, loss in enumerate(seen[34:64])]
    assert any("was acknowledged and is lost" in problem for problems in found for problem in problems)


def test_a_write_that_was_not_synced_is_kept_dropped_or_torn() -> None:
    platter = Platter()
    platter.pending.append((0, b"a" * 1_024))
    platter.synced()
    platter.pending.append((256, b"b" * 1_024))
    chance = random.Random(1)  # noqa: S311 - a trial that can be repeated
    found = {platter.lost(chance) for _ in range(90)}
    assert b"a" * 1_024 in found
    assert b"a" * 256 + b"b" * 1_024 in found
    assert any(image[256:512] == b"a" * 256 and image[512:1_024] == b"b" * 512 for image in found)
    assert all(image[:256] == b"a" * 256 for image in found)
