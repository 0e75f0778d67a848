"""Braintrust's exports: rows that merge, pages, and trees."""

from __future__ import annotations

from typing import Any

from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read


def row(number: int, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "span_id": f"s{number}",
        "root_span_id": "s1",
        "span_parents": None if number == 1 else ["s1"],
        "project_id": "p",
        "span_attributes": {"name": members.pop("name", kind), "type": kind, "exec_counter": number},
        "metrics": {"start": 1767225600.5 + number, "end": 1767225600.75 + number, **members.pop("metrics", {})},
        **members,
    }


def call(identity: str, a: int) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": "add", "arguments": f'{{"a":{a}}}'}}


ROWS = [
    row(1, "task", input="Add.", output="done", scores={"exact": 1, "skipped": None}, expected="done"),
    row(
        2,
        "llm",
        input=[{"role": "user", "content": "Add."}],
        output=[
            {
                "index": 0,
                "message": {"role": "assistant", "content": "So:", "tool_calls": [call("c1", 1), call("c2", 2)]},
            }
        ],
        metadata={"model": "m1", "provider": "p1"},
        metrics={"prompt_tokens": 5, "completion_tokens": 2, "prompt_cached_tokens": 1, "estimated_cost": 0.25},
    ),
    row(3, "tool", name="add", input={"a": 2}, output="two"),
    row(4, "tool", name="add", input={"a": 1}, output=None, error="one failed"),
    row(5, "llm", input=[{"role": "user", "content": "Add."}], output={"role": "assistant", "content": "done"}),
]
PAIRS = [("add", '{"a":1}', "one failed"), ("add", '{"a":2}', "two")]


def test_rows_pages_and_queries_are_the_same_trace() -> None:
    for document in (ROWS, {"events": ROWS}, {"data": ROWS, "schema": {}}, {"rows": ROWS, "api_version": 2}):
        assert source("braintrust").recognises(document)
        found = read("braintrust", document)
        assert pairs(found.only) == PAIRS
        assert [turn.error for turn in found.only.turns] == [True, False]
        assert (found.only.task, found.only.final) == ("Add.", "done")
        assert found.total("exp.cost.nano_usd") == 250_000_000
        assert found.total("gen_ai.usage.cache_read.input_tokens") == 1
        assert [(note["name"], note["value"]) for note in found.annotations] == [("exact", "1")]
    starts = {span.span: span.start for span in found.spans["s1"]}
    assert starts["s1"] == 1_767_225_601_500_000_000


def test_a_row_that_merges_folds_into_the_one_of_its_id_wherever_it_stands() -> None:
    begun = {**ROWS[1], "output": None, "metrics": {"start": 1767225602.5}, "_is_merge": False}
    ended = {
        "id": "r2",
        "span_id": "s2",
        "root_span_id": "s1",
        "_is_merge": True,
        "metrics": {"end": 1767225602.75, "prompt_tokens": 5},
        "output": ROWS[1]["output"],
    }
    for order in ([begun, ended], [ended, begun]):
        found = read("braintrust", *order, ROWS[0], *ROWS[2:])
        assert pairs(found.only) == PAIRS
        (chat,) = [span for span in found.spans["s1"] if span.span == "s2"]
        assert (chat.end - chat.start, chat.attributes["gen_ai.usage.input_tokens"]) == (250_000_000, 5)
        assert len(chat.merged) == 1


def test_rows_without_times_stand_by_their_counter() -> None:
    untimed = [{**one, "metrics": {"start": 0, "end": 0}} for one in ROWS]
    found = read("braintrust", *untimed[::-1])
    assert found.only.final == "done"
    assert [span.name for span in sorted(found.spans["s1"], key=lambda span: span.order)] == [
        "task",
        "llm",
        "add",
        "add",
        "llm",
    ]
    assert {span.start for span in found.spans["s1"]} == {0}
    parents = {span.parent for span in found.spans["s1"]} - {""}
    assert parents == {next(span.span for span in found.spans["s1"] if span.name == "task")}


