"""Optimizing: asked once, frozen once, replayed from the journal alone."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import building
from commands.opening import open_journal
from commands.optimizing import planning, running
from commands.optimizing.refusals import (
    CellsOwed,
    IncumbentUncovered,
    JudgmentsAboveLimit,
    OptimizationGaps,
    ReplayDiffers,
    SpendStopped,
)
from commands.optimizing.running import Finished
from commands.policies import read_policy
from ledger import estimates
from ledger.errors import Refusal
from ledger.event import Step
from ledger.families import budget, calls, cells, judging
from ledger.families.builds import BuildDiffers
from ledger.families.cells import CandidateTurned, CellExcluded, CellFinished, WorldModelUnreadable
from ledger.families.judging import JudgmentRecorded
from ledger.families.providers import Endpoint
from ledger.money import NANO
from ledger.prompt import Question
from projections import features
from projections.policy import decide
from tests.commands.optimizing.planted import STRATA, TOOL, World, call

BROKEN = "this is no JSON"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "root")


def ids(finished: Finished) -> tuple[str, str]:
    return finished.frozen.policy.id, finished.frozen.report.id


def kinds(world: World, *wanted: Any) -> list[Any]:
    return [record.event for record in world.journal.events(*wanted)]


# A first run and its replay.


def test_every_cell_is_rolled_out_and_judged_once(world: World) -> None:
    finished = world.optimize()
    assert world.counts == {"cheap": 40, "dear": 40, "world": 40, "embed": 40, "judge": 40}
    assert [(row.alias, row.counted, row.mean) for row in finished.frozen.standings] == [
        ("cheap", 20, 550_000),
        ("dear", 20, 900_000),
    ]
    assert finished.spend.calls == world.asked
    assert not list(cells.wanted(world.journal.state(cells.FAMILY)))


def test_the_same_again_asks_nothing_writes_nothing_and_gives_the_same_ids(world: World) -> None:
    first = world.optimize()
    world.reopened()
    asked, before = world.asked, world.journal.position()
    again = world.replay()
    assert ids(again) == ids(first)
    assert again.frozen == first.frozen
    assert again.outcomes == first.outcomes
    assert (world.asked, world.journal.position()) == (asked, before)


def test_a_second_optimization_pays_only_for_the_candidate_that_is_new(world: World) -> None:
    world.optimize()
    world.counts.clear()
    three = world.request("cheap", "dear", "middling")
    world.optimize(three)
    assert world.counts == {"middling": 40, "world": 20, "embed": 20, "judge": 20}
    asked = world.asked
    world.replay(three)
    world.replay()
    assert world.asked == asked


def test_another_incumbent_needs_no_call_and_is_another_result(world: World) -> None:
    first, asked = world.optimize(), world.asked
    other = world.optimize(world.request(incumbent="cheap"))
    assert world.asked == asked
    assert ids(other) != ids(first)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_answers_in_another_order_give_the_same_ids(tmp_path: Path, seed: int) -> None:
    straight, mixed = World(tmp_path / "a", fit=6, held_out=4), World(tmp_path / "b", fit=6, held_out=4)
    mixed.pause = lambda count: (count * 7919 * seed % 11) / 4_000
    assert ids(mixed.optimize(concurrency=7)) == ids(straight.optimize(concurrency=1))


def test_two_optimizations_at_once_make_no_call_twice(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=6, held_out=4)
    world.pause = lambda count: 0.001
    with world.opened("two") as other:

        async def both() -> list[Finished]:
            return list(await asyncio.gather(world.optimizing(), world.optimizing(journal=other)))

        one, two = asyncio.run(both())
    assert ids(one) == ids(two)
    digests = [question.digest for question in world.scripted.asked]
    assert len(digests) == len(set(digests)) == 100


KILLED = """
import os, signal, sys
from pathlib import Path
from ledger.writer import Writer
from tests.commands.optimizing.planted import World
world = World(Path(sys.argv[1]), fit=4, held_out=2)
left = int(sys.argv[2])
append = Writer._append
def counted(self, *given):
    global left
    outcome = append(self, *given)
    left -= 1
    if not left:
        print(world.asked, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome
Writer._append = counted
world.optimize(concurrency=2)
"""


@pytest.mark.parametrize("commits", [1, 2, 7, 23, 48])
def test_killed_after_a_commit_the_same_command_ends_with_the_same_ids(tmp_path: Path, commits: int) -> None:
    undisturbed = World(tmp_path / "undisturbed", fit=4, held_out=2)
    wanted = ids(undisturbed.optimize())
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "root"), str(commits)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    world = World(tmp_path / "root", fit=4, held_out=2, process="after")
    assert ids(world.optimize()) == wanted
    ambiguous = len(kinds(world, calls.CallLost))
    assert int(done.stdout) + world.asked <= undisturbed.asked + ambiguous
    assert not world.journal.state(calls.FAMILY).open


# What answers can be like.


def test_a_world_model_that_misspeaks_twice_is_asked_again_for_that_turn(world: World) -> None:
    spoken: dict[str, int] = {}

    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | None:
        spoken[question.digest] = spoken.get(question.digest, 0) + 1
        return BROKEN if endpoint.alias == "world" and spoken[question.digest] < 3 else None

    world.says = says
    finished = world.optimize()
    assert len(kinds(world, WorldModelUnreadable)) == 80
    assert all(row.excluded == 0 for row in finished.frozen.standings)
    assert ids(world.replay()) == ids(finished)


def test_a_world_model_that_misspeaks_three_times_excludes_the_cell(world: World) -> None:
    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | None:
        if endpoint.alias != "world" or b"cheap at work" not in question.body:
            return None
        return BROKEN if json.loads(asked["messages"][1]["content"])["task"].startswith("Sort") else None

    world.says = says
    finished = world.optimize()
    excluded = kinds(world, CellExcluded)
    assert {event.reason for event in excluded} == {"world_model_protocol"}
    assert len(excluded) == 5
    assert finished.frozen.standings[0].reasons == {"world_model_protocol": 5}
    assert len(finished.frozen.report.uncovered["cheap"]) == 3
    assert len(finished.frozen.report.exclusions) == 2
    assert world.counts["world"] == 35 + 3 * 5
    assert ids(world.replay()) == ids(finished)


@pytest.mark.parametrize(
    "judged", [BROKEN, "", '{"axes":{"task-success":{"score":2,"rationale":"beyond"}}}', b"<html>"]
)
def test_a_judge_that_is_unusable_twice_excludes_the_cell(world: World, judged: str | bytes) -> None:
    world.says = lambda endpoint, question, asked: (
        judged if endpoint.alias == "judge" and b"cheap at work" in question.body else None
    )
    finished = world.optimize()
    assert {event.reason for event in kinds(world, CellExcluded)} == {"judge_unreadable"}
    assert [row.excluded for row in finished.frozen.standings] == [20, 0]
    assert world.counts["judge"] == 20 + 2 * 20
    assert sum(event.score == "invalid" for event in kinds(world, JudgmentRecorded)) == 40
    assert any("no evidence" in note for note in finished.frozen.report.degenerate)
    assert ids(world.replay()) == ids(finished)


@pytest.mark.parametrize(
    ("turn", "shape"),
    [("", "empty"), (b"not a completion", "unreadable"), ("I give up", "final")],
)
def test_whatever_a_candidate_says_is_judged_and_never_excluded(world: World, turn: str | bytes, shape: str) -> None:
    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> Any:
        if endpoint.alias == "cheap":
            return turn
        cheap = endpoint.alias == "judge" and not json.loads(asked["messages"][1]["content"])["evidence"]["turns"]
        return '{"axes":{"task-success":{"score":0,"rationale":"nothing done"}}}' if cheap else None

    world.says = says
    finished = world.optimize()
    assert [(row.counted, row.mean) for row in finished.frozen.standings] == [(20, 0), (20, 900_000)]
    turned = [event for event in kinds(world, CandidateTurned) if event.shape == shape and event.calls == 0]
    assert len(turned) == (20 if shape != "final" else 40)
    assert world.counts["cheap"] == (40 if shape == "unreadable" else 20)
    assert (finished.frozen.standings[0].cost is None) == (shape == "unreadable")  # nobody said what it used
    assert ids(world.replay()) == ids(finished)


def test_an_action_that_cant_be_carried_out_comes_back_as_an_error_without_a_call(world: World) -> None:
    bad = [call("nosuch", "{}"), call("bash", "not json")]

    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> Any:
        made = sum(message["role"] == "assistant" for message in asked.get("messages", ()))
        if endpoint.alias == "dear" and made < 2:
            return bad[made]
        first = endpoint.alias == "judge" and b"nosuch" in question.body
        return '{"axes":{"task-success":{"score":0.9,"rationale":"recovered"}}}' if first else None

    world.says = says
    finished = world.optimize()
    assert world.counts["world"] == 20
    assert finished.frozen.standings[1].counted == 20
    judged = [
        question.body for question in world.scripted.asked if b"nosuch" in question.body and b"rubric" in question.body
    ]
    assert all(b"there is no function" in body and b"not a JSON object" in body for body in judged)
    assert ids(world.replay()) == ids(finished)


def test_a_rollout_is_cut_at_its_last_turn_and_judged_as_cut(world: World) -> None:
    world.says = lambda endpoint, question, asked: (
        call("bash", json.dumps({"command": f"{endpoint.alias} goes on"}))
        if endpoint.alias in {"cheap", "dear"}
        else None
    )
    finished = world.optimize(world.request(turns=3))
    ended = kinds(world, CellFinished)
    assert {(event.ended, event.model_calls, event.actions) for event in ended} == {("cut", 3, 3)}
    assert all(row.counted == 20 for row in finished.frozen.standings)
    assert any(b'\\"ended\\":\\"cut\\"' in question.body for question in world.scripted.asked)


def test_the_world_models_done_flag_ends_a_rollout(world: World) -> None:
    world.says = lambda endpoint, question, asked: (
        '{"observation":"over","error":false,"done":true}' if endpoint.alias == "world" else None
    )
    world.optimize()
    assert {event.ended for event in kinds(world, CellFinished)} == {"done"}
    assert world.counts["cheap"] == 20


@pytest.mark.parametrize(("calls", "simulated"), [(3, 3), (17, 16)])
def test_several_calls_of_a_turn_are_answered_one_by_one_up_to_sixteen(
    world: World, calls: int, simulated: int
) -> None:
    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> Any:
        if endpoint.alias not in {"cheap", "dear"} or asked["messages"][-1]["role"] == "tool":
            return None
        arguments = json.dumps({"command": f"{endpoint.alias} at work"})
        message = call("bash", arguments)
        message["tool_calls"] *= calls
        return message

    world.says = says
    world.optimize()
    assert {event.actions for event in kinds(world, CellFinished)} == {calls}
    assert world.counts["world"] == simulated * 40


def test_nothing_is_retrieved_from_the_tasks_own_lineage_or_from_held_out_ones(world: World) -> None:
    world.optimize()
    for question in world.scripted.asked:
        request = (
            json.loads(question.body)["request"]
            if b'"world' in question.body or b"environment" in question.body
            else {}
        )
        if request.get("model") != "model-world":
            continue
        said = json.loads(request["messages"][1]["content"])
        assert said["examples"]
        shown = {example["task"] for example in said["examples"]}
        assert said["task"] not in shown
        held = {task.text for task in world.plan().build.tasks if task.part == "held-out"}
        assert not shown & held


# Calls without an answer, ceilings and limits.


def test_a_call_without_an_answer_leaves_its_cell_owed_and_freezes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commands.perform.outcome import Failed  # noqa: PLC0415 - only here

    answer = world.scripted._script

    async def refusing(endpoint: Endpoint, question: Question) -> Any:
        if endpoint.alias == "judge" and b"cheap at work" in question.body and b"Sort" in question.body:
            return Failed("status 401", 401, again=False)
        return await answer(endpoint, question)  # type: ignore[misc]

    monkeypatch.setattr(world.scripted, "_script", refusing)
    with pytest.raises(CellsOwed) as owed:
        world.optimize()
    assert owed.value.owed == 5
    assert not planning.is_complete(world.journal, world.plan())
    monkeypatch.setattr(world.scripted, "_script", answer)
    asked = world.asked
    finished = world.optimize()
    assert world.asked == asked + 5
    assert finished.frozen.standings[0].counted == 20
    assert ids(world.replay()) == ids(finished)


def test_a_dead_provider_isnt_asked_for_every_cell(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from commands.perform.outcome import Failed  # noqa: PLC0415 - only here

    monkeypatch.setattr(world.scripted, "_script", lambda *_: Failed("refused", sent=False, again=False))
    with pytest.raises(CellsOwed):
        world.optimize(concurrency=2)
    assert world.asked < 12


def test_the_ceiling_stops_the_run_and_a_higher_one_goes_on(world: World) -> None:
    with pytest.raises(SpendStopped):
        world.optimize(world.request()._replace(cost=NANO // 100))
    spent = world.journal.state(calls.FAMILY).totals(world.plan().run)
    assert spent.committed <= NANO // 100
    finished = world.optimize()
    assert finished.frozen.standings[0].counted == 20


def test_more_cells_than_may_be_judged_are_refused_before_any_call(world: World) -> None:
    world.plan(world.request()._replace(judgments=40))
    with pytest.raises(JudgmentsAboveLimit) as refused:
        world.plan(world.request()._replace(judgments=39))
    assert "--maximum-judgments 40" in refused.value.remedy


def test_every_gap_is_reported_at_once_with_its_flag(world: World) -> None:
    with pytest.raises(OptimizationGaps) as refused:
        world.plan(world.request("cheap", "cheap", "nosuch", "embed", incumbent="dear"))
    remedy = refused.value.remedy.splitlines()
    assert len(remedy) == 4
    assert all(word in refused.value.remedy for word in ("cheap is there twice", "nosuch", "embed", "--candidate dear"))


@pytest.mark.parametrize("name", ["routed", "incumbent", "oracle"])
def test_no_candidate_is_called_like_a_line_of_every_report(world: World, name: str) -> None:
    with pytest.raises(OptimizationGaps) as refused:
        world.plan(world.request("cheap", name, incumbent="cheap"))
    assert f"a candidate can't be called {name}" in refused.value.remedy


def test_an_incumbent_that_covers_no_fit_task_is_refused_and_nothing_is_frozen(world: World) -> None:
    world.says = lambda endpoint, question, asked: (
        BROKEN if endpoint.alias == "judge" and b"dear at work" in question.body else None
    )
    with pytest.raises(IncumbentUncovered):
        world.optimize()
    assert not planning.is_complete(world.journal, world.plan())


def test_the_plan_counts_only_what_is_owed_and_what_was_spent(world: World) -> None:
    plan = world.plan()
    before = planning.estimate(world.journal, plan)
    assert [part.label.split()[0] for part in before.parts] == [
        "candidate",
        "candidate",
        "world",
        "embeddings",
        "judge",
    ]
    world.optimize()
    after = planning.estimate(world.journal, plan)
    assert [part.label for part in after.parts] == ["spent before"]
    assert after.total == world.journal.state(calls.FAMILY).totals(plan.run).settled
    assert before.total is not None
    assert after.total is not None
    assert after.total < before.total


def test_no_call_costs_more_than_its_part_of_the_plan(world: World) -> None:
    plan = world.plan()
    parts = planning.estimate(world.journal, plan).parts
    world.optimize()
    reserved = kinds(world, calls.CallReserved)
    for part in parts:
        mine = [event for event in reserved if event.alias == part.label.rpartition(" ")[2]]
        assert sum(event.worst_case for event in mine) <= (part.nano or 0)
    assert estimates.Estimate(parts).calls >= len(reserved)


# Planted and null corpora.


def share(world: World, finished: Finished, strata: set[str]) -> float:
    texts = {task.id: task for task in world.plan().build.tasks}
    aliases = [one.alias for one in finished.frozen.report.routed if texts[one.task].stratum in strata]
    return aliases.count("cheap") / len(aliases)


def test_a_cheap_candidate_that_is_equal_on_half_of_the_strata_gets_that_half(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=50, held_out=20)
    finished = world.optimize()
    assert share(world, finished, {"sorting", "counting"}) >= 0.8
    assert share(world, finished, set(STRATA) - {"sorting", "counting"}) <= 0.2
    routed, incumbent = finished.frozen.report.line("routed"), finished.frozen.report.line("incumbent")
    assert (routed.mean or 0) >= (incumbent.mean or 0) - 50_000
    assert (routed.cost or 0) < (incumbent.cost or 0)
    policy = read_policy(world.journal, "planted")
    vector = features.request_features([{"role": "user", "content": STRATA["sorting"].format(n=999)}], [TOOL])
    assert decide(policy, vector).alias == "cheap"


def test_a_null_corpus_falls_back_everywhere_and_the_report_says_so(tmp_path: Path) -> None:
    world = World(
        tmp_path / "root",
        fit=50,
        held_out=20,
        worth=lambda alias, stratum, number: 900 if alias != "cheap" or number * 7919 % 13 < 6 else 200,
    )
    finished = world.optimize()
    assert {one.alias for one in finished.frozen.report.routed} == {"dear"}
    assert any("every request falls back" in note for note in finished.frozen.report.degenerate)


def test_constant_scores_and_no_cheaper_candidate_are_said(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4, worth=lambda *_: 500)
    said = " ".join(world.optimize(world.request(incumbent="cheap")).frozen.report.degenerate)
    assert "constant scores" in said
    assert "no cheaper candidate" in said


# Damage.


def rewritten(root: Path, seq: int, change: Any) -> None:
    """Change one event and make ids and chain agree again, as a forger would."""
    import sqlite3  # noqa: PLC0415 - the journal is closed; a forger uses what is at hand

    from ledger import digests  # noqa: PLC0415 - as above

    with sqlite3.connect(root / "ledger.db") as db:
        triggers = db.execute("select name, sql from sqlite_master where type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f'drop trigger "{name}"')
        head = db.execute("select head from events where seq = ?", (seq - 1,)).fetchone()[0]
        rows = db.execute("select seq, bytes from events where seq >= ? order by seq", (seq,)).fetchall()
        for at, stored in rows:
            content = change(bytes(stored)) if at == seq else bytes(stored)
            identifier = digests.event_id(content)
            head = digests.chained(head, identifier)
            db.execute("update events set bytes = ?, id = ?, head = ? where seq = ?", (content, identifier, head, at))
        for _, sql in triggers:
            db.execute(sql)
    db.close()


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        (JudgmentRecorded, b'"score":900000', b'"score":990000'),
        (CellFinished, b'"ended":"final"', b'"ended":"done"'),
        (CandidateTurned, b'"calls":1', b'"calls":2'),
    ],
)
def test_a_forged_step_whose_chain_agrees_is_named(
    tmp_path: Path, world: World, kind: Any, old: bytes, new: bytes
) -> None:
    world.optimize()
    seq = next(record.seq for record in world.journal.events(kind) if old in record.bytes)
    world.journal.close()
    rewritten(world.root, seq, lambda stored: stored.replace(old, new))
    world.journal = world.opened("after")
    asked = world.asked
    with pytest.raises(Refusal) as refused:
        world.replay()
    assert f"event {seq}" in f"{refused.value.what} {refused.value.where}"
    assert isinstance(refused.value, ReplayDiffers)
    assert world.asked == asked


def test_every_event_and_blob_that_is_damaged_is_named_without_a_call(tmp_path: Path) -> None:
    import sqlite3  # noqa: PLC0415 - the journal is closed

    world = World(tmp_path / "root", fit=2, held_out=2)
    world.optimize()
    last, _ = world.journal.position()
    world.journal.close()
    asked = world.asked
    for seq in range(3, last, 5):
        for how in ("changed", "deleted"):
            copy = tmp_path / f"{how}-{seq}"
            shutil.copytree(world.root, copy)
            with sqlite3.connect(copy / "ledger.db") as db:
                for (name,) in db.execute("select name from sqlite_master where type = 'trigger'").fetchall():
                    db.execute(f'drop trigger "{name}"')
                stored = bytearray(db.execute("select bytes from events where seq = ?", (seq,)).fetchone()[0])
                stored[len(stored) // 2] ^= 1
                if how == "changed":
                    db.execute("update events set bytes = ? where seq = ?", (bytes(stored), seq))
                else:
                    db.execute("delete from events where seq = ?", (seq,))
            db.close()
            named_when_replayed(world, copy, [seq])
    assert world.asked == asked


def opened_and_replayed(world: World) -> None:
    world.journal = world.opened("after")
    with world.journal:
        world.replay()


def named_when_replayed(world: World, root: Path, seqs: list[int]) -> None:
    kept, world.root = world.root, root
    try:
        with pytest.raises(Refusal) as refused:
            opened_and_replayed(world)
    finally:
        world.root = kept
    said = f"{refused.value.what} {refused.value.where}"
    assert any(f" {seq}" in said for seq in seqs), said


def test_every_blob_that_is_damaged_or_gone_is_named_without_a_call(tmp_path: Path) -> None:
    import sqlite3  # noqa: PLC0415 - the journal is closed

    world = World(tmp_path / "root", fit=2, held_out=2)
    world.optimize()
    world.journal.close()
    asked = world.asked
    with sqlite3.connect(world.root / "ledger.db") as db:
        blobs = [bytes(row[0]) for row in db.execute("select digest from blobs order by digest")]
        events = db.execute("select seq, bytes from events").fetchall()
    db.close()
    for place, digest in enumerate(blobs[::4]):
        seqs = [seq for seq, stored in events if digest.hex().encode() in bytes(stored)]
        copy = tmp_path / f"blob-{place}"
        shutil.copytree(world.root, copy)
        with sqlite3.connect(copy / "ledger.db") as db:
            for (name,) in db.execute("select name from sqlite_master where type = 'trigger'").fetchall():
                db.execute(f'drop trigger "{name}"')
            if place % 2:
                db.execute("delete from blobs where digest = ?", (digest,))
            else:
                db.execute("update blobs set bytes = substr(bytes, 2) where digest = ?", (digest,))
        db.close()
        named_when_replayed(world, copy, seqs)
    assert world.asked == asked


def test_a_step_that_no_answer_leads_to_is_named(world: World) -> None:
    world.optimize()
    cell = world.plan().parts[0].cell.id
    extra = cells.TakeStep(
        step=99, taken=CellExcluded(cell=cell, reason="judge_unreadable", problem="planted by someone")
    )
    forged = cells.FAMILY.decide

    def lenient(command: Any, state: Any, found: Any) -> Any:
        return (command.taken,) if command is extra else forged(command, state, found)

    family = type(cells.FAMILY)(
        name=cells.FAMILY.name,
        kinds=cells.FAMILY.kinds,
        initial=cells.FAMILY.initial,
        decide=lenient,
        evolve=cells.FAMILY.evolve,
    )
    (record,) = world.journal.submit(Step(family, extra)).result()
    with pytest.raises(ReplayDiffers) as refused:
        world.replay()
    assert refused.value.seq == record.seq


def test_labels_that_are_all_the_same_are_said(world: World) -> None:
    from commands.optimizing.words import labels  # noqa: PLC0415 - only here

    plan = world.plan()
    (none,) = labels(world.journal, plan)
    assert none.startswith("no labels: nobody's labels for task-success")
    setup = plan.scene.judge.setup.id
    state: judging.Judging = world.journal.state(judging.FAMILY)
    for subject in ("trace:1", "trace:2"):
        state.labels["planted", setup, subject, "task-success"] = judging.LabelRecorded(
            project="planted",
            setup=setup,
            subject=subject,
            axis="task-success",
            score=1_000_000,
            rationale=None,
            shown=True,
        )
    (said,) = labels(world.journal, plan)
    assert "constant labels: all 2 labels for task-success are 1" in said


def test_the_budget_bounds_the_commands_own_ceiling(world: World) -> None:
    with pytest.raises(budget.CeilingAboveBudget):
        world.plan(world.request()._replace(cost=2_000 * NANO))


def test_the_edge_opens_the_same_root(world: World) -> None:
    finished = world.optimize()
    world.journal.close()
    from tests.commands.optimizing.planted import FAMILIES  # noqa: PLC0415 - only here

    with open_journal(world.root, "optimize router", *FAMILIES) as journal:
        assert read_policy(journal, "planted").id == finished.frozen.policy.id


def test_a_replay_derives_the_build_again_that_it_rests_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.optimize()
    monkeypatch.setattr(running, "verify_build", building.verify_build)  # the planted build is not derived from traces
    asked = sum(world.counts.values())
    with pytest.raises(BuildDiffers, match="records a build whose"):
        world.replay()
    assert sum(world.counts.values()) == asked
