"""Every file of the shared data from a product: what was read from it is what a person reads in it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ledger.families.traces import Model, Usage
from projections.normal_form.sources import detect
from tests.projections.sources.reading import SHARED, Read, pairs, read, shared

WEATHER = "mcp__weather__get_weather"
CALCULATOR = "mcp__calculator__calculator"
FILES = {
    "langfuse/claude-agent-2025-12-22.trace.json": "langfuse",
    "langfuse/langgraph-python-2025-08-22.trace.json": "langfuse",
    "langfuse/llamaindex-2025-06-05.trace.json": "langfuse",
    "langfuse/microsoft-agent-2025-12-17.trace.json": "langfuse",
    "langfuse/pydantic-ai-tools-2025-12-04.trace.json": "langfuse",
    "langsmith/langsmith_py_wrap_openai_.json": "langsmith",
    "langsmith/langsmith_py_wrap_openai_stream.json": "langsmith",
    "braintrust/claude-agent-sdk.span-tree.json": "braintrust",
    "braintrust/langgraph.log-payloads.json": "braintrust",
    "braintrust/mastra-v1.log-payloads.json": "braintrust",
    "posthog/posthog-python-ai-batches.json": "posthog",
    "langwatch/codex-B.session_task_turn.json": "langwatch",
    "langwatch/gemini-B.llm_call.json": "langwatch",
    "langwatch/opencode-B.doStream.json": "langwatch",
    "inspect/popularity.json": "inspect",
    "openai-chat/openai-sdk-request-response.jsonl": "chat-json",
}


def of(name: str) -> Read:
    return read(FILES[name], *shared(name))


@pytest.mark.parametrize("name", FILES)
def test_a_shared_file_is_recognised_as_one_producers(name: str) -> None:
    assert detect(shared(name))[0] == FILES[name]


def test_no_file_of_the_products_is_left_untested() -> None:
    if not SHARED.exists():
        pytest.skip(f"the shared data isn't here: {SHARED}")
    folders = {name.split("/")[0] for name in FILES}
    found = {f"{path.parent.name}/{path.name}" for path in SHARED.glob("*/*") if path.parent.name in folders}
    assert found == {*FILES, "langwatch/claude_code.payload.json"}


def test_langfuse_claude_agent_pairs_calls_with_runs_that_have_no_call_id() -> None:
    found = of("langfuse/claude-agent-2025-12-22.trace.json")
    assert found.only.name == "097f1d8982fa909b8cffb14a166ec272"
    assert found.only.task == "What's the weather like in Berlin and New York?"
    assert pairs(found.only) == [
        (WEATHER, '{"city":"Berlin"}', "Weather in Berlin: Cloudy, 59°F"),
        (WEATHER, '{"city":"New York"}', "Weather in New York: Sunny, 75°F"),
    ]
    assert (found.only.final or "").startswith("Great! Here's the current weather for both cities:")
    assert {span.attributes["gen_ai.request.model"] for span in found.spoken} == {"claude-sonnet-4-5-20250929"}
    assert found.only.usage == Usage(input_tokens=19 + 5 + 5 + 5, output_tokens=29 + 53 + 56 + 94)
    assert found.only.cost == 492_000 + 810_000 + 855_000 + 1_425_000
    assert found.only.duration_us == 7_360_000
    assert [turn.call_id for turn in found.only.turns] == [
        "toolu_01TKoqQLvY2UWuC49qnD48y7",
        "toolu_01NtVat4vJLFfVd5TqdLHcA7",
    ]
    assert [(note.name, note.value, note.origin) for note in found.only.annotations] == [
        ("correctness", "0", "model"),
        ("hallucination", "1", "model"),
        ("toxicity", "0", "model"),
    ]


def test_langfuse_langgraph_takes_the_task_from_the_root_and_the_tool_from_its_message() -> None:
    found = of("langfuse/langgraph-python-2025-08-22.trace.json")
    assert found.only.task == "Search the web for 'example' and summarize."
    result = '[{"url": "https://example.com", "title": "Example Result", "q": "example"}]'
    assert pairs(found.only) == [("Web-Search", '{"query":"example"}', result)]
    assert (found.only.final or "").startswith('The search for "example" primarily leads to')
    assert found.total("gen_ai.usage.input_tokens") == 168
    assert found.total("exp.cost.nano_usd") == 234_000
    assert sorted(note["value"] for note in found.annotations) == ["0", "0.1"]


def test_langfuse_llamaindex_reads_a_completions_arguments() -> None:
    found = of("langfuse/llamaindex-2025-06-05.trace.json")
    assert found.only.task == "What is Langfuse?"
    assert (found.only.final or "").startswith("Langfuse is a tool designed to help developers")
    assert found.only.cost == 842_500
    assert found.only.usage == Usage(input_tokens=13, output_tokens=81, cached_tokens=0, reasoning_tokens=0)
    assert found.only.conversation_id == "session_abc"


def test_langfuse_microsoft_agent_counts_tokens_once() -> None:
    found = of("langfuse/microsoft-agent-2025-12-17.trace.json")
    ((tool, arguments, observation),) = pairs(found.only)
    assert (tool, arguments) == ("get_weather", '{"location":"Tokyo, Japan"}')
    assert "The weather in Tokyo, Japan is stormy with a high of 23" in observation
    assert found.only.final == "Current conditions in Tokyo, Japan: stormy, high around 23°C."
    assert found.only.usage == Usage(input_tokens=77 + 216, output_tokens=86 + 20)
    assert found.only.cost == 191_250 + 94_000
    assert found.only.system == "You are a helpful assistant."


def test_langfuse_pydantic_ai_pairs_three_parallel_calls() -> None:
    found = of("langfuse/pydantic-ai-tools-2025-12-04.trace.json")
    assert found.only.task.startswith("Select and call THREE of the available tools")
    assert [(tool, observation.split(":")[0]) for tool, _, observation in pairs(found.only)] == [
        ("get_pun_suggestion", "Pun idea"),
        ("get_dad_joke_suggestion", "Dad joke idea"),
        ("get_one_liner_suggestion", "One-liner idea"),
    ]
    assert found.only.usage == Usage(input_tokens=265 + 417 + 502 + 131, output_tokens=73 + 53 + 14 + 69)
    assert found.only.final == "Why do programmers hate nature?  \nIt has too many bugs!"
    assert found.only.models == (Model(requested="gpt-4o-mini-2024-07-18", provider="openai"),)


@pytest.mark.parametrize("name", ["langsmith_py_wrap_openai_", "langsmith_py_wrap_openai_stream"])
def test_langsmith_runs_are_what_was_posted_and_what_was_patched(name: str) -> None:
    found = of(f"langsmith/{name}.json")
    assert (found.only.task, found.only.final) == ("howdy", "Howdy! How can I assist you today?")
    (chat,) = found.spoken
    assert chat.merged == ("line 1, patch 1",)
    assert chat.attributes["gen_ai.request.model"] == "gpt-4o-mini"
    assert chat.attributes["gen_ai.response.model"] == "gpt-4o-mini-2024-07-18"
    assert chat.attributes["gen_ai.usage.input_tokens"] == chat.attributes["gen_ai.usage.output_tokens"] == 9
    assert chat.end - chat.start == (1_118_333_000 if name.endswith("_") else 1_328_441_000)


def test_langsmith_streams_are_read_from_their_tokens_when_nothing_else_is_kept() -> None:
    (document,) = shared("langsmith/langsmith_py_wrap_openai_stream.json")
    for run in document["patch"]:
        run["outputs"] = {}
    assert read("langsmith", document).only.final == "Howdy! How can I assist you today?"


def test_a_braintrust_tree_whose_root_says_nothing_is_a_trace_for_each_operation() -> None:
    found = of("braintrust/claude-agent-sdk.span-tree.json")
    by_operation = {
        next(value for name, value in trace.attributes if name == "braintrust.operation"): trace
        for trace in found.traces.values()
    }
    assert sorted(by_operation) == ["async-prompt", "basic", "failure", "subagent", "subagent-built-in-tool"]
    basic = by_operation["basic"]
    assert basic.task == "Use the calculator tool to multiply 15 by 7. Do not answer from memory."
    assert pairs(basic) == [(CALCULATOR, '{"a":15,"b":7,"operation":"multiply"}', "multiply(15, 7) = 105")]
    assert basic.final == "The result of multiplying 15 by 7 is **105**."
    failure = by_operation["failure"]
    assert pairs(failure) == [(CALCULATOR, '{"a":2,"b":0,"operation":"divide"}', "division by zero")]
    assert failure.turns[0].error
    delegated = by_operation["subagent"]
    assert [turn.tool for turn in delegated.turns] == ["Agent", CALCULATOR]
    assert delegated.turns[1].observation == "add(15, 27) = 42"
    assert "**42**" in delegated.turns[0].observation
    echoed = by_operation["subagent-built-in-tool"]
    assert [turn.tool for turn in echoed.turns] == ["Agent", "Bash"]
    assert json.loads(echoed.turns[1].observation)["stdout"] == "hello"
    assert by_operation["async-prompt"].turns == ()
    assert found.total("gen_ai.usage.output_tokens") >= 174 + 45


def test_braintrust_rows_merge_and_placeholders_are_no_counts() -> None:
    found = of("braintrust/langgraph.log-payloads.json")
    assert found.only.name == "<span:3>"
    assert (found.only.task, found.only.final) == ("Reply with exactly: hello from langgraph", "hello from langgraph")
    root = next(span for span in found.spans["<span:3>"] if span.place == "line 1, row 1")
    assert root.merged == ("line 1, row 2",)
    assert len(found.spans["<span:3>"]) == 6
    assert found.total("gen_ai.usage.input_tokens") == 0
    assert {span.attributes["gen_ai.request.model"] for span in found.spoken} == {"gpt-4o-mini-2024-07-18"}


def test_braintrust_rows_without_ids_are_read_by_the_task_they_share() -> None:
    found = of("braintrust/mastra-v1.log-payloads.json")
    told = sorted((trace.task, trace.final) for trace in found.traces.values())
    assert told == [
        ("Stream the Paris forecast.", "The forecast is sunny."),
        ("What is the weather in Paris?", "The forecast is sunny."),
        ('{"city":"Berlin"}', '{"forecast":"Sunny in Berlin"}'),
    ]
    assert found.total("gen_ai.usage.input_tokens") == 20
    assert found.reasons.count("row-without-trace") == 10


def test_posthog_batches_are_three_traces_and_the_last_failed() -> None:
    found = of("posthog/posthog-python-ai-batches.json")
    assert {name: trace.task for name, trace in found.traces.items()} == {
        "trace-0": "How many lines does /etc/hosts have?",
        "trace-1": "List the files in /tmp",
    }
    (failed,) = found.spans["trace-err"]
    assert failed.error
    assert failed.attributes["error.message"].startswith("Error code: 400 - request (9031 tokens)")
    assert [span.attributes.get("gen_ai.usage.cache_read.input_tokens") for span in found.spoken] == [4, 15, None]
    assert {span.attributes.get("gen_ai.conversation.id") for span in found.spoken} == {"c1", None}
    took = [span.end - span.start for span in found.spoken]
    assert took == [749_192_237, 585_297_822, 17_266_273]


def test_langwatch_spans_without_ids_or_times() -> None:
    gemini = of("langwatch/gemini-B.llm_call.json")
    assert (gemini.only.final or "").startswith('{"complexity_reasoning": "The user request is a trivial')
    parts = [part for message in gemini.spoken[0].attributes["gen_ai.output.messages"] for part in message["parts"]]
    assert [part["type"] for part in parts] == ["reasoning", "text"]
    assert "Task Routing AI" in gemini.spoken[0].attributes["gen_ai.system_instructions"][0]["content"]
    opencode = of("langwatch/opencode-B.doStream.json")
    assert opencode.only.task == "Turn 1: reply with exactly the line PONG-OPENCODE-B1 and nothing else."
    assert opencode.only.final == "PONG-OPENCODE-B1"
    (chat,) = opencode.spoken
    assert chat.attributes["gen_ai.usage.input_tokens"] == 12_632
    assert [tool["name"] for tool in chat.attributes["gen_ai.tool.definitions"]][:2] == ["bash", "edit"]
    codex = of("langwatch/codex-B.session_task_turn.json")
    assert codex.traces == {}
    (turn,) = codex.spoken
    assert turn.attributes["gen_ai.usage.input_tokens"] == 13_297
    assert turn.attributes["gen_ai.usage.cache_read.input_tokens"] == 4_480
    assert turn.attributes["gen_ai.usage.reasoning.output_tokens"] == 10
    assert turn.attributes["gen_ai.request.model"] == "gpt-5.5"


def test_inspect_samples_have_their_grades() -> None:
    found = of("inspect/popularity.json")
    read_of = {
        span.attributes["exp.task.id"]: (found.traces[span.trace].final, span.attributes["exp.annotations"][0])
        for span in found.spoken
    }
    assert sorted(read_of) == ["popularity/1", "popularity/2", "popularity/3"]
    graded = {task: (final, note["value"], note["label"]) for task, (final, note) in read_of.items()}
    assert graded == {
        "popularity/1": ("Yes", "1", "C"),
        "popularity/2": ("No", "1", "C"),
        "popularity/3": ("No", "0", "I"),
    }
    assert {note["origin"] for note in found.annotations} == {"code"}
    assert found.total("gen_ai.usage.input_tokens") == 192
    assert {trace.task_id for trace in found.traces.values()} == set(graded)
    assert {span.attributes["inspect.target"].strip() for span in found.spoken} == {"Yes", "No"}
    assert all(span.end - span.start < 2 * 10**9 for span in found.spoken)
    assert {span.attributes["gen_ai.response.model"] for span in found.spoken} == {"gpt-4o-mini-2024-07-18"}


def test_openai_exchanges_are_a_trace_each() -> None:
    found = of("openai-chat/openai-sdk-request-response.jsonl")
    assert sorted(trace.task for trace in found.traces.values()) == [
        "How many lines does /etc/hosts have?",
        "Reply with the single word ready.",
        "Show the file /tmp/nope.txt",
    ]
    assert found.total("gen_ai.usage.input_tokens") == 28 + 28 + 26
    assert found.total("gen_ai.usage.cache_read.input_tokens") == 5 + 12 + 12
    assert {span.attributes["gen_ai.response.model"] for span in found.spoken} == {"smollm2-135m-instruct"}


def shuffled(value: Any, order: random.Random, depth: int = 0) -> Any:
    """A document with its rows in another order: those of its lists of rows, never of messages."""
    if isinstance(value, list) and depth < 3 and all(isinstance(one, dict) and "role" not in one for one in value):
        return order.sample([shuffled(one, order, depth + 1) for one in value], len(value))
    if isinstance(value, dict) and depth < 3:
        rows = ("observations", "post", "patch", "batch", "samples", "trace", "scores")
        return {name: shuffled(it, order, depth + 1) if name in rows else it for name, it in value.items()}
    return value


@pytest.mark.parametrize("name", [name for name in FILES if "span-tree" not in name])
def test_rows_in_another_order_are_the_same_traces(name: str) -> None:
    documents = shared(name)
    told = {
        trace: (found.task, found.turns, found.final) for trace, found in read(FILES[name], *documents).traces.items()
    }
    digests = {span.digest for spans in read(FILES[name], *documents).spans.values() for span in spans}
    for seed in range(4):
        again = read(FILES[name], *shuffled(documents, random.Random(seed)))  # noqa: S311 - an order, no secret
        assert {trace: (one.task, one.turns, one.final) for trace, one in again.traces.items()} == told
        assert {span.digest for spans in again.spans.values() for span in spans} == digests
