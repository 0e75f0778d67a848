"""Whatever stands where: every row ends in a span or an exclusion at its place, in any order, and nothing crashes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.families.traces import Exclusion
from projections.normal_form.sources import DETECTED, SeveralRecognised, detect, source
from tests.projections.sources import (
    test_braintrust,
    test_chat_json,
    test_inspect_ai,
    test_langfuse,
    test_langsmith,
    test_langwatch,
    test_mastra,
    test_posthog,
)
from tests.projections.sources.reading import SHARED, read
from tests.projections.sources.test_shared_files import FILES, shuffled

PRODUCERS = [name for name in DETECTED if name != "otlp"]
DOCUMENTS: dict[str, list[Any]] = {
    "langfuse": [
        {"trace": {**test_langfuse.TRACE, "scores": test_langfuse.SCORES}, "observations": test_langfuse.OBSERVATIONS},
        {"data": [*test_langfuse.OBSERVATIONS, *test_langfuse.SCORES, test_langfuse.TRACE]},
        {"batch": [{"type": "observation-create", "body": one} for one in test_langfuse.OBSERVATIONS]},
    ],
    "langsmith": [
        {"runs": test_langsmith.RUNS},
        {"post": test_langsmith.RUNS, "patch": test_langsmith.RUNS},
        {"runs": [{**test_langsmith.RUNS[0], "child_runs": test_langsmith.RUNS[1:]}]},
    ],
    "braintrust": [
        {"events": test_braintrust.ROWS},
        {
            "span_tree": [
                {"name": "r", "type": "task", "children": [{"name": "c", "type": "llm", "input": "x", "output": "y"}]}
            ]
        },
        [{"name": "r", "type": "task", "input": "x", "output": "y"}, {"name": "r", "type": "llm", "input": "x"}],
    ],
    "posthog": [{"batch": test_posthog.EVENTS}, {"columns": ["event", "properties"], "results": [["$ai_span", "{}"]]}],
    "mastra": [{"spans": test_mastra.SPANS}, {"type": "span_ended", "exportedSpan": test_mastra.SPANS[1]}],
    "langwatch": [
        test_langwatch.TRACE,
        {"groups": [[test_langwatch.TRACE]]},
        {"scopeName": "a", "spanName": "b", "attributes": {"ai.prompt.messages": "[]", "ai.response.text": "x"}},
    ],
    "inspect": [test_inspect_ai.LOG, test_inspect_ai.SAMPLE],
    "chat-json": [
        {"messages": test_chat_json.WHOLE},
        {"data": test_chat_json.LOG},
        {"request": {"input": "x"}, "response": [{"choices": [{"delta": {"content": "y"}}]}]},
    ],
}
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ['"{', '[{"role":"user","content":[1]}]', '{"a":"\\ud800"}', "2026-13-45T99:00:00Z", "<x:1>", "\x00", "9" * 400]
    )
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "id", "role", "content", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in a document."""
    found = [path]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        found += places(inner, (*path, name))
    return found


def mutated(document: Any, choose: random.Random, values: list[Any]) -> Any:
    """A document in which some values are others, or gone, or there twice."""
    made = copy.deepcopy(document)
    for value in values:
        path = choose.choice(places(made))
        if not path:
            continue
        holder = made
        for name in path[:-1]:
            holder = holder[name]
        if choose.random() < 0.2:
            del holder[path[-1]]
        elif isinstance(holder, list) and choose.random() < 0.3:
            holder.append(copy.deepcopy(choose.choice(holder)))
        else:
            holder[path[-1]] = value
    return made


def told(name: str, documents: list[Any]) -> Any:
    found = read(name, *documents)
    digests = sorted((trace, span.digest) for trace, spans in found.spans.items() for span in spans)
    return digests, {trace: (one.task, one.turns, one.final) for trace, one in found.traces.items()}


@pytest.mark.parametrize("name", PRODUCERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_mutated_documents_are_read_or_excluded(name: str, data: st.DataObject) -> None:
    choose = data.draw(st.randoms(use_true_random=False))
    document = mutated(choose.choice(DOCUMENTS[name]), choose, data.draw(st.lists(ANYTHING, min_size=1, max_size=6)))
    source(name).recognises(document)
    read(name, document)


@pytest.mark.parametrize("name", PRODUCERS)
@settings(max_examples=60, deadline=None)
@given(document=ANYTHING)
def test_any_document_is_read_or_excluded(name: str, document: Any) -> None:
    source(name).recognises(document)
    found = read(name, document)
    assert found.rows or found.exclusions or hollow(document)


def hollow(document: Any) -> bool:
    """Tell whether a document holds no rows at all: lists of nothing, and lists of these."""
    return isinstance(document, list) and all(map(hollow, document))


@pytest.mark.parametrize("name", [name for name in FILES if "llamaindex" in name or "span-tree" not in name])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_mutated_shared_files_are_read_or_excluded(name: str, data: st.DataObject) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the shared data isn't here: {path}")
    content = path.read_text()
    documents = [json.loads(content)] if name.endswith(".json") else [json.loads(line) for line in content.splitlines()]
    choose = data.draw(st.randoms(use_true_random=False))
    values = data.draw(st.lists(ANYTHING, min_size=1, max_size=12))
    read(FILES[name], *[mutated(one, choose, values) for one in documents])


@pytest.mark.parametrize("name", PRODUCERS)
@settings(max_examples=25, deadline=None)
@given(order=st.randoms(use_true_random=False))
def test_rows_in_any_order_are_the_same(name: str, order: random.Random) -> None:
    for document in DOCUMENTS[name]:
        if not (isinstance(document, dict) and "span_tree" in document):
            assert told(name, shuffled([document], order)) == told(name, [document])


@pytest.mark.parametrize("name", PRODUCERS)
def test_own_documents_are_recognised_by_their_producer_alone(name: str) -> None:
    for document in DOCUMENTS[name]:
        if not (name == "chat-json" and "data" in document):
            assert detect([document])[0] == name


def test_two_producers_in_one_input_are_not_guessed_between() -> None:
    with pytest.raises(SeveralRecognised):
        detect([DOCUMENTS["posthog"][0], DOCUMENTS["inspect"][0]])


@pytest.mark.parametrize("name", PRODUCERS)
def test_documents_nested_as_deeply_as_they_are_read(name: str) -> None:
    deep: Any = "x"
    for _ in range(90):
        deep = {"content": [deep]}
    for document in DOCUMENTS[name]:
        text = json.dumps(document)
        for words in ("Go.", "Add.", "x", "Look.", "Weather?", "List."):
            read(name, json.loads(text.replace(json.dumps(words), json.dumps(deep))))


def test_a_long_conversation_is_read_in_a_time_that_grows_with_it() -> None:
    said = [{"role": role, "content": f"{role} {n}"} for n in range(2_000) for role in ("user", "assistant")]
    found = read("chat-json", {"messages": said})
    assert found.only.final == "assistant 1999"
    assert len(found.spoken) == 1


@pytest.mark.parametrize("name", PRODUCERS)
def test_exclusions_carry_a_short_excerpt(name: str) -> None:
    (found,) = [one for one in source(name).rows({"x": "y" * 10_000}, "line 1") if isinstance(one, Exclusion)]
    assert 10 < len(found.detail) <= 200
