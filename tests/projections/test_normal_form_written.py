"""The normal form as OTLP JSON: what is written is valid, and reading it again gives the same bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ledger.episode import Turn
from ledger.families import traces
from ledger.families.traces import Annotation, Model, Trace, Usage
from projections.normal_form.written import written
from tests.projections.spans_double import lines, read, session

texts = st.text(st.characters(codec="utf-8"), max_size=12)
counts = st.none() | st.integers(0, 2**53 - 1)
turns = st.builds(
    Turn,
    tool=texts,
    arguments=texts | st.just('{"a":"\\u0000"}'),
    observation=texts,
    error=st.booleans(),
    call_id=texts,
    said=texts,
    paired=st.sampled_from(["", "parent", "order"]),
)
some = st.builds(
    Trace,
    name=texts | st.just("0af7651916cd43dd8448eb211c80319c") | st.just("0" * 32),
    source=texts,
    task=texts,
    turns=st.lists(turns, max_size=3).map(tuple),
    final=st.none() | texts,
    attributes=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    task_id=texts,
    conversation_id=texts,
    system=texts,
    models=st.lists(st.builds(Model, requested=texts, served=texts, provider=texts), max_size=2).map(tuple),
    usage=st.none() | st.builds(Usage, input_tokens=counts, output_tokens=counts, cached_tokens=counts),
    cost=counts,
    duration_us=counts,
    errors=st.lists(texts, max_size=2).map(tuple),
    annotations=st.lists(st.builds(Annotation, name=texts, value=texts, label=texts), max_size=2).map(tuple),
    reward=texts,
)


def keep(text: str) -> tuple[str, int]:
    return text, 0


@settings(max_examples=150, deadline=None)
@given(some, st.randoms(use_true_random=False))
def test_what_is_written_is_read_as_the_same_trace_whatever_the_order(trace: Trace, chance: Any) -> None:
    document = written(trace)
    chance.shuffle(document["resourceSpans"][0]["scopeSpans"][0]["spans"])
    export = read(lines([document]), keep)
    assert [traces.encoded(one) for one in export.traces] == [traces.encoded(trace)]
    assert export.exclusions == ()
    assert export.totals.used == export.totals.units == len(trace.turns) + 1


@settings(max_examples=40, deadline=None)
@given(some)
def test_what_is_written_is_a_message_of_the_protocol_with_ids_of_the_right_length(trace: Trace) -> None:
    document = written(trace)
    json_format.ParseDict(document, ExportTraceServiceRequest())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {(len(bytes.fromhex(span["traceId"])), len(bytes.fromhex(span["spanId"]))) for span in spans} == {(16, 8)}
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert all(span.get("parentSpanId", spans[0]["spanId"]) == spans[0]["spanId"] for span in spans)


def test_others_find_task_steps_and_closing_words_under_the_names_of_the_conventions() -> None:
    trace = read(lines(session("t", "Say hi", [("echo hi", "hi\n")], errors=[0]))).traces[0]
    trace = msgspec.structs.replace(trace, final="Said.", system="Be brief.", usage=Usage(input_tokens=5))
    document = written(trace)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["attributes"] = [one for one in span["attributes"] if not one["key"].startswith("exp.")]
    (other,) = read(lines([document])).traces
    assert (other.task, other.final, other.system) == ("Say hi", "Said.", "Be brief.")
    assert [(turn.tool, turn.arguments, turn.observation, turn.error) for turn in other.turns] == [
        (turn.tool, turn.arguments, turn.observation, True) for turn in trace.turns
    ]
    root = {one["key"]: one["value"] for one in document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]}
    assert root["gen_ai.usage.input_tokens"] == {"intValue": "5"}


def test_what_was_written_and_is_no_longer_whole_is_read_as_any_other_spans() -> None:
    trace = read(lines(session("t", "Say hi", [("echo hi", "hi\n"), ("true", "")]))).traces[0]
    document = written(trace)
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    del spans[1]
    (partial,) = read(lines([document])).traces
    assert [turn.arguments for turn in partial.turns] == [trace.turns[1].arguments]
    assert partial.source != trace.source
    for broken in ("{", json.dumps({"name": 1}), json.dumps({"number": 0})):
        document = written(trace)
        for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for one in span["attributes"]:
                if one["key"] in ("exp.trace", "exp.turn"):
                    one["value"] = {"stringValue": broken}
        assert len(read(lines([document])).traces[0].turns) == 2


def test_credentials_in_what_was_written_are_taken_out_too() -> None:
    key = "sk-" + "abcdEFGH1234" * 3
    trace = read(lines(session("t", f"Use {key}", [("a", f"ok {key}")])), keep).traces[0]
    (clean,) = read(lines([written(trace)])).traces
    assert key.encode() not in traces.encoded(clean)
    hidden = json.dumps(written(trace)).replace(key, key.replace("-", "\\\\u002d")).encode()
    (clean,) = read([hidden]).traces
    assert (clean.task, clean.source) == ("Use [redacted]", trace.source)
