"""A whole path taken once, for tests of the commands that read; each works on it as it is, or on a copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from commands.main import run
from tests.proof.stage import Stage, witnessing
from tests.proof.test_sameness import taken


class Journey:
    """A root with a build, a calibration and an optimization in it, and the ids that were printed."""

    def __init__(self, folder: Path) -> None:
        with witnessing() as witness:
            self.stage = Stage(folder, witness.url)
            self.ids = taken(self.stage)
        self.root = self.stage.root

    def copied(self, folder: Path) -> Path:
        """Return a copy of the root, to be changed."""
        return Path(shutil.copytree(self.root, folder / "copy"))


class Said:
    """Runs a command in this process and keeps what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], root: Path) -> None:
        self.capsys = capsys
        self.root = root
        self.error = ""

    def text(self, *words: str, code: int = 0) -> str:
        """Return what is printed; the exit code must be the expected one."""
        self.capsys.readouterr()
        got = run([*words, "--root", str(self.root)])
        said = self.capsys.readouterr()
        assert got == code, said.err
        self.error = said.err
        return said.out

    def json(self, *words: str, code: int = 0) -> Any:
        """Return the JSON object that is printed."""
        return json.loads(self.text(*words, "--json", code=code))
