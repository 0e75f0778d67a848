"""PostHog's exports: events in batches, pages and queried rows."""

from __future__ import annotations

import json
from typing import Any

from projections.normal_form.sources import source
from tests.projections.sources.reading import pairs, read


def event(number: int, name: str, **properties: Any) -> dict[str, Any]:
    held = {f"$ai_{key}": value for key, value in properties.items()} | {"$ai_trace_id": "t1"}
    return {"event": name, "uuid": f"u{number}", "timestamp": f"2026-01-01T00:00:0{number}Z", "properties": held}


CALLS = [
    {"id": f"c{n}", "type": "function", "function": {"name": f"tool{n}", "arguments": f'{{"n":{n}}}'}} for n in (1, 2)
]
EVENTS = [
    event(
        1,
        "$ai_generation",
        span_id="g1",
        parent_id="t1",
        model="m1",
        provider="p1",
        latency=0.5,
        input=[{"role": "user", "content": "Go."}],
        output_choices=[
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Yes."},
                    *({"type": "function", "id": one["id"], "function": one["function"]} for one in CALLS),
                ],
            }
        ],
        input_tokens=5,
        output_tokens=2,
        total_cost_usd=0.000002,
        session_id="s1",
    ),
    event(2, "$ai_span", span_id="x2", span_name="tool2", parent_id="t1", input_state={"n": 2}, output_state="two"),
    event(3, "$ai_span", span_id="x1", span_name="tool1", parent_id="t1", input_state='{"n":1}', output_state="one"),
    event(
        4,
        "$ai_generation",
        input=[{"role": "user", "content": "Go."}],
        output_choices=[{"role": "assistant", "content": "Done."}],
    ),
    event(
        5,
        "$ai_trace",
        input_state={"messages": [{"role": "user", "content": "Go on."}]},
        output_state="Done.",
        latency=9,
    ),
    event(6, "$ai_metric", metric_name="quality", metric_value="0.75"),
    event(7, "$ai_feedback", feedback_text="Nice."),
    event(8, "$ai_evaluation", evaluation_name="right", evaluation_result=False, evaluation_reasoning="no"),
]


def test_spans_that_ran_what_was_called_are_its_runs() -> None:
    found = read("posthog", {"batch": EVENTS})
    assert pairs(found.only) == [("tool1", '{"n":1}', "one"), ("tool2", '{"n":2}', "two")]
    assert (found.only.task, found.only.final) == ("Go on.", "Done.")
    assert found.total("gen_ai.usage.input_tokens") == 5
    assert found.total("exp.cost.nano_usd") == 2_000
    assert found.spoken[0].attributes["gen_ai.conversation.id"] == "s1"
    assert found.spoken[0].end - found.spoken[0].start == 500_000_000


def test_metrics_feedback_and_evaluations_are_annotations_of_the_trace() -> None:
    found = read("posthog", {"batch": EVENTS})
    assert sorted(found.annotations, key=lambda note: note["origin"], reverse=True) == [
        {"name": "quality", "value": "0.75", "label": "", "origin": "unknown", "comment": ""},
        {"name": "right", "value": "0", "label": "false", "origin": "model", "comment": "no"},
        {"name": "feedback", "value": "", "label": "", "origin": "human", "comment": "Nice."},
    ]
    assert read("posthog", EVENTS[5]).reasons == ["score-without-trace"]


def test_properties_in_texts_and_rows_of_queries_are_the_same() -> None:
    told = pairs(read("posthog", {"batch": EVENTS}).only)
    texts = [{**one, "properties": json.dumps(one["properties"])} for one in EVENTS]
    columns = ["uuid", "event", "timestamp", "properties"]
    queried = {"columns": columns, "results": [[one[name] for name in columns] for one in texts]}
    for documents in ([{"results": EVENTS}], texts, [texts], [queried]):
        assert source("posthog").recognises(documents[0])
        assert pairs(read("posthog", *documents).only) == told


def test_an_error_that_is_an_object_is_its_message() -> None:
    failed = event(
        1, "$ai_generation", input="Hi.", is_error=True, error=json.dumps({"type": "Timeout", "message": "too slow"})
    )
    (span,) = read("posthog", failed).spoken
    assert (span.attributes["error.type"], span.attributes["error.message"]) == ("Timeout", "too slow")
    fine = event(1, "$ai_generation", input="Hi.", is_error=False, error="left over")
    assert not read("posthog", fine).spoken[0].error


def test_other_events_are_exclusions_and_one_without_a_trace_is_one() -> None:
    lone = event(1, "$ai_generation", input="Hi.", output_choices=[{"role": "assistant", "content": "Ho."}])
    del lone["properties"]["$ai_trace_id"]
    found = read("posthog", {"batch": [{"event": "$pageview", "properties": {}}, lone, 3]}, 4, {})
    assert found.reasons == ["event-of-another-kind", "not-an-event", "not-an-event", "not-an-event"]
    assert (found.only.name, found.only.final) == ("u1", "Ho.")


def test_a_metric_without_a_trace_is_an_exclusion_and_ids_are_no_truths() -> None:
    lone = {"event": "$ai_metric", "properties": {"$ai_trace_id": True}}
    assert read("posthog", lone).reasons == ["row-without-trace"]
    assert not source("posthog").recognises(3)


def test_a_span_that_says_it_is_a_tools_is_one_without_a_call() -> None:
    run = event(2, "$ai_span", span_name="lookup", span_type="tool", input_state={"n": 2}, output_state="two")
    assert pairs(read("posthog", run).only) == [("lookup", '{"n":2}', "two")]
