"""Retries, failover, time-outs and circuits: what is done before a byte of an answer is passed on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from commands.gateway import attempts, problems
from commands.gateway.attempts import FAILURES_TO_REST, LONGEST_ASKED_FOR, REST, Circuits, pause
from commands.gateway.dispatching import Dispatching
from commands.gateway.exchange import Ceased
from commands.gateway.requests import read_chat
from commands.gateway.routing import Directory
from commands.gateway.upstream import UpstreamProblem
from ledger.families import serving
from tests.commands.gateway.provider_double import (
    CUT,
    Asked,
    Piece,
    Provider,
    Script,
    chunked,
    http,
    ordinary,
    said,
)
from tests.commands.gateway.running import HELLO, Gateway, streamed
from tests.commands.gateway.test_dialects import endpoint
from tests.commands.gateway.test_routing import EASY, HARD, asking, with_policy

if TYPE_CHECKING:
    from commands.gateway.books import Books

BUSY = http(429, b'{"error":{"message":"slow down"}}', headers={"Retry-After": "0"})
DOWN = http(503, b"down")


def failing(times: int, with_: Sequence[Piece] = DOWN) -> Script:
    return lambda asked, count: with_ if count <= times else ordinary(asked, count)


def by_model(**scripts: Sequence[Piece]) -> Script:
    return lambda asked, count: scripts.get(asked.json["model"]) or ordinary(asked, count)


@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
@pytest.mark.parametrize("with_", [BUSY, DOWN, http(500, b"{}"), [CUT], http(200, b"<html>")])
def test_a_gateway_that_is_told_to_retry_asks_again_and_records_each_dispatch(
    root: Path, provider: Provider, body: dict[str, Any], with_: Sequence[Piece]
) -> None:
    provider.script = failing(1, with_)
    with Gateway(root, "--retries", "compatible=2") as gateway:
        assert gateway.ask(body).status_code == 200
    assert len(provider.asked) == 2
    (failed,) = gateway.events(serving.AttemptFailed)
    assert (failed.dispatch, failed.alias) == (0, "plain")
    assert failed.pause_us >= 250_000 or with_ is BUSY
    (answered,) = gateway.events(serving.RequestAnswered)
    assert answered.alias == "plain"
    state = gateway.state()
    assert state.open == {}
    assert state.reserved == 0


def test_nothing_is_retried_unless_the_gateway_is_told_to(gateway: Gateway, provider: Provider) -> None:
    provider.script = failing(9)
    response = gateway.ask()
    assert response.status_code == 503
    assert "x-should-retry" not in response.headers
    assert len(provider.asked) == 1


def test_the_last_failure_of_a_gateway_that_retried_tells_clients_not_to(root: Path, provider: Provider) -> None:
    provider.script = failing(9)
    with Gateway(root, "--retries", "1", "--retries", "other=0") as gateway:
        response = gateway.ask()
        assert (response.status_code, response.headers["x-should-retry"]) == (503, "false")
        assert len(provider.asked) == 2
        response = gateway.ask({**HELLO, "model": "other"})
        assert "x-should-retry" not in response.headers
        assert len(provider.asked) == 3


def test_a_request_that_is_wrong_is_not_tried_again(root: Path, provider: Provider) -> None:
    provider.script = failing(9, http(400, b'{"error":{"message":"no"}}'))
    with Gateway(root, "--retries", "3", "--fallback", "plain=other") as gateway:
        assert gateway.ask().status_code == 400
    assert len(provider.asked) == 1


def test_what_a_failed_dispatch_cost_is_settled_or_stays_ambiguous(root: Path, provider: Provider) -> None:
    provider.script = failing(1, http(200, b"<html>"))
    with Gateway(root, "--retries", "1") as gateway:
        gateway.ask({**HELLO, "max_tokens": 10})
    (accepted,) = gateway.events(serving.RequestAccepted)
    (failed,) = gateway.events(serving.AttemptFailed)
    assert failed.cost is None
    assert gateway.state().ambiguous == accepted.worst_case == failed.worst_case
    assert gateway.state().settled == 10 * 1000 + 5 * 2000


def test_a_stream_of_which_a_byte_was_passed_on_is_not_tried_again(root: Path, provider: Provider) -> None:
    provider.script = failing(1, [*chunked(*said("a"), ends=False), CUT])
    with Gateway(root, "--retries", "3", "--fallback", "plain=other") as gateway:
        response = gateway.ask(streamed())
    assert response.status_code == 200
    assert b'"error"' in response.content
    assert len(provider.asked) == 1


def test_a_stream_whose_first_event_is_an_error_is_tried_again(root: Path, provider: Provider) -> None:
    provider.script = failing(1, chunked(b'data: {"error":{"message":"overloaded"}}\n\n'))
    with Gateway(root, "--retries", "1") as gateway:
        response = gateway.ask(streamed())
    assert response.content.endswith(b"data: [DONE]\n\n")
    assert b"overloaded" not in response.content


def test_retry_after_is_waited(root: Path, provider: Provider) -> None:
    provider.script = failing(1, http(429, b"{}", headers={"Retry-After": "1"}))
    with Gateway(root, "--retries", "1") as gateway:
        began = time.monotonic()
        assert gateway.ask().status_code == 200
        assert time.monotonic() - began >= 1
    assert gateway.events(serving.AttemptFailed)[0].pause_us == 1_000_000


def test_a_retry_after_that_is_too_long_is_passed_on_at_once(root: Path, provider: Provider) -> None:
    provider.script = failing(9, http(429, b"{}", headers={"Retry-After": "3600"}))
    with Gateway(root, "--retries", "3") as gateway:
        response = gateway.ask()
    assert (response.status_code, response.headers["Retry-After"]) == (429, "3600")
    assert len(provider.asked) == 1


def problem(status: int = 503, code: str = "upstream_error", **headers: str) -> UpstreamProblem:
    return UpstreamProblem(status, "words", code=code, headers=headers)


def test_pauses_double_and_are_jittered_by_the_chance_that_is_given() -> None:
    assert [pause(problem(), tried, lambda: 1.0) for tried in (1, 2, 3, 9)] == [0.5, 1.0, 2.0, 8.0]
    assert pause(problem(), 1, lambda: 0.0) == 0.25
    assert pause(problem(429, **{"Retry-After": "7"}), 1, lambda: 0.0) == 7
    assert pause(problem(429, **{"retry-after-ms": "500"}), 1, lambda: 0.0) == 0.5
    assert pause(problem(429, **{"Retry-After": str(LONGEST_ASKED_FOR + 1)}), 1) is None
    assert pause(problem(429, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), 1) is None
    assert pause(problem(429, "insufficient_quota"), 1) is None
    assert pause(problem(502, "upstream_authentication"), 1) is None
    assert pause(problem(502, "upstream_model_differs"), 1) is None
    assert pause(problem(400), 1) is None


@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_a_stand_in_answers_when_the_named_model_fails(root: Path, provider: Provider, body: dict[str, Any]) -> None:
    provider.script = by_model(m=DOWN)
    with Gateway(root, "--fallback", "plain=other") as gateway:
        response = gateway.ask(body)
    assert response.status_code == 200
    assert response.headers["x-exp-route"] == "other"
    assert response.headers["x-exp-route-reason"] == "failover"
    (rerouted,) = gateway.events(serving.RequestRerouted)
    assert (rerouted.dispatch, rerouted.alias) == (1, "other")
    state = gateway.state()
    assert (state.reserved, state.aliases["plain"].requests, state.aliases["other"].answered) == (0, 0, 1)


def test_a_stand_in_is_asked_when_the_credential_is_missing_or_refused(root: Path, provider: Provider) -> None:
    provider.script = by_model(m=http(401, b"{}"))
    with Gateway(root, "--fallback", "keyless=plain", "--fallback", "keyless=other") as gateway:
        response = gateway.ask({**HELLO, "model": "keyless"})
    assert response.headers["x-exp-route"] == "other"
    assert [event.reason for event in gateway.events(serving.AttemptFailed)] == [
        "credential_missing",
        "upstream_authentication",
    ]


def test_a_policys_incumbent_answers_when_its_candidate_fails(root: Path, provider: Provider) -> None:
    provider.script = by_model(m2=DOWN)
    with Gateway(with_policy(root), "terminal") as gateway:
        response = gateway.ask(asking(EASY))
        assert (response.status_code, response.headers["x-exp-route"]) == (200, "plain")
        provider.script = by_model(m=DOWN)
        assert gateway.ask(asking(HARD)).status_code == 503  # nobody stands in for the incumbent


def test_a_replayed_answer_names_the_model_that_answered_after_all(root: Path, provider: Provider) -> None:
    provider.script = by_model(m=DOWN)
    with Gateway(root, "--fallback", "plain=other") as gateway:
        first, again = gateway.ask(HELLO, "k"), gateway.ask(HELLO, "k")
    assert again.headers["x-exp-route"] == first.headers["x-exp-route"] == "other"
    assert again.headers["x-exp-route-decision"] == first.headers["x-exp-route-decision"]
    assert again.headers["Idempotent-Replayed"] == "true"


def test_the_provider_gets_another_key_only_after_it_answered_with_an_error(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: {1: [CUT], 2: DOWN}.get(count) or ordinary(asked, count)
    with Gateway(root, "--retries", "3") as gateway:
        assert gateway.ask(HELLO, "k").status_code == 200
    first, second, third = (asked.headers["idempotency-key"] for asked in provider.asked)
    assert first == second != third


def test_a_time_out_is_per_model(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: [1.0, *ordinary(asked, count)]
    with Gateway(root, "--upstream-timeout", "plain=0.2", "--upstream-timeout", "30") as gateway:
        assert gateway.ask().status_code == 504
        assert gateway.ask({**HELLO, "model": "other"}).status_code == 200


def refusal(root: Path, *flags: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "commands.main", "run", *flags, "--root", str(root), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stderr


def test_a_rule_for_nobody_is_refused_by_name(root: Path) -> None:
    for flags in (("--retries", "nobody=1"), ("--upstream-timeout", "nobody=1"), ("--fallback", "plain=nobody")):
        code, words = refusal(root, *flags)
        assert (code, "no model or connection 'nobody'" in words) == (116, True)


def test_a_rule_that_is_none_is_a_usage_error(root: Path) -> None:
    for flags in (("--retries", "many"), ("--retries", "11"), ("--fallback", "plain"), ("--retries", "=1")):
        code, words = refusal(root, *flags)
        assert (code, flags[0] in words) == (2, True)


@pytest.mark.parametrize(("status", "code", "elsewhere", "again"), [
    (429, None, True, True), (502, "upstream_error", True, True), (503, "upstream_unavailable", True, True),
    (504, "upstream_timeout", True, True), (429, "insufficient_quota", True, False),
    (502, "upstream_authentication", True, False), (502, "credential_missing", True, False),
    (502, "upstream_model_differs", False, False), (400, None, False, False), (404, "model_not_found", False, False),
    (422, None, False, False),
])  # fmt: skip
def test_a_failure_tells_whether_the_same_or_another_model_may_be_asked(
    status: int, code: str | None, *, elsewhere: bool, again: bool
) -> None:
    failure = UpstreamProblem(status, "words", code=code)
    assert attempts.may_go_elsewhere(failure) is elsewhere
    assert (pause(failure, 1) is not None) is again


def test_a_stand_in_has_retries_of_its_own(root: Path, provider: Provider) -> None:
    asked: list[str] = []

    def script(one: Asked, _count: int) -> Sequence[Piece]:
        asked.append(one.json["model"])
        return DOWN if asked[-1] == "m" or asked.count("m2") == 1 else ordinary(one, 0)

    provider.script = script
    with Gateway(root, "--retries", "1", "--fallback", "plain=other") as gateway:
        assert gateway.ask().status_code == 200
    assert asked == ["m", "m", "m2", "m2"]


def test_a_model_that_is_tried_in_its_rest_is_half_open() -> None:
    circuits = Circuits(lambda: 0.0)
    for _ in range(FAILURES_TO_REST):
        circuits.failed("plain", UpstreamProblem(502, "down", code="upstream_error"))
    assert circuits.resting()["plain"]["state"] == "open"
    circuits.asked("plain")
    assert circuits.resting()["plain"]["state"] == "half-open"


def test_a_call_that_is_cut_short_leaves_its_model_to_be_tried_by_the_next() -> None:
    plain = endpoint("plain")
    directory = Directory({"plain": plain}, None)
    passed = [0.0]
    directory.circuits = Circuits(lambda: passed[0])
    for _ in range(FAILURES_TO_REST):
        directory.circuits.failed("plain", UpstreamProblem(502, "down", code="upstream_error"))
    passed[0] = REST + 1
    way = Dispatching(directory, read_chat(json.dumps(HELLO).encode()), directory.direct(plain), ghost=False)

    async def leave() -> None:
        assert directory.circuits.rests("plain"), "this request tries it"
        raise Ceased("client-left")

    with pytest.raises(Ceased):
        asyncio.run(way.answered(cast("Books", None), "r", leave, lambda: False))
    assert not directory.circuits.rests("plain")


def test_a_model_that_keeps_failing_rests_while_another_stands_in_and_health_says_so(
    root: Path, provider: Provider
) -> None:
    provider.script = by_model(m=DOWN)
    with Gateway(root, "--fallback", "plain=other") as gateway, gateway.client() as client:
        assert "circuits" not in client.get("/health/ready").json()
        for _ in range(FAILURES_TO_REST):
            gateway.ask()
        provider.asked.clear()
        response = gateway.ask()
        assert [asked.json["model"] for asked in provider.asked] == ["m2"]
        assert response.headers["x-exp-route-reason"] == "candidate-unhealthy"
        circuit = client.get("/health/ready").json()["circuits"]["plain"]
    assert circuit["state"] == "open"
    assert circuit["failures"] == FAILURES_TO_REST
    assert 0 < circuit["seconds"] <= REST


def test_a_candidate_that_rests_is_passed_over_for_the_incumbent(root: Path, provider: Provider) -> None:
    provider.script = by_model(m2=DOWN)
    with Gateway(with_policy(root), "terminal") as gateway:
        for number in range(FAILURES_TO_REST):
            gateway.ask(asking(f"{EASY} {number}"))
        provider.asked.clear()
        response = gateway.ask(asking(EASY + " now"))
    assert response.headers["x-exp-route-reason"] == "candidate-unhealthy"
    assert [asked.json["model"] for asked in provider.asked] == ["m"]


def test_a_model_that_nothing_stands_in_for_is_asked_however_often_it_failed(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = failing(FAILURES_TO_REST + 1)
    for _ in range(FAILURES_TO_REST + 1):
        assert gateway.ask().status_code == 503
    assert gateway.ask().status_code == 200
    with gateway.client() as client:
        assert "circuits" not in client.get("/health/ready").json()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_after_its_rest_one_request_tries_a_model_and_its_end_decides() -> None:
    clock = Clock()
    circuits = Circuits(clock)
    for _ in range(FAILURES_TO_REST):
        assert not circuits.rests("a")
        circuits.asked("a")
        circuits.failed("a", problem())
    assert circuits.rests("a")
    clock.now += REST
    assert not circuits.rests("a")
    circuits.asked("a")
    assert circuits.rests("a")
    assert circuits.resting()["a"]["state"] == "half-open"
    circuits.failed("a", problem())
    assert circuits.rests("a")
    clock.now += REST
    circuits.asked("a")
    circuits.ceased("a")
    assert not circuits.rests("a")
    circuits.asked("a")
    circuits.answered("a")
    assert circuits.resting() == {}


@pytest.mark.parametrize("status", [400, 404, 429])
def test_a_provider_that_is_busy_or_finds_a_request_wrong_is_not_down(status: int) -> None:
    circuits = Circuits(Clock())
    for _ in range(3 * FAILURES_TO_REST):
        circuits.failed("a", problem(status))
    assert not circuits.rests("a")


def test_failures_count_only_in_a_row() -> None:
    circuits = Circuits(Clock())
    for _ in range(FAILURES_TO_REST - 1):
        circuits.failed("a", problem())
    circuits.answered("a")
    circuits.failed("a", problem())
    assert not circuits.rests("a")


def test_own_problems_lead_to_no_other_dispatch() -> None:
    assert not attempts.may_go_elsewhere(problems.journal_unavailable())
    assert attempts.may_go_elsewhere(problem())
    assert not attempts.may_go_elsewhere(problem(404))


def test_a_client_that_leaves_while_the_gateway_waits_to_retry_ends_the_call(root: Path, provider: Provider) -> None:
    provider.script = failing(9, http(429, b"{}", headers={"Retry-After": "15"}))
    with Gateway(root, "--retries", "3") as gateway:
        with gateway.client() as client, pytest.raises(Exception, match="timed out"):
            client.post("/v1/chat/completions", json=HELLO, timeout=0.5)
        deadline = time.monotonic() + 3
        while gateway.state().open and time.monotonic() < deadline:
            time.sleep(0.05)
        assert gateway.events(serving.RequestAbandoned)[0].reason == "client-left"


def test_a_stand_in_that_rests_is_passed_over_for_the_next(root: Path, provider: Provider) -> None:
    provider.script = by_model(m2=DOWN)
    with Gateway(root, "--fallback", "plain=other", "--fallback", "plain=modern") as gateway:
        for _ in range(FAILURES_TO_REST):
            gateway.ask({**HELLO, "model": "other"})
        provider.script = by_model(m=DOWN)
        provider.asked.clear()
        assert gateway.ask().headers["x-exp-route"] == "modern"
        assert [asked.json["model"] for asked in provider.asked] == ["m", "gpt"]


def test_a_stand_in_that_cannot_be_sent_the_request_is_passed_over(root: Path, provider: Provider) -> None:
    provider.script = by_model(m=DOWN)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with Gateway(root, "--fallback", "plain=thinker", "--fallback", "plain=other") as gateway:
        assert gateway.ask({**HELLO, "tools": tools, "logit_bias": {"1": 1}}).headers["x-exp-route"] == "other"
