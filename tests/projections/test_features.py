"""Features: the last user turn and the tools, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.episode import Tool
from projections.features import LONGEST, feature_text, request_features, task_features

TOOL = Tool(name="bash", description="", parameters="{}")
CHAT = {"type": "function", "function": {"name": "bash"}}
RESPONSES = {"type": "function", "name": "bash"}
LAST = {"role": "user", "content": "sort the file"}


def test_the_prefix_that_requests_share_says_nothing() -> None:
    long = [{"role": "system", "content": "rules"}, {"role": "user", "content": "before"}, {"role": "assistant"}, LAST]
    assert feature_text(long, [TOOL]) == feature_text([LAST], [TOOL])


@pytest.mark.parametrize("tool", [TOOL, CHAT, RESPONSES])
def test_a_tool_is_known_by_its_name_in_every_dialect(tool: Any) -> None:
    assert feature_text([LAST], [tool]) == "sort the file\nbash"


def test_the_order_of_tools_doesnt_matter_but_which_there_are_does() -> None:
    other = Tool(name="python", description="", parameters="{}")
    assert feature_text([LAST], [TOOL, other]) == feature_text([LAST], [other, TOOL])
    assert feature_text([LAST], [TOOL]) != feature_text([LAST], [other])


@pytest.mark.parametrize(
    "content", [[{"type": "text", "text": "sort the file"}], ({"text": "sort the file"}, {"image": 1})]
)
def test_a_turn_may_come_in_parts(content: Any) -> None:
    assert feature_text([{"role": "user", "content": content}], []) == "sort the file"


@pytest.mark.parametrize("messages", [[], [{"role": "user"}], [{"role": "user", "content": 7}], [{"role": "system"}]])
def test_a_request_without_a_user_turn_has_features_too(messages: Any) -> None:
    assert request_features(messages, []).any()


def test_a_long_turn_keeps_its_beginning_and_its_end() -> None:
    text = feature_text([{"role": "user", "content": "a" * LONGEST + "b" * LONGEST}], [])
    assert len(text) == LONGEST
    assert (text[0], text[-1]) == ("a", "b")


def test_a_task_has_the_features_of_the_request_that_carries_it() -> None:
    rows = task_features(["sort the file", "other"], [TOOL])
    assert (rows[0] == request_features([LAST], [CHAT])).all()
