"""Langfuse's exports: pages, tables and ingestion batches say the same as a downloaded trace."""

from __future__ import annotations

import json
from typing import Any

from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Rome and Oslo?"}]
CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
    {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
]
TRACE: dict[str, Any] = {
    "id": "t1",
    "name": "agent",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "sessionId": "s1",
    "release": None,
    "tags": [],
    "public": False,
    "input": "Weather in Rome and Oslo?",
    "output": "Sunny and cold.",
}


def observation(number: int, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "id": f"o{number}",
        "traceId": "t1",
        "type": kind,
        "name": members.pop("name", "step"),
        "startTime": f"2026-01-01T00:00:0{number}.000Z",
        "endTime": f"2026-01-01T00:00:0{number}.500Z",
        "parentObservationId": None,
        "level": "DEFAULT",
        **members,
    }


OBSERVATIONS: list[dict[str, Any]] = [
    observation(1, "GENERATION", model="m1", input=ASKED, output={"role": "assistant", "tool_calls": CALLS}),
    observation(2, "TOOL", name="weather", input={"city": "Oslo"}, output="cold"),
    observation(3, "TOOL", name="weather", input={"city": "Rome"}, output="sunny"),
    observation(
        4, "GENERATION", model="m1", input=ASKED, output="Sunny and cold.", usageDetails={"input": 7, "output": 3}
    ),
]
SCORES: list[dict[str, Any]] = [
    {"id": "x", "traceId": "t1", "name": "helpful", "value": 0.5, "source": "ANNOTATION", "dataType": "NUMERIC"},
    {
        "id": "y",
        "traceId": "t1",
        "observationId": "o4",
        "name": "tone",
        "value": None,
        "stringValue": "kind",
        "source": "API",
        "dataType": "CATEGORICAL",
        "comment": "well said",
    },
]
PAIRS = [("weather", '{"city":"Rome"}', "sunny"), ("weather", '{"city":"Oslo"}', "cold")]


def snake(row: dict[str, Any]) -> dict[str, Any]:
    return {"".join(f"_{one.lower()}" if one.isupper() else one for one in name): value for name, value in row.items()}


def test_runs_without_a_call_id_belong_to_the_call_of_the_same_arguments() -> None:
    found = read("langfuse", {"trace": TRACE, "observations": OBSERVATIONS})
    assert pairs(found.only) == PAIRS
    assert (found.only.task, found.only.final) == ("Weather in Rome and Oslo?", "Sunny and cold.")
    runs = [span for span in found.spans["t1"] if span.attributes.get("gen_ai.tool.name")]
    assert not any("gen_ai.tool.call.id" in span.attributes for span in runs)
    assert [(turn.call_id, turn.paired) for turn in found.only.turns] == [("c1", "order"), ("c2", "order")]


def test_a_page_of_the_interface_and_rows_of_tables_are_the_same_trace() -> None:
    whole = {**TRACE, "observations": OBSERVATIONS, "scores": SCORES}
    page = read("langfuse", {"data": [whole], "meta": {"page": 1}})
    rows = read("langfuse", *map(snake, [TRACE, *OBSERVATIONS, *SCORES]))
    listed = {**TRACE, "observations": [one["id"] for one in OBSERVATIONS], "scores": ["x", "y"]}
    pages = read("langfuse", {"data": [listed]}, {"data": OBSERVATIONS}, {"data": SCORES})
    for found in (page, rows, pages):
        assert pairs(found.only) == PAIRS
        assert found.total("gen_ai.usage.input_tokens") == 7
        assert [span.attributes.get("gen_ai.conversation.id") for span in found.spans["t1"]].count("s1") == 1
        notes = {note["name"]: note for note in found.annotations}
        assert notes["helpful"] == {"name": "helpful", "value": "0.5", "label": "", "origin": "human", "comment": ""}
        assert notes["tone"] == {"name": "tone", "value": "", "label": "kind", "origin": "code", "comment": "well said"}


def test_each_shape_says_why_it_is_recognised() -> None:
    recognises = source("langfuse").recognises
    assert recognises({"trace": TRACE, "observations": []})
    assert recognises(snake(TRACE)) == "a trace's row"
    assert recognises(snake(OBSERVATIONS[0])) == "an observation's row"
    assert recognises(snake(SCORES[0])) == "a score's row"
    assert recognises({"data": [OBSERVATIONS[0]]}) == "a page of an observation's row"
    assert recognises({"batch": [{"type": "trace-create", "body": TRACE}]}) == "a batch of ingestion events"
    assert not recognises({"batch": [{"event": "$ai_generation", "properties": {}}]})
    assert not recognises({"id": "1", "timestamp": "2026-01-01", "event": "x", "tags": [], "public": 1})


