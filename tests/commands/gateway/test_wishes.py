"""Sessions, allowed models, and quality against cost: what headers ask of the routing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands.gateway.requests import read_chat
from commands.gateway.routing import Decided, Directory, Routed
from commands.gateway.wishes import Wishes, beginning
from commands.opening import open_journal
from ledger.event import Step
from ledger.families import serving
from ledger.families.providers import Connection, Endpoint, Model
from tests.commands.gateway.provider_double import Provider
from tests.commands.gateway.running import HELLO, PRICED, Gateway, streamed
from tests.commands.gateway.test_attempts import DOWN, by_model
from tests.commands.gateway.test_routing import EASY, HARD, asking, with_policy


@pytest.fixture
def routed(root: Path) -> Iterator[Gateway]:
    with Gateway(with_policy(root), "terminal") as running:
        yield running


def turns(*texts: str) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "done"}]
    return {"model": "terminal", "messages": messages[:-1]}


def test_a_session_keeps_one_model_also_after_a_restart(routed: Gateway) -> None:
    first = routed.ask(asking(EASY), **{"x-exp-session": "s"})
    second = routed.ask(asking(HARD), **{"x-exp-session": "s"})
    assert (first.headers["x-exp-route"], second.headers["x-exp-route"]) == ("other", "other")
    assert second.headers["x-exp-route-reason"] == "session-kept"
    routed.restart()
    assert routed.ask(asking(HARD), **{"x-exp-session": "s"}).headers["x-exp-route"] == "other"
    assert routed.ask(asking(HARD), **{"x-exp-session": "t"}).headers["x-exp-route"] == "plain"
    assert [event.alias for event in routed.events(serving.SessionKept)] == ["other", "plain"]


def test_without_a_name_a_conversation_is_known_by_its_beginning(routed: Gateway) -> None:
    assert routed.ask(turns(EASY)).headers["x-exp-route"] == "other"
    routed.restart()
    later = routed.ask(turns(EASY, HARD))
    assert (later.headers["x-exp-route"], later.headers["x-exp-route-reason"]) == ("other", "session-kept")
    assert routed.ask(turns(HARD)).headers["x-exp-route"] == "plain"


def test_the_beginning_of_a_conversation_is_all_up_to_its_first_user_turn() -> None:
    system, user = {"role": "system", "content": "s"}, {"role": "user", "content": "u"}
    more = {"role": "assistant", "content": "a"}
    assert beginning([system, user]) == beginning([system, user, more, user])
    assert beginning([system, user]) != beginning([user])
    assert beginning([user]) != beginning([{"role": "user", "content": "v"}])
    assert beginning([more]) == beginning([more])


def test_a_kept_model_that_cannot_take_a_request_is_passed_over_and_kept(root: Path) -> None:
    with Gateway(with_policy(root, cheap="thinker"), "terminal") as gateway:
        named = {"x-exp-session": "s"}
        assert gateway.ask(asking(EASY), **named).headers["x-exp-route"] == "thinker"
        assert gateway.ask(asking(EASY, temperature=0.5), **named).headers["x-exp-route"] == "plain"
        assert gateway.ask(asking(HARD), **named).headers["x-exp-route"] == "thinker"


def test_a_request_that_was_diverted_does_not_decide_for_its_session(root: Path) -> None:
    with Gateway(with_policy(root, cheap="thinker"), "terminal") as gateway:
        named = {"x-exp-session": "s"}
        assert gateway.ask(asking(EASY, temperature=0.5), **named).headers["x-exp-route"] == "plain"
        assert gateway.ask(asking(EASY), **named).headers["x-exp-route"] == "thinker"


def test_a_session_that_another_process_kept_meanwhile_goes_to_its_model(routed: Gateway) -> None:
    routed.ask(asking(HARD), **{"x-exp-session": "s"})
    (kept,) = routed.events(serving.SessionKept)
    assert kept.alias == "plain"
    with Gateway(routed.root, "terminal") as other:
        response = other.ask(asking(EASY), **{"x-exp-session": "s"})
        assert response.headers["x-exp-route"] == "plain"


def test_a_direct_model_keeps_no_session(routed: Gateway) -> None:
    routed.ask(HELLO, **{"x-exp-session": "s"})
    assert routed.events(serving.SessionKept) == []


@pytest.mark.parametrize("text", [EASY, HARD])
@pytest.mark.parametrize("allowed", ["plain", "other"])
def test_only_allowed_models_answer(routed: Gateway, text: str, allowed: str) -> None:
    response = routed.ask(asking(text), **{"x-exp-allowed-models": f"{allowed} , unknown"})
    assert response.headers["x-exp-route"] == allowed
    assert routed.events(serving.RouteDecided)[0].allowed == (allowed, "unknown")


def test_a_list_that_leaves_nobody_is_refused(routed: Gateway, provider: Provider) -> None:
    for body in (asking(EASY), HELLO):
        response = routed.ask(body, **{"x-exp-allowed-models": "modern"})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "model_not_allowed")
    assert provider.asked == []


def test_a_stand_in_must_be_allowed(root: Path, provider: Provider) -> None:
    provider.script = by_model(m=DOWN)
    with Gateway(root, "--fallback", "plain=other") as gateway:
        assert gateway.ask(HELLO, **{"x-exp-allowed-models": "plain"}).status_code == 503
        assert gateway.ask(HELLO, **{"x-exp-allowed-models": "plain,other"}).status_code == 200


def test_the_dial_turns_a_request_to_cost_or_to_quality(routed: Gateway) -> None:
    def route(text: str, dial: str) -> str:
        return routed.ask(asking(f"{text} {dial}"), **{"x-exp-quality-cost": dial}).headers["x-exp-route"]

    assert route(HARD, "tolerance=1") == "other"
    assert route(HARD, "tolerance=0.05") == "plain"
    assert route(HARD, "price=1000") == "plain"
    assert route(HARD, "price=0") == "other"
    decided = routed.events(serving.RouteDecided)
    assert [event.dial for event in decided] == [
        "tolerance=1000000",
        "tolerance=50000",
        "price=1000000000000",
        "price=0",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-exp-quality-cost", "50"),
        ("x-exp-quality-cost", "price=-1"),
        ("x-exp-quality-cost", "price=1e3"),
        ("x-exp-quality-cost", "tolerance=.05"),
        ("x-exp-quality-cost", "tolerance=nan"),
        ("x-exp-quality-cost", ""),
        ("x-exp-session", ""),
        ("x-exp-session", "s" * 256),
        ("x-exp-allowed-models", ", ,"),
        ("x-exp-allowed-models", "a," * 1001),
    ],
)
def test_a_header_that_cannot_be_understood_is_refused_by_name(
    shared_gateway: Gateway, shared_provider: Provider, name: str, value: str
) -> None:
    response = shared_gateway.ask(HELLO, **{name: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == name
    assert shared_provider.asked == []


@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_headers_name_the_model_the_reason_and_the_decision(gateway: Gateway, body: dict[str, Any]) -> None:
    response = gateway.ask(body)
    assert (response.headers["x-exp-route"], response.headers["x-exp-route-reason"]) == ("plain", "named")
    with open_journal(gateway.root, "test", serving.FAMILY) as journal:
        (decided,) = journal.events(serving.RouteDecided)
    assert response.headers["x-exp-route-decision"] == f"b3:{decided.id.hex()}"


def test_the_second_of_two_first_requests_of_a_session_is_told_where_it_is_kept(root: Path) -> None:
    def accepting(request: str, alias: str) -> serving.AcceptRequest:
        accepted = serving.RequestAccepted(
            request=request, route="x", identity="x", model="x", alias=alias, streamed=False, ghost=False,
            process="p", worst_case=0,
        )  # fmt: skip
        return serving.AcceptRequest(
            accepted=accepted,
            decided=serving.RouteDecided(request=request, alias=alias, reason="x", api="x", base_url="x", sent=""),
            kept=serving.SessionKept(session="b3:" + "0" * 64, alias=alias, request=request),
        )

    with open_journal(root, "test", serving.FAMILY) as journal:
        assert len(journal.submit(Step(serving.FAMILY, accepting("r-1", "a"))).result()) == 3
        assert len(journal.submit(Step(serving.FAMILY, accepting("r-2", "a"))).result()) == 2
        with pytest.raises(serving.SessionKeptElsewhere, match="kept with the model a"):
            journal.submit(Step(serving.FAMILY, accepting("r-3", "b"))).result()
        assert set(journal.state(serving.FAMILY).open) == {"r-1", "r-2"}


@pytest.mark.parametrize("name", ["x-exp-session", "x-exp-allowed-models", "x-exp-quality-cost"])
def test_a_header_that_is_there_twice_is_refused_by_name(shared_gateway: Gateway, name: str) -> None:
    value = "price=1" if name.endswith("cost") else "plain"
    with shared_gateway.client() as client:
        headers = [("Authorization", f"Bearer {shared_gateway.key}"), (name, value), (name, value)]
        response = client.post("/v1/chat/completions", json=HELLO, headers=headers)
    assert (response.status_code, response.json()["error"]["param"]) == (400, name)


def test_a_session_is_one_clients_under_one_policy() -> None:
    endpoint = Endpoint(
        model=Model(alias="plain", connection="c", model="m", capabilities=PRICED),
        connection=Connection(name="c", provider="embedded"),
    )

    def session(identity: str, policy: str, said: str, project: str = "terminal") -> str | None:
        routed = Routed(project, policy, "plain", {"plain": endpoint.digest}, lambda *_: Decided("plain", "x"))
        request = read_chat(json.dumps({**asking(EASY), "model": project}).encode())
        return Directory({"plain": endpoint}, routed).route(request, Wishes(session=said), identity).session

    one = session("key-1", "p-1", "s")
    assert one == session("key-1", "p-1", "s")
    others = (
        session("key-2", "p-1", "s"),
        session("key-1", "p-2", "s"),
        session("key-1", "p-1", "t"),
        session("key-1", "p-1", "s", "another"),
    )
    assert len({one, *others}) == 5
