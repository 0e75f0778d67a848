from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands.opening import open_journal
from ledger.event import Blobs, Step
from ledger.families import policies, providers, serving
from projections.features import VERSION as FEATURES
from projections.features import request_features
from projections.policy import VERSION, Candidate, Neighbours, Policy, Row, Tolerance, encode
from tests.commands.gateway.provider_double import Provider
from tests.commands.gateway.running import HELLO, PRICED, Gateway, streamed

EASY, HARD = "list the files here", "prove the four colour theorem formally"


def _row(number: int, text: str, scores: tuple[int | None, ...]) -> Row:
    vector = request_features([{"role": "user", "content": text}], [])
    return Row(
        task=f"task-{number}",
        lineage=f"lineage-{number}",
        vector=base64.b64encode(vector.tobytes()).decode(),
        scores=scores,
        evidence=("", ""),
    )


def with_policy(root: Path, cheap: str = "other", evidence: str | None = None) -> Path:
    """A policy of incumbent ``plain`` and a cheaper candidate that is as good on easy tasks."""
    with open_journal(root, "test", providers.FAMILY, policies.FAMILY) as journal:
        state: providers.Providers = journal.state(providers.FAMILY)
        digests = [state.endpoint(alias).digest for alias in ("plain", cheap)]
        easy = [_row(at, f"{EASY} {at}", (1_000_000, 1_000_000)) for at in range(30)]
        hard = [_row(at + 30, f"{HARD} {at}", (1_000_000, 0)) for at in range(30)]
        policy = Policy(
            version=VERSION,
            features=FEATURES,
            project="terminal",
            build="b",
            setup="s",
            incumbent="plain",
            dial=Tolerance(millionths=50_000),
            method=Neighbours(neighbours=5, shrink=0),
            candidates=(
                Candidate(alias="plain", endpoint=digests[0], cost=600_000, cells=60),
                Candidate(
                    alias=cheap,
                    endpoint=evidence or digests[1],
                    cost=60_000,
                    cells=60,
                ),
            ),
            rows=tuple(easy + hard),
        )
        blobs = Blobs()
        content, report = blobs.put(encode(policy), "application/json"), blobs.put(b"{}", "application/json")
        frozen = policies.PolicyFrozen(project="terminal", run="run", policy=policy.id, content=content)
        published = policies.ReportPublished(
            project="terminal", run="run", policy=policy.id, report="report-1", content=report
        )
        journal.submit(
            Step(policies.FAMILY, policies.FreezePolicy(policy=frozen, report=published)), blobs=blobs
        ).result()
    return root


@pytest.fixture
def routed(root: Path) -> Iterator[Gateway]:
    with Gateway(with_policy(root), "terminal") as running:
        yield running


def asking(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "terminal", "messages": [{"role": "user", "content": text}], **fields}


def test_the_project_is_a_model_beside_the_aliases(routed: Gateway) -> None:
    with routed.client() as client:
        names = [model["id"] for model in client.get("/v1/models").json()["data"]]
    assert names[0] == "terminal"
    assert {"plain", "other"} <= set(names)


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_goes_where_the_policy_sends_it_and_the_reasons_are_recorded(
    routed: Gateway, provider: Provider, *, stream: bool
) -> None:
    fields = {"stream": True} if stream else {}
    easy, hard = routed.ask(asking(EASY, **fields)), routed.ask(asking(HARD, **fields))
    assert [asked.json["model"] for asked in provider.asked] == ["m2", "m"]
    assert easy.headers["x-exp-route"] == "other"
    assert easy.headers["x-exp-route-reason"] == "cheapest-not-worse"
    assert hard.headers["x-exp-route"] == "plain"
    one, other = routed.events(serving.RouteDecided)
    assert (one.alias, other.alias) == ("other", "plain")
    assert one.policy.startswith("policy-")
    assert {candidate.alias: candidate.verdict for candidate in one.candidates} == {
        "other": "not-worse",
        "plain": "incumbent",
    }
    assert {candidate.verdict for candidate in other.candidates} == {"worse", "incumbent"}
    assert one.neighbours[0].task in {f"task-{at}" for at in range(30)}
    assert one.candidates[0].cost == 1_000


def test_an_alias_is_asked_directly_whatever_the_policy_says(routed: Gateway, provider: Provider) -> None:
    routed.ask({**asking(HARD), "model": "other"})
    assert provider.asked[0].json["model"] == "m2"


def test_a_routed_answer_is_repeated_after_a_restart(routed: Gateway, provider: Provider) -> None:
    first = routed.ask(asking(EASY), "k")
    routed.restart()
    assert routed.ask(asking(EASY), "k").content == first.content
    assert len(provider.asked) == 1


def test_a_candidate_that_was_configured_anew_is_not_trusted_with_old_evidence(root: Path, provider: Provider) -> None:
    with Gateway(with_policy(root, evidence="b3:another"), "terminal") as gateway:
        response = gateway.ask(asking(EASY))
        assert response.headers["x-exp-route"] == "plain"
        assert response.headers["x-exp-route-reason"] == "candidate-unable"


def test_a_candidate_that_cannot_take_what_is_asked_is_passed_over(root: Path) -> None:
    with Gateway(with_policy(root, cheap="thinker"), "terminal") as gateway:
        assert gateway.ask(asking(EASY)).headers["x-exp-route"] == "thinker"
        assert gateway.ask(asking(EASY, temperature=1)).headers["x-exp-route"] == "thinker"
        passed = gateway.ask(asking(EASY, temperature=0.5))
        assert passed.headers["x-exp-route"] == "plain"
        assert passed.headers["x-exp-route-reason"] == "candidate-unable"


def test_a_request_without_words_is_routed_too(routed: Gateway) -> None:
    body = {"model": "terminal", "messages": [{"role": "assistant", "content": None}]}
    assert routed.ask(body).status_code == 200


def test_what_a_request_may_cost_is_reserved_and_what_it_cost_is_settled(gateway: Gateway) -> None:
    gateway.ask({**HELLO, "max_tokens": 100, "n": 2})
    gateway.ask(streamed(max_completion_tokens=100))
    plain, streaming = gateway.events(serving.RequestAccepted)
    sent = gateway.events(serving.RouteDecided)
    assert len(sent) == 2
    assert plain.worst_case - 200 * 2000 in range(60_000, 200_000)
    assert streaming.worst_case - 100 * 2000 in range(60_000, 200_000)
    state = gateway.state()
    assert state.reserved == 0
    assert state.settled == 2 * (10 * 1000 + 5 * 2000)
    assert state.aliases["plain"].answered == 2


def test_a_name_that_is_the_projects_and_an_alias_too_means_the_project_and_that_is_said(
    root: Path, provider: Provider
) -> None:
    model = providers.Model(alias="terminal", connection="compatible", model="hidden", capabilities=PRICED)
    with open_journal(root, "test", providers.FAMILY) as journal:
        journal.submit(Step(providers.FAMILY, providers.ConfigureProviders(models=(model,)))).result()
    with Gateway(with_policy(root), "terminal") as gateway:
        assert gateway.ask({**HELLO, "model": "terminal"}).status_code == 200
        assert provider.asked[-1].json["model"] != "hidden"
        assert gateway.stop() == 0
        assert gateway.process.stderr is not None
        assert gateway.process.stderr.read().startswith("terminal is the project and the alias of a model: ")


def test_an_alias_that_is_no_projects_name_is_not_remarked_upon(routed: Gateway) -> None:
    assert routed.stop() == 0
    assert routed.process.stderr is not None
    assert not routed.process.stderr.read()
