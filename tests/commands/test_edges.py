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


@pytest.mark.parametrize("command", ["show", "cat", "why", "prove", "erase --reason r", "log --stream"])
def test_an_id_that_is_no_text_is_a_wrong_command_line(command: str, tmp_path: Path) -> None:
    shell(f"{EXP} config budget 5", tmp_path)
    code, err = shell(f'{EXP} {command} "$1"', tmp_path, b"a\xff")
    assert (code, "isn't UTF-8" in err) == (2, True)


@pytest.mark.parametrize("name", [b"", b"a" * 5_000, b"/dev/null/x", b"a\xff/b", b"/"])
@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("checkpoint --output", {101}),
        ("prove 1 --output", {101}),
        ("query 'SELECT 1' --output", {2, 219}),
        ("backup", {105, 106}),
        ("ingest export --output", {200}),
        ("verify-checkpoint kept --against", {30, 33, 90}),
        ("diff a", {214}),
        ("import", {243}),
        ("doctor --root", {1, 33, 90}),
    ],
)
def test_a_file_that_none_can_be_is_refused_by_name(command: str, codes: set[int], name: bytes, tmp_path: Path) -> None:
    shell(f"{EXP} config budget 5; {EXP} checkpoint --output kept", tmp_path)
    code, err = shell(f'{EXP} {command} "$1"', tmp_path, name)
    assert code in codes, err
    assert {one.name for one in tmp_path.iterdir()} == {".exp", "kept"}


@pytest.mark.parametrize("command", ["config budget", "check", "doctor", "ingest kept --dry-run"])
def test_a_root_of_which_nobody_can_tell_what_is_in_it_is_refused_by_name(command: str, tmp_path: Path) -> None:
    shell("echo > kept", tmp_path)
    code, err = shell(f"{EXP} {command} --root kept/root", tmp_path)
    assert (code, "Not a directory" in err) == (33, True)


def test_closed_inputs_and_errors_stop_nothing_that_does_not_need_them(tmp_path: Path) -> None:
    assert shell(f"{EXP} config budget 5 2>&- <&-", tmp_path)[0] == 0
    assert shell(f"{EXP} replay 2>&- <&-", tmp_path)[0] == 0
    assert shell(f"{EXP} show 999 2>&-", tmp_path)[0] == 108
    code, err = shell(f"{EXP} ingest - <&-", tmp_path)
    assert (code, "it is closed" in err) == (41, True)


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
