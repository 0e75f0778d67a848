"""What a release published is computed again to the same bytes: anywhere, in any environment, on any interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ledger import digests
from ledger.inspecting import Inspected, Lost
from ledger.proving import checkpoint
from ledger.store import NAME
from ledger.verify import verify
from tests.replay.interpreters import HERE, SUPPORTED, interpreters
from tools.make_golden import GOLDEN, PUBLISHED, body_of

NAMES = ("build", "calibration", "gateway", "policy", "report")


class Golden(NamedTuple):
    """A golden journal and what stands beside it."""

    journal: Path
    said: dict[str, Any]


def golden(name: str) -> Golden:
    return Golden(GOLDEN / f"{name}.db", json.loads((GOLDEN / f"{name}.json").read_text("utf-8")))


class Surroundings(NamedTuple):
    """What must not matter."""

    seed: str
    zone: str
    locale: str
    folder: str


USUAL = Surroundings("0", "UTC", "C.UTF-8", ".")
ODD = Surroundings("4242", "Pacific/Chatham", "C", "some where else")


def replayed(name: str, folder: Path, python: str, around: Surroundings) -> str:
    """Replay a copy in a process of its own and return what it printed."""
    place = folder / around.folder
    place.mkdir(exist_ok=True)
    root = place / "root"
    root.mkdir(mode=0o700)
    shutil.copyfile(GOLDEN / f"{name}.db", root / NAME)
    (root / NAME).chmod(0o600)
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": str(HERE),
        "PYTHONHASHSEED": around.seed,
        "TZ": around.zone,
        "LC_ALL": around.locale,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [python, "-P", "-m", "commands.main", "replay", "--root", "root", "--json"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def told(printed: str) -> Any:
    said = json.loads(printed)
    said.pop("journal")
    return said


def test_there_is_a_golden_journal_for_each_thing_that_is_published() -> None:
    kinds = set()
    for name in NAMES:
        said = golden(name).said
        kinds |= {one["kind"].partition("@")[0] for one in said["published"]}
        assert set(said) == {"made_by", "commit", "checkpoint", "published", "replayed"}
        assert len(said["commit"].split()[0]) == 40
    assert kinds == set(PUBLISHED)
    assert {path.stem for path in GOLDEN.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_journal_is_what_it_was(name: str, tmp_path: Path) -> None:
    journal, said = golden(name)
    copy = tmp_path / NAME
    shutil.copyfile(journal, copy)
    assert verify(copy, full=True) == []
    store = Inspected(copy)
    assert checkpoint(store).text() == said["checkpoint"]
    published = [
        {"seq": row[0], "kind": row[3], "digest": digests.content_digest(body_of(row[7]))}
        for rows in store.events(0, store.end()[0])
        if not isinstance(rows, Lost)
        for row in rows
        if row[3].partition("@")[0] in PUBLISHED
    ]
    store.close()
    assert published == said["published"]


@pytest.mark.parametrize("around", [USUAL, ODD], ids=["usual", "odd"])
@pytest.mark.parametrize("name", NAMES)
def test_surroundings_do_not_matter(name: str, around: Surroundings, tmp_path: Path) -> None:
    said = told(replayed(name, tmp_path, sys.executable, around))
    assert said == golden(name).said["replayed"]
    assert {one["status"] for each in said.values() for one in each} == {"identical"}


@pytest.mark.parametrize("version", SUPPORTED)
def test_interpreters_do_not_matter(version: str, tmp_path: Path) -> None:
    executable = interpreters().get(version)
    if executable is None:
        reason = f"Python {version} with what the product needs isn't here: nothing was replayed on it (REPLAY_PYTHONS)"
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    for name in NAMES:
        (tmp_path / name).mkdir()
        printed = replayed(name, tmp_path / name, executable, ODD)
        assert told(printed) == golden(name).said["replayed"], name
