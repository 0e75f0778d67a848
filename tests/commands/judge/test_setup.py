from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from commands.rubric_file import RubricUnusable, read_rubric
from ledger.families import judging
from ledger.families.judging import DEFAULT_RUBRIC, SCALE
from tests.commands.judge.roots import JUDGE, PROJECT, Shell, built, count, kinds, opened, reconfigure, trace

OWN = {
    "axes": [
        {
            "name": "care",
            "question": "Was it careful?",
            "low": 1,
            "high": 5,
            "anchors": [{"score": 2.5, "meaning": "So so."}],
        },
        {"name": "speed", "question": "Was it fast?", "low": -0.5, "high": 0.5},
    ]
}


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    built(tmp_path / "root", [trace(f"t{number}") for number in range(8)], held_out=2)
    return Shell(tmp_path / "root", capsys)


def test_a_setup_shows_rubric_judge_and_three_fit_tasks(shell: Shell) -> None:
    done = shell.set_up()
    assert done.code == 0
    assert done.values("judge") == ["judge model=embedded-judge connection=here"]
    assert [line.split()[:3] for line in done.values("axis")] == [["task-success", "low=0", "high=1"]]
    assert len(done.values("anchor")) == 3
    names = [line.split()[0] for line in done.values("sample-task")]
    assert len(set(names)) == 3
    assert set(names) <= {f"t{number}" for number in range(6)}
    with opened(shell.root) as journal:
        setup = judging.read_setup(journal.state(judging.FAMILY), PROJECT, journal.blob)
    assert (setup.id, setup.rubric, setup.alias) == (done.values("setup")[0], DEFAULT_RUBRIC, "judge")


def test_the_same_setup_again_appends_nothing_and_prints_the_same(shell: Shell) -> None:
    done = shell.set_up()
    before = count(shell.root)
    again = shell.set_up()
    assert (again.code, again.out) == (0, done.out)
    assert count(shell.root) == before
    assert shell.run("config", "judge", "setup", PROJECT).code == 0


def test_without_approval_nothing_is_recorded(shell: Shell) -> None:
    before = count(shell.root)
    refused = shell.run("config", "judge", "setup", PROJECT)
    assert (refused.code, refused.values("approved")) == (13, ["no"])
    assert "add --approve" in refused.err
    assert count(shell.root) == before


def test_a_setup_needs_a_build(shell: Shell) -> None:
    assert shell.run("config", "judge", "setup", "nowhere", "--approve").code == 40


def test_a_rubric_of_ones_own_is_recorded_and_stays_in_force(shell: Shell, tmp_path: Path) -> None:
    first = shell.set_up()
    file = tmp_path / "rubric.json"
    file.write_text(json.dumps(OWN))
    own = shell.set_up("--rubric-file", str(file))
    assert own.code == 0
    assert own.values("setup") != first.values("setup")
    assert [line.split()[0] for line in own.values("axis")] == ["care", "speed"]
    assert shell.set_up().values("setup") == own.values("setup")
    keys = [flag.split()[1] for flag in shell.calibrate(size=2).flags()]
    assert [key.split(":")[1] for key in keys] == ["care=SCORE", "speed=SCORE"] * 2


def test_another_model_under_the_alias_makes_another_setup_and_another_price_doesnt(shell: Shell) -> None:
    first = shell.set_up()
    reconfigure(
        shell.root,
        msgspec.structs.replace(JUDGE, capabilities=msgspec.structs.replace(JUDGE.capabilities, input_price=1)),
    )
    assert shell.set_up().values("setup") == first.values("setup")
    assert kinds(shell.root).count("judge-set-up@1") == 1
    reconfigure(shell.root, msgspec.structs.replace(JUDGE, model="another"))
    assert shell.set_up().values("setup") != first.values("setup")


