"""Bodies read alone: which are the same, and what of them counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from commands.gateway.problems import Problem
from commands.gateway.requests import ChatRequest, check_content, read_chat, read_embedding


def seeded(number: str) -> ChatRequest:
    return read_chat(b'{"model":"m","messages":[{"role":"user","content":"a"}],"seed":%s}' % number.encode())


@pytest.mark.parametrize(("one", "other"), [("1", "1.0"), ("0", "-0.0"), ("100", "1e2"), ("0.5", "5e-1")])
def test_a_number_is_the_same_however_it_is_spelled(one: str, other: str) -> None:
    assert seeded(one).fingerprint() == seeded(other).fingerprint()


@pytest.mark.parametrize(("one", "other"), [
    ("1", "2"), ("1e30", "1e31"), ("9007199254740993.0", "9007199254740992"),
    ("9007199254740992.0", "9007199254740993"), (str(2**70), str(2**70 + 1)),
    ("1" * 4000, "2" * 4000), ("1", "true"), ("null", "0"),
])  # fmt: skip
def test_other_numbers_are_other_bodies(one: str, other: str) -> None:
    assert seeded(one).fingerprint() != seeded(other).fingerprint()


@pytest.mark.parametrize(("given", "limit"), [
    ({}, None), ({"max_tokens": 5}, 5), ({"max_completion_tokens": 7}, 7),
    ({"max_tokens": 5, "max_completion_tokens": 7}, 7), ({"max_tokens": 7, "max_completion_tokens": None}, 7),
])  # fmt: skip
def test_the_newer_of_two_names_for_the_output_limit_counts(given: dict[str, Any], limit: int | None) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], **given}
    assert read_chat(json.dumps(body).encode()).output_limit == limit


@pytest.mark.parametrize(("kind", "encoding"), [
    (None, None), ("application/json", "identity"), ("application/json; charset=UTF8", " Identity "),
    ("application/json;charset = us-ascii", ""),
])  # fmt: skip
def test_content_that_can_be_read(kind: str | None, encoding: str | None) -> None:
    check_content(kind, encoding)


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
def test_what_is_compressed_is_not_read(encoding: str) -> None:
    with pytest.raises(Problem) as refused:
        check_content("application/json", encoding)
    assert refused.value.status == 415


@pytest.mark.parametrize("given", ["a", ["a", "b"], [1, 2], [[1], [2, 3]]])
def test_texts_and_tokens_are_embedded(given: object) -> None:
    assert read_embedding(json.dumps({"model": "m", "input": given}).encode()).embedding.input == given


@pytest.mark.parametrize("given", [[], [[]], [True], ["a", 1], [[1], "a"], [[True]], [1.5], [[[1]]], None, {}, 1])
def test_what_is_neither_text_nor_tokens_is_not_embedded(given: object) -> None:
    with pytest.raises(Problem) as refused:
        read_embedding(json.dumps({"model": "m", "input": given}).encode())
    assert (refused.value.status, refused.value.param) == (400, "input")


@pytest.mark.parametrize("depth", [10_000, 1_000_000])
def test_what_is_nested_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(Problem) as refused:
        read_chat(b'{"model":"m","messages":[{"role":"user","content":"a"}],"x":' + b"[" * depth + b"]" * depth + b"}")
    assert refused.value.status == 400
