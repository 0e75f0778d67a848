"""A report on a router that was fitted on imported outcomes: there are scores, and nothing that anybody did or said."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands.main import run
from commands.render.report_page import report_page
from commands.render.report_text import report_text
from commands.reporting.meant import meant
from commands.reporting.reading import read
from commands.reporting.sheet import Sheet
from ledger.families.outcomes import OutcomeImported
from tests.commands.optimizing.test_outcomes import imported, optimize, planted
from tests.commands.render.pages import Parts


def seen(folder: Path) -> Sheet:
    with meant(folder / "root", "p") as found:
        return read(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outcomes")
    rows = [planted(number) for number in range(100)]
    for number in (5, 6, 7, 8, 9):
        del rows[number]["models"]["cheap"]
    imported(folder, rows)
    assert optimize(folder) == 0
    return folder


@pytest.fixture(scope="module")
def sheet(folder: Path) -> Sheet:
    return seen(folder)


def test_tasks_and_cells_are_the_rows_of_the_table(sheet: Sheet) -> None:
    assert sheet.evidence == "outcomes"
    parts = [task.part for task in sheet.tasks]
    assert parts == ["held-out"] * sheet.report.tasks + ["fit"] * sheet.report.fit_tasks
    assert sorted(int(task.label) for task in sheet.tasks) == list(range(100))
    labels = {task.id: int(task.label) for task in sheet.tasks}
    assert {task.text.split()[0] for task in sheet.tasks} == {"Sort", "Download"}
    assert len(sheet.cells) == 195
    for cell in sheet.cells:
        good = cell.alias == "dear" or labels[cell.task] % 2 == 0
        assert cell.score == (900_000 if good else 200_000)
        assert cell.cost == (10_000_000 if cell.alias == "dear" else 1_000_000)
    routes = {one.task: one.alias for one in sheet.report.routed}
    assert {(cell.task, cell.alias) for cell in sheet.cells if cell.routed} <= set(routes.items())
    assert [task.routed for task in sheet.tasks if task.part == "held-out"] == [
        routes[task.id] for task in sheet.tasks if task.part == "held-out"
    ]


def test_what_is_not_known_of_outcomes_is_said(sheet: Sheet) -> None:
    assert sheet.missing == {"rollouts": "outcomes were imported, and no rollout came with them"}
    assert sheet.calibration.missing.startswith("scores came with the imported outcomes")
    assert {line.corrected.undefined for line in sheet.lines} == {sheet.calibration.missing}
    assert (sheet.spent, sheet.fidelity) == ((), ())
    held = {int(task.label) for task in sheet.tasks if task.part == "held-out"}
    lacking = len(held & {5, 6, 7, 8, 9})
    sentence = next(one for one in sheet.summary if "lower no mean" in one or "No held-out outcome" in one)
    assert sentence.startswith(f"{lacking} held-out outcome" if lacking else "No held-out outcome")
    assert any("score 0.500 or more, which counts as a pass" in one for one in sheet.summary)
    assert not any("judge passes" in one for one in sheet.summary)


def test_tables_and_rules_are_its_provenance(sheet: Sheet) -> None:
    named = {one.what: one.name for one in sheet.provenance}
    assert named["fitted on table"]
    assert named["rules"].startswith("outcomes@")


def test_the_page_has_the_scores_and_no_links(sheet: Sheet) -> None:
    written = report_page(sheet)
    parts = Parts(written)
    assert not [part for part in parts.all("a") if "row-" in part.attributes["href"]]
    shades = [part for part in parts.all("td") if part.attributes.get("class", "").startswith("h")]
    assert len(shades) == 195
    assert "No rollouts are shown: outcomes were imported, and no rollout came with them." in written
    assert "What each candidate did" not in written
    assert "Held-out cells" in "\n".join(report_text(sheet))


def test_a_prompt_that_was_erased_is_said_to_be(folder: Path, sheet: Sheet, capsys: pytest.CaptureFixture[str]) -> None:
    with meant(folder / "root", "p") as found:
        row = next(found.journal.events(OutcomeImported)).event
    assert isinstance(row, OutcomeImported)
    assert run(["erase", row.text.blob, "--reason", "a wish", "--yes", "--root", str(folder / "root")]) == 0
    capsys.readouterr()
    again = {task.id: task.text for task in seen(folder).tasks}
    assert again[row.row].startswith("not reproducible: ")
    assert sum(again[task.id] == task.text for task in sheet.tasks) == 99
