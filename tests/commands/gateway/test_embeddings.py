"""Embeddings: asked, journaled, reserved, priced and repeated like chat."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from commands.opening import open_journal
from ledger.event import Step
from ledger.families import providers, serving
from ledger.families.providers import Capabilities, ConfigureProviders, Model
from tests.commands.gateway.provider_double import Asked, Piece, Provider, http, ordinary
from tests.commands.gateway.running import HELLO, Gateway

ABLE = Capabilities(supports_embeddings=True, input_price=20_000_000, context_window_tokens=8192)
BODY = {"model": "vectors", "input": ["a", "b"], "user": "u", "rare": 1.0}


@pytest.fixture
def root(root: Path) -> Path:
    model = Model(alias="vectors", connection="compatible", model="embed-3-large", capabilities=ABLE)
    with open_journal(root, "test", providers.FAMILY) as journal:
        journal.submit(Step(providers.FAMILY, ConfigureProviders(models=(model,)))).result()
    return root


@pytest.fixture
def provider(provider: Provider) -> Provider:
    def answer(asked: Asked, count: int) -> Sequence[Piece]:
        del count
        given = asked.json["input"]
        data = [
            {"object": "embedding", "index": at, "embedding": [0.5, -0.25]}
            for at in range(len(given) if isinstance(given, list) else 1)
        ]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return http(
            200, json.dumps({"object": "list", "data": data, "model": "embed-3-large", "usage": usage}).encode()
        )

    provider.script = answer
    return provider


def ask(gateway: Gateway, body: Any = BODY, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    with gateway.client(**headers) as client:
        return client.post("/v1/embeddings", json=body)


def test_a_request_for_embeddings_reaches_the_provider_exactly_and_is_journaled(
    gateway: Gateway, provider: Provider
) -> None:
    response = ask(gateway)
    assert response.status_code == 200
    assert [one["embedding"] for one in response.json()["data"]] == [[0.5, -0.25]] * 2
    assert provider.asked[0].path == "/v1/embeddings"
    assert provider.asked[0].body == json.dumps({**BODY, "model": "embed-3-large"}, separators=(",", ":")).encode()
    (accepted,), (answered,) = gateway.events(serving.RequestAccepted), gateway.events(serving.RequestAnswered)
    assert (accepted.route, accepted.alias) == ("embeddings", "vectors")
    assert accepted.worst_case == len(provider.asked[0].body) * 20
    assert (answered.cost, answered.usage.input_tokens) == (7 * 20, 7)
    assert gateway.blob(answered.response.blob) == response.content
    assert gateway.state().settled == 140


def test_embeddings_are_repeated_under_their_key_also_after_a_restart(gateway: Gateway, provider: Provider) -> None:
    first = ask(gateway, key="k")
    gateway.restart()
    again = ask(gateway, key="k")
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(provider.asked) == 1
    assert ask(gateway, {**BODY, "input": "c"}, key="k").status_code == 409


def test_a_key_is_scoped_by_its_route(gateway: Gateway, provider: Provider) -> None:
    ask(gateway, key="k")
    provider.script = ordinary
    assert gateway.ask(HELLO, "k").status_code == 200
    assert len(provider.asked) == 2


@pytest.mark.parametrize("given", ["text", ["a"], [1, 2], [[1, 2], [3]]])
def test_every_form_of_input_is_passed_on(gateway: Gateway, provider: Provider, given: object) -> None:
    assert ask(gateway, {"model": "vectors", "input": given}).status_code == 200
    assert provider.asked[0].json["input"] == given


@pytest.mark.parametrize(
    "fields",
    [
        {"input": []},
        {"input": [1, "a"]},
        {"input": [[]]},
        {"input": 7},
        {"input": [True]},
        {"dimensions": 0},
        {"encoding_format": "x"},
    ],
)
def test_what_cannot_be_embedded_is_refused(gateway: Gateway, provider: Provider, fields: dict[str, object]) -> None:
    response = ask(gateway, {**BODY, **fields})
    assert (response.status_code, response.json()["error"]["param"]) == (400, next(iter(fields)))
    assert provider.asked == []


def test_a_model_is_asked_at_its_own_route_only(gateway: Gateway) -> None:
    for response in (ask(gateway, {**BODY, "model": "plain"}), gateway.ask({**HELLO, "model": "vectors"})):
        assert (response.status_code, response.json()["error"]["code"]) == (400, "model_not_supported")
    assert ask(gateway, {**BODY, "model": "nobody"}).status_code == 404
    refused = gateway.events(serving.RequestRefused)
    assert [event.route for event in refused] == ["embeddings", "chat.completions", "embeddings"]


def test_an_answer_that_holds_no_vectors_is_a_502(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda _asked, _count: http(200, b'{"data":[]}')
    assert ask(gateway).status_code == 502


def test_the_embedded_embedder_answers_in_the_process_itself(gateway: Gateway, provider: Provider) -> None:
    response = ask(gateway, {"model": "embed", "input": "words"})
    assert len(response.json()["data"][0]["embedding"]) > 1
    assert provider.asked == []


def test_the_official_client_gets_embeddings(gateway: Gateway) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0)
    made = client.embeddings.create(model="embed", input=["a", "b"])
    assert [one.index for one in made.data] == [0, 1]
    assert {"vectors", "embed"} <= {model.id for model in client.models.list()}
