"""Exchanges: work that ends early, and what a client's own words for a request may be."""

from __future__ import annotations

import asyncio

import pytest

from commands.gateway.exchange import Ceased, Exchange, Headers


def exchange(headers: Headers | None = None) -> Exchange:
    async def receive() -> dict[str, object]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(_message: dict[str, object]) -> None:
        raise AssertionError

    return Exchange({"method": "GET", "path": "/", "headers": headers or []}, receive, send)


def test_the_first_reason_for_which_work_ends_is_the_one_that_counts() -> None:
    async def run() -> str:
        one = exchange()
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, one.stop, "client-left")
        loop.call_later(0.01, one.stop, "stopped")
        with pytest.raises(Ceased) as ceased:
            await one.work(asyncio.sleep(60))
        return ceased.value.reason

    assert asyncio.run(run()) == "client-left"


def test_after_work_that_was_stopped_its_task_goes_on_as_if_it_had_never_been_cancelled() -> None:
    async def run() -> int:
        one = exchange()
        asyncio.get_running_loop().call_later(0.01, one.stop)
        with pytest.raises(Ceased, match="stopped"):
            await one.work(asyncio.sleep(60))
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(run()) == 0


def test_who_cancels_the_task_itself_is_not_taken_for_a_client_that_left() -> None:
    async def run() -> None:
        one = exchange()
        task = asyncio.get_running_loop().create_task(one.work(asyncio.sleep(60)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize(("value", "kept"), [
    (b"turn-1", "turn-1"), (b"x" * 300, "x" * 200), (b"", None), (b"a\tb", None), ("\u00e4".encode(), None),
])  # fmt: skip
def test_a_clients_own_name_for_a_request_is_kept_when_it_is_plain(value: bytes, kept: str | None) -> None:
    assert exchange([(b"x-client-request-id", value)]).correlation == kept


def test_a_stream_is_not_to_be_kept_on_the_way() -> None:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    one = exchange()
    one._send = send
    asyncio.run(one.begin([]))
    headers = sent[0]["headers"]
    assert isinstance(headers, list)
    assert {(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")} <= set(headers)
