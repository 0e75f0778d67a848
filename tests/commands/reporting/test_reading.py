"""What a report shows is what the journal holds: of planted worlds, so that every number is known beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from commands.main import run
from commands.optimizing.running import Finished
from commands.reporting import resembling
from commands.reporting.sheet import Sheet
from ledger import canonical
from ledger.episode import Turn
from ledger.event import Blobs, Step
from ledger.families import calls, policies
from ledger.families.cells import CandidateTurned
from ledger.families.policies import FreezePolicy, PolicyFrozen, ReportPublished
from ledger.families.providers import Endpoint
from ledger.prompt import Question
from tests.commands.optimizing.planted import PROJECT, World, call
from tests.commands.reporting.worlds import measure, only, recorded_action, sheet_of

Seen = tuple[Sheet, Finished]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    world = World(tmp_path_factory.mktemp("planted") / "root", fit=8, held_out=8)
    finished = world.optimize()
    return sheet_of(world), finished


def test_lines_are_those_of_the_report_with_the_cost_of_a_task(planted: Seen) -> None:
    sheet, finished = planted
    report = finished.frozen.report
    assert sheet.report == report
    assert (sheet.report_id, sheet.policy, sheet.project) == (report.id, finished.frozen.policy.id, PROJECT)
    assert sheet.candidates == ("cheap", "dear")
    assert [line.name for line in sheet.lines] == [line.name for line in report.lines]
    for shown, line in zip(sheet.lines, report.lines, strict=True):
        assert (shown.mean, shown.low, shown.high, shown.cost) == (line.mean, line.low, line.high, line.cost)
        assert shown.cost is not None
        assert shown.cost_a_task == (2 * shown.cost + 8) // 16
        assert shown.raw is not None
        assert (shown.raw.count, shown.raw.of) == (line.passed, line.counted)


def test_without_a_calibration_no_share_is_corrected_and_the_sheet_says_why(planted: Seen) -> None:
    sheet, _ = planted
    assert sheet.calibration.id is None
    assert "no calibration of this judge was approved" in sheet.calibration.missing
    assert {line.corrected.undefined for line in sheet.lines} == {sheet.calibration.missing}
    assert any("taken at their word" in sentence for sentence in sheet.summary)


def test_every_cell_has_the_score_and_cost_that_came_of_it(planted: Seen) -> None:
    sheet, finished = planted
    assert len(sheet.cells) == len(finished.outcomes) == 32
    outcomes = {(one.task, one.alias): one for one in finished.outcomes}
    for cell in sheet.cells:
        outcome = outcomes[cell.task, cell.alias]
        assert (cell.score, cell.cost, cell.part, cell.ended) == (
            outcome.score,
            outcome.cost,
            outcome.part,
            outcome.ended,
        )
        assert cell.cost == sum(one.cost or 0 for one in cell.calls if one.role == "candidate")
        assert sum(one.role == "candidate" for one in cell.calls) == outcome.model_calls


def test_a_rollout_is_told_in_the_order_in_which_it_went(planted: Seen) -> None:
    sheet, _ = planted
    cell = next(only(sheet.cells, alias="cheap", part="held-out"))
    (turn,) = cell.turns
    assert (turn.tool, turn.arguments) == ("bash", '{"command": "cheap at work"}')
    assert (turn.observation, turn.error, turn.by) == ("done, as asked", False, "world model")
    assert cell.final == "cheap is through"
    (judged,) = cell.judged
    assert (judged.axis, judged.score, judged.words, judged.problem) == (
        "task-success",
        cell.score,
        "as planted",
        "",
    )
    assert [one.role for one in cell.calls] == ["candidate", "world model", "candidate", "judge"]


def test_held_out_tasks_come_first_and_say_where_they_go(planted: Seen) -> None:
    sheet, finished = planted
    assert [task.part for task in sheet.tasks] == ["held-out"] * 8 + ["fit"] * 8
    routes = {one.task: (one.alias, one.reason) for one in finished.frozen.report.routed}
    for task in sheet.tasks:
        assert (task.routed, task.why) == routes.get(task.id, (None, None))
    for cell in sheet.cells:
        assert cell.routed == (routes.get(cell.task, ("",))[0] == cell.alias)
    assert sum(cell.routed for cell in sheet.cells) == 8


def test_spend_by_part_adds_up_to_what_the_run_spent(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    finished = world.optimize()
    totals = world.journal.state(calls.FAMILY).totals(world.plan().run)
    sheet = sheet_of(world)
    assert all(one.own for one in sheet.spent)
    assert sum(one.settled for one in sheet.spent) == totals.settled == finished.spend.settled
    assert sum(one.calls for one in sheet.spent) == totals.calls
    by_part = {(one.part, one.alias): one for one in sheet.spent}
    assert {part for part, _ in by_part} == {"candidate", "world model", "judge", "embedder"}
    assert by_part["candidate", "dear"].settled == 10 * by_part["candidate", "cheap"].settled
    assert by_part["candidate", "cheap"].input_tokens == 8 * 2 * 100
    assert by_part["candidate", "cheap"].output_tokens == 8 * 2 * 50


def test_what_another_run_paid_for_is_told_apart(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    world.optimize()
    first = world.plan().run
    request = world.request("cheap", "dear", "middling")
    world.optimize(request)
    second = world.plan(request).run
    sheet = sheet_of(world, second)
    assert sheet.candidates == ("cheap", "dear", "middling")
    paid = {(one.part, one.alias): (one.run, one.own) for one in sheet.spent if one.part == "candidate"}
    assert paid["candidate", "cheap"] == paid["candidate", "dear"] == (first, False)
    assert paid["candidate", "middling"] == (second, True)
    assert sheet_of(world, first).candidates == ("cheap", "dear")
    assert sheet_of(world).run == second  # a project means its newest run


def test_a_call_that_was_lost_counts_at_its_worst_case(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    world.optimize()
    reserved = next(
        record.event
        for record in world.journal.events(calls.CallReserved)
        if isinstance(record.event, calls.CallReserved) and record.event.alias == "dear"
    )
    question = f"{reserved.question[:-4]}ffff"
    again = msgspec.structs.replace(reserved, question=question, dispatch=0)
    command = calls.ReserveCall(
        question=again.question,
        attempt=0,
        run=again.run,
        ceiling=None,
        alias="dear",
        worst_case=77,
        process="gone",
        asked=again.asked,
    )
    world.journal.submit(Step(calls.FAMILY, command)).result()
    lost = next(one for one in sheet_of(world).spent if one.part == "other")
    assert (lost.calls, lost.settled, lost.ambiguous, lost.unanswered) == (1, 0, 77, 1)
    world.reopened("another")
    end = calls.CallLost(question=question, attempt=0, dispatch=0, run=again.run, process="gone")
    world.journal.submit(Step(calls.FAMILY, calls.SettleCall(end=end))).result()
    assert lost == next(one for one in sheet_of(world).spent if one.part == "other")


def unreadable(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | None:
    del asked
    return "no score from me" if endpoint.alias == "judge" and b"cheap at work" in question.body else None


def test_an_excluded_cell_has_its_reason_and_the_judge_s_own_words(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    world.says = unreadable
    world.optimize()
    sheet = sheet_of(world)
    cell = next(only(sheet.cells, alias="cheap", part="held-out"))
    assert (cell.score, cell.reason, cell.ended) == (None, "judge_unreadable", None)
    assert cell.problem == "the reply isn't JSON"
    (judged,) = cell.judged
    assert (judged.score, judged.words, judged.problem) == (None, "no score from me", "the reply isn't JSON")
    assert [one.attempt for one in cell.calls if one.role == "judge"] == [0, 1]
    assert "4 held-out rollouts can't count and lower no mean: 4 for judge unreadable." in sheet.summary


def test_a_judge_that_was_understood_at_last_is_shown_by_its_last_words(tmp_path: Path) -> None:
    asked_before: set[str] = set()

    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | None:
        del asked
        if endpoint.alias != "judge" or question.digest in asked_before:
            return None
        asked_before.add(question.digest)
        return "let me think"

    world = World(tmp_path / "root", fit=4, held_out=4)
    world.says = says
    world.optimize()
    cell = sheet_of(world).cells[0]
    (judged,) = cell.judged
    assert (judged.score, judged.words, judged.problem) == (cell.score, "as planted", "")
    assert [one.attempt for one in cell.calls if one.role == "judge"] == [0, 1]


def test_several_samples_of_a_cell_are_cells_of_their_own(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    request = world.request()._replace(samples=2)
    finished = world.optimize(request)
    sheet = sheet_of(world)
    assert len(sheet.cells) == 32
    assert sorted({cell.sample for cell in sheet.cells}) == [0, 1]
    assert sheet.report == finished.frozen.report
    assert {cell.score for cell in sheet.cells} == {one.score for one in finished.outcomes}


def test_what_the_rules_answered_is_not_laid_to_the_world_model(tmp_path: Path) -> None:
    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> dict[str, Any] | None:
        del question
        if endpoint.alias != "cheap" or asked["messages"][-1]["role"] == "tool":
            return None
        function = {"name": "bash", "arguments": '{"command": "cheap at work"}'}
        many = [{"id": str(place), "type": "function", "function": function} for place in range(17)]
        many[1] = {"id": "1", "type": "function", "function": {"name": "fly", "arguments": "{}"}}
        return {"role": "assistant", "content": "several", "tool_calls": many}

    world = World(tmp_path / "root", fit=4, held_out=4)
    world.says = says
    world.optimize()
    cell = next(only(sheet_of(world).cells, alias="cheap"))
    assert len(cell.turns) == 17
    assert [turn.by for turn in cell.turns] == ["world model", "the rules", *["world model"] * 14, "the rules"]
    assert [turn.said for turn in cell.turns] == ["several", *[""] * 16]
    assert "there is no function 'fly'" in cell.turns[1].observation
    assert cell.turns[1].error
    assert cell.turns[16].observation == "error: only the first 16 calls of a turn are carried out"


def test_what_comes_after_the_end_was_not_carried_out(tmp_path: Path) -> None:
    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | dict[str, Any] | None:
        del question
        if endpoint.alias == "world":
            return json.dumps({"observation": "over", "error": True, "done": True})
        if endpoint.alias != "cheap" or asked["messages"][-1]["role"] == "tool":
            return None
        function = {"name": "bash", "arguments": '{"command": "cheap at work"}'}
        two = [{"id": str(place), "type": "function", "function": function} for place in range(2)]
        return {"role": "assistant", "content": None, "tool_calls": two}

    world = World(tmp_path / "root", fit=4, held_out=4)
    world.says = says
    world.optimize()
    cell = next(only(sheet_of(world).cells, alias="cheap"))
    assert (cell.ended, cell.final) == ("done", None)
    assert [(turn.observation, turn.error, turn.by) for turn in cell.turns] == [
        ("over", True, "world model"),
        ("not carried out: the rollout ended before", False, "nobody"),
    ]


def test_a_content_that_was_erased_is_said_to_be_and_the_rest_is_shown(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    world.optimize()
    world.reopened()
    record = next(world.journal.events(CandidateTurned))
    event = record.event
    assert isinstance(event, CandidateTurned)
    world.journal.close()
    assert run(["erase", event.reply.blob, "--reason", "a wish", "--yes", "--root", str(world.root)]) == 0
    sheet = sheet_of(world)
    cell = next(one for one in sheet.cells if one.id == event.cell)
    assert cell.score is not None
    assert cell.turns[0].said.startswith("not reproducible: ")
    assert (cell.turns[0].by, cell.final) == ("nobody", f"{cell.alias} is through")


# The simulated environment.


def test_the_constant_and_the_best_retrieved_answer_are_measured_on_every_recorded_step(planted: Seen) -> None:
    sheet, _ = planted
    constant, retrieved = measure(sheet, "constant", "recorded"), measure(sheet, "best retrieved", "recorded")
    assert constant.nearness is not None
    assert (constant.nearness.counted, constant.nearness.equal, constant.nearness.overlap) == (8, 0, 0)
    # What is recorded nearest is a step of the same stratum and another number: one word of two agrees.
    assert retrieved.nearness is not None
    assert (retrieved.nearness.counted, retrieved.nearness.equal, retrieved.nearness.overlap) == (8, 0, 500_000)
    assert retrieved.lineages == 8


def test_a_world_model_whose_steps_are_in_no_recording_is_not_measured(planted: Seen) -> None:
    sheet, _ = planted
    for steps in ("recorded", "reached"):
        assert measure(sheet, "world model", steps).nearness is None
        assert measure(sheet, "world model", steps).missing
    assert not [one for one in sheet.fidelity if one.steps == "reached" and one.way != "world model"]
    assert any("isn't measured" in sentence for sentence in sheet.summary)


def test_a_world_model_is_measured_where_rollouts_took_the_recorded_actions(tmp_path: Path) -> None:
    def says(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | dict[str, Any] | None:
        if endpoint.alias == "world":
            request = json.loads(asked["messages"][1]["content"])
            command = json.loads(request["action"]["arguments"])["command"]
            number = "".join(filter(str.isdigit, request["task"])) if command == "sorting" else ""
            return json.dumps({"observation": f"{command} {number[:1]}".strip(), "error": False, "done": False})
        if endpoint.alias == "judge":
            return json.dumps({"axes": {"task-success": {"score": 1, "rationale": "fine"}}})
        if endpoint.alias in {"cheap", "dear"} and asked["messages"][-1]["role"] != "tool":
            task = asked["messages"][1]["content"]
            return (
                recorded_action(task)
                if endpoint.alias == "cheap" or "Sort" in task
                else call("bash", '{"command": "other"}')
            )
        return None

    world = World(tmp_path / "root", fit=8, held_out=4)  # the held-out tasks are numbers 8 to 11
    world.says = says
    world.optimize()
    sheet = sheet_of(world)
    measured = measure(sheet, "world model", "reached")
    assert measured.nearness is not None
    # Both candidates took the sorting step, which is one question and counts once: `sorting 8` is what was recorded;
    # the three others lack the number, so two of their three words agree.
    assert (measured.nearness.counted, measured.nearness.equal) == (4, 1)
    assert measured.nearness.overlap == 750_000
    assert measured.lineages == 4
    assert measure(sheet, "constant", "reached").nearness is not None
    assert any("gave the recorded answer 1 times; 75.0% of the words agree" in one for one in sheet.summary)


def test_actions_are_the_same_whatever_the_blanks_in_their_arguments() -> None:
    there = Turn(tool="bash", arguments='{"a": 1, "b": [2]}', observation="", error=False)
    assert resembling._same("bash", '{"b":[2],"a":1}', there)
    assert not resembling._same("sh", '{"b":[2],"a":1}', there)
    assert not resembling._same("bash", '{"a":1}', there)
    assert not resembling._same("bash", "{", there)
    assert resembling._same("bash", "{", msgspec.structs.replace(there, arguments="{"))


# What is missing.


def test_a_report_without_its_run_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    world = World(tmp_path / "root", fit=4, held_out=4)
    report = world.optimize().frozen.report
    blobs = Blobs()
    content = blobs.put(canonical.encode(report))
    facts = {"project": "elsewhere", "run": "optimize-elsewhere", "policy": "policy-elsewhere", "content": content}
    command = FreezePolicy(policy=PolicyFrozen(**facts), report=ReportPublished(**facts, report=report.id))  # type: ignore[arg-type]
    world.journal.submit(Step(policies.FAMILY, command), blobs=blobs).result()
    sheet = sheet_of(world, "elsewhere")
    assert sheet.missing["cells"] == "optimize-elsewhere can't be planned again: how it started isn't recorded"
    assert (sheet.cells, sheet.fidelity, sheet.spent) == ((), (), ())
    assert [line.mean for line in sheet.lines] == [line.mean for line in report.lines]
    assert [task.routed for task in sheet.tasks] == [one.alias for one in report.routed]
    assert sheet.calibration.missing == "the judge isn't recorded"


def test_provenance_names_what_all_of_it_rests_on(planted: Seen) -> None:
    sheet, finished = planted
    named = {one.what: one.name for one in sheet.provenance}
    assert named["report"] == finished.frozen.report.id
    assert named["policy"] == finished.frozen.policy.id
    assert named["run"] == sheet.run
    assert named["report content"].startswith(f"b3:{finished.frozen.report.id.removeprefix('report-')}")
    assert named["candidate cheap"].endswith(" at http://127.0.0.1:9/v1")
    assert named["rules"].split(", ")[-1] == sheet.report.version
    assert named["checkpoint"].split()[1] == "events,"
    assert named["calibration"].startswith("none: ")
