"""Imported outcomes: read exactly, recorded once, fitted on without a provider, and fitted again in a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands.main import run
from commands.opening import open_journal
from commands.outcome_tables import read_table, recorded_rows
from ledger.families import outcomes, policies
from ledger.families.outcomes import OutcomesImported

Models = dict[str, dict[str, Any]]
KINDS = {"sorting": "Sort the rows of ledger {n} by amount", "fetching": "Download release {n} and verify its checksum"}


def line(number: int, models: Models, **more: Any) -> dict[str, Any]:
    kind = list(KINDS)[number % 2]
    return {"id": str(number), "prompt": KINDS[kind].format(n=number), "task": kind, "models": models} | more


def planted(number: int) -> dict[str, Any]:
    """The cheap model does one kind as well as the dear one, and fails at the other."""
    good = number % 2 == 0
    return line(number, {"cheap": {"score": 0.9 if good else 0.2, "cost": 0.001}, "dear": {"score": 0.9, "cost": 0.01}})


def table(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    return path


def imported(folder: Path, lines: list[dict[str, Any]], name: str = "t.jsonl") -> None:
    assert run(["import", "outcomes", str(table(folder / name, lines)), *at(folder), "--project", "p"]) == 0


def at(folder: Path) -> list[str]:
    return ["--root", str(folder / "root")]


def optimize(folder: Path, *more: str) -> int:
    return run(["optimize", "router", "p", "--evidence", "outcomes", "--incumbent", "dear", *at(folder), *more])


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    imported(tmp_path, [planted(number) for number in range(100)])
    capsys.readouterr()
    return tmp_path


def test_a_table_is_recorded_once_and_a_second_import_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_journal(folder / "root", "test", outcomes.FAMILY) as journal:
        before = journal.position()
    imported(folder, [planted(number) for number in reversed(range(100))], "other.jsonl")
    assert "nothing is new" in capsys.readouterr().out
    with open_journal(folder / "root", "test", outcomes.FAMILY) as journal:
        assert journal.position() == before
        (known,) = journal.state(outcomes.FAMILY).of("p")
        assert (known.rows, known.models, known.missing) == (100, ("cheap", "dear"), 0)
        rows = recorded_rows(journal, "p", known.table)
        assert len(rows) == 100
        assert {result.cost for row in rows for result in row.results} == {1_000_000, 10_000_000}


def test_an_import_that_broke_off_is_finished_by_the_next_one(folder: Path) -> None:
    with open_journal(folder / "root", "test", outcomes.FAMILY) as journal:
        (known,) = journal.state(outcomes.FAMILY).of("p")
        again = outcomes.RecordOutcomes(rows=tuple(recorded_rows(journal, "p", known.table)[:7]))
        assert outcomes.decide(again, outcomes.Outcomes(), lambda kind, key: OutcomesImported) == ()  # type: ignore[arg-type]  # whatever is found
        assert len(outcomes.decide(again, outcomes.Outcomes(), lambda kind, key: None)) == 7


@pytest.mark.parametrize(
    ("given", "score", "cost"),
    [
        ({"models": {"a": {"score": 0.1234565, "cost": 0.0000000015}}}, 123_457, 2),
        ({"models": [{"model": "a", "score": 1, "cost_usd": 2}]}, 1_000_000, 2_000_000_000),
        ({"models": {"a": 0.5}}, 500_000, None),
        ({"scores": {"a": 0.5}, "costs": {"a": 0.25}}, 500_000, 250_000_000),
        ({"a": 0.5, "a|total_cost": 0.25, "a|model_response": "x"}, 500_000, 250_000_000),
        ({"models": {"a": {"score": None, "cost": 0}}}, None, 0),
    ],
)
def test_lines_are_read_exactly_in_every_form(
    tmp_path: Path, given: dict[str, Any], score: int | None, cost: int | None
) -> None:
    (row,), _ = read_table(table(tmp_path / "t", [{"sample_id": 7, "prompt": "x", "eval_name": "e"} | given]))
    assert (row.id, json.loads(row.text)["task"]) == ("7", "e")
    assert [(one.model, one.score, one.cost) for one in row.results] == [("a", score, cost)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON"),
        ("[]", "no object"),
        ('{"id": "1"}', "no prompt"),
        ('{"prompt": "x", "models": {"a": 1}}', "no id"),
        ('{"id": true, "prompt": "x", "models": {"a": 1}}', "no text"),
        ('{"id": "1", "prompt": "x"}', "no model"),
        ('{"id": "1", "prompt": "x", "models": {"a": {"score": 1.1}}}', "from 0 to 1"),
        ('{"id": "1", "prompt": "x", "models": {"a": {"score": -0.1}}}', "from 0 to 1"),
        ('{"id": "1", "prompt": "x", "models": {"a": {"score": NaN}}}', "no number"),
        ('{"id": "1", "prompt": "x", "models": {"a": {"score": "1"}}}', "no number"),
        ('{"id": "1", "prompt": "x", "models": {"a": {"score": 1, "cost": -1}}}', "dollars"),
        ('{"id": "1", "prompt": "x", "models": {"a": {"score": 1, "cost": 1e999999999}}}', "too large"),
        ('{"id": "1", "prompt": "x", "models": {"\\u001b[2J": {"score": 1}}}', "no name"),
        ('{"id": "1", "prompt": "\\ud800", "models": {"a": 1}}', "half"),
        ('{"id": "0", "prompt": "x", "models": {"a": 1}}', "before"),
    ],
)
def test_a_line_that_is_no_outcome_is_named_and_nothing_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    path = tmp_path / "t"
    path.write_text('{"id": "0", "prompt": "x", "models": {"a": 1}}\n' + text + "\n", "utf-8")
    assert run(["import", "outcomes", str(path), "--project", "p", *at(tmp_path)]) == 126
    err = capsys.readouterr().err
    assert "line 2" in err
    assert words in err
    with open_journal(tmp_path / "root", "test", outcomes.FAMILY) as journal:
        assert journal.position()[0] == 0


def test_files_that_hold_nothing_or_arent_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n", "utf-8")
    assert run(["import", "outcomes", str(tmp_path / "empty"), "--project", "p", *at(tmp_path)]) == 126
    assert run(["import", "outcomes", str(tmp_path / "none"), "--project", "p", *at(tmp_path)]) == 243


def test_a_planted_structure_is_found_on_held_out_rows_without_a_call(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert optimize(folder, "--json") == 0
    found = said(capsys)
    report = found["report-in-full"]
    right = [
        one["alias"] == ("cheap" if one["score"] == 900_000 and is_good(folder, one["task"]) else "dear")
        for one in report["routed"]
    ]
    assert report["tasks"] == 30
    assert sum(right) >= 24
    assert found["calls"] == 0
    assert found["scales"] == {"scores": 1_000_000, "shares": 1_000_000, "costs_a_dollar": 1_000_000_000}
    saved = next(one for one in found["difference"] if one["name"] == "cost-save")
    assert saved["shown"] == "yes"


def is_good(folder: Path, row: str) -> bool:
    with open_journal(folder / "root", "test", outcomes.FAMILY) as journal:
        (known,) = journal.state(outcomes.FAMILY).of("p")
        (found,) = [one for one in recorded_rows(journal, "p", known.table) if one.row == row]
        return found.results[0].score == 900_000


def test_the_same_again_is_verified_and_replays_alike(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert optimize(folder) == 0
    first = capsys.readouterr().out
    assert optimize(folder) == 0
    second = capsys.readouterr().out
    assert "replay: verified completed optimization" in second
    assert [one for one in second.splitlines() if not one.startswith("replay")] == first.splitlines()
    assert run(["replay", *at(folder), "--json"]) == 0
    replayed = said(capsys)
    assert {one["status"] for key in ("run", "policy", "report") for one in replayed[key]} == {"identical"}


def test_a_held_out_file_is_measured_on_alone_and_what_it_shares_is_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = table(folder / "held", [planted(number) | {"id": f"h{number}"} for number in range(90, 110)])
    assert optimize(folder, "--held-out-file", str(held), "--json") == 0
    found = said(capsys)["report-in-full"]
    assert (found["tasks"], found["fit_tasks"]) == (20, 90)
    assert any("10 rows share" in note for note in found["degenerate"])
    other = table(folder / "other", [planted(number) | {"id": f"o{number}"} for number in range(200, 230)])
    assert optimize(folder, "--held-out-file", str(other), "--json") == 0
    assert said(capsys)["report-in-full"]["fit_tasks"] == 100  # what was held out before isn't fitted on either
    assert run(["replay", *at(folder)]) == 0
    assert "differs" not in capsys.readouterr().out
    imported(folder, [planted(number) | {"id": f"h{number}"} for number in range(90, 110)], "now to be fitted on")
    assert "nothing is new" not in capsys.readouterr().out
    assert optimize(folder, "--held-out-file", str(other), "--json") == 0
    assert said(capsys)["report-in-full"]["fit_tasks"] == 120


def test_a_fraction_is_held_out_whole_lineages_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, [planted(number) | {"lineage": str(number // 10)} for number in range(100)])
    capsys.readouterr()
    assert optimize(tmp_path, "--held-out-fraction", "0.25", "--json") == 0
    found = said(capsys)["report-in-full"]
    assert (found["tasks"], found["lineages"], found["fit_tasks"]) == (20, 2, 80)


@pytest.mark.parametrize(
    ("option", "value", "dial"),
    [
        ("--tolerance", "0.8", {"name": "tolerance", "millionths": 800_000}),
        ("--price-of-quality", "0.5", {"name": "price", "nano_usd": 500_000_000}),
    ],
)
def test_the_dial_is_part_of_the_policy(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, dial: dict[str, Any]
) -> None:
    assert optimize(folder, option, value) == 0
    capsys.readouterr()
    with open_journal(folder / "root", "test", policies.FAMILY) as journal:
        frozen = journal.state(policies.FAMILY).policy("p")
        assert json.loads(journal.blob(frozen.content.blob))["dial"] == dial


def test_targets_are_met_on_fit_tasks_or_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert optimize(folder, "--target-cost", "0.001", "--json") == 0
    assert {one["alias"] for one in said(capsys)["report-in-full"]["routed"]} == {"cheap"}
    assert optimize(folder, "--target-quality", "0.9", "--json") == 0
    assert {one["alias"] for one in said(capsys)["report-in-full"]["routed"]} == {"cheap", "dear"}
    assert optimize(folder, "--target-quality", "0.95") == 230
    assert "the most is 900000" in capsys.readouterr().err
    assert optimize(folder, "--target-cost", "0.0005") == 230
    assert "the least is $0.001" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--candidate", "cheap"), 81, "the incumbent dear is no candidate"),
        (("--candidate", "dear", "--candidate", "other"), 81, "other is in no table"),
        (("--candidate", "dear", "--candidate", "dear"), 81, "twice"),
        (("--held-out-fraction", "0"), 82, "no held-out task"),
        (("--held-out-fraction", "1"), 82, "no fit task"),
        (("--held-out-fraction", "0.5", "--held-out-file", "x"), 2, "not both"),
        (("--tolerance", "0", "--target-cost", "1"), 2, "give one of"),
        (("--tolerance", "1.1"), 2, "more than 1"),
        (("--tolerance", "0.0000001"), 2, "finer"),
        (("--samples", "2"), 2, "--samples is for cells"),
    ],
)
def test_what_cant_be_fitted_is_refused_by_name(
    folder: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], code: int, words: str
) -> None:
    assert optimize(folder, *more) == code
    assert words in capsys.readouterr().err


def test_a_project_without_outcomes_is_told_what_to_import(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["optimize", "router", "q", "--evidence", "outcomes", "--incumbent", "dear", *at(folder)]
    assert run(words) == 127
    assert "there are outcomes for p" in capsys.readouterr().err
    words[4] = "traffic"
    assert run(words) == 231
    assert "judged" in capsys.readouterr().err


def test_held_out_options_arent_ignored_for_cells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", "router", "p", "--incumbent", "dear", "--held-out-fraction", "0.5", *at(folder)]) == 2
    assert "for outcomes" in capsys.readouterr().err


def test_missing_cells_and_unknown_costs_stay_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [planted(number) for number in range(60)]
    for number in range(0, 60, 3):
        lines[number]["models"].pop("cheap")
    lines[1]["models"]["dear"]["cost"] = None
    lines[2]["models"]["cheap"]["score"] = None
    imported(tmp_path, lines)
    capsys.readouterr()
    assert optimize(tmp_path, "--json") == 0
    found = said(capsys)
    cheap, dear = found["candidate"]
    assert (cheap["counted"], cheap["excluded"], dear["cost_usd"]) == (39, 0, "unknown")
    assert found["uncovered"][0]["alias"] == "cheap"


def test_a_policy_says_which_tables_it_comes_from(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert optimize(folder, "--json") == 0
    found = said(capsys)
    assert run(["why", found["policy"], *at(folder)]) == 0
    out = capsys.readouterr().out
    assert "router-fitting-started" in out
    assert "outcomes-imported" in out
    assert "missing" not in out


def test_what_such_a_run_has_no_rollouts_for_is_said_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert optimize(folder, "--json") == 0
    found = said(capsys)
    assert run(["export", found["run"], str(folder / "out.bundle"), *at(folder)]) == 213
    assert "imported outcomes" in capsys.readouterr().err


def test_a_fitting_starts_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert optimize(folder, "--json") == 0
    name = said(capsys)["run"]
    with open_journal(folder / "root", "test", outcomes.FAMILY) as journal:
        record = journal.find(outcomes.RouterFittingStarted, name)
        assert record is not None
        assert isinstance(record.event, outcomes.RouterFittingStarted)
        command = outcomes.StartFitting(started=record.event)
        assert outcomes.decide(command, journal.state(outcomes.FAMILY), lambda kind, key: None) == ()
        assert outcomes.decide(command, outcomes.Outcomes(), lambda kind, key: None) == (record.event,)