def test_equal_placeholders_are_not_equal_ids() -> None:
    spoken = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "<span:1>", "name": name, "input": {}}]}
        for name in ("f", "g")
    ]
    tree = {
        "name": "root",
        "type": "task",
        "input": "Go.",
        "children": [
            {"name": "model", "type": "llm", "input": "Go.", "output": spoken, "children": []},
            {
                "name": "tool: g",
                "type": "tool",
                "input": {},
                "output": "from g",
                "metadata": {"gen_ai.tool.call.id": "id-g"},
            },
            {
                "name": "tool: f",
                "type": "tool",
                "input": {},
                "output": "from f",
                "metadata": {"gen_ai.tool.call.id": "id-f"},
            },
        ],
    }
    assert pairs(read("braintrust", {"span_tree": [tree]}).only) == [("f", "{}", "from f"), ("g", "{}", "from g")]


def test_a_root_that_says_something_is_one_trace() -> None:
    children = [{"name": "model", "type": "llm", "input": f"Q{n}", "output": f"A{n}", "children": []} for n in (1, 2)]
    whole = {"name": "root", "type": "task", "input": "Both.", "children": children}
    silent = {"name": "root", "type": "task", "children": children}
    assert read("braintrust", {"span_tree": [whole]}).only.task == "Both."
    split = read("braintrust", {"span_tree": [silent]})
    assert sorted(trace.task for trace in split.traces.values()) == ["Q1", "Q2"]
    assert split.reasons == ["span-without-content"]


def test_what_is_no_row_is_an_exclusion() -> None:
    found = read("braintrust", [3, {"x": 1}, {"root_span_id": {}, "_is_merge": True, "id": None}], {"span_tree": ["x"]})
    assert found.reasons == ["not-a-log-row"] * 3 + ["row-without-trace"]
    assert not source("braintrust").recognises([{"name": "x", "type": "other", "input": 1}])
    assert not source("braintrust").recognises([{"name": "x", "type": None, "input": 1}])


def test_comments_are_a_persons() -> None:
    found = read("braintrust", *ROWS[1:], {**ROWS[0], "comments": [{"comment": {"text": "good"}}]})
    assert {"name": "comment", "value": "", "label": "", "origin": "human", "comment": "good"} in found.annotations


def test_trees_rows_and_merges_of_rarer_shapes() -> None:
    tree = {"name": "r", "type": "task", "input": "Q", "output": "A", "children": [3, {"name": "c", "type": "llm"}]}
    found = read("braintrust", tree)
    assert (found.only.task, found.only.final, found.reasons.count("not-a-log-row")) == ("Q", "A", 1)
    assert read("braintrust", {"name": "r", "type": "task", "children": [3, 4]}).traces == {}
    nulled = {"id": "r5", "root_span_id": "s1", "_is_merge": True, "output": None, "comments": [{"comment": {}}]}
    assert read("braintrust", *ROWS, nulled).only.final == "done"
    assert not source("braintrust").recognises(3)
    deep: Any = {"id": "<x:1>"}
    for _ in range(70):
        deep = [deep]
    assert read("braintrust", {**ROWS[0], "input": deep}).rows


def test_what_merges_decides_over_what_it_merges_into() -> None:
    for old, new in (("a", "z"), ("z", "a")):
        begun = {**ROWS[4], "output": {"role": "assistant", "content": old}}
        merged = {"id": "r5", "root_span_id": "s1", "_is_merge": True, "output": {"content": new}}
        assert read("braintrust", *ROWS[:4], begun, merged).only.final == new


def test_placeholders_name_neither_calls_nor_conversations() -> None:
    told = {"gen_ai.tool.call.id": "<span:1>", "session_id": "<uuid:1>"}
    found = read("braintrust", *ROWS[:2], *({**one, "metadata": told} for one in ROWS[2:4]), ROWS[4])
    assert pairs(found.only) == PAIRS
    assert found.only.conversation_id == ""
    assert not any("gen_ai.tool.call.id" in span.attributes for span in found.spans["s1"])
