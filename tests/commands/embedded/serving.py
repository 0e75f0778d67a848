"""A stand-in on loopback for the length of a test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from commands.embedded.server import Settings, listening, server

HOST = "127.0.0.1"


@contextlib.contextmanager
def stand_in(settings: Settings | None = None) -> Iterator[str]:
    """Run a stand-in in a thread and yield its base URL, without ``/v1``."""
    bound = listening(HOST, 0)
    running = server(settings or Settings())
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{bound.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(10)
        bound.close()
