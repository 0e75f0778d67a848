"""The whole path on the shipped corpus, as a newcomer takes it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from commands import walkthrough
from commands.cli import quickstart

SECONDS = 60


def exp(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "commands.main", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * SECONDS,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture(scope="module")
def walked(folder: Path) -> tuple[dict[str, Any], float]:
    started = time.monotonic()
    done = exp(folder, "quickstart", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), time.monotonic() - started


def test_it_takes_the_whole_path_in_under_a_minute(walked: tuple[dict[str, Any], float]) -> None:
    said, seconds = walked
    assert seconds < SECONDS
    assert len(said["step"]) == walkthrough.Walk.steps()
    assert {"build", "fit-rag", "serving-rag", "world-model", "calibration", "policy", "report"} <= set(said)


def test_every_candidate_has_its_28_cells_and_they_differ(walked: tuple[dict[str, Any], float]) -> None:
    rows = walked[0]["candidate"]
    assert [row["counted"] + row["excluded"] for row in rows] == [28, 28, 28]
    assert len({row["mean"] for row in rows}) > 1


def test_the_second_optimization_calls_nobody_and_is_verified(walked: tuple[dict[str, Any], float]) -> None:
    steps = {step["title"]: step for step in walked[0]["step"]}
    assert steps["optimize"]["calls"] > 100
    assert steps["optimize again"]["calls"] == 0
    assert steps["optimize again"]["events"] == 0
    assert walked[0]["replay"] == "verified completed optimization"


def test_the_repeated_request_gets_the_same_response(walked: tuple[dict[str, Any], float]) -> None:
    assert walked[0]["first response"] == walked[0]["second response"] != ""


def test_it_says_that_no_model_answered(walked: tuple[dict[str, Any], float]) -> None:
    assert "no model" in walked[0]["answered by"]


def test_again_it_asks_nothing_and_ends_in_the_same_ids(folder: Path, walked: tuple[dict[str, Any], float]) -> None:
    done = exp(folder, "quickstart", "--json")
    again = json.loads(done.stdout)
    assert {step["calls"] for step in again["step"]} == {0}
    assert {step["events"] for step in again["step"]} == {0}
    for name in walkthrough.IDS:
        assert again.get(name) == walked[0].get(name)


def test_the_journal_that_it_leaves_is_well(folder: Path, walked: tuple[dict[str, Any], float]) -> None:
    del walked
    done = exp(folder, "check", "--full", "--root", str(quickstart.OWN_ROOT))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_ends_with_a_table_and_what_to_try_next(folder: Path, walked: tuple[dict[str, Any], float]) -> None:
    del walked
    lines = exp(folder, "quickstart").stdout.splitlines()
    assert lines[0].split() == ["step", "seconds", "calls", "events"]
    assert "Try next:" in lines
    assert any("exp check --full" in line for line in lines[lines.index("Try next:") :])


def test_a_step_that_fails_is_named_with_its_command(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file where the root should be")
    done = exp(tmp_path, "quickstart", "--root", "root/below")
    assert done.returncode == walkthrough.StepFailed.exit_code
    assert done.stderr.startswith("exp: the step 'providers' ended with status")
    assert "\n  in exp config providers" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_to_try_next_names_the_root_that_was_used() -> None:
    assert any("--root elsewhere" in line for line in quickstart._next(Path("elsewhere")))
    assert not any("exp quickstart --root" in line for line in quickstart._next(quickstart.OWN_ROOT))


def test_labels_come_from_how_each_session_ended() -> None:
    statuses = walkthrough.outcomes(walkthrough.corpus())
    assert len(statuses) >= 150
    assert {status == 0 for status in statuses.values()} == {True, False}
