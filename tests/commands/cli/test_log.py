"""Events, one a line."""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commands.opening import open_journal
from ledger.event import Step
from ledger.families import budget
from tests.commands.reading import Journey, Said


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_every_event_is_on_one_line_in_order(exp: Said, journey: Journey) -> None:
    with open_journal(journey.root, "test") as journal:
        recorded = [(record.seq, record.id.hex()[:8], record.kind) for record in journal.events()]
    assert [(int(row[0]), row[1], row[3]) for row in rows(exp.text("log"))] == recorded


def test_a_line_has_the_time_the_stream_and_facts(exp: Said) -> None:
    line = exp.text("log", "--kind", "budget-set").splitlines()[0]
    assert re.fullmatch(
        r" +\d+ [0-9a-f]{8} \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ budget-set@1 budget ceiling=100000000000", line
    )


def test_one_json_object_a_line_has_all_that_is_in_the_bytes(exp: Said, journey: Journey) -> None:
    lines = [json.loads(line) for line in exp.text("log", "--json").splitlines()]
    with open_journal(journey.root, "test") as journal:
        for said, record in zip(lines, journal.events(), strict=True):
            stored = json.loads(record.bytes)
            assert said["id"] == f"b3:{record.id.hex()}"
            for name in ("actor", "body", "cause", "key", "kind", "stream", "version"):
                assert said[name] == stored[name]
            at = datetime.strptime(said["at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
            since = at - datetime(1970, 1, 1, tzinfo=UTC)
            assert (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds == stored["at"]


def test_kinds_are_chosen_with_and_without_their_version(exp: Said) -> None:
    some = exp.text("log", "--kind", "policy-frozen", "--kind", "report-published@1")
    assert [row[3] for row in rows(some)] == ["policy-frozen@1", "report-published@1"]


def test_an_unknown_kind_is_refused_with_the_known_ones(exp: Said) -> None:
    assert exp.text("log", "--kind", "policy-thawed", code=2) == ""
    assert "policy-thawed" in exp.error
    assert "policy-frozen@1" in exp.error


def test_a_stream_is_chosen_by_name_or_by_its_beginning(exp: Said) -> None:
    assert {row[4] for row in rows(exp.text("log", "--stream", "budget"))} == {"budget"}
    models = {row[4] for row in rows(exp.text("log", "--stream", "model:*"))}
    assert models == {f"model:{alias}" for alias in ("embed", "world", "judge", "small", "large")}
    assert exp.text("log", "--stream", "model:") == ""
    judged = [row[4] for row in rows(exp.text("log", "--stream", "judgment:trace*"))]
    assert len(judged) == 3
    assert all(stream.startswith("judgment:trace:") for stream in judged)


def test_since_takes_a_day_or_a_moment_and_counts_it_in(exp: Said) -> None:
    times = [json.loads(line)["at"] for line in exp.text("log", "--json").splitlines()]
    from_there = [json.loads(line)["at"] for line in exp.text("log", "--json", "--since", times[50]).splitlines()]
    assert from_there == [time for time in times if time >= times[50]]
    assert len(rows(exp.text("log", "--since", "2001-01-01"))) == len(times)
    assert exp.text("log", "--since", "9999-01-01T00:00:00+02:00") == ""


def test_a_time_without_a_zone_is_utc_wherever_the_machine_is(exp: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    last = json.loads(exp.text("log", "--json").splitlines()[-1])["at"]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert len(exp.text("log", "--since", last.removesuffix("Z")).splitlines()) == 1
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_that_is_none_is_refused(exp: Said) -> None:
    assert exp.text("log", "--since", "yesterday", code=2) == ""
    assert "--since" in exp.error


def test_a_run_is_its_own_events_and_those_of_its_cells(exp: Said) -> None:
    found = rows(exp.text("log", "--run", "optimize-"))
    kinds = {row[3].partition("@")[0] for row in found}
    assert {"optimization-started", "cell-opened", "candidate-turned", "judgment-recorded", "policy-frozen"} <= kinds
    assert not {"label-recorded", "trace-imported", "calibration-published"} & kinds
    assert sum(row[3] == "judgment-recorded@1" for row in found) == 18


def test_a_run_that_is_not_there_and_one_that_is_ambiguous_are_named(exp: Said) -> None:
    exp.text("log", "--run", "optimize-nothing", code=108)
    assert "optimize-nothing" in exp.error
    exp.text("log", "--run", "", code=109)
    assert "build-run-" in exp.error
    assert "optimize-" in exp.error


def test_follow_shows_what_another_process_records(journey: Journey, tmp_path: Path) -> None:
    root = journey.copied(tmp_path)
    command = [sys.executable, "-m", "commands.main", "log", "--follow", "--kind", "budget-set", "--root", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out = process.stdout
        assert out is not None
        try:
            assert b"ceiling=100000000000" in out.readline()
            with open_journal(root, "test", budget.FAMILY) as journal:
                journal.submit(Step(budget.FAMILY, budget.SetBudget(ceiling=7_000_000_000))).result()
            assert select.select([out], [], [], 20)[0], "nothing came"
            assert b"ceiling=7000000000" in out.readline()
        finally:
            process.terminate()