def test_a_rubric_is_read_exactly_from_json_and_toml(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(OWN))
    (tmp_path / "r.toml").write_text(
        "[[axes]]\nname = 'care'\nquestion = 'Was it careful?'\nlow = 1\nhigh = 5\n"
        "anchors = [{score = 2.5, meaning = 'So so.'}]\n"
        "[[axes]]\nname = 'speed'\nquestion = 'Was it fast?'\nlow = -0.5\nhigh = 0.5\n"
    )
    rubric = read_rubric(tmp_path / "r.json")
    assert rubric == read_rubric(tmp_path / "r.toml")
    assert [(axis.low, axis.high) for axis in rubric.axes] == [(SCALE, 5 * SCALE), (-SCALE // 2, SCALE // 2)]
    assert rubric.axes[0].anchors[0].score == 2_500_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it isn't JSON"),
        ("[" * 100_000, "it isn't JSON"),
        ("[]", "it has no list of axes"),
        ('{"axes": {}}', "it has no list of axes"),
        ('{"axes": []}', "it has no axis"),
        ('{"axes": [1]}', "axis 1: it must be an object"),
        ('{"axes": [], "mood": 1}', "the rubric: 'mood' is unknown"),
        ('{"axes": [{"name": "a", "question": "q", "low": 0, "high": true}]}', "axis 1: high must be a number"),
        ('{"axes": [{"name": "a", "question": "q", "low": 0.0000001, "high": 1}]}', "axis 1: low must be a number"),
        ('{"axes": [{"name": "a", "question": "q", "low": 0, "high": 1e99}]}', "axis 1: high must be a number"),
        ('{"axes": [{"name": "a", "question": "q", "low": 0, "high": NaN}]}', "axis 1: high must be a number"),
        ('{"axes": [{"name": 1, "question": "q", "low": 0, "high": 1}]}', "axis 1: name must be text"),
        ('{"axes": [{"name": "a", "question": "q", "low": 0, "high": 1, "anchors": 1}]}', "anchors must be a list"),
        ('{"axes": [{"name": "A", "question": "q", "low": 0, "high": 1}]}', "its name must be lower-case"),
    ],
)
def test_a_rubric_that_cant_be_used_is_refused_with_its_gaps(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "rubric.json"
    file.write_text(text)
    with pytest.raises(RubricUnusable) as refused:
        read_rubric(file)
    assert words in refused.value.remedy


def test_all_gaps_of_a_rubric_are_listed_at_once(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "rubric.json"
    file.write_text('{"axes": [{"name": "a", "low": "x", "colour": "red", "anchors": [{"score": 1}]}], "mood": 1}')
    before = count(shell.root)
    refused = shell.set_up("--rubric-file", str(file))
    assert refused.code == 19
    for words in ("'mood' is unknown", "'colour' is unknown", "question", "low must", "high must", "meaning must"):
        assert words in refused.err
    assert count(shell.root) == before


def test_a_rubric_file_that_isnt_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(RubricUnusable, match="can't be used") as refused:
        read_rubric(tmp_path / "none.json")
    assert "No such file" in refused.value.remedy


def test_a_rubric_loses_credentials_before_it_is_recorded(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commands.perform.credentials.credential", lambda *_: "secret-value-1234")
    file = tmp_path / "rubric.json"
    file.write_text(json.dumps(OWN).replace("So so.", "Like secret-value-1234."))
    done = shell.set_up("--rubric-file", str(file))
    assert "Like [redacted]." in done.out
    with opened(shell.root) as journal:
        rubric = journal.blob(journal.state(judging.FAMILY).setups[PROJECT].rubric.blob)
    assert b"secret-value-1234" not in rubric


def test_a_rubric_is_read_from_regular_files_of_at_most_a_mebibyte(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large.json"
    os.mkfifo(pipe)
    large.write_bytes(b" " * ((1 << 20) + 1))
    for path, gap in ((pipe, "no regular file"), (Path("/dev/zero"), "no regular file"), (large, "1048576 bytes")):
        with pytest.raises(RubricUnusable) as refused:
            read_rubric(path)
        assert gap in refused.value.remedy
