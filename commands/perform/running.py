"""Running: a command's coroutine, from its start to its end or to the signal that ends it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

SIGNAL_EXIT = 128

T = TypeVar("T")


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end.

    The first SIGINT or SIGTERM cancels it, and whoever has a call in flight settles it; then the process exits with
    130 or 143. A second one doesn't wait.
    """
    import uvloop  # noqa: PLC0415 - loaded by those who ask

    received: list[int] = []

    async def watched() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(main())

        def stop(number: int) -> None:
            received.append(number)
            if len(received) > 1:
                for one in (signal.SIGINT, signal.SIGTERM):
                    loop.remove_signal_handler(one)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        try:
            return await task
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    before = _handlers()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(watched())
    except (asyncio.CancelledError, KeyboardInterrupt, BaseExceptionGroup):
        if not received:
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    sys.stderr.write("exp: interrupted; what was recorded stays recorded, and the same command goes on from there\n")
    raise SystemExit(SIGNAL_EXIT + received[0])


def _handlers() -> dict[int, Callable[[int, FrameType | None], Any] | int | None]:
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