def test_ingestion_events_of_one_id_are_one_observation() -> None:
    begun = {name: value for name, value in OBSERVATIONS[0].items() if name != "output"} | {"output": None}
    ended = {"id": "o1", "traceId": "t1", "output": OBSERVATIONS[0]["output"], "endTime": OBSERVATIONS[0]["endTime"]}
    batch = [
        {"type": "generation-update", "body": ended},
        {"type": "trace-create", "body": TRACE},
        {"type": "generation-create", "body": begun},
        *({"type": "observation-create", "body": one} for one in OBSERVATIONS[1:]),
        {"type": "score-create", "body": SCORES[0]},
        {"type": "sdk-log", "body": {"log": "x"}},
    ]
    found = read("langfuse", {"batch": batch})
    assert pairs(found.only) == PAIRS
    assert found.reasons == ["not-an-observation"]
    assert [note["name"] for note in found.annotations] == ["helpful"]


def test_values_are_read_however_often_they_are_encoded() -> None:
    coded = [
        {**one, "input": json.dumps(json.dumps(one["input"])), "output": json.dumps(one["output"])}
        for one in OBSERVATIONS
    ]
    assert pairs(read("langfuse", {"trace": TRACE, "observations": coded}).only) == PAIRS


def test_calls_that_stand_in_a_column_of_their_own_are_read() -> None:
    column = [json.dumps({"id": "c1", "arguments": '{"city":"Rome"}', "type": "tool_use"})]
    first = {**OBSERVATIONS[0], "output": "Let me look.", "toolCalls": column, "toolCallNames": ["weather"]}
    found = read("langfuse", {"trace": TRACE, "observations": [first, *OBSERVATIONS[2:]]})
    assert pairs(found.only) == PAIRS[:1]


def test_an_error_is_its_message_and_a_cost_of_nothing_is_unknown() -> None:
    failed = {**OBSERVATIONS[1], "level": "ERROR", "statusMessage": "timed out", "output": None}
    free = {**OBSERVATIONS[0], "totalCost": 0, "costDetails": {}}
    found = read("langfuse", {"trace": TRACE, "observations": [free, failed, *OBSERVATIONS[2:]]})
    assert found.only.turns[1].observation == "timed out"
    assert found.only.turns[1].error
    assert not any("exp.cost.nano_usd" in span.attributes for span in found.spans["t1"])
    priced = {**OBSERVATIONS[0], "costDetails": {"total": 0.000123456789}}
    assert read("langfuse", {"trace": TRACE, "observations": [priced]}).total("exp.cost.nano_usd") == 123_457


def test_scores_without_their_trace_and_rows_that_are_none_are_exclusions() -> None:
    assert read("langfuse", SCORES[0]).reasons == ["score-without-trace"]
    odd = read(
        "langfuse", {"trace": TRACE, "observations": [3, None, {"x": 1}]}, 7, {"id": "o", "type": "SPAN", "traceId": {}}
    )
    assert odd.reasons[:4] == ["not-an-observation"] * 4
    assert "row-without-trace" in odd.reasons


def test_a_score_that_is_given_twice_is_one() -> None:
    whole = {**TRACE, "observations": OBSERVATIONS, "scores": SCORES[:1]}
    assert len(read("langfuse", whole, SCORES[0]).annotations) == 1


def test_a_tools_own_definition_among_the_messages_is_no_result() -> None:
    defined = {"role": "tool", "content": {"type": "function", "function": {"name": "weather", "parameters": {}}}}
    first = {**OBSERVATIONS[0], "input": [*ASKED, defined]}
    assert pairs(read("langfuse", {"trace": TRACE, "observations": [first, *OBSERVATIONS[1:]]}).only) == PAIRS


def test_rows_in_lists_and_unknown_columns_are_read() -> None:
    assert pairs(read("langfuse", [TRACE, *OBSERVATIONS]).only) == PAIRS
    assert read("langfuse", {"batch": [{"type": "span-create", "body": {"name": "x"}}]}).reasons == [
        "row-without-trace"
    ]
    assert not source("langfuse").recognises(3)
    unnamed = {
        **OBSERVATIONS[0],
        "output": None,
        "toolCalls": [{"id": "c1", "name": "weather", "arguments": '{"city":"Rome"}'}],
    }
    assert pairs(read("langfuse", unnamed, OBSERVATIONS[2]).only) == PAIRS[:1]
    assert read("langfuse", {"id": "x", "value": 1}).reasons == ["not-an-observation"]


def test_a_later_update_that_says_less_takes_nothing_away() -> None:
    emptied: list[dict[str, Any]] = [{"output": None, "input": ""}, {"usageDetails": {}, "output": []}]
    for changed in emptied:
        later = {**OBSERVATIONS[0], **changed, "updatedAt": "2026-02-01T00:00:00Z"}
        assert pairs(read("langfuse", [TRACE, *OBSERVATIONS, later]).only) == PAIRS
