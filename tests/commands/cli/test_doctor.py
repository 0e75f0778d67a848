"""The doctor: silent about what is well, and a name, a place and a remedy for each thing that isn't."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from commands import doctoring, opening
from commands.cli import doctor
from ledger import locks
from ledger.event import Blobs, Step
from ledger.families import calls, serving
from ledger.journal import Journal
from tests.ledger.notes import note, opened

LAST = 1_700_000_000_000_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "now_us", lambda: LAST + 5_000_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a")).result()
    return tmp_path / "root"


def told(root: Path) -> tuple[dict[str, object], list[str]]:
    result = CliRunner().invoke(doctor.command, ["--root", str(root), "--json"], standalone_mode=False)
    assert result.exception is None
    report = json.loads(result.output)
    assert result.return_value == (1 if report["findings"] else 0)
    assert report["well"] == (not report["findings"])
    assert all(finding["meaning"] and finding["remedy"] and finding["place"] for finding in report["findings"])
    return report["facts"], [finding["name"] for finding in report["findings"]]


def test_a_root_that_is_well_has_facts_and_no_findings(root: Path) -> None:
    facts, findings = told(root)
    assert findings == []
    assert {name: facts[name] for name in ("events", "format", "processes", "log bytes", "snapshots")} == {
        "events": 1,
        "format": 1,
        "processes": 0,
        "log bytes": 0,
        "snapshots": "none",
    }
    assert facts["seconds since the last event"] == 5
    assert {"exp", "python", "sqlite", "apsw", "free megabytes", "journal bytes"} < facts.keys()


def test_the_text_says_the_same(root: Path) -> None:
    (root / "ledger.db").chmod(0o640)
    result = CliRunner().invoke(doctor.command, ["--root", str(root)], standalone_mode=False)
    assert result.return_value == 1
    assert "events: 1\n" in result.output
    assert f"others than you may use {root / 'ledger.db'} (mode 0640)\n" in result.output
    assert f"  run `chmod 600 {root / 'ledger.db'}`\n" in result.output


def _snapshot(root: Path) -> None:
    (root / "snapshots").mkdir(mode=0o700)
    (root / "snapshots" / "x").write_text("")
    (root / "snapshots" / "x").chmod(0o604)


SPOILT: list[tuple[Callable[[Path], object], list[str]]] = [
    (lambda root: root.chmod(0o750), ["mode-open"]),
    (lambda root: (root / "ledger.lock").chmod(0o660), ["mode-open"]),
    (_snapshot, ["mode-open"]),
    (lambda root: (root / "ledger.db.new").touch(0o600), ["leftover"]),
    (shutil.rmtree, ["journal-wanted"]),
    (lambda root: (root / "ledger.db").write_bytes(b""), ["not-a-journal"]),
]


@pytest.mark.parametrize(("spoil", "names"), SPOILT)
def test_what_needs_doing_has_a_name(root: Path, spoil: Callable[[Path], object], names: list[str]) -> None:
    spoil(root)
    assert told(root)[1] == names


def test_what_belongs_to_someone_else_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_242_424)
    assert set(told(root)[1]) == {"owner-differs"}


def test_a_clock_behind_the_last_event_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "now_us", lambda: LAST - 60_000_000)
    assert told(root)[1] == []
    monkeypatch.setattr(opening, "now_us", lambda: LAST - 60_000_001)
    assert told(root)[1] == ["clock-behind"]


def test_a_disk_that_is_almost_full_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=255 << 20))
    assert told(root)[1] == ["little-room"]


def test_a_log_that_nobody_could_empty_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctoring, "MUCH_LOG", 10_000)
    with opened(root) as journal:
        journal.submit(note("a")).result()
        assert told(root)[1] == ["log-long"]


def test_calls_and_requests_of_dead_processes_are_found_and_those_of_living_ones_not(root: Path) -> None:
    families = (calls.FAMILY, serving.FAMILY)
    held = locks.hold(root, "alive")
    with Journal.open(root, families, actor="t", clock=lambda: LAST) as journal:
        for number, process in enumerate(("alive", "gone", "gone")):
            blobs = Blobs()
            reserve = calls.ReserveCall(
                question=f"b3:{number}", attempt=0, run="run-1", ceiling=None, alias="a",
                worst_case=2_000_000_000 if number else 1, process=process, asked=blobs.put("x"),
            )  # fmt: skip
            accepted = serving.RequestAccepted(
                request=f"r{number}", route="chat", identity="i", model="m", alias="a", streamed=False, ghost=False,
                process=process, worst_case=None if number == 1 else 3_000,
            )  # fmt: skip
            decided = serving.RouteDecided(
                request=f"r{number}", alias="a", reason="named", api="x", base_url="u", sent="b3:"
            )
            journal.submit(Step(calls.FAMILY, reserve), blobs=blobs).result()
            journal.submit(Step(serving.FAMILY, serving.AcceptRequest(accepted=accepted, decided=decided))).result()
    facts, names = told(root)
    assert names == ["calls-orphaned", "requests-orphaned"]
    assert facts["processes"] == 1
    result = CliRunner().invoke(doctor.command, ["--root", str(root)], standalone_mode=False)
    assert "2 calls of processes that are gone may have cost up to $4.000000" in result.output
    assert "2 requests of gateways that are gone may have cost up to $0.000003 and what has no known" in result.output
    assert (root / "locks" / "alive").exists()
    held.release()
    assert len(told(root)[1]) == 2


def test_nothing_is_changed(root: Path) -> None:
    (root / "locks").mkdir(mode=0o700, exist_ok=True)
    (root / "locks" / "gone").touch(0o600)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert told(root)[1] == []
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
