"""Whatever a result rests on, changed or removed: the replay fails, asks nobody, and names it."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.proof.stage import Stage, Witness, witnessing
from tests.proof.test_sameness import taken

SAMPLES = int(os.environ.get("PROOF_SAMPLES", "8"))  # of events and of blobs; a large number tries every one


class Finished:
    """A finished optimization on a stage whose provider is gone."""

    def __init__(self, folder: Path, witness: Witness) -> None:
        self.stage = Stage(folder, witness.url)
        taken(self.stage)
        self.asked = witness.count

    def copy(self, folder: Path) -> Stage:
        """Return a stage with a copy of the root, to be damaged."""
        stage = Stage(folder, self.stage.url)
        shutil.copytree(self.stage.root, stage.root)
        return stage


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    with witnessing() as witness:
        done = Finished(tmp_path_factory.mktemp("finished"), witness)
        yield done
        assert witness.count == done.asked, "a replay asked the provider"


def damaged(stage: Stage, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Change a journal as another program would: without its triggers."""
    connection = apsw.Connection(str(stage.root / "ledger.db"))
    for (name,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
        connection.execute(f'DROP TRIGGER "{name}"')
    for statement, values in statements:
        connection.execute(statement, values)
    connection.close()


def rows(stage: Stage, query: str) -> list[tuple[object, ...]]:
    """Read a journal as another program would."""
    connection = apsw.Connection(str(stage.root / "ledger.db"), flags=apsw.SQLITE_OPEN_READWRITE)
    found = list(connection.execute(query))
    connection.close()
    return found


def flipped(content: bytes, place: int) -> bytes:
    """Return the content with one bit changed."""
    changed = bytearray(content)
    changed[place % len(changed)] ^= 1 << place % 8
    return bytes(changed)


def replayed(stage: Stage, seq: int) -> None:
    """Replay, and demand a refusal that names the event."""
    done = stage.exp(*stage.optimize())
    printed = done.stdout + done.stderr
    assert done.returncode not in (0, 10), printed
    assert "replay: verified" not in printed
    assert "Traceback" not in printed
    assert re.search(rf"(?<!\d){seq}(?!\d)", printed), (seq, printed)
    checked = stage.exp("check", "--full")
    assert checked.returncode not in (0, 10), checked.stderr
    assert re.search(rf"(?<!\d){seq}(?!\d)", checked.stdout + checked.stderr)


def test_the_undamaged_run_replays_without_a_provider(finished: Finished) -> None:
    done = finished.stage.exp(*finished.stage.optimize())
    assert done.returncode == 0, done.stderr
    assert "replay: verified completed optimization" in done.stdout


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_an_event_changed_or_removed_is_named(how: str, finished: Finished, tmp_path: Path) -> None:
    chance = random.Random(17)  # noqa: S311 - the same sample each time
    events = rows(finished.stage, "SELECT seq, bytes FROM events ORDER BY seq")
    # Without its last event a journal is the one of a run that was stopped before it: only a checkpoint tells.
    within = events[:-1] if how == "removed" else events
    for number, (seq, content) in enumerate(chance.sample(within, min(SAMPLES, len(within)))):
        assert isinstance(seq, int)
        assert isinstance(content, bytes | str)
        plain = content.encode() if isinstance(content, str) else content
        stage = finished.copy(tmp_path / str(number))
        if how == "changed":
            changed = flipped(plain, chance.randrange(len(plain)))
            damaged(stage, ("UPDATE events SET bytes = ? WHERE seq = ?", (changed, seq)))
        else:
            damaged(stage, ("DELETE FROM events WHERE seq = ?", (seq,)))
        replayed(stage, seq)


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_content_changed_or_removed_is_named_by_an_event_that_refers_to_it(
    how: str, finished: Finished, tmp_path: Path
) -> None:
    chance = random.Random(18)  # noqa: S311 - the same sample each time
    blobs = rows(finished.stage, "SELECT digest, bytes FROM blobs ORDER BY digest")
    events = rows(finished.stage, "SELECT seq, bytes FROM events ORDER BY seq")
    for number, (digest, content) in enumerate(chance.sample(blobs, min(SAMPLES, len(blobs)))):
        assert isinstance(digest, bytes)
        assert isinstance(content, bytes)
        named = f'"b3:{digest.hex()}"'
        first = next(seq for seq, text in events if named in (text if isinstance(text, str) else bytes(text).decode()))  # type: ignore[call-overload]
        assert isinstance(first, int)
        stage = finished.copy(tmp_path / str(number))
        if how == "changed":
            changed = flipped(content, chance.randrange(len(content)))
            damaged(stage, ("UPDATE blobs SET bytes = ? WHERE digest = ?", (changed, digest)))
        else:
            damaged(stage, ("DELETE FROM blobs WHERE digest = ?", (digest,)))
        replayed(stage, first)
