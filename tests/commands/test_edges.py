"""What the operating system does to a command line: outputs, names and limits that can't be used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import main

EXP = f"{sys.executable} -m commands.main"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"}


def shell(line: str, folder: Path, *arguments: bytes | str, **more: str) -> tuple[int, str]:
    repository = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": repository, **more}
    done = subprocess.run(
        ["/bin/bash", "-c", line, "bash", *arguments], cwd=folder, env=environment, capture_output=True, check=False
    )
    return done.returncode, done.stderr.decode(errors="replace")


@pytest.mark.parametrize("command", ["config budget --json", "config budget", "--help", "--version"])
@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
def test_an_output_that_cannot_be_written_is_refused_by_name(command: str, output: str, tmp_path: Path) -> None:
    code, err = shell(f"{EXP} {command} {output}", tmp_path)
    assert code == 89
    assert "the output can't be written" in err
    assert "what was recorded stays recorded" in err


@pytest.mark.parametrize("command", ["check", "config budget", "config providers", "run", "config budget 5"])
def test_a_root_whose_name_is_too_long_is_refused_by_name(command: str, tmp_path: Path) -> None:
    code, err = shell(f'{EXP} {command} --root "$1"', tmp_path, "a" * 5_000)
    assert (code, "exp: the root's name can't be used" in err) == (90, True)


@pytest.mark.parametrize("locale", [{}, ASCII])
@pytest.mark.parametrize("command", ["check", "config budget", "config providers", "run"])
def test_a_root_whose_name_is_no_text_is_refused_by_name(command: str, locale: dict[str, str], tmp_path: Path) -> None:
    code, err = shell(f'{EXP} {command} --root "$1"', tmp_path, b"a\xff", **locale)
    assert (code, "exp: the root's name can't be used" in err) == (90, True)


def test_a_lack_of_open_files_is_named(tmp_path: Path) -> None:
    code, err = shell(f"ulimit -n 20; {EXP} quickstart", tmp_path)
    assert (code, "allows no more open files" in err) == (86, True)  # the step that failed says 91


@pytest.mark.parametrize(
    "command",
    [
        ["build", "a b", "x.jsonl", "--source", "otlp"],
        ["config", "judge", "setup", "a b"],
        ["config", "judge", "calibrate", "a b"],
        ["optimize", "router", "a b"],
        ["run", "a b"],
    ],
)
def test_a_project_name_is_checked_alike_by_every_command(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(command) == 2
    assert "at most 64, not starting with a mark" in capsys.readouterr().err
