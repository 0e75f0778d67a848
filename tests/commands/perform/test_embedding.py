from __future__ import annotations

import asyncio
import base64
import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands.perform import embedding
from commands.perform.asking import Asking, Retrying, Run
from commands.perform.calling import CallWithoutAnswer
from commands.perform.outcome import Answered, Outcome
from commands.perform.replaying import QuestionNotInJournal, Replaying
from commands.perform.scripted import Scripted
from ledger import questions
from ledger.families import calls
from ledger.families.providers import Endpoint
from ledger.prompt import Question
from tests.commands.perform.journals import journal, kinds
from tests.commands.perform.provider import EMBEDS, endpoint

EMBEDDER = endpoint(able=EMBEDS, alias="embed")
UNLIMITED = Run("run", None, "test")


def vector_of(text: str) -> list[float]:
    return [1.0, len(text) / 100, -0.5, 0.0]


def packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def reply(question: Question, *, as_lists: bool = False, **more: Any) -> bytes:
    texts = json.loads(questions.wire_body(questions.asked(question.body)))["input"]
    data = [
        {"index": index, "embedding": vector_of(text) if as_lists else packed(vector_of(text))}
        for index, text in enumerate(texts)
    ]
    body = {"data": data[::-1], "model": "model", "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)}}
    return json.dumps({**body, **more}).encode()


def embedder(*, as_lists: bool = False) -> Scripted:
    def script(endpoint: Endpoint, question: Question) -> Outcome:
        return Answered(reply(question, as_lists=as_lists))

    return Scripted(script)


@pytest.mark.parametrize("as_lists", [False, True])
def test_texts_are_embedded_once_in_batches_and_then_come_from_the_journal(tmp_path: Path, as_lists: bool) -> None:  # noqa: FBT001
    texts = ["one", "three", "one", "seventeen"]
    with journal(tmp_path / "r") as opened:
        world = embedder(as_lists=as_lists)
        asking = Asking(opened, world, UNLIMITED)
        vectors = asyncio.run(asking.embed(EMBEDDER, texts))
        assert len(world.asked) == 1
        assert vectors[0] == vectors[2]
        assert [np.frombuffer(one, dtype=np.int8).tolist() for one in vectors[:2]] == [
            [127, 4, -64, 0],
            [127, 6, -64, 0],
        ]
        assert kinds(opened).count("text-embedded@1") == 3
        assert asking.spend().settled == 3_000
        again = Asking(opened, Replaying(opened), UNLIMITED)
        assert asyncio.run(again.embed(EMBEDDER, texts)) == vectors
        more = asyncio.run(asking.embed(EMBEDDER, ["new", *texts]))
        assert more[1:] == vectors
        assert len(world.asked) == 2
        assert json.loads(world.asked[1].body)["request"]["input"] == ["new"]
        assert not opened.state(calls.FAMILY).open


def test_vectors_are_asked_for_as_base64(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = embedder()
        asyncio.run(Asking(opened, world, UNLIMITED).embed(EMBEDDER, ["x"]))
        assert json.loads(world.asked[0].body)["request"] == {
            "model": "model",
            "input": ["x"],
            "encoding_format": "base64",
        }


def test_batches_stay_within_the_limits_of_the_service(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = embedder()
        texts = [f"{number:05}" + "x" * 7_000 for number in range(100)] + [f"{number}" for number in range(3_000)]
        vectors = asyncio.run(Asking(opened, world, UNLIMITED).embed(EMBEDDER, texts))
        assert len(vectors) == 3_100
        batches = [json.loads(one.body)["request"]["input"] for one in world.asked]
        assert max(map(len, batches)) <= 2_048
        assert max(sum(len(text) for text in batch) for batch in batches) <= 300_000
        assert len(batches) == 4


def test_a_replay_without_a_vector_asks_nobody(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        asking = Asking(opened, Replaying(opened), UNLIMITED)
        with pytest.raises(QuestionNotInJournal):
            asyncio.run(asking.embed(EMBEDDER, ["never asked"]))
        assert kinds(opened) == []


@pytest.mark.parametrize(
    "more",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": packed([0.0, 0.0])}]},
        {"data": [{"index": 0, "embedding": "@@"}]},
        {"data": [{"index": 5, "embedding": packed([1.0])}]},
        {"data": [{"index": 0, "embedding": packed([float("nan"), 1.0])}]},
        {"data": "nothing"},
    ],
)
def test_vectors_that_cannot_be_used_are_failures_and_are_asked_for_again(tmp_path: Path, more: dict[str, Any]) -> None:
    def script(endpoint: Endpoint, question: Question) -> Outcome:
        return Answered(reply(question, **(more if len(world.asked) == 1 else {})))

    with journal(tmp_path / "r") as opened:
        world = Scripted(script)
        asking = Asking(opened, world, UNLIMITED, retrying=Retrying(tries=2, first_seconds=0.0))
        vectors = asyncio.run(asking.embed(EMBEDDER, ["x"]))
        assert len(vectors) == 1
        assert len(world.asked) == 2
        assert kinds(opened) == [
            "call-reserved@1",
            "call-failed@1",
            "call-reserved@1",
            "call-answered@1",
            "text-embedded@1",
        ]


def test_one_batch_that_fails_ends_the_others_and_is_named(tmp_path: Path) -> None:
    def script(endpoint: Endpoint, question: Question) -> Outcome:
        return Answered(b"{}" if b"first" in question.body else reply(question))

    with journal(tmp_path / "r") as opened:
        asking = Asking(opened, Scripted(script), UNLIMITED, retrying=Retrying(tries=1))
        with pytest.raises(CallWithoutAnswer):
            asyncio.run(asking.embed(EMBEDDER, ["first" + "x" * 200_000, "y" * 200_000]))
        assert not opened.state(calls.FAMILY).open


def test_an_embedder_that_never_gives_vectors_ends_the_command_by_name(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        world = Scripted(lambda endpoint, question: Answered(b"{}"))
        asking = Asking(opened, world, UNLIMITED, retrying=Retrying(tries=2, first_seconds=0.0))
        with pytest.raises(CallWithoutAnswer):
            asyncio.run(asking.embed(EMBEDDER, ["x"]))
        assert not opened.state(calls.FAMILY).open


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
def test_the_largest_component_is_127_in_size_whatever_the_vector(numbers: list[float]) -> None:
    bytes_ = embedding.quantised(struct.pack(f"<{len(numbers)}f", *numbers))
    if not any(numbers):
        assert bytes_ is None
        return
    assert bytes_ is not None
    components = np.frombuffer(bytes_, dtype=np.int8).astype(int)
    assert max(abs(components)) == 127
    for number, component in zip(numbers, components, strict=True):
        assert component == 0 or (number > 0) == (component > 0)


def test_what_is_recorded_of_a_batch_names_its_texts_by_digest(tmp_path: Path) -> None:
    with journal(tmp_path / "r") as opened:
        asyncio.run(Asking(opened, embedder(), UNLIMITED).embed(EMBEDDER, ["one", "two"]))
        (reserved,) = opened.events(calls.CallReserved)
        assert isinstance(reserved.event, calls.CallReserved)
        manifest = msgspec.json.decode(opened.blob(reserved.event.asked.blob))
        assert manifest["texts"] == [questions.embedding_question(EMBEDDER, text).digest for text in ("one", "two")]
