"""Messages exactly as the conventions say are read in one go, and say what the same messages say in another form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.normal_form.messages import Message, messages, written

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PARTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "content": st.text()}),
    st.fixed_dictionaries(
        {"type": st.just("tool_call"), "id": st.text() | st.none(), "name": st.text(), "arguments": VALUES}
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_call_response"), "id": st.text(), "response": st.none() | st.text() | VALUES}
    ),
    st.fixed_dictionaries({"type": st.just("tool_call_response"), "id": st.text(), "result": st.text()}),
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "system", "tool", "model"]),
            "parts": st.lists(PARTS, max_size=4),
        },
        optional={"finish_reason": st.just("stop")},
    ),
    max_size=3,
)


def plain(found: list[Message]) -> list[tuple[Any, ...]]:
    return [(one.role, one.texts, one.calls, one.results) for one in found]


@given(MESSAGES)
def test_messages_in_a_text_are_what_they_are_as_values(told: list[dict[str, Any]]) -> None:
    assert plain(messages(json.dumps(told), "user")) == plain(messages(told, "user"))


@given(VALUES)
def test_values_are_written_as_the_standard_library_writes_them(value: Any) -> None:
    if value is not None and not isinstance(value, str):
        assert written(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_arguments_with_a_lone_surrogate_are_written_all_the_same() -> None:
    assert written({"a": "\ud83d"}) == '{"a":"\ud83d"}'


@pytest.mark.parametrize("text", ["[", "[]", "[[]]", '["a"]', "[1]", '[{"role":"user"}]', '[{"parts":[]}]'])
def test_what_only_begins_like_messages_is_looked_through(text: str) -> None:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    assert plain(messages(text, "user")) == plain(messages(value, "user"))
