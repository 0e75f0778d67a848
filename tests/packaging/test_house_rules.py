"""Rules that tools of the house check, run where the tests run too."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def test_imports_go_in_one_direction() -> None:
    tool = shutil.which("lint-imports", path=str(BIN))
    if tool is None:
        pytest.fail("import-linter isn't installed; it is among the requirements of the tests")
    done = subprocess.run([tool, "--no-cache"], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("ledger/x.py", "import time\nNOW = time.time()\n"),
        ("projections/x.py", "from datetime import UTC, datetime\nNOW = datetime.now(UTC)\n"),
        ("ledger/x.py", "import uuid\nNAME = uuid.uuid4()\n"),
        ("projections/x.py", "import random\n"),
        ("ledger/x.py", "import os\nHOME = os.environ\n"),
    ],
)
def test_clock_chance_and_environment_are_refused_outside_the_edge(place: str, line: str) -> None:
    def codes(name: str) -> str:
        command = [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--select",
            "TID251",
            "--stdin-filename",
            str(HERE / name),
            "-",
        ]
        return subprocess.run(command, cwd=HERE, input=line, capture_output=True, text=True, check=False).stdout

    assert "TID251" in codes(place)
    assert "TID251" not in codes("commands/x.py")


def test_every_rule_that_is_switched_off_says_why() -> None:
    text = (HERE / "pyproject.toml").read_text("utf-8")
    ignored = text.partition("\nignore = [")[2].partition("\n]")[0].strip().splitlines()
    assert ignored
    assert [line for line in ignored if " # " not in line] == []
