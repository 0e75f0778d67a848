"""What holds across processes: no call twice, no ceiling passed, nothing left open by one that was told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from ledger.families import calls
from ledger.journal import Journal
from tests.commands.perform.journals import asking_about, journal, kinds
from tests.commands.perform.provider import Provider, Request, chat, response, serving

ROOT_OF_REPOSITORY = Path(__file__).parents[3]


async def child(root: Path, url: str, ceiling: int | None, count: int) -> Process:
    arguments = [str(root), url, "none" if ceiling is None else str(ceiling), str(count)]
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.commands.perform.child",
        *arguments,
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT_OF_REPOSITORY,
    )


async def ended(process: Process) -> tuple[int, str, str]:
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode(), err.decode()


async def until(provider: Provider, count: int) -> None:
    for _ in range(2_000):
        if len(provider.requests) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(len(provider.requests))


def most_committed(opened: Journal) -> int:
    state = calls.FAMILY.initial()
    most = 0
    for record in opened.events():
        state = calls.evolve(state, record.event)
        most = max(most, state.totals("run").committed)
    return most


def answering(request: Request, n: int) -> bytes:
    return response(200, chat())


def test_two_processes_that_ask_the_same_make_no_call_twice(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(answering) as provider:
            with journal(tmp_path / "r"):
                pass
            both = [await child(tmp_path / "r", provider.base_url, None, 40) for _ in range(2)]
            outcomes = [await ended(one) for one in both]
            assert [one[0] for one in outcomes] == [0, 0], outcomes
            assert all("answered 40 refused 0" in one[1] for one in outcomes)
            assert len(provider.requests) == 40

    asyncio.run(main())
    with journal(tmp_path / "r") as opened:
        assert kinds(opened).count("call-reserved@1") == kinds(opened).count("call-answered@1") == 40


def test_two_processes_under_one_ceiling_never_pass_it(tmp_path: Path) -> None:
    body = len(asking_about("question 00").body) + 6  # the address of a loopback provider is shorter or longer
    worst = 200_000 + body * 1_000
    ceiling = 5 * worst
    seen: dict[str, int] = {}

    def often_failing(request: Request, n: int) -> bytes:
        words = request.json["messages"][0]["content"]
        seen[words] = seen.get(words, 0) + 1
        return response(500, {"error": "no"}) if seen[words] == 1 else response(200, chat(written=60))

    async def main() -> None:
        async with serving(often_failing) as provider:
            with journal(tmp_path / "r"):
                pass
            both = [await child(tmp_path / "r", provider.base_url, ceiling, 30) for _ in range(2)]
            outcomes = [await ended(one) for one in both]
            assert [one[0] for one in outcomes] == [0, 0], outcomes
            assert all(" refused 0" not in one[1] for one in outcomes)

    asyncio.run(main())
    with journal(tmp_path / "r") as opened:
        assert ceiling // 2 < most_committed(opened) <= ceiling
        assert opened.state(calls.FAMILY).open == {}


def test_a_call_of_a_killed_process_is_lost_stays_counted_and_is_made_again(tmp_path: Path) -> None:
    def silent_at_first(request: Request, n: int) -> bytes | str:
        return "hang" if n <= 3 else answering(request, n)

    async def main() -> None:
        async with serving(silent_at_first) as provider:
            killed = await child(tmp_path / "r", provider.base_url, None, 3)
            await until(provider, 3)
            killed.kill()
            await killed.wait()
            with journal(tmp_path / "r") as opened:
                state = opened.state(calls.FAMILY)
                assert len(state.open) == 3
                reserved = state.totals("run").reserved
                assert reserved > 0
            again = await ended(await child(tmp_path / "r", provider.base_url, None, 3))
            assert again[0] == 0, again
            assert len(provider.requests) == 6
            with journal(tmp_path / "r") as opened:
                totals = opened.state(calls.FAMILY).totals("run")
                assert opened.state(calls.FAMILY).open == {}
                assert (totals.lost, totals.ambiguous, totals.reserved, totals.answered) == (3, reserved, 0, 3)
                dispatches = {
                    record.key.rpartition(":")[2] for record in opened.events(calls.CallAnswered) if record.key
                }
                answered = [record.event for record in opened.events(calls.CallAnswered)]
                assert {one.dispatch for one in answered if isinstance(one, calls.CallAnswered)} == {1}
                assert dispatches == {"0"}

    asyncio.run(main())


def test_a_live_process_is_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(lambda request, n: "hang") as provider:
            waiting = await child(tmp_path / "r", provider.base_url, None, 1)
            await until(provider, 1)
            other = await child(tmp_path / "r", provider.base_url, None, 1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(other.wait()), 1.0)
            assert other.returncode is None
            assert len(provider.requests) == 1
            provider.script = answering
            waiting.kill()
            assert (await ended(other))[0] == 0
            assert len(provider.requests) == 2

    asyncio.run(main())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_process_that_is_told_to_stop_leaves_nothing_open_and_no_traceback(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    async def main() -> None:
        async with serving(lambda request, n: "hang") as provider:
            stopped = await child(tmp_path / "r", provider.base_url, None, 40)
            await until(provider, 16)
            stopped.send_signal(number)
            found, _, err = await ended(stopped)
            assert found == code
            assert "Traceback" not in err
            assert "interrupted" in err
            with journal(tmp_path / "r") as opened:
                assert opened.state(calls.FAMILY).open == {}
                assert kinds(opened).count("call-reserved@1") == len(provider.requests) == 16
            assert [path.name for path in (tmp_path / "r" / "locks").iterdir()] == []

    asyncio.run(main())
