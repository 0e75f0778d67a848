from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from commands.cli import judge_label
from commands.main import cli, run
from ledger.families.judging import SCALE, CalibrationPublished, JudgmentRecorded, LabelRecorded
from ledger.journal import Journal
from tests.commands.judge.roots import PROJECT, Shell, built, judged, labelled, opened, staged, trace

Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    built(tmp_path, [trace(f"t{number}") for number in range(4)])
    shell = Shell(tmp_path, capsys)
    assert shell.set_up().code == 0
    return shell


@pytest.fixture
def ask(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Sit a person at the terminal who types these lines."""
    monkeypatch.setattr(judge_label, "terminal", lambda: True)

    def sit(*lines: str, more: tuple[str, ...] = ()) -> tuple[int, str]:
        typed = "".join(f"{line}\n" for line in lines)
        arguments = ["judge", "label", PROJECT, "--root", str(shell.root), *more]
        outcome = CliRunner().invoke(cli, arguments, input=typed, standalone_mode=False)
        if outcome.exception is not None:
            raise outcome.exception
        return outcome.exit_code, outcome.output

    return sit


def labels(root: Path) -> list[LabelRecorded]:
    with opened(root) as journal:
        return [event for record in journal.events(LabelRecorded) if isinstance(event := record.event, LabelRecorded)]


def text(journal: Journal, label: LabelRecorded) -> str:
    assert label.rationale is not None
    return journal.blob(label.rationale.blob).decode()


def test_without_a_terminal_nobody_is_asked(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "label", PROJECT, "--root", str(shell.root)]) == 122
    assert "no terminal; nothing was recorded" in capsys.readouterr().err
    assert labels(shell.root) == []


def test_a_label_is_blind_and_recorded_at_once_with_its_reason(shell: Shell, ask: Ask) -> None:
    _, out = ask("", "", "1", "It did.", "q")
    (label,) = labels(shell.root)
    assert (label.score, label.shown, label.axis) == (SCALE, False, "task-success")
    with opened(shell.root) as journal:
        assert text(journal, label) == "It did."
    assert "TASK" in out
    assert "TURN 1 of 1: shell" in out
    assert "CLOSING MESSAGE" in out
    assert "labels-given: 1" in out
    assert "labelled=1 of=4" in out


def test_the_judges_words_are_hidden_unless_anchored(shell: Shell, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    staged(monkeypatch, lambda endpoint, question: judged("1", "WORDS OF THE JUDGE"))
    assert shell.calibrate(size=4).code == 12
    _, blind = ask("s", "0", "", "q")
    assert "WORDS OF THE JUDGE" not in blind
    _, anchored = ask("s", "0", "", "q", more=("--anchored",))
    assert "The judge says 1: WORDS OF THE JUDGE" in anchored
    assert [label.shown for label in labels(shell.root)] == [False, True]


def test_leaving_keeps_what_was_labelled_and_the_next_sitting_goes_on(shell: Shell, ask: Ask) -> None:
    ask("s", "1", "", "s", "0", "", "q")
    first = [label.subject for label in labels(shell.root)]
    _, out = ask("s", "1", "", "s", "1", "", "q")
    found = [label.subject for label in labels(shell.root)]
    assert found[:2] == first
    assert len(set(found)) == 4
    assert "labelled=4 of=4 passes=3 fails=1" in out


def test_what_to_run_next_names_the_same_sample_and_says_partial_only_while_labels_are_missing(ask: Ask) -> None:
    _, some = ask("s", "1", "", "q", more=("--sample-size", "2"))
    assert f"`exp config judge calibrate {PROJECT} --sample-size 2 --partial` reports" in some
    _, all_of_them = ask("s", "1", "", more=("--sample-size", "2"))
    assert f"`exp config judge calibrate {PROJECT} --sample-size 2` reports" in all_of_them


def test_the_end_of_the_input_is_leaving(shell: Shell, ask: Ask) -> None:
    code, out = ask("s", "1")
    assert code == 0
    assert "labels-given: 0" in out
    assert labels(shell.root) == []


def test_an_item_that_is_skipped_comes_again_another_time(shell: Shell, ask: Ask) -> None:
    _, out = ask("k", "k", "k", "k")
    assert labels(shell.root) == []
    assert out.count("\n=== ") == 4
    assert "labels-given: 0" in out
    assert "next: " in out


def test_a_score_outside_the_range_is_asked_for_again(shell: Shell, ask: Ask) -> None:
    _, out = ask("s", "7", "high", "r", "s", "0.5", "", "q")
    assert out.count("is no number from 0 to 1") == 2
    assert out.count("TASK") >= 2
    assert labels(shell.root)[0].score == SCALE // 2


def test_recorded_text_cannot_act_on_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built(tmp_path, [trace("t", task="\x1b[2J\x1b]0;owned\x07Read\u202e it.", observation="\x9b31mred")])
    assert run(["config", "judge", "setup", PROJECT, "--approve", "--root", str(tmp_path), "--non-interactive"]) == 0
    monkeypatch.setattr(judge_label, "terminal", lambda: True)
    arguments = ["judge", "label", PROJECT, "--root", str(tmp_path)]
    out = CliRunner().invoke(cli, arguments, input="\n\n1\n\n", standalone_mode=False).output
    assert "Read it." in out
    assert not set("\x1b\x9b\x07\u202e") & set(out)


def test_the_item_that_teaches_most_comes_first_and_why_is_said_only_to_who_sees_the_score(
    shell: Shell, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter(("1", "1", "0", "1"))
    staged(monkeypatch, lambda endpoint, question: judged(next(scores)))
    assert shell.calibrate(size=4).code == 12
    _, anchored = ask("q", more=("--anchored",))
    assert "this one because" in anchored
    assert anchored.count("the judge's score says fail") == 2
    _, blind = ask("s", "0", "", "q")
    assert "next: " in blind
    assert "judge's score" not in blind
    assert "because" not in blind
    with opened(shell.root) as journal:
        said = {
            event.subject: event.score
            for record in journal.events(JudgmentRecorded)
            if isinstance(event := record.event, JudgmentRecorded)
        }
    assert said[labels(shell.root)[0].subject] == 0


def test_labels_given_here_count_in_a_calibration_as_blind(shell: Shell, ask: Ask) -> None:
    assert shell.calibrate(size=4).code == 12
    for _ in range(4):
        ask("s", "0", "", "q")
    said = shell.calibrate("--approve", size=4)
    assert said.code == 0
    assert [line.rsplit("blind=", 1)[1] for line in said.values("label")] == ["yes"] * 4
    assert "in sight" not in said.out
    assert "verdict=path-exercise" in said.values("axis")[0]


def test_the_result_is_json_when_asked(shell: Shell, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out = ask("s", "1", "", "q", more=("--json",))
    found = json.loads(out[out.index("{\n") :])
    assert found["labels-given"] == 1
    assert found["axis"] == [{"axis": "task-success", "labelled": 1, "of": 4, "passes": 1, "fails": 0}]


def test_it_works_on_a_real_terminal(shell: Shell) -> None:
    person, terminal = pty.openpty()
    os.write(person, b"s\n1\nAs I see it.\nq\n")
    arguments = [sys.executable, "-m", "commands.main", "judge", "label", PROJECT, "--root", str(shell.root)]
    said = subprocess.run(arguments, stdin=terminal, capture_output=True, timeout=60, check=False)
    os.close(terminal)
    os.close(person)
    assert said.returncode == 0, said.stderr
    assert b"labels-given: 1" in said.stdout
    assert b"TASK" in said.stderr


# Calibrating with some labels only, and asking the judge again.


def test_a_partial_calibration_reports_on_what_is_labelled(shell: Shell, ask: Ask) -> None:
    assert shell.calibrate(size=4).code == 12
    ask("s", "0", "", "q")
    assert shell.calibrate(size=4).code == 12
    said = shell.calibrate("--partial", size=4)
    assert said.code == 0
    (axis,) = said.values("axis")
    assert "counted=1" in axis
    assert "unlabelled=3" in axis


def test_a_judge_that_is_asked_again_shows_whether_it_repeats_itself(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(("1", "1", "1", "1", "1", "0"))
    stage = staged(monkeypatch, lambda endpoint, question: judged(next(replies)))
    first = shell.calibrate("--repeat", "2", size=4)
    assert first.code == 12
    assert len(stage.asked) == 6
    said = shell.calibrate("--repeat", "2", "--approve", *labelled(first), size=4)
    assert said.code == 0
    assert len(stage.asked) == 6
    assert [line.partition(" low")[0] for line in said.values("repeatability")] == [
        'task-success of="same score" count=1 n=2',
        'task-success of="same side" count=1 n=2',
    ]


def test_asking_again_never_changes_the_first_proposal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = iter(("1", "1", "1", "1", "0", "0", "0", "0"))
    staged(monkeypatch, lambda endpoint, question: judged(next(replies)))
    before = shell.calibrate(size=4)
    after = shell.calibrate("--repeat", "4", size=4)
    assert before.values("proposal") == after.values("proposal")


def test_a_calibration_with_repeats_is_another_one(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    staged(monkeypatch, lambda endpoint, question: judged("1"))
    first = shell.calibrate(size=4)
    shell.calibrate(*labelled(first), "--approve", size=4)
    shell.calibrate("--repeat", "4", size=4)
    with opened(shell.root) as journal:
        published = {
            event.calibration
            for record in journal.events(CalibrationPublished)
            if isinstance(event := record.event, CalibrationPublished)
        }
    assert len(published) == 2
