"""A replay opens no socket and starts no process, whoever in this process tries to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from commands.replaying.isolation import ReplayReachedOut, isolated


def connects() -> None:
    socket.create_connection(("127.0.0.1", 9))


def resolves() -> None:
    socket.getaddrinfo("example.org", 80)


def starts_a_process() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def runs_a_shell() -> None:
    os.system("true")  # noqa: S605 - that it is stopped is the point


def forks() -> None:
    if not os.fork():
        os._exit(0)


WAYS = (connects, resolves, starts_a_process, runs_a_shell, forks)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_leaves_the_process_while_it_is_isolated(way: Callable[[], None]) -> None:
    with isolated(), pytest.raises(ReplayReachedOut):
        way()


def test_other_threads_are_held_back_too() -> None:
    failures: list[BaseException] = []

    def reach() -> None:
        try:
            socket.socket()
        except ReplayReachedOut as refused:
            failures.append(refused)

    with isolated():
        thread = threading.Thread(target=reach)
        thread.start()
        thread.join()
    assert len(failures) == 1


def test_isolation_ends_with_the_outermost_block() -> None:
    with isolated():
        with isolated():
            pass
        with pytest.raises(ReplayReachedOut):
            socket.socket()
    socket.socket().close()
