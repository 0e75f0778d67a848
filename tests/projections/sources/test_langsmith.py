"""LangSmith's exports: runs posted and patched, listed, nested, and in LangChain's serialized forms."""

from __future__ import annotations

import json
from typing import Any

from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read

ROOT = "00000000-0000-0000-0000-000000000001"


def constructed(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": kwargs}


def run(number: int, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "id": f"00000000-0000-0000-0000-00000000000{number}",
        "trace_id": ROOT,
        "parent_run_id": None if number == 1 else ROOT,
        "run_type": kind,
        "name": members.pop("name", kind),
        "start_time": f"2026-01-01T00:00:0{number}",
        "end_time": f"2026-01-01T00:00:0{number}.250000",
        "dotted_order": f"2026010100000{number}000000Z{ROOT}",
        "extra": {"metadata": {"ls_model_name": "m1", "ls_provider": "p1"}},
        **members,
    }


CALLS = [{"name": "add", "args": {"a": n}, "id": f"call-{n}", "type": "tool_call"} for n in (1, 2)]
RUNS = [
    run(1, "chain", inputs={"input": "Add things."}, outputs={"output": "3 and 4"}, reference_example_id="ex-1"),
    run(
        2,
        "llm",
        inputs={
            "messages": [
                [constructed("SystemMessage", content="Be exact."), constructed("HumanMessage", content="Add.")]
            ]
        },
        outputs={
            "generations": [
                [
                    {
                        "text": "",
                        "message": constructed(
                            "AIMessage",
                            content="",
                            tool_calls=CALLS,
                            usage_metadata={"input_tokens": 5, "output_tokens": 2},
                            response_metadata={"model_name": "m1-2026"},
                        ),
                    }
                ]
            ]
        },
    ),
    run(
        3,
        "tool",
        name="add",
        inputs={"input": "{'a': 2}"},
        outputs={"output": constructed("ToolMessage", content="4", tool_call_id="call-2")},
    ),
    run(
        4,
        "tool",
        name="add",
        inputs={"input": '{"a": 1}'},
        outputs={"output": {"content": "3", "type": "tool", "tool_call_id": "call-1"}},
    ),
    run(
        5,
        "llm",
        inputs={"messages": [["human", "Add."]]},
        outputs={"generations": [[{"text": "3 and 4", "message": {"type": "ai", "data": {"content": "3 and 4"}}}]]},
        total_cost=0.0000015,
        feedback_stats={"correct": {"n": 2, "avg": 0.5}},
    ),
]
PAIRS = [("add", '{"a":1}', "3"), ("add", '{"a":2}', "4")]


def test_parallel_calls_are_paired_by_the_id_in_the_tools_own_message() -> None:
    found = read("langsmith", *RUNS)
    assert pairs(found.only) == PAIRS
    assert (found.only.task, found.only.final) == ("Add things.", "3 and 4")
    assert found.total("gen_ai.usage.input_tokens") == 5
    assert found.total("exp.cost.nano_usd") == 1_500
    assert found.spoken[0].attributes["gen_ai.response.model"] == "m1-2026"
    assert found.spoken[0].attributes["gen_ai.provider.name"] == "p1"
    assert {"exp.task.id": "ex-1"}.items() <= found.spans[ROOT][0].attributes.items()
    assert found.annotations == [{"name": "correct", "value": "0.5", "label": "", "origin": "unknown", "comment": ""}]


def test_lists_pages_and_trees_of_runs_are_the_same_trace() -> None:
    nested = {
        **RUNS[0],
        "child_runs": [{**one, "trace_id": None, "parent_run_id": None, "dotted_order": None} for one in RUNS[1:]],
    }
    named = [{**{name: it for name, it in one.items() if name != "id"}, "run_id": one["id"]} for one in RUNS]
    exported = {"export_metadata": {"total": 1}, "traces": [nested]}
    for document in (RUNS, {"runs": RUNS}, {"runs": [nested]}, [nested], {"run": nested}, named, exported):
        assert source("langsmith").recognises(document)
        found = read("langsmith", document)
        assert pairs(found.only) == PAIRS
        assert {span.parent for span in found.spans[ROOT]} == {"", ROOT}


def test_a_patch_adds_to_its_post_in_whatever_order_they_come() -> None:
    posted = [
        {name: value for name, value in one.items() if name not in ("outputs", "end_time")} | {"outputs": {}}
        for one in RUNS
    ]
    patched = [{name: one[name] for name in ("id", "trace_id", "outputs", "end_time", "dotted_order")} for one in RUNS]
    for document in ({"post": posted, "patch": patched}, {"patch": patched[::-1], "post": posted[::-1]}):
        found = read("langsmith", document)
        assert pairs(found.only) == PAIRS
        assert len(found.spans[ROOT]) == 5
        assert all(len(span.merged) == 1 for span in found.spans[ROOT])
    alone = read("langsmith", {"post": posted}, {"patch": patched})
    assert pairs(alone.only) == PAIRS


def test_a_trace_is_found_in_the_dotted_order_when_nothing_else_names_it() -> None:
    without = [{name: value for name, value in one.items() if name != "trace_id"} for one in RUNS]
    assert list(read("langsmith", *without).traces) == [ROOT]
    lost = {name: value for name, value in without[1].items() if name != "dotted_order"}
    assert read("langsmith", lost).reasons == ["row-without-trace"]


def test_tokens_of_a_stream_make_the_calls_too() -> None:
    pieces = [
        {"index": 0, "id": "call-1", "function": {"name": "add", "arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ]
    events = [
        {"name": "new_token", "kwargs": {"token": {"choices": [{"delta": {"tool_calls": [piece]}}]}}}
        for piece in pieces
    ]
    events.insert(1, {"name": "new_token", "kwargs": {"token": "Hm"}})
    streamed = {**RUNS[1], "outputs": {}, "events": events}
    assert pairs(read("langsmith", streamed, RUNS[3], RUNS[4]).only) == [("add", '{"a": 1}', "3")]


def test_single_feedback_says_who_gave_it_and_an_error_is_kept() -> None:
    given = [
        {"id": "1", "key": "good", "score": 1, "feedback_source": {"type": "app"}, "comment": "yes"},
        {"id": "2", "key": "kind", "score": None, "value": "rude", "feedback_source": {"type": "model"}},
    ]
    found = read("langsmith", {**RUNS[4], "feedback": given, "error": "RateLimitError(429)"})
    assert [(note["value"], note["label"], note["origin"], note["comment"]) for note in found.annotations] == [
        ("1", "", "human", "yes"),
        ("", "rude", "model", ""),
    ]
    assert found.spoken[0].attributes["error.message"] == "RateLimitError(429)"


def test_inputs_in_texts_are_read() -> None:
    coded = [{**one, "inputs": json.dumps(one["inputs"]), "outputs": json.dumps(one["outputs"])} for one in RUNS]
    assert pairs(read("langsmith", *coded).only) == PAIRS


def test_what_is_no_run_is_an_exclusion() -> None:
    assert read("langsmith", {"post": [3, {"id": "x"}]}, "text", {"a": 1}).reasons == ["not-a-run"] * 4
    assert read("langsmith", {**RUNS[0], "child_runs": ["x"]}).reasons[0] == "not-a-run"
    assert not source("langsmith").recognises({"messages": [{"role": "user", "content": "x"}]})


def test_traces_and_tools_of_rarer_shapes() -> None:
    listed = {**RUNS[1], "trace_id": None, "dotted_order": None, "parent_run_ids": [ROOT]}
    assert list(read("langsmith", listed).spans) == [ROOT]
    lone = {**RUNS[4], "trace_id": None, "dotted_order": None, "parent_run_id": None, "id": None}
    assert len(read("langsmith", lone).spans) == 1
    several = {**RUNS[2], "inputs": {"a": 2, "config": {"x": 1}}, "outputs": {"a": 1, "b": 2}}
    assert pairs(read("langsmith", RUNS[1], several).only) == [("add", '{"a":2}', '{"a":1,"b":2}')]
    assert (
        read("langsmith", {**RUNS[1], "outputs": None, "feedback_stats": {"x": 3, "y": {"avg": None}}}).annotations
        == []
    )
    assert not source("langsmith").recognises(3)


def test_a_patch_decides_and_empties_nothing() -> None:
    early = {"id": RUNS[4]["id"], "trace_id": ROOT, "dotted_order": RUNS[4]["dotted_order"]}
    corrected = {**early, "outputs": {"role": "assistant", "content": "A corrected 3."}, "inputs": None, "tags": []}
    for posted in ({**RUNS[4], "end_time": None}, RUNS[4]):
        found = read("langsmith", {"post": [*RUNS[:4], posted], "patch": [corrected]})
        assert found.only.final == "A corrected 3."
        assert found.spoken[-1].attributes["gen_ai.input.messages"]


def test_a_tool_that_nobody_was_seen_to_call_keeps_its_arguments_as_they_are() -> None:
    lone = {**RUNS[3], "inputs": {"input": '{"a": 1}'}}
    assert pairs(read("langsmith", lone).only) == [("add", '{"a":1}', "3")]
    worded = {**RUNS[3], "inputs": {"input": "one"}}
    assert pairs(read("langsmith", worded).only) == [("add", "one", "3")]
