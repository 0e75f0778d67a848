from __future__ import annotations

import json

from ledger.families import serving
from tests.commands.gateway.provider_double import Provider
from tests.commands.gateway.running import HELLO, SECRET, Gateway, streamed


def test_a_plain_request_is_answered_as_compact_json_with_the_id_first(gateway: Gateway, provider: Provider) -> None:
    response = gateway.ask()
    assert response.status_code == 200
    assert response.content.startswith(b'{"id":"chatcmpl-1","object":"chat.completion",')
    assert b": " not in response.content
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-exp-route"] == "plain"
    assert len(provider.asked) == 1
    assert provider.asked[0].headers["authorization"] == f"Bearer {SECRET}"


def test_a_stream_passes_frames_on_and_ends_with_its_terminal_frame(gateway: Gateway) -> None:
    response = gateway.ask(streamed())
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    frames = [frame.removeprefix("data: ") for frame in response.text.split("\n\n") if frame]
    assert frames[-1] == "[DONE]"
    chunks = [json.loads(frame) for frame in frames[:-1]]
    assert "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]) == "ready"
    assert not any(chunk.get("usage") for chunk in chunks)


def test_every_request_leaves_its_acceptance_its_route_and_its_answer(gateway: Gateway) -> None:
    gateway.ask()
    accepted, decided, answered = gateway.events(serving.RequestAccepted, serving.RouteDecided, serving.RequestAnswered)
    assert json.loads(gateway.blob(accepted.body.blob)) == HELLO
    assert accepted.worst_case is not None
    assert accepted.worst_case > 0
    assert decided.alias == "plain"
    assert decided.reason == "named"
    assert answered.usage.input_tokens == 10
    assert answered.cost == 10 * 1000 + 5 * 2000
