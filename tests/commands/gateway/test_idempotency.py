from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec
import pytest

from commands.opening import open_journal
from ledger.event import Step
from ledger.families import serving
from tests.commands.gateway.provider_double import (
    Asked,
    Piece,
    Provider,
    chunk,
    chunked,
    completion,
    http,
    said,
    stream,
)
from tests.commands.gateway.running import HELLO, Gateway, streamed

REPLAYED = "idempotent-replayed"


def numbered(asked: Asked, count: int) -> Sequence[Piece]:
    return http(200, completion(id=f"chatcmpl-{count}"))


def slow(asked: Asked, count: int) -> Sequence[Piece]:
    return [0.5, *numbered(asked, count)]


@pytest.mark.parametrize("body", [HELLO, streamed(), streamed(stream_options={"include_usage": True})])
def test_the_same_key_and_body_get_the_same_bytes_without_a_new_call(
    gateway: Gateway, provider: Provider, body: dict[str, object]
) -> None:
    first, second = gateway.ask(body, "k"), gateway.ask(body, "k")
    assert first.status_code == second.status_code == 200
    assert first.content == second.content
    assert first.headers["content-type"] == second.headers["content-type"]
    assert REPLAYED not in first.headers
    assert second.headers[REPLAYED] == "true"
    assert second.headers["x-request-id"] == first.headers["x-request-id"]
    gateway.restart()
    provider.close()
    third = gateway.ask(body, "k")
    assert third.content == first.content
    assert third.headers[REPLAYED] == "true"
    assert len(provider.asked) == 1


def test_a_body_that_differs_only_in_spelling_is_the_same(gateway: Gateway, provider: Provider) -> None:
    one = b'{"model":"plain","temperature":1.0,"messages":[{"role":"user","content":"\\u0061"}]}'
    other = b'{ "messages" : [ {"content":"a", "role":"user"} ], "temperature": 1, "model":"plain" }'
    assert gateway.ask(one, "k").content == gateway.ask(other, "k").content
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"logit_bias": {"50256": -100}}, {"stream": True}, {"metadata": {"a": "b"}}, {"model": "other"}],
)
def test_the_same_key_with_another_body_is_refused_for_good(
    gateway: Gateway, provider: Provider, change: dict[str, object]
) -> None:
    gateway.ask(HELLO, "k")
    refused = gateway.ask({**HELLO, **change}, "k")
    assert refused.status_code == 409
    assert refused.headers["x-should-retry"] == "false"
    assert refused.json()["error"]["code"] == "idempotency_key_reused"
    assert len(provider.asked) == 1


@pytest.mark.parametrize("body", [HELLO, streamed()])
def test_duplicates_in_flight_wait_for_the_first_and_make_one_call(
    gateway: Gateway, provider: Provider, body: dict[str, object]
) -> None:
    ordinary = provider.script
    provider.script = lambda asked, count: [0.3, *ordinary(asked, count)]
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: gateway.ask(body, "k"), range(8)))
    assert {response.content for response in responses} == {responses[0].content}
    assert {response.status_code for response in responses} == {200}
    assert sorted(response.headers.get(REPLAYED, "") for response in responses) == [""] + ["true"] * 7
    assert len(provider.asked) == 1


def test_another_body_while_the_first_is_in_flight_is_refused_at_once(gateway: Gateway, provider: Provider) -> None:
    provider.script = slow
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gateway.ask, HELLO, "k")
        provider.wait_for(1)
        begun = time.monotonic()
        assert gateway.ask({**HELLO, "seed": 1}, "k").status_code == 409
        assert time.monotonic() - begun < 0.4
        assert first.result().status_code == 200


def test_a_duplicate_in_another_process_waits_for_the_first(root: Path, provider: Provider) -> None:
    provider.script = slow
    with Gateway(root) as one, Gateway(root) as other, ThreadPoolExecutor(2) as pool:
        assert one.key == other.key
        first = pool.submit(one.ask, HELLO, "k")
        provider.wait_for(1)
        second = pool.submit(other.ask, HELLO, "k")
        assert first.result().content == second.result().content
        assert second.result().headers[REPLAYED] == "true"
    assert len(provider.asked) == 1


