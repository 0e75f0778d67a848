from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from commands.perform.asking import Answer, Asking, Retrying, Run
from commands.perform.calling import CallWithoutAnswer
from commands.perform.credentials import CredentialMissing
from commands.perform.live import Live, retry_after
from commands.perform.outcome import Answered, Failed, Outcome
from ledger.families import calls
from ledger.families.calls import CallFailed
from ledger.families.providers import Capabilities, Connection, Endpoint, Model, Providers
from ledger.prompt import Prompt, Question
from ledger.questions import question, text_question
from tests.commands.perform.journals import asking_about, journal, kinds
from tests.commands.perform.provider import PRICED, Provider, Request, chat, endpoint, response, serving

Script = Callable[[Request, int], "bytes | str | None"]
UNLIMITED = Run("run", None, "test")
SECRET = "a-secret-of-this-test"


def hello(asked: Endpoint) -> Question:
    return question(asked, Prompt(({"role": "user", "content": "hello"},)), sample=0, output_limit=100)


def performed(
    script: Script, *, key: str | None = None, environment: dict[str, str] | None = None, path: str = "", **live: float
) -> tuple[Outcome, Provider]:
    async def main() -> tuple[Outcome, Provider]:
        async with serving(script) as provider:
            asked = endpoint(provider.base_url + path, key=key)
            state = Providers(connections={"c": asked.connection})
            async with Live(state, environment or {}, **live) as perform:
                return await perform(asked, hello(asked)), provider

    return asyncio.run(main())


def test_the_body_that_is_recorded_is_the_body_that_is_sent() -> None:
    outcome, provider = performed(lambda request, n: response(200, chat()), key="K", environment={"K": SECRET})
    assert isinstance(outcome, Answered)
    assert json.loads(outcome.body) == chat()
    (request,) = provider.requests
    assert request.path == "/chat/completions"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.headers["content-type"] == "application/json"
    recorded = json.loads(hello(endpoint(provider.base_url)).body)
    assert request.json == recorded["request"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("", "/chat/completions"),
        ("/", "/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/deep/base/", "/deep/base/chat/completions"),
        ("/azure?api-version=1", "/azure/chat/completions?api-version=1"),
    ],
)
def test_the_base_url_is_used_as_given(given: str, asked: str) -> None:
    _, provider = performed(lambda request, n: response(200, chat()), path=given)
    assert [request.path for request in provider.requests] == [asked]


def test_without_a_credential_no_authorization_is_sent() -> None:
    _, provider = performed(lambda request, n: response(200, chat()))
    assert "authorization" not in provider.requests[0].headers


@pytest.mark.parametrize("environment", [{}, {"K": ""}, {"K": "line\nbreak"}, {"K": "ключ"}])
def test_a_credential_that_cannot_be_sent_is_a_clean_error_and_the_call_is_released(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    asked = endpoint(key="K")

    async def main() -> None:
        with journal(tmp_path / "r") as opened:
            async with Live(Providers(connections={"c": asked.connection}), environment) as perform:
                with pytest.raises(CredentialMissing):
                    await Asking(opened, perform, UNLIMITED).ask(asked, hello(asked))
            assert kinds(opened) == ["call-reserved@1", "call-released@1"]
            assert opened.state(calls.FAMILY).totals("run").calls == 0

    asyncio.run(main())


def test_a_credential_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")

    async def main() -> None:
        async with serving(lambda request, n: response(200, chat())) as provider:
            connection = Connection(
                name="c",
                provider="openai-compatible",
                base_url=provider.base_url,
                api_key_file=str(tmp_path / "key"),
            )
            asked = Endpoint(
                model=Model(alias="m", connection="c", model="model", capabilities=PRICED), connection=connection
            )
            async with Live(Providers(connections={"c": connection}), {}) as perform:
                await perform(asked, hello(asked))
                assert perform.redactor.text(f"x{SECRET}x") == ("x[redacted]x", 1)
            assert provider.requests[0].headers["authorization"] == f"Bearer {SECRET}"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "again"),
    [(400, False), (401, True), (403, True), (404, False), (429, True), (500, True), (503, True), (302, False)],
)
def test_a_status_is_a_failure_with_what_the_provider_said(status: int, again: bool) -> None:  # noqa: FBT001
    said = {"error": {"message": f"bad key {SECRET} or sk-abcdefghijklmnopqrstuvwx\n\tplease", "code": 7}}
    outcome, _ = performed(lambda request, n: response(status, said, location="/x"), key="K", environment={"K": SECRET})
    assert outcome == Failed(f"status {status}", status, message="bad key [redacted] or [redacted] please", again=again)


