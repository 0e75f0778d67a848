"""``exp report``: tables, a page, or JSON."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from commands.reporting.meant import meant
from commands.reporting.reading import read
from tests.commands.reading import Journey, Said


def test_tables_are_printed_by_default(exp: Said, journey: Journey) -> None:
    said = exp.text("report", journey.ids["report"])
    assert said.startswith(f"report {journey.ids['report']} of optimize-")
    assert "Ways to serve the held-out tasks\n" in said
    assert exp.text("report", journey.ids["policy"][:18]) == said


def numbers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [one for each in value.values() for one in numbers(each)]
    if isinstance(value, list):
        return [one for each in value for one in numbers(each)]
    return [value]


def test_json_has_everything_in_integers_with_their_scale(exp: Said, journey: Journey) -> None:
    said = exp.json("report", journey.ids["report"])
    assert not [one for one in numbers(said) if isinstance(one, float)]
    assert (said["scale"], said["money"]) == (1_000_000, "nano-dollars")
    with meant(journey.root, journey.ids["report"]) as found:
        sheet = read(found)
    assert said["summary"] == list(sheet.summary)
    assert len(said["cells"]) == len(sheet.cells)
    whole = {cell["id"]: cell for cell in said["cells"]}
    for cell in sheet.cells:
        assert [turn["observation"] for turn in whole[cell.id]["turns"]] == [turn.observation for turn in cell.turns]
        assert [one["words"] for one in whole[cell.id]["judged"]] == [one.words for one in cell.judged]


def test_a_page_is_written_for_its_owner_alone_and_replaces_what_was_there(
    exp: Said, journey: Journey, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text("what was there")
    said = exp.text("report", journey.ids["report"], "--html", str(path))
    assert said == f"report: {journey.ids['report']} page={path}\n"
    assert path.read_text("utf-8").startswith("<!doctype html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["report.html"]  # noqa: PTH208 - names alone
    before = path.read_bytes()
    both = exp.json("report", journey.ids["report"], "--html", str(path))
    assert both["report_id"] == journey.ids["report"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["nowhere/report.html", "folder"])
def test_a_page_that_cannot_be_written_is_refused_and_leaves_nothing(
    exp: Said, journey: Journey, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    code = 2 if name == "folder" else 237
    exp.text("report", journey.ids["report"], "--html", str(tmp_path / name), code=code)
    assert os.listdir(tmp_path) == ["folder"]  # noqa: PTH208 - names alone


def test_what_has_no_report_is_refused_by_name(exp: Said, journey: Journey) -> None:
    exp.text("report", journey.ids["build"], "--json", code=235)
    error = json.loads(exp.error)["error"]
    assert error["name"] == "run-wanted"
    assert journey.ids["build"] in error["what"]
    exp.text("report", "optimize-zzz", code=214)


def test_reading_leaves_the_journal_as_it_is(exp: Said, journey: Journey) -> None:
    before = exp.text("log")
    exp.text("report", journey.ids["report"])
    assert exp.text("log") == before