def test_a_failure_in_another_process_is_shared_with_who_waited_for_it(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: [
        0.5,
        *http(429, b'{"error":{"message":"slow"}}', headers={"Retry-After": "7"}),
    ]
    with Gateway(root) as one, Gateway(root) as other, ThreadPoolExecutor(2) as pool:
        first = pool.submit(one.ask, HELLO, "k")
        provider.wait_for(1)
        second = pool.submit(other.ask, HELLO, "k")
        assert (first.result().status_code, second.result().status_code) == (429, 429)
        assert first.result().content == second.result().content
        assert second.result().headers["retry-after"] == "7"
    assert len(provider.asked) == 1


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_a_failed_call_releases_its_key(gateway: Gateway, provider: Provider, status: int) -> None:
    provider.script = lambda asked, count: (
        http(status, b'{"error":{"message":"no"}}') if count < 4 else numbered(asked, count)
    )
    for _ in range(3):
        assert gateway.ask(HELLO, "k").status_code >= 400
    answered = gateway.ask(HELLO, "k")
    assert answered.status_code == 200
    assert REPLAYED not in answered.headers
    assert gateway.ask(HELLO, "k").content == answered.content
    assert len(provider.asked) == 4
    assert len({asked.headers["idempotency-key"] for asked in provider.asked}) == 4


def test_a_released_key_may_be_used_for_another_body(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: http(500, b"{}") if count == 1 else numbered(asked, count)
    gateway.ask(HELLO, "k")
    assert gateway.ask({**HELLO, "seed": 1}, "k").status_code == 200


def test_a_keyed_client_that_leaves_has_its_call_finished(gateway: Gateway, provider: Provider) -> None:
    provider.script = slow
    with pytest.raises(httpx.ReadTimeout), gateway.client() as client:
        client.post("/v1/chat/completions", json=HELLO, headers={"Idempotency-Key": "k"}, timeout=0.2)
    answer = gateway.ask(HELLO, "k")
    assert answer.status_code == 200
    assert answer.headers[REPLAYED] == "true"
    assert len(provider.asked) == 1
    assert provider.left == 0


def test_a_keyed_client_that_leaves_a_stream_has_it_finished(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), 0.5, chunk({"content": "b"}), chunk({}, "stop"))
    with (
        gateway.client() as client,
        client.stream("POST", "/v1/chat/completions", json=streamed(), headers={"Idempotency-Key": "k"}) as response,
    ):
        next(response.iter_bytes())
    answer = gateway.ask(streamed(), "k")
    assert answer.headers[REPLAYED] == "true"
    assert '"b"' in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    assert len(provider.asked) == 1


def test_a_crash_in_mid_call_is_recorded_as_ambiguous_and_the_retry_is_a_new_attempt(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = lambda asked, count: [5.0] if count == 1 else numbered(asked, count)
    thread = threading.Thread(target=_ignoring_errors, args=(gateway,))
    thread.start()
    provider.wait_for(1)
    gateway.process.send_signal(signal.SIGKILL)
    gateway.process.wait()
    thread.join()
    gateway.restart()
    answer = gateway.ask(HELLO, "k")
    assert answer.status_code == 200
    assert REPLAYED not in answer.headers
    assert len(provider.asked) == 2
    assert provider.asked[0].headers["idempotency-key"] == provider.asked[1].headers["idempotency-key"]
    gateway.stop()
    (lost,) = gateway.events(serving.RequestLost)
    assert lost.request.endswith("-1")
    state = gateway.state()
    assert not state.open
    assert state.reserved == 0
    assert state.ambiguous > 0


def test_after_a_crash_another_body_is_a_new_attempt_under_another_key(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: [5.0] if count == 1 else numbered(asked, count)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_ignoring_errors, gateway)
        provider.wait_for(1)
        gateway.process.send_signal(signal.SIGKILL)
        gateway.process.wait()
    gateway.restart()
    answer = gateway.ask({**HELLO, "seed": 2}, "k")
    assert answer.status_code == 200
    assert REPLAYED not in answer.headers
    first, second = (asked.headers["idempotency-key"] for asked in provider.asked)
    assert first != second
    assert gateway.ask(HELLO, "k").status_code == 409, "the key is the newer body's now"
    assert gateway.ask({**HELLO, "seed": 2}, "k").content == answer.content


def test_streams_that_a_crash_cut_are_asked_for_again_and_then_repeated(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), 5.0) if count <= 4 else stream("a", "b")
    with ThreadPoolExecutor(4) as pool:
        cut = [pool.submit(gateway.ask, streamed(), f"k{number}") for number in range(4)]
        provider.wait_for(4)
        gateway.process.send_signal(signal.SIGKILL)
        gateway.process.wait()
        assert all(one.exception() for one in cut)
        gateway.restart()
        again = list(pool.map(lambda number: gateway.ask(streamed(), f"k{number}"), range(4)))
        assert all(one.content.endswith(b"data: [DONE]\n\n") for one in again)
        assert not any(REPLAYED in one.headers for one in again)
        keys = [asked.headers["idempotency-key"] for asked in provider.asked]
        assert sorted(keys[:4]) == sorted(keys[4:])
        repeated = list(pool.map(lambda number: gateway.ask(streamed(), f"k{number}"), range(4)))
    assert [one.content for one in repeated] == [one.content for one in again]
    assert len(provider.asked) == 8


def test_many_duplicates_in_two_processes_make_one_call(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: [0.3, *numbered(asked, count)]
    with Gateway(root) as one, Gateway(root) as other, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda number: (one, other)[number % 2].ask(HELLO, "k"), range(12)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert sum(REPLAYED not in answer.headers for answer in answers) == 1
    assert len(provider.asked) == 1


def test_a_crash_of_another_process_is_noticed_by_who_waits_for_it(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: [30.0] if count == 1 else numbered(asked, count)
    with Gateway(root) as one, Gateway(root) as other, ThreadPoolExecutor(2) as pool:
        first = pool.submit(_ignoring_errors, one)
        provider.wait_for(1)
        second = pool.submit(other.ask, HELLO, "k")
        time.sleep(0.2)
        one.process.send_signal(signal.SIGKILL)
        assert second.result().status_code == 200
        first.result()
    assert len(provider.asked) == 2


def _ignoring_errors(gateway: Gateway) -> None:
    try:
        gateway.ask(HELLO, "k")
    except httpx.TransportError:
        return


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_is_empty_or_too_long_is_refused(gateway: Gateway, provider: Provider, key: str) -> None:
    response = gateway.ask(HELLO, key)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_idempotency_key"
    assert not provider.asked


def test_two_keys_at_once_are_refused(gateway: Gateway) -> None:
    with gateway.client() as client:
        headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        assert client.post("/v1/chat/completions", json=HELLO, headers=headers).status_code == 400


def test_the_clients_own_request_id_never_deduplicates(gateway: Gateway, provider: Provider) -> None:
    provider.script = numbered
    ids = {gateway.ask(HELLO, **{"X-Client-Request-Id": "same"}).json()["id"] for _ in range(3)}
    assert len(ids) == 3
    assert {event.correlation for event in gateway.events(serving.RequestAccepted)} == {"same"}


def test_an_answer_whose_content_is_gone_is_not_repeated_and_says_why(gateway: Gateway) -> None:
    gateway.ask(HELLO, "k")
    gateway.stop()
    (answered,) = gateway.events(serving.RequestAnswered)
    _erase(gateway.root, answered.response.blob)
    gateway.restart()
    refused = gateway.ask(HELLO, "k")
    assert refused.status_code == 410
    assert refused.headers["x-should-retry"] == "false"


def _erase(root: Path, digest: str) -> None:
    import apsw  # noqa: PLC0415

    connection = apsw.Connection(str(root / "ledger.db"))
    connection.execute("DELETE FROM blobs WHERE digest = ?", (bytes.fromhex(digest[3:]),))
    connection.close()


def test_a_replay_is_the_stream_that_was_sent_frame_for_frame(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: chunked(
        b": ping\n\n", *said("caf\u00e9 \u2028 \U0001f600"), b"retry: 100\n\n", chunk({}, "stop"), b"data: [DONE]\n\n"
    )
    first = gateway.ask(streamed(), "k")
    assert gateway.ask(streamed(), "k").content == first.content
    (answered,) = gateway.events(serving.RequestAnswered)
    assert gateway.blob(answered.response.blob) == first.content
    assert json.loads(first.text.split("\n\n")[1].removeprefix("data: "))["choices"][0]["delta"]["content"].endswith(
        "\U0001f600"
    )


def test_after_its_time_a_key_is_free_again(root: Path, provider: Provider) -> None:
    with Gateway(root) as gateway:
        first = gateway.ask(HELLO, "k")
        gateway.stop()
        (accepted,) = gateway.events(serving.RequestAccepted)
        day = 24 * 3600 * 1_000_000
        with open_journal(root, "test", serving.FAMILY) as journal:
            (record,) = journal.events(serving.RequestAccepted)
        assert abs(accepted.claim.keep_until - record.at - day) < 60_000_000
        _move_back(root, gateway, accepted)
        gateway.restart()
        again = gateway.ask(HELLO, "old")
        assert again.status_code == first.status_code == 200
        assert REPLAYED not in again.headers
        assert len(provider.asked) == 2


def test_after_its_time_a_key_may_be_used_for_another_body(root: Path, provider: Provider) -> None:
    with Gateway(root) as gateway:
        gateway.ask(HELLO, "k")
        gateway.stop()
        _move_back(root, gateway, gateway.events(serving.RequestAccepted)[0])
        gateway.restart()
        again = gateway.ask({**HELLO, "seed": 2}, "old")
        assert again.status_code == 200
        assert REPLAYED not in again.headers
        assert gateway.ask(HELLO, "old").status_code == 409
    assert len(provider.asked) == 2


def _move_back(root: Path, gateway: Gateway, accepted: serving.RequestAccepted) -> None:
    """Record an answered request whose key was to be kept until long ago."""
    identity = accepted.identity
    scope = serving.scope_of(identity, serving.CHAT, "old")
    assert accepted.claim is not None
    claim = msgspec.structs.replace(accepted.claim, scope=scope, keep_until=1)
    request = "long-ago-1"
    old = msgspec.structs.replace(accepted, request=request, claim=claim)
    decided = msgspec.structs.replace(gateway.events(serving.RouteDecided)[0], request=request)
    answered = msgspec.structs.replace(gateway.events(serving.RequestAnswered)[0], request=request)
    with open_journal(root, "test", serving.FAMILY) as journal:
        journal.submit(
            Step(serving.FAMILY, serving.AcceptRequest(accepted=old, decided=decided)),
            Step(serving.FAMILY, serving.EndRequest(ending=answered)),
        ).result()


def test_many_failed_attempts_are_passed_over_quickly(gateway: Gateway, provider: Provider) -> None:
    provider.script = lambda asked, count: http(500, b"{}") if count < 12 else numbered(asked, count)
    statuses = [gateway.ask(HELLO, "k").status_code for _ in range(14)]
    assert statuses == [502] * 11 + [200] * 3
    assert len(provider.asked) == 12


def test_a_key_of_a_stream_is_not_one_of_a_plain_answer(gateway: Gateway, provider: Provider) -> None:
    for first, second, key in ((HELLO, streamed(), "k"), (streamed(), HELLO, "l")):
        assert gateway.ask(first, key).status_code == 200
        assert gateway.ask(second, key).status_code == 409
    assert len(provider.asked) == 2


def test_a_key_is_scoped_by_its_client() -> None:
    one = serving.scope_of("key-1", "chat.completions", "k")
    assert one == serving.scope_of("key-1", "chat.completions", "k")
    assert len({one, serving.scope_of("key-2", "chat.completions", "k"), serving.scope_of("key-1", "x", "k")}) == 3


def test_another_body_while_the_first_is_in_flight_elsewhere_is_refused(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: [3.0, *numbered(asked, count)]
    with Gateway(root) as one, Gateway(root) as two, ThreadPoolExecutor(1) as pool:
        first = pool.submit(one.ask, HELLO, "k")
        provider.wait_for(1)
        assert two.ask({**HELLO, "seed": 1}, "k").status_code == 409
        assert first.result().status_code == 200
    assert len(provider.asked) == 1
