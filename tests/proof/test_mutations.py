"""Whatever is changed in a journal is found and named, by both verifiers, and changes no result without a word."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from random import Random

import pytest

from ledger.store import NAME
from ledger.verify import FINDINGS
from tests.proof import mutations
from tests.proof.stage import Stage
from tools.make_golden import GOLDEN

COUNT = int(os.environ.get("PROOF_MUTATIONS", "300"))
REPLAYS = int(os.environ.get("PROOF_REPLAYS", "6"))
REFUSALS = {"not-a-journal", "journal-too-new", "storage-failed", "journal-damaged", "no-such-event"}
AGAINST_A_CHECKPOINT = {"origin-differs", "journal-truncated", "journal-rewritten"}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> mutations.Sound:
    return mutations.recorded(tmp_path_factory.mktemp("recorded") / "root")


def test_an_unchanged_journal_has_nothing_to_say(journal: mutations.Sound, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text(journal.kept.text(), "utf-8")
    assert mutations.told(journal.root) == journal.said
    assert mutations.found(journal.root, journal.kept) == []
    assert mutations.alone(journal.root, kept) in ([], None)


@pytest.mark.parametrize("change", tuple(dict.fromkeys(mutations.CHANGES)))
def test_every_kind_of_change_is_found(change: mutations.Change, journal: mutations.Sound, tmp_path: Path) -> None:
    """Each kind by itself, so that none is rare enough never to be tried."""
    meaningful = 0
    for seed in range(40):
        root = tmp_path / str(seed)
        shutil.copytree(journal.root, root)
        what = change(root, Random(seed))  # noqa: S311 - the same each time
        if mutations.told(root) != journal.said:
            meaningful += 1
            assert mutations.found(root, journal.kept), (seed, what)
        if meaningful == 4:
            break
    assert meaningful, "the change never changed anything"


def test_random_changes_are_found_and_named(journal: mutations.Sound, tmp_path: Path) -> None:
    names = set(FINDINGS) | REFUSALS | AGAINST_A_CHECKPOINT
    meaningful = 0
    for outcome in mutations.mutated(journal, tmp_path, COUNT, seed=11):
        meaningful += outcome.meaningful
        assert not outcome.meaningful or outcome.found, outcome
        assert not outcome.meaningful or outcome.alone != [], outcome
        assert set(outcome.found) <= names, outcome
        assert set(outcome.alone or ()) <= names, outcome
    assert meaningful > COUNT // 2


def test_no_change_changes_a_result_without_a_word(tmp_path: Path) -> None:
    """A replay of a changed journal says the same as before, or says that something is wrong."""
    stage = Stage(tmp_path, "http://127.0.0.1:9/v1")
    stage.root.mkdir(mode=0o700)
    chance = Random(5)  # noqa: S311 - the same each time
    expected, what = None, "nothing"
    for number in range(REPLAYS + 1):
        for path in stage.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copyfile(GOLDEN / "policy.db", stage.root / NAME)
        (stage.root / NAME).chmod(0o600)
        if number:
            what = chance.choice((mutations.edit_an_event, mutations.edit_a_column, mutations.flip_a_bit))(
                stage.root, chance
            )
        done = stage.exp("replay", "--json")
        assert "Traceback" not in done.stderr, what
        if expected is None:
            expected = done.stdout
            assert done.returncode == 0, done.stdout
        elif done.returncode == 0:
            assert _results(done.stdout) == _results(expected), what
        else:
            assert re.search(r"event|ledger\.db|differs|not-reproducible", done.stdout + done.stderr), what


def _results(printed: str) -> object:
    said = json.loads(printed)
    said.pop("journal")
    return said
