"""Inspect's logs: a sample is a task, its scores are annotations."""

from __future__ import annotations

from typing import Any

from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read

CALLS = [{"id": f"c{n}", "function": "bash", "arguments": {"cmd": f"ls {n}"}, "type": "function"} for n in (1, 2)]
SAMPLE: dict[str, Any] = {
    "id": "task-1",
    "epoch": 2,
    "input": "List.",
    "target": "done",
    "messages": [
        {"role": "system", "content": "Be quick."},
        {"role": "user", "content": "attachment://aa"},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "So:"}],
            "tool_calls": CALLS,
        },
        {"role": "tool", "content": "two", "tool_call_id": "c2", "function": "bash"},
        {
            "role": "tool",
            "content": "",
            "tool_call_id": "c1",
            "function": "bash",
            "error": {"type": "timeout", "message": "too slow"},
        },
        {"role": "assistant", "content": "done"},
    ],
    "attachments": {"aa": "List them."},
    "output": {"model": "m1-2026", "choices": [], "usage": {"input_tokens": 3, "output_tokens": 1}},
    "scores": {
        "match": {"value": "P", "explanation": "half"},
        "model_graded_qa": {"value": "I"},
        "many": {"value": {"a": 0.25, "b": True, "c": None}},
        "edited": {"value": 1, "history": [{"value": 0}, {"value": 1, "provenance": {"author": "me"}}]},
    },
    "started_at": "2026-01-01T00:00:00+00:00",
    "total_time": 1.5,
}
LOG: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"task": "listing", "eval_id": "e1", "run_id": "r1", "model": "openai/m1"},
    "samples": [SAMPLE, {**SAMPLE, "epoch": 1, "uuid": "own"}],
}


def test_a_sample_is_a_trace_and_its_parallel_calls_are_paired_by_id() -> None:
    found = read("inspect", LOG)
    assert sorted(found.traces) == ["e1:task-1:2", "own"]
    for trace in found.traces.values():
        assert pairs(trace) == [("bash", '{"cmd":"ls 1"}', "too slow"), ("bash", '{"cmd":"ls 2"}', "two")]
        assert [turn.error for turn in trace.turns] == [True, False]
        assert (trace.task, trace.final) == ("List them.", "done")
    last = found.spoken[-1]
    assert last.attributes["exp.task.id"] == "listing/task-1"
    assert last.attributes["inspect.target"] == "done"
    assert last.attributes["gen_ai.request.model"] == "openai/m1"
    assert last.attributes["gen_ai.response.model"] == "m1-2026"
    assert last.end - last.start == 1_500_000_000
    assert found.total("gen_ai.usage.input_tokens") == 6


def test_grades_are_numbers_where_inspect_says_so_and_keep_their_label() -> None:
    alone = read("inspect", SAMPLE)
    assert [(note["name"], note["value"], note["label"], note["origin"]) for note in alone.annotations] == [
        ("edited", "1", "", "human"),
        ("many.a", "0.25", "", "code"),
        ("many.b", "1", "true", "code"),
        ("match", "0.5", "P", "code"),
        ("model_graded_qa", "0", "I", "model"),
    ]
    assert alone.annotations[3]["comment"] == "half"


def test_a_sample_without_messages_is_its_input_and_output() -> None:
    said = {"choices": [{"message": {"role": "assistant", "content": "done"}}]}
    bare = {name: it for name, it in SAMPLE.items() if name != "messages"} | {
        "output": said,
        "error": {"message": "cut"},
    }
    found = read("inspect", bare)
    assert (found.only.task, found.only.final) == ("List.", "done")
    assert found.spoken[0].attributes["error.message"] == "cut"


def test_usage_is_that_of_all_models() -> None:
    used = {"a": {"input_tokens": 5, "output_tokens": 1}, "b": {"input_tokens": 2, "reasoning_tokens": 4}}
    found = read("inspect", {**SAMPLE, "model_usage": used})
    assert found.total("gen_ai.usage.input_tokens") == 7
    assert found.total("gen_ai.usage.reasoning.output_tokens") == 4


def test_logs_without_samples_and_what_is_no_sample_are_exclusions() -> None:
    assert read("inspect", {**LOG, "samples": None}, {**LOG, "samples": [3]}, [7, {}]).reasons == [
        "log-without-samples",
        *["not-a-sample"] * 3,
    ]
    assert source("inspect").recognises(SAMPLE)
    assert source("inspect").recognises([LOG])
    assert not source("inspect").recognises({"eval": {"task": "x"}})


def test_samples_of_rarer_shapes() -> None:
    bare = {name: it for name, it in SAMPLE.items() if name not in ("messages", "scores")}
    found = read("inspect", {**bare, "input": {"odd": 1}, "score": {"value": [1, "C"]}})
    assert [(note["name"], note["value"]) for note in found.annotations] == [("score.0", "1"), ("score.1", "1")]
    assert read("inspect", {**bare, "input": [{"role": "user", "content": "Go."}]}).spoken
    assert not source("inspect").recognises(3)
    deep: Any = "attachment://aa"
    for _ in range(70):
        deep = [deep]
    assert read("inspect", {**SAMPLE, "output": {"x": deep}}).only.final == "done"
