import json

import pytest

from commands.render.result import Result
from commands.render.table import table


def said(result: Result, capsys: pytest.CaptureFixture[str]) -> str:
    result.line("build", "b3-1")
    result.line("spend", None)
    result.line("again", 1)
    result.line("again", 2)
    result.item("candidate", {"alias": "small", "counted": 3, "mean": None, "reason": "too long"})
    result.item("candidate", {"alias": "large", "counted": 4, "mean": "0.5", "reason": ""})
    result.text("two\nlines \x1b[31mred")
    result.finish()
    return capsys.readouterr().out


def test_text_is_one_line_a_fact_and_a_missing_value_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(Result(as_json=False), capsys).splitlines() == [
        "build: b3-1",
        "spend: unknown",
        "again: 1",
        "again: 2",
        'candidate: small counted=3 mean=unknown reason="too long"',
        'candidate: large counted=4 mean=0.5 reason=""',
        "two",
        "lines red",
    ]


def test_every_line_has_its_twin_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads(said(Result(as_json=True), capsys))
    assert value["build"] == "b3-1"
    assert value["spend"] is None
    assert value["again"] == [1, 2]
    assert [row["alias"] for row in value["candidate"]] == ["small", "large"]
    assert value["candidate"][0]["mean"] is None
    assert value["notes"] == ["two\nlines \x1b[31mred"]


def test_a_long_line_is_never_wrapped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    Result(as_json=False).line("key", "word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


def test_a_value_cannot_start_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    Result(as_json=False).line("task", "one\npolicy: forged")
    assert capsys.readouterr().out == "task: one policy: forged\n"


def test_numbers_are_set_right_in_a_table() -> None:
    assert table(["step", "calls"], [["build", "7"], ["all of it", "1,024"]]).splitlines() == [
        "step       calls",
        "---------  -----",
        "build          7",
        "all of it  1,024",
    ]
