"""``exp optimize router``: what it prints, and what it refuses before anything is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from commands.main import run
from commands.optimizing import planning
from ledger import money
from tests.commands.optimizing.planted import World

OPTIMIZE = ("optimize", "router", "planted", "--candidate", "cheap", "--candidate", "dear", "--incumbent", "dear")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "root", fit=4, held_out=4)


def arguments(world: World, *more: str) -> list[str]:
    return [*OPTIMIZE, "--root", str(world.root), "--maximum-model-calls", "4", "--non-interactive", *more]


def test_a_replay_prints_every_line_that_the_first_run_is_read_by(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = world.optimize()
    world.journal.close()
    assert run(arguments(world)) == 0
    out = capsys.readouterr().out
    assert "candidate: cheap counted=8 excluded=0 mean=0.550000 cost_usd=0.000240000\n" in out
    assert re.search(r"^held-out: routed counted=4 excluded=0 mean=0\.\d{6} low=", out, re.MULTILINE)
    assert f"\npolicy: {finished.frozen.policy.id}\n" in out
    assert f"\nreport: {finished.frozen.report.id}\n" in out
    assert re.search(r"^run: optimize-[0-9a-f]{32}$", out, re.MULTILINE)
    assert "\nspend: $0.002640 settled, $0.000000 ambiguous\n" in out
    assert "\nretries: 0\n" in out
    assert "\nreplay: verified completed optimization\n" in out


def test_json_says_the_same_as_one_object(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.says = lambda endpoint, question, asked: (
        "nonsense" if endpoint.alias == "judge" and b"cheap at work" in question.body else None
    )
    finished = world.optimize()
    world.journal.close()
    assert run(arguments(world, "--json")) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["policy"] == finished.frozen.policy.id
    assert [row["counted"] for row in said["candidate"]] == [0, 8]
    assert said["candidate"][0]["mean"] == "not-measured"
    assert {row["reason"] for row in said["exclusion"]} == {"judge_unreadable"}
    assert said["uncovered"][0]["tasks"] == 4
    assert any("every request falls back" in note for note in said["degenerate"])
    assert said["replay"] == "verified completed optimization"


@pytest.mark.parametrize(
    ("ceiling", "yes", "code", "words"),
    [("0.01", True, 28, "--maximum-provider-cost-usd"), ("WORST", False, 27, "--yes")],
)
def test_a_plan_beyond_its_ceiling_is_printed_in_parts_and_refused(
    world: World, capsys: pytest.CaptureFixture[str], ceiling: str, words: str, *, yes: bool, code: int
) -> None:
    worst = planning.estimate(world.journal, world.plan(world.request(turns=40))).total or 0
    ceiling = ceiling.replace("WORST", money.usd(worst))
    world.journal.close()
    more = ("--maximum-provider-cost-usd", ceiling, "--maximum-model-calls", "40", *(("--yes",) if yes else ()))
    assert run(arguments(world, *more)) == code
    said = capsys.readouterr()
    assert "plan: 16 cells (2 candidates, 8 tasks)" in said.out
    assert "recorded-before: 0 cells; 16 are owed" in said.out
    assert said.out.count("at-most: ") == 5
    assert words in said.err
    assert "policy:" not in said.out


def test_a_damaged_journal_is_not_verified(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    import sqlite3  # noqa: PLC0415 - the journal is closed

    world.optimize()
    world.journal.close()
    with sqlite3.connect(world.root / "ledger.db") as db:
        db.execute("drop trigger events_are_never_changed")
        (seq,) = db.execute("select max(seq) from events where kind like 'call-answered%'").fetchone()
        (stored,) = db.execute("select bytes from events where seq = ?", (seq,)).fetchone()
        changed = bytes(stored).replace(b'"attempt":0', b'"attempt":1')
        db.execute("update events set bytes = ? where seq = ?", (changed, seq))
    db.close()
    assert run(arguments(world)) in {39, 80}
    said = capsys.readouterr()
    assert str(seq) in said.err
    assert "verified" not in said.out
