"""The lineage of a value, down to the traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from commands.opening import open_journal, read_journal
from ledger.event import Step
from ledger.families import calls, cells, judging, providers, serving
from ledger.families.ingests import ImportCompleted
from ledger.families.traces import TraceImported, decoded
from tests.commands.gateway.running import Gateway
from tests.commands.reading import Journey, Said
from tests.proof.stage import KEY

END = "import-completed"


def walked(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for parent in node["rests_on"]:
        yield from walked(parent)


def base(node: dict[str, Any]) -> str:
    return str(node["what"]).partition("@")[0]


def paths(node: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    if not node["rests_on"]:
        yield (base(node),)
    for parent in node["rests_on"]:
        for path in paths(parent):
            yield (base(node), *path)


def test_a_policy_rests_on_judgments_rollouts_calls_and_traces(exp: Said, journey: Journey) -> None:
    found = set(paths(exp.json("why", journey.ids["policy"])))
    for wanted in (
        ("policy-frozen", "task", "cell", "judgment-recorded", "rollout", "cell-opened", "trace-imported", END),
        ("policy-frozen", "optimization-started", "build-completed", "trace-imported", END),
    ):
        assert wanted in found
    to_calls = ("policy-frozen", "task", "cell", "judgment-recorded", "rollout", "candidate-turned", "call-answered")
    assert any(path[: len(to_calls)] == to_calls for path in found)


def test_every_node_of_an_event_has_its_number_id_and_digests(exp: Said, journey: Journey) -> None:
    tree = exp.json("why", journey.ids["report"], "--all")
    with read_journal(journey.root) as journal:
        for node in walked(tree):
            if node["seq"] is None:
                assert node["what"] == "task"
                continue
            record = journal.at(node["seq"])
            assert record is not None
            assert node["event"] == f"b3:{record.id.hex()}"
            assert all(digest in record.bytes.decode() for digest in node["contents"])


def test_a_report_rests_on_all_held_out_cells_and_a_policy_on_all_fit_cells_only(exp: Said, journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        opened = [json.loads(record.bytes)["body"]["facts"] for record in journal.events(cells.CellOpened)]
        names = [json.loads(record.bytes)["body"]["cell"] for record in journal.events(cells.CellOpened)]
    part = {name: facts["part"] for name, facts in zip(names, opened, strict=True)}
    policy = exp.json("why", journey.ids["policy"], "--all", "--depth", "2")
    assert {node["name"] for node in walked(policy) if base(node) == "cell"} == {
        name for name in names if part[name] == "fit"
    }
    report = exp.json("why", journey.ids["report"], "--all", "--depth", "2")
    own = [node for parent in report["rests_on"] if base(parent) == "task" for node in walked(parent)]
    assert {node["name"] for node in own if base(node) == "cell"} == {
        name for name in names if part[name] == "held-out"
    }


def test_what_was_shown_is_not_shown_again(exp: Said, journey: Journey) -> None:
    tree = exp.json("why", journey.ids["report"], "--all")
    grown = [(node["what"], node["seq"] or node["name"]) for node in walked(tree) if node["rests_on"]]
    assert len(grown) == len(set(grown))
    repeated = [node for node in walked(tree) if node["repeated"]]
    assert repeated
    assert all(not node["rests_on"] for node in repeated)
    places = {(node["what"], node["seq"] or node["name"]) for node in walked(tree) if not node["repeated"]}
    assert all((node["what"], node["seq"] or node["name"]) in places for node in repeated)
    assert "[shown above]" in exp.text("why", journey.ids["report"])


def test_rows_are_cut_and_counted_unless_all_is_asked_for(exp: Said, journey: Journey) -> None:
    cut, whole = exp.json("why", journey.ids["build"]), exp.json("why", journey.ids["build"], "--all")
    assert len(cut["rests_on"]) == 8
    assert cut["more"] == len(whole["rests_on"]) - 8
    assert len(whole["rests_on"]) == 208
    assert whole["more"] == 0
    assert exp.text("why", journey.ids["build"]).rstrip().endswith("`- ... 200 more")


def test_depth_is_kept_to_and_what_is_below_is_counted(exp: Said, journey: Journey) -> None:
    root = exp.json("why", journey.ids["policy"], "--depth", "0", "--all")
    assert root["rests_on"] == []
    assert root["more"] == 7
    one = exp.json("why", journey.ids["policy"], "--depth", "1", "--all")
    assert len(one["rests_on"]) == 7
    assert all(not node["rests_on"] for node in one["rests_on"])


def test_a_calibration_rests_on_judgments_and_labels_of_its_traces(exp: Said, journey: Journey) -> None:
    tree = exp.json("why", journey.ids["calibration"])
    found = [base(node) for node in tree["rests_on"]]
    assert found.count("judgment-recorded") == 3
    assert found.count("label-recorded") == 3
    judged = [node for node in tree["rests_on"] if base(node) == "judgment-recorded"]
    assert all("trace-imported" in [base(parent) for parent in node["rests_on"]] for node in judged)


def test_a_cell_rests_on_its_judgment_and_a_judgment_on_its_rollout_and_call(exp: Said, journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        subjects = [json.loads(record.bytes)["body"] for record in journal.events(judging.JudgmentRecorded)]
        cell = next(body["subject"] for body in subjects if body["subject"].startswith("cell-"))
        question = next(body["question"] for body in subjects if body["subject"] == cell)
    tree = exp.json("why", cell[:20])
    assert [base(node) for node in tree["rests_on"]] == ["judgment-recorded"]
    judgment = tree["rests_on"][0]
    assert [base(node) for node in judgment["rests_on"]] == ["rollout", "call-answered", "judge-set-up"]
    assert judgment["rests_on"][1]["rests_on"][0]["contents"] == [question]


def test_a_content_rests_on_the_events_that_name_it(exp: Said, journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        record = next(journal.events(cells.CandidateTurned))
        digest = json.loads(record.bytes)["body"]["reply"]["blob"]
    tree = exp.json("why", digest)
    assert tree["what"] == "content"
    assert record.seq in [node["seq"] for node in tree["rests_on"]]


def test_the_text_is_the_tree(exp: Said, journey: Journey) -> None:
    lines = exp.text("why", journey.ids["policy"], "--all").splitlines()
    assert len(lines) == sum(1 for _ in walked(exp.json("why", journey.ids["policy"], "--all")))
    assert lines[0].startswith(f"policy-frozen {journey.ids['policy']} (event ")


def test_a_trace_leads_to_the_lines_of_the_file_it_was_imported_from(
    exp: Said, journey: Journey, tmp_path: Path
) -> None:
    tree = exp.json("why", journey.ids["policy"], "--traces", str(journey.stage.traces))
    traces = [node for node in walked(tree) if base(node) == "trace-imported"]
    assert traces
    lines = journey.stage.traces.read_text("utf-8").splitlines()
    with read_journal(journey.root) as journal:
        for node in traces:
            record = journal.at(node["seq"])
            assert record is not None
            trace = decoded(journal.blob(record.key or ""))
            named = {int(place.removeprefix("line ").partition(",")[0]) for place in node["places"]}
            assert named
            assert named <= {number for number, line in enumerate(lines, 1) if trace.name in line}
    assert " from line " in exp.text("why", journey.ids["policy"], "--traces", str(journey.stage.traces))
    assert all(node["places"] is None for node in walked(exp.json("why", journey.ids["policy"])))


def test_a_trace_whose_lines_were_changed_is_said_not_to_be_there(exp: Said, journey: Journey, tmp_path: Path) -> None:
    changed = tmp_path / "changed.jsonl"
    changed.write_text(journey.stage.traces.read_text("utf-8").replace("gen_ai.tool.call.arguments", "other"))
    tree = exp.json("why", journey.ids["build"], "--traces", str(changed))
    assert [node["places"] for node in tree["rests_on"]] == [[]] * 8
    assert "is not in the files as they are now" in exp.text("why", journey.ids["build"], "--traces", str(changed))
    exp.text("why", journey.ids["build"], "--traces", str(tmp_path / "absent.jsonl"), code=41)


def test_a_gateway_s_decision_rests_on_its_policy_and_the_neighbouring_tasks(
    exp: Said, journey: Journey, tmp_path: Path
) -> None:
    """The provider is gone, so the request fails; where it was sent and why is recorded all the same."""
    exp.root = journey.copied(tmp_path)
    with Gateway(exp.root, "shell", env={"PROOF_KEY": KEY}) as gateway:
        content = "Sort the lines of the file by their length"
        got = gateway.ask({"model": "shell", "messages": [{"role": "user", "content": content}]})
        assert gateway.stop() == 0
    request = got.headers["x-request-id"]
    with read_journal(exp.root) as journal:
        decided = journal.find(serving.RouteDecided, request)
        assert decided is not None
        neighbours = [neighbour["task"] for neighbour in json.loads(decided.bytes)["body"]["neighbours"]]
        assert neighbours
        ended = list(journal.events(stream=f"request:{request}"))[-1]
    assert "b3:" + decided.id.hex() == got.headers.get("x-exp-route-decision", "b3:" + decided.id.hex())
    named = [request, request[:-1] if request.endswith("-1") else request, str(decided.seq), decided.id.hex()[:16]]
    for name in named:
        tree = exp.json("why", name, "--all")
        assert tree["seq"] == decided.seq
        found = [(base(node), node["name"]) for node in tree["rests_on"]]
        assert [what for what, _ in found[:2]] == ["request-accepted", "policy-frozen"]
        assert found[1][1] == journey.ids["policy"]
        assert [task.partition(" of ")[0] for what, task in found[2:] if what == "task"] == neighbours
    paths_found = {path[1:] for path in paths(exp.json("why", request, "--all"))}
    chain = ("task", "cell", "judgment-recorded", "rollout")
    assert any(path[:4] == chain or path[1:5] == chain for path in paths_found)
    assert exp.json("why", str(ended.seq))["rests_on"][0]["seq"] == decided.seq
    assert exp.json("show", str(ended.seq))["causes"][0]["seq"] == decided.seq


def test_a_trace_leads_to_the_imports_that_brought_it(exp: Said, journey: Journey, tmp_path: Path) -> None:
    with read_journal(journey.root) as journal:
        trace = next(journal.events(TraceImported))
        imported = [record.seq for record in journal.events(ImportCompleted)]
    (node,) = exp.json("why", str(trace.seq))["rests_on"]
    assert node["seq"] == imported[0]
    assert node["name"] == journey.stage.traces.name


def test_a_label_that_came_later_is_no_part_of_a_calibration(exp: Said, journey: Journey, tmp_path: Path) -> None:
    exp.root = journey.copied(tmp_path)
    before = exp.json("why", journey.ids["calibration"], "--depth", "1")
    with open_journal(exp.root, "test", judging.FAMILY) as journal:
        label = next(journal.events(judging.LabelRecorded)).event
        published = next(journal.events(judging.CalibrationPublished)).event
        assert isinstance(label, judging.LabelRecorded)
        assert isinstance(published, judging.CalibrationPublished)
        later = msgspec.structs.replace(label, score=0)
        command = judging.PublishCalibration(labels=(later,), calibration=published)
        assert len(journal.submit(Step(judging.FAMILY, command)).result()) == 1
    assert exp.json("why", journey.ids["calibration"], "--depth", "1") == before


def test_a_model_is_as_it_was_configured_before_the_call(exp: Said, journey: Journey, tmp_path: Path) -> None:
    exp.root = journey.copied(tmp_path)
    with read_journal(exp.root) as journal:
        reserved = next(journal.events(calls.CallReserved))
    before = exp.json("why", str(reserved.seq))
    with open_journal(exp.root, "test", providers.FAMILY) as journal:
        alias = json.loads(reserved.bytes)["body"]["alias"]
        model = journal.state(providers.FAMILY).models[alias]
        command = providers.ConfigureProviders(
            models=(msgspec.structs.replace(model, served_model_id="another"),), replace=True
        )
        assert len(journal.submit(Step(providers.FAMILY, command)).result()) == 1
    assert exp.json("why", str(reserved.seq)) == before


def test_a_cell_rests_on_the_trace_of_its_own_task_and_on_no_other_task_s(exp: Said, journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        cell = json.loads(next(journal.events(cells.CellOpened)).bytes)["body"]["cell"]
    opened = [node for node in walked(exp.json("why", cell)) if base(node) == "cell-opened"]
    traces = [node for one in opened for node in one["rests_on"] if base(node) == "trace-imported"]
    assert len(traces) == 1
