"""Several clients, what each may ask for and take, and what it is told when that is used up."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from commands.gateway.keys import digest_of
from commands.opening import now_us, open_journal
from ledger.allowances import DAY, FREE, MINUTE, OVERALL, Limits, day_name
from ledger.event import Command, Step
from ledger.families import providers, serving
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Model
from tests.commands.gateway.provider_double import Piece, Provider, completion, http
from tests.commands.gateway.running import HELLO, Gateway, streamed

KEY = "exp-the-key-of-team-a-0123456789abcdef"
SMALL = {**HELLO, "max_completion_tokens": 1}


def record(root: Path, *commands: Command) -> None:
    with open_journal(root, "test", serving.FAMILY) as journal:
        for command in commands:
            journal.submit(Step(serving.FAMILY, command)).result()


def issue(root: Path, limits: Limits = FREE, name: str = "team-a", key: str = KEY) -> None:
    record(root, serving.IssueGatewayKey(identity=name, digest=digest_of(key), limits=limits))


def ask(gateway: Gateway, body: Any = HELLO, key: str = KEY, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{gateway.url}/v1/chat/completions",
        json=body,
        headers={"Authorization": f"Bearer {key}", **headers},
        timeout=30,
        trust_env=False,
    )


def get(gateway: Gateway, path: str, key: str = KEY) -> httpx.Response:
    return httpx.get(gateway.url + path, headers={"Authorization": f"Bearer {key}"}, timeout=30, trust_env=False)


def brief(*_: object) -> list[Piece]:
    return http(200, completion(usage={"prompt_tokens": 5, "completion_tokens": 1}))


def early_in_a_minute() -> None:
    """Let a minute begin that a test would else straddle."""
    rest = MINUTE - now_us() % MINUTE
    if rest < 8_000_000:
        time.sleep(rest / 1_000_000 + 0.05)


def test_an_issued_key_is_known_at_once_and_its_requests_go_by_its_name(gateway: Gateway) -> None:
    assert ask(gateway).status_code == 401
    issue(gateway.root)
    assert ask(gateway).status_code == 200
    assert gateway.ask().status_code == 200
    assert gateway.events(serving.RequestAccepted)[0].identity == "team-a"
    assert len({one.identity for one in gateway.events(serving.RequestAccepted)}) == 2


def test_a_revoked_key_is_refused_at_once_on_every_route_and_others_are_not(gateway: Gateway) -> None:
    issue(gateway.root)
    assert get(gateway, "/v1/models").status_code == 200
    record(gateway.root, serving.RevokeGatewayKey(identity="team-a", when=now_us()))
    for path in ("/v1/models", "/health/live", "/v1/usage", "/usage", "/nowhere"):
        refused = get(gateway, path)
        assert refused.status_code == 401
        assert refused.json()["error"]["code"] == "invalid_api_key"
    assert ask(gateway).status_code == 401
    assert gateway.ask().status_code == 200


def test_a_rotated_key_is_valid_for_as_long_as_it_was_told(gateway: Gateway) -> None:
    issue(gateway.root)
    other, now = KEY[::-1], now_us()
    rotate = serving.RotateGatewayKey(identity="team-a", digest=digest_of(other), when=now, until=now + 2_000_000)
    record(gateway.root, rotate)
    assert get(gateway, "/v1/models").status_code == 200
    assert get(gateway, "/v1/models", other).status_code == 200
    time.sleep(2)
    assert get(gateway, "/v1/models").status_code == 401
    assert get(gateway, "/v1/models", other).status_code == 200


def test_an_idempotency_key_belongs_to_the_client_whichever_of_its_keys_is_shown(
    gateway: Gateway, provider: Provider
) -> None:
    issue(gateway.root)
    issue(gateway.root, name="team-b", key=KEY + "b")
    first = ask(gateway, **{"Idempotency-Key": "k"})
    other, now = KEY[::-1], now_us()
    record(gateway.root, serving.RotateGatewayKey(identity="team-a", digest=digest_of(other), when=now, until=now))
    again = ask(gateway, key=other, **{"Idempotency-Key": "k"})
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    assert len(provider.asked) == 1
    assert "idempotent-replayed" not in ask(gateway, key=KEY + "b", **{"Idempotency-Key": "k"}).headers


def test_a_key_is_for_its_models_only(gateway: Gateway, provider: Provider) -> None:
    issue(gateway.root, Limits(aliases=("other",)))
    refused = ask(gateway)
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "model_not_found"
    assert "pinned" not in refused.text
    assert not provider.asked
    assert [one["id"] for one in get(gateway, "/v1/models").json()["data"]] == ["other"]
    assert get(gateway, "/v1/models/plain").status_code == 404
    assert ask(gateway, {**HELLO, "model": "other"}).status_code == 200


def test_nobody_stands_in_whom_a_key_is_not_for(root: Path, provider: Provider) -> None:
    with Gateway(root, "--fallback", "plain=other") as gateway:
        issue(root, Limits(aliases=("plain",)))
        provider.script = lambda *_: http(503, b"{}")
        assert ask(gateway).status_code == 503
        assert len(provider.asked) == 1
        assert ask(gateway, **{"x-exp-allowed-models": "plain,other"}).status_code == 503
        assert len(provider.asked) == 2
        assert gateway.ask().status_code == 503
        assert len(provider.asked) == 4


def test_what_does_not_fit_under_a_budget_is_a_429_that_says_when_it_will(gateway: Gateway, provider: Provider) -> None:
    issue(gateway.root, Limits(budget_per_day=1))
    refused = ask(gateway)
    assert refused.status_code == 429
    error = refused.json()["error"]
    tomorrow = f"{day_name(now_us() // DAY + 1)}T00:00:00Z"
    assert (error["type"], error["code"]) == ("insufficient_quota", "insufficient_quota")
    assert error["resets_at"] == tomorrow
    assert tomorrow in error["message"]
    assert refused.headers["x-exp-resets-at"] == tomorrow
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    assert refused.headers["x-should-retry"] == "false"
    assert not provider.asked
    (noted,) = gateway.events(serving.RequestRefused)
    assert (noted.identity, noted.status, noted.code) == ("team-a", 429, "insufficient_quota")


def test_a_month_resets_on_its_first_day(gateway: Gateway) -> None:
    issue(gateway.root, Limits(budget_per_month=1))
    assert ask(gateway).json()["error"]["resets_at"].endswith("-01T00:00:00Z")


def test_all_keys_together_have_a_budget(gateway: Gateway) -> None:
    record(gateway.root, serving.SetGatewayLimits(identity=OVERALL, limits=Limits(budget_per_day=1)))
    refused = gateway.ask()
    assert refused.status_code == 429
    assert "all keys together" in refused.json()["error"]["message"]
    record(gateway.root, serving.SetGatewayLimits(identity=OVERALL, limits=FREE))
    assert gateway.ask().status_code == 200


def test_the_official_client_gets_its_own_error_and_does_not_try_again(gateway: Gateway) -> None:
    issue(gateway.root, Limits(budget_per_day=1))
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY) as client,
        pytest.raises(openai.RateLimitError) as raised,
    ):
        client.chat.completions.create(model="plain", messages=[{"role": "user", "content": "hi"}])
    assert raised.value.code == "insufficient_quota"
    assert len(gateway.events(serving.RequestRefused)) == 1


@pytest.fixture
def two(root: Path) -> Iterator[tuple[Gateway, Gateway]]:
    with Gateway(root) as first, Gateway(root) as second:
        yield first, second


def test_a_budget_is_never_exceeded_by_many_at_once_in_two_processes(
    two: tuple[Gateway, Gateway], provider: Provider
) -> None:
    root = two[0].root
    provider.script = lambda *_: [0.5, *brief()]
    size = len(json.dumps(SMALL).encode())
    worst = (size + 40) * 1_000 + 2_000  # a bit more than one request, whatever is added to it
    issue(root, Limits(budget_per_day=4 * worst))
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda n: ask(two[n % 2], SMALL), range(16)))
    states = {reply.status_code for reply in replies}
    assert states == {200, 429}
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert refused.headers["retry-after"] == "1"
    assert "x-should-retry" not in refused.headers
    committed = highest = 0
    open_: dict[str, int] = {}
    for event in two[0].events(serving.RequestAccepted, serving.RequestAnswered):
        if isinstance(event, serving.RequestAccepted):
            open_[event.request] = event.worst_case or 0
            committed += event.worst_case or 0
        else:
            committed += (event.cost or 0) - open_.pop(event.request)
        highest = max(highest, committed)
    assert 0 < highest <= 4 * worst
    assert not open_
    assert ask(two[1], SMALL).status_code == 200  # what was reserved was given back


def test_what_was_spent_counts_after_a_restart_and_across_processes(two: tuple[Gateway, Gateway]) -> None:
    first, second = two
    issue(first.root)
    assert ask(first).status_code == 200
    spent = first.state().account("team-a").day.taken
    assert spent > 0
    record(first.root, serving.SetGatewayLimits(identity="team-a", limits=Limits(budget_per_day=spent)))
    assert ask(second).status_code == 429
    first.restart()
    assert ask(first).status_code == 429


def test_a_stream_that_failed_gives_back_what_it_did_not_take(gateway: Gateway, provider: Provider) -> None:
    issue(gateway.root, Limits(budget_per_day=10**12))
    provider.script = lambda *_: http(400, b'{"error":{"message":"no"}}')
    assert ask(gateway, streamed()).status_code == 400
    account = gateway.state().account("team-a")
    assert (account.day.taken, account.day.reserved, account.month.reserved) == (0, 0, 0)
    assert (account.tokens.taken, account.tokens.reserved) == (0, 0)


def test_requests_a_minute_are_counted_and_the_next_minute_is_told(gateway: Gateway) -> None:
    issue(gateway.root, Limits(requests_per_minute=2))
    early_in_a_minute()
    assert [ask(gateway).status_code for _ in range(3)] == [200, 200, 429]
    refused = ask(gateway)
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert "x-should-retry" not in refused.headers
    assert error["resets_at"].endswith(":00Z")
    assert gateway.ask().status_code == 200


def test_tokens_a_minute_are_taken_at_their_most_and_set_right(gateway: Gateway, provider: Provider) -> None:
    provider.script = brief
    size = len(json.dumps(SMALL).encode()) + 60
    issue(gateway.root, Limits(tokens_per_minute=size))
    early_in_a_minute()
    assert [ask(gateway, SMALL).status_code for _ in range(2)] == [200, 200]
    assert gateway.state().account("team-a").tokens.taken == 12
    alone = ask(gateway)
    assert alone.status_code == 429
    assert alone.headers["x-should-retry"] == "false"
    assert "fewer output tokens" in alone.json()["error"]["message"]


def test_embeddings_take_tokens_too(gateway: Gateway) -> None:
    issue(gateway.root, Limits(tokens_per_minute=1))
    body = {"model": "embed", "input": "some words"}
    shown = {"Authorization": f"Bearer {KEY}"}
    refused = httpx.post(f"{gateway.url}/v1/embeddings", json=body, headers=shown, trust_env=False)
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"


def test_what_has_no_price_is_refused_under_a_budget_and_asked_without_one(root: Path, provider: Provider) -> None:
    with open_journal(root, "test", providers.FAMILY) as journal:
        free = Model(alias="free", connection="c", model="m", capabilities=Capabilities(supports_completions=True))
        connection = Connection(name="c", provider="openai-compatible", base_url=provider.url)
        command = ConfigureProviders(connections=(connection,), models=(free,), roles={})
        journal.submit(Step(providers.FAMILY, command)).result()
    with Gateway(root) as gateway:
        issue(root, Limits(budget_per_day=10**12))
        refused = ask(gateway, {**HELLO, "model": "free"})
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "price_unknown"
        assert gateway.ask({**HELLO, "model": "free"}).status_code == 200


def test_a_retry_that_would_go_over_the_budget_is_not_made(root: Path, provider: Provider) -> None:
    with Gateway(root, "--retries", "3") as gateway:
        provider.script = lambda *_: http(200, b"{")  # may have been charged for
        assert ask(gateway, SMALL, gateway.key).status_code == 502
        assert len(provider.asked) == 4
        worst = gateway.events(serving.RequestAccepted)[0].worst_case
        issue(root, Limits(budget_per_day=worst * 5 // 2))
        assert ask(gateway, SMALL).status_code == 502
        assert len(provider.asked) == 4 + 2
        account = gateway.state().account("team-a")
        assert account.day.taken == 2 * worst
        assert account.day.reserved == 0


def test_no_key_is_in_the_journal_in_what_is_printed_or_in_what_is_recorded(
    gateway: Gateway, provider: Provider
) -> None:
    issue(gateway.root)
    provider.script = lambda *_: http(200, completion(f"your key is {KEY}"))
    reply = ask(gateway, {**HELLO, "messages": [{"role": "user", "content": f"is {KEY} a key?"}]})
    assert reply.status_code == 200
    assert KEY not in reply.text
    gateway.stop()
    assert KEY.encode() not in (gateway.root / "ledger.db").read_bytes()
    accepted = gateway.events(serving.RequestAccepted)[0]
    assert accepted.body is not None
    assert KEY.encode() not in gateway.blob(accepted.body.blob)
    assert gateway.process.stderr is not None
    assert KEY not in gateway.process.stderr.read()


def test_usage_is_told_by_key_model_and_day(gateway: Gateway, provider: Provider) -> None:
    provider.script = brief
    issue(gateway.root)
    ask(gateway)
    ask(gateway, {**HELLO, "model": "other"})
    gateway.ask()
    mine = get(gateway, "/v1/usage").json()
    today = day_name(now_us() // DAY)
    assert [(row["day"], row["key"], row["model"]) for row in mine["data"]] == [
        (today, "team-a", "other"),
        (today, "team-a", "plain"),
    ]
    assert mine["total"]["requests"] == mine["total"]["answered"] == 2
    assert (mine["total"]["input_tokens"], mine["total"]["output_tokens"]) == (10, 2)
    assert mine["total"]["cost_nano_usd"] == 2 * (5 * 1_000 + 2_000)
    assert [one["key"] for one in mine["limits"]] == ["team-a"]
    everybody = get(gateway, "/v1/usage", gateway.key).json()
    assert everybody["total"]["requests"] == 3
    assert {row["key"] for row in everybody["data"]} == {"team-a", gateway.events(serving.GatewayKeyIssued)[0].identity}
    none = get(gateway, "/v1/usage?from=2020-01-01&to=2020-12-31", gateway.key).json()
    assert (none["data"], none["total"]["requests"]) == ([], 0)


@pytest.mark.parametrize("query", ["from=yesterday", "to=2026-13-01", "day=2026-01-01", "from="])
def test_a_range_that_is_none_is_refused(shared_gateway: Gateway, query: str) -> None:
    refused = get(shared_gateway, f"/v1/usage?{query}", shared_gateway.key)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == query.partition("=")[0]


def test_the_page_needs_nothing_beside_itself_escapes_names_and_takes_the_key_as_a_password(gateway: Gateway) -> None:
    issue(gateway.root, name="<b>a&b</b>")
    assert ask(gateway).status_code == 200
    assert httpx.get(f"{gateway.url}/usage", trust_env=False).headers["www-authenticate"].startswith("Basic ")
    page = httpx.get(f"{gateway.url}/usage", auth=("me", gateway.key), trust_env=False)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "&lt;b&gt;a&amp;b&lt;/b&gt;" in page.text
    assert "<b>a" not in page.text
    assert "<script" not in page.text
    assert "http" not in page.text
    assert gateway.key not in page.text
    password = base64.b64encode(f"me:{gateway.key}".encode()).decode()
    elsewhere = httpx.get(f"{gateway.url}/v1/models", headers={"Authorization": f"Basic {password}"}, trust_env=False)
    assert elsewhere.status_code == 401
