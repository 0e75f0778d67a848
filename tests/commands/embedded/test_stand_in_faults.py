"""Faults: which requests they strike, and what they do to an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from commands.embedded import faults
from commands.embedded.answer import CHAT, EMBEDDINGS, RESPONSES, answer
from commands.embedded.faults import Fault, Faults
from tests.commands.embedded.asking import COMMAND, agent, embeddings, example, judgment, responses, simulation, turn


@pytest.mark.parametrize(
    ("written", "struck"),
    [
        ("500", [1, 2, 3, 4, 5, 6]),
        ("500:first=2", [1, 2]),
        ("500:every=3", [3, 6]),
        ("500:after=4", [5, 6]),
        ("500:after=2:first=1", [3]),
        ("500:every=2:first=4", [2, 4]),
    ],
)
def test_a_fault_strikes_the_requests_that_it_says(written: str, struck: list[int]) -> None:
    counted = Faults((faults.parse(written),))
    assert [number for number in range(1, 7) if counted.struck("judge")] == struck


def test_a_fault_of_a_role_counts_and_strikes_that_role_alone() -> None:
    counted = Faults((faults.parse("empty:every=2:role=judge"),))
    found = [counted.struck(role) for role in ("judge", "candidate", "candidate", "judge", "world-model")]
    assert [fault is not None for fault in found] == [False, False, False, True, False]


def test_of_two_faults_the_first_strikes_and_both_count() -> None:
    counted = Faults((faults.parse("429:first=1"), faults.parse("500:every=2")))
    found = [counted.struck("candidate") for _ in range(4)]
    assert [fault and fault.kind for fault in found] == ["429", "500", None, "500"]
    both = Faults((faults.parse("429:first=1"), faults.parse("500:first=1")))
    assert both.struck("candidate") == faults.parse("429:first=1")


@pytest.mark.parametrize(
    "written",
    [
        "",
        "418",
        "empty:every=0",
        "empty:first=0",
        "empty:every=x",
        "empty:role=nobody",
        "empty:often",
        "empty:after=-1",
    ],
)
def test_a_fault_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"fault|setting|whole number"):
        faults.parse(written)


def spoiled(kind: str, api: str, request: dict[str, Any]) -> dict[str, Any]:
    status, body = answer(api, request)
    assert status == 200
    before = json.dumps(body)
    found = faults.spoiled(Fault(kind), body)
    assert json.dumps(body) == before
    return found


def content(kind: str, request: dict[str, Any]) -> str:
    found: str = spoiled(kind, CHAT, request)["choices"][0]["message"]["content"]
    return found


SIMULATION = simulation(COMMAND, example(COMMAND, "3.1.0\n"))
JUDGMENT = judgment(turn())


@pytest.mark.parametrize("request_", [SIMULATION, JUDGMENT])
@pytest.mark.parametrize("kind", ["malformed", "truncated"])
def test_broken_json_is_broken(kind: str, request_: dict[str, Any]) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(content(kind, request_))


def test_a_truncated_answer_says_that_it_is() -> None:
    assert spoiled("truncated", CHAT, SIMULATION)["choices"][0]["finish_reason"] == "length"
    assert spoiled("truncated", RESPONSES, responses())["status"] == "incomplete"


def test_an_empty_answer_has_neither_text_nor_calls() -> None:
    message = spoiled("empty", CHAT, agent())["choices"][0]["message"]
    assert message["content"] == ""
    assert "tool_calls" not in message
    assert spoiled("empty", RESPONSES, responses())["output"] == []


def test_scores_out_of_range_are_valid_json_beyond_any_axis() -> None:
    assert json.loads(content("out-of-range", JUDGMENT))["axes"]["task-success"]["score"] > 1000
    assert not isinstance(json.loads(content("out-of-range", SIMULATION))["error"], bool)


def test_broken_arguments_of_a_call_are_no_json() -> None:
    for kind in ("malformed", "truncated"):
        call = spoiled(kind, CHAT, agent())["choices"][0]["message"]["tool_calls"][0]
        item = spoiled(kind, RESPONSES, responses())["output"][-1]
        for arguments in (call["function"]["arguments"], item["arguments"]):
            with pytest.raises(json.JSONDecodeError):
                json.loads(arguments)


def test_another_model_reports_another_name() -> None:
    for api, request in ((CHAT, agent()), (RESPONSES, responses()), (EMBEDDINGS, embeddings())):
        assert spoiled("wrong-model", api, request)["model"] != request["model"]


def test_vectors_are_missing_unreadable_or_out_of_place() -> None:
    assert spoiled("empty", EMBEDDINGS, embeddings())["data"] == []
    assert len(spoiled("truncated", EMBEDDINGS, embeddings())["data"]) == 1
    assert {row["index"] for row in spoiled("out-of-range", EMBEDDINGS, embeddings())["data"]} == {2, 3}
    assert spoiled("malformed", EMBEDDINGS, embeddings())["data"][0]["embedding"] == "not a vector"


def test_usage_and_shape_can_be_missing() -> None:
    for api, request in ((CHAT, agent()), (RESPONSES, responses()), (EMBEDDINGS, embeddings())):
        assert "usage" not in spoiled("no-usage", api, request)
        assert not {"choices", "output", "data"} & set(spoiled("wrong-shape", api, request))
