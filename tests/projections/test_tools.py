"""Tools: what the corpus calls, with the schema of what it was called with."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.episode import Turn
from projections.tools import MOST_TOOLS, tools


def turn(tool: str, arguments: Any) -> Turn:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Turn(tool=tool, arguments=text, observation="", error=False)


def schema(*calls: Any) -> dict[str, Any]:
    (made,) = tools(turn("t", call) for call in calls)
    read: dict[str, Any] = json.loads(made.parameters)
    return read


def test_properties_have_the_types_seen_and_are_required_when_always_there() -> None:
    assert schema({"a": "x", "n": 1}, {"a": "y", "n": 1.5, "l": [1]}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "l": {"type": "array", "items": {}}, "n": {"type": "number"}},
        "required": ["a", "n"],
    }
    assert schema({"a": None}, {"a": True}, {"a": {}})["properties"] == {"a": {"type": ["boolean", "null", "object"]}}


def test_nothing_is_required_when_some_calls_were_no_objects() -> None:
    assert schema({"a": "x"}, "plain words")["required"] == []
    assert schema("[1]")["properties"] == {}
    assert schema("[" * 5000)["properties"] == {}


def test_tools_are_in_order_of_name_and_at_most_what_providers_accept() -> None:
    assert [one.name for one in tools([turn("b", {}), turn("a", {}), turn("", {})])] == ["a", "b"]
    many = tools([turn(f"t{number}", {}) for number in range(200)] + [turn("t199", {})])
    assert len(many) == MOST_TOOLS
    assert "t199" in {one.name for one in many}


@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=2) | st.none(), max_size=3)))
def test_the_order_of_calls_decides_nothing(calls: list[dict[str, Any]]) -> None:
    assert tools(turn("t", call) for call in calls) == tools(turn("t", call) for call in reversed(calls))
