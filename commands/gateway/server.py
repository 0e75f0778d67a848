"""Server: the gateway's process, from its first line of output to the last event before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvicorn
import uvloop

from commands.gateway.access_log import AccessLog
from commands.gateway.admission import Gate
from commands.gateway.app import App
from commands.gateway.attempts import Rules, check_rules
from commands.gateway.books import Books
from commands.gateway.calls import Desk
from commands.gateway.connections import SILENCE, Connection
from commands.gateway.idempotency import Repeats
from commands.gateway.keys import digest_of, identity_of, key_file
from commands.gateway.policy import routed
from commands.gateway.routing import Directory
from commands.gateway.tracing import tracer
from commands.gateway.upstream import Upstream
from commands.opening import now_us, open_journal
from ledger.errors import Refusal
from ledger.event import Step
from ledger.families import policies, providers, serving
from ledger.locks import is_free

if TYPE_CHECKING:
    from ledger.journal import Journal

HOST = "127.0.0.1"
BACKLOG = 2048
PARTING, LAST_WORDS = 0.5, 2.0
ENDING, ENDING_AT_LEAST = 1.5, 0.5  # cut short early enough to record that, part and leave within the time given
MICRO = 1_000_000
OLDEST_FIRST = (20_000, 20, 50)


class PortTaken(Refusal, name="port-taken", exit_code=75):
    """The gateway can't listen where it was told to."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"port {port} can't be listened on: {reason}",
            where=f"{host}:{port}",
            remedy="stop what listens there, or choose another --port (0 takes any that is free) or --host",
        )


class Settings(msgspec.Struct, frozen=True):
    """What a gateway is started with."""

    root: Path
    project: str | None
    port: int
    ghost: bool = False
    graceful_timeout: float = 30.0
    rules: Rules = Rules()
    host: str = HOST
    access_log: str | None = None
    idempotency_retention: int = 86_400


class Said(msgspec.Struct, frozen=True):
    """What is said while starting: an alias that can't be reached, where the key is, and then where the server is."""

    key_file: Callable[[Path], None]
    listening: Callable[[str], None]
    shadowed: Callable[[str], None]


class _Server(uvicorn.Server):
    """Says when it listens; signals are the gateway's own business."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(settings: Settings, said: Said) -> None:
    """Serve until told to stop."""
    families = (providers.FAMILY, policies.FAMILY, serving.FAMILY)
    with (
        open_journal(settings.root, "run", *families) as journal,
        listening_socket(settings.host, settings.port) as listener,
    ):
        path, key = key_file(settings.root)
        directory = _directory(journal, settings)
        _note_key(journal, key)
        _settle_lost(journal)
        if directory.shadowed is not None:
            said.shadowed(directory.shadowed)
        said.key_file(path.absolute())
        running = _Running(journal, directory, settings, key)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(running.run(listener, said.listening))


@contextlib.contextmanager
def listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket bound to an address of this machine; PortTaken when that can't be had."""
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise PortTaken(host, port, getattr(error, "strerror", None) or str(error)) from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise PortTaken(host, port, error.strerror or str(error)) from error
    try:
        yield listener
    finally:
        listener.close()


def _directory(journal: Journal, settings: Settings) -> Directory:
    configured: providers.Providers = journal.state(providers.FAMILY)
    endpoints = {alias: configured.endpoint(alias) for alias in sorted(configured.models)}
    check_rules(settings.rules, endpoints)

    def kept(session: str) -> str | None:
        found = journal.find(serving.SessionKept, session)
        return found.event.alias if found is not None and isinstance(found.event, serving.SessionKept) else None

    project = None if settings.project is None else routed(journal, settings.project)
    return Directory(endpoints, project, rules=settings.rules, kept=kept)


def _note_key(journal: Journal, key: str) -> None:
    digest = digest_of(key)
    command = serving.IssueGatewayKey(identity=identity_of(digest), digest=digest)
    journal.submit(Step(serving.FAMILY, command)).result()


def _settle_lost(journal: Journal) -> None:
    """Record the requests whose processes are gone: their keys are free again, their cost stays ambiguous."""
    state: serving.Serving = journal.state(serving.FAMILY)
    gone = {one.process for one in state.open.values() if is_free(journal.path.parent, one.process)}
    steps = [
        Step(serving.FAMILY, serving.EndRequest(ending=serving.RequestLost(request=request, process=one.process)))
        for request, one in state.open.items()
        if one.process in gone
    ]
    if steps:
        journal.submit(*steps).result()


class _Running:
    """One server, while it runs."""

    def __init__(self, journal: Journal, directory: Directory, settings: Settings, key: str) -> None:
        self._books = Books(journal)
        self._upstream = Upstream()
        self._upstream.keep_out(key)
        self._upstream.learn_credentials(tuple(journal.state(providers.FAMILY).connections.values()))
        desk = Desk(self._books, self._upstream, directory, ghost=settings.ghost)
        self._log = None if settings.access_log is None else AccessLog(settings.access_log, now_us, self._cleaned)
        self._tracer = tracer(os.environ, self._cleaned, ghost=settings.ghost)
        self._app = App(
            desk,
            Repeats(desk, keep_us=settings.idempotency_retention * MICRO),
            Gate(journal, identity_of(digest_of(key)), self._upstream.keep_out),
            log=self._log,
            tracer=self._tracer,
        )
        self._host = settings.host
        self._graceful_timeout = settings.graceful_timeout
        self._server: _Server | None = None

    def _cleaned(self, text: str) -> str:
        return self._upstream.redactor.text(text)[0]

    async def run(self, listener: socket.socket, listening: Callable[[str], None]) -> None:
        """Serve, then record what is still owed."""
        shown = f"[{self._host}]" if ":" in self._host else self._host
        url = f"http://{shown}:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            self._app,
            http=Connection,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="error",  # no advice on what else to install, and no line a stranger can cause
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=SILENCE,
        )
        self._server = _Server(config, lambda: listening(url))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*OLDEST_FIRST)
        await self._upstream.open()
        try:
            await self._server.serve(sockets=[listener])
            await self._last_words()
        finally:
            await self._upstream.close()
            await self._books.close()
            if self._log is not None:
                self._log.close()
            if self._tracer is not None:
                self._tracer.close()

    def _told_to_stop(self) -> None:
        """Stop accepting and finish what goes on, for a while; told again, cut it short now."""
        server = self._server
        if server is None:
            return
        if server.should_exit:
            server.force_exit = True
            self._cut_short()
            return
        server.should_exit = True
        self._app.stopping = True
        rest = max(self._graceful_timeout - ENDING, self._graceful_timeout * ENDING_AT_LEAST)
        asyncio.get_running_loop().call_later(rest, self._cut_short)

    def _cut_short(self) -> None:
        """End what goes on, and then the connections of clients that don't take their last words."""
        self._app.stop()
        asyncio.get_running_loop().call_later(PARTING, self._hang_up)

    def _hang_up(self) -> None:
        for connection in () if self._server is None else tuple(self._server.server_state.connections):
            connection.transport.abort()

    async def _last_words(self) -> None:
        """Let calls that were cut short record that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._app.quiet()