def test_a_provider_that_asks_for_patience_gets_it() -> None:
    outcome, _ = performed(lambda request, n: response(429, b"slow down", retry_after="7"))
    assert outcome == Failed("status 429", 429, message="slow down", retry_after=7.0)
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30))
    assert 25 <= (retry_after(soon) or 0) <= 31
    assert retry_after("nonsense") is None
    assert retry_after("nan") is None
    assert retry_after("-5") == 0.0


def test_a_cut_connection_may_have_been_charged_for() -> None:
    outcome, _ = performed(lambda request, n: None)
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.sent, outcome.charged, outcome.again) == ("cut off", True, True, True)


def test_a_body_that_ends_too_soon_is_a_cut_connection() -> None:
    cut = response(200, chat())[:-10] + b""
    outcome, _ = performed(lambda request, n: cut if n else None, total_seconds=0.3)
    assert isinstance(outcome, Failed)
    assert outcome.charged


def test_a_provider_that_says_nothing_times_out() -> None:
    outcome, _ = performed(lambda request, n: "hang", total_seconds=0.1)
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.charged) == ("timed out", True)


def test_a_refused_connection_was_never_sent() -> None:
    async def main() -> Outcome:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        asked = endpoint(f"http://127.0.0.1:{port}")
        async with Live(Providers(), {}) as perform:
            return await perform(asked, hello(asked))

    outcome = asyncio.run(main())
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.sent, outcome.charged) == ("unreachable", False, False)


def test_requests_seen_by_a_witness_equal_the_recorded_attempts(tmp_path: Path) -> None:
    def script(request: Request, n: int) -> bytes | str | None:
        return [response(500, {"error": {"message": "no"}}), None, response(200, chat())][(n - 1) % 3]

    async def main() -> None:
        async with serving(script) as provider:
            asked = endpoint(provider.base_url)
            with journal(tmp_path / "r") as opened:
                async with Live(Providers(), {}) as perform:
                    asking = Asking(
                        opened, perform, UNLIMITED, concurrency=1, retrying=Retrying(tries=5, first_seconds=0.0)
                    )
                    for number in range(4):
                        words = Prompt(({"role": "user", "content": f"{number}"},))
                        await asking.ask(asked, question(asked, words, sample=0, output_limit=9))
                assert len(provider.requests) == kinds(opened).count("call-reserved@1") == 12
                assert asking.spend().retries == 8

    asyncio.run(main())


def test_a_provider_that_is_down_ends_in_a_clean_refusal_with_nothing_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(lambda request, n: response(401, {"error": {"message": f"{SECRET} is wrong"}})) as provider:
            asked = endpoint(provider.base_url, key="K")
            with journal(tmp_path / "r") as opened:
                async with Live(Providers(connections={"c": asked.connection}), {"K": SECRET}) as perform:
                    asking = Asking(
                        opened, perform, UNLIMITED, retrying=Retrying(tries=2, busy_tries=2, first_seconds=0.0)
                    )
                    with pytest.raises(CallWithoutAnswer) as refused:
                        await asking.ask(asked, hello(asked))
                assert SECRET not in refused.value.what
                assert "[redacted] is wrong" in refused.value.what
                assert opened.state(calls.FAMILY).open == {}
                failures = [record.event for record in opened.events(CallFailed)]
                assert [one.status for one in failures if isinstance(one, CallFailed)] == [401, 401]

    asyncio.run(main())
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_text_question_is_sent_byte_for_byte() -> None:
    text = '{"messages": [], "temperature": 0.70, "model": "model"}'

    async def main() -> bytes:
        async with serving(lambda request, n: response(200, chat())) as provider:
            asked = endpoint(provider.base_url)
            async with Live(Providers(), {}) as perform:
                await perform(asked, text_question(asked, "chat.completions", text, request_id="r-1"))
            return provider.requests[0].body

    assert asyncio.run(main()) == text.encode()


def test_the_embedded_provider_is_asked_in_this_process(tmp_path: Path) -> None:
    able = Capabilities(supports_completions=True, input_price=0, output_price=0)
    asked = Endpoint(
        model=Model(alias="s", connection="e", model="embedded-small", capabilities=able),
        connection=Connection(name="e", provider="embedded"),
    )

    async def main() -> Answer:
        with journal(tmp_path / "r") as opened:
            async with Live(Providers(), {}) as perform:
                return await Asking(opened, perform, Run("run", 0, "test")).ask(asked, hello(asked))

    answer = asyncio.run(main())
    assert answer.reply is not None
    assert answer.reply.served_model == "embedded-small"
    assert answer.reply.system_fingerprint
    assert answer.cost == 0


def test_asking_about_nothing_in_particular_is_deterministic() -> None:
    assert asking_about("x").digest == asking_about("x").digest
