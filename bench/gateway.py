"""The gateway: CPU, rate, first tokens and memory, with a provider that answers at once and durable events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.loopback import PACE, PACED_CHUNKS, Load, load, quantile
from bench.measuring import EXP, Bar, cpu_of
from commands.opening import open_journal
from ledger.event import Step
from ledger.families import providers
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Model

HERE = Path(__file__).parents[1]
WORDS = "Print the date and say what day of the week it is. " * 28
MILLI = 1000
ROUNDS = 4
FREE = Capabilities(
    supports_completions=True, maximum_output_tokens=4096, context_window_tokens=100_000, input_price=0, output_price=0
)


class Served:
    """A provider and a gateway before it, each in a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked = 0

    def __enter__(self) -> Self:
        self.provider = subprocess.Popen(
            [sys.executable, "-m", "bench.loopback"], stdout=subprocess.PIPE, text=True, cwd=HERE
        )
        self.upstream = (self.provider.stdout.readline() if self.provider.stdout else "").strip()
        _configure(self.root, self.upstream)
        words = [*EXP, "run", "--port", "0", "--root", str(self.root)]
        self.server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.key, self.port = _listening(self.server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (self.server, self.provider):
            process.terminate()
            process.wait(30)

    def ask(
        self, clients: int, requests: int, request: Callable[[int, int], bytes], *, spread: float = 0.0
    ) -> tuple[Load, float | None]:
        """Return what the requests took, and the gateway's CPU milliseconds for one."""
        before = cpu_of(self.server.pid)
        figures = load(self.port, clients, requests, request, spread=spread)
        after = cpu_of(self.server.pid)
        self.asked += len(figures.whole)
        if before is None or after is None:
            return figures, None
        return figures, MILLI * (after - before) / len(figures.whole)

    def request(self, model: str = "plain", *, key: str | None = None, **fields: object) -> bytes:
        """Return a chat request of 1.5 KB as it goes over the wire."""
        asked = {"model": model, "messages": [{"role": "user", "content": WORDS}], **fields}
        body = json.dumps(asked, separators=(",", ":")).encode()
        named = "" if key is None else f"Idempotency-Key: {key}\r\n"
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\nUser-Agent: bench\r\n{named}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def megabytes(self) -> float | None:
        """Return the gateway's memory; None where nothing says."""
        status = Path(f"/proc/{self.server.pid}/status")
        if not status.exists():
            return None
        line = next(line for line in status.read_text("utf-8").splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def _configure(root: Path, upstream: str) -> None:
    models = tuple(
        Model(alias=alias, connection="loopback", model=alias, capabilities=FREE) for alias in ("plain", "paced")
    )
    embeds = Capabilities(supports_embeddings=True, input_price=0)
    command = ConfigureProviders(
        connections=(
            Connection(name="loopback", provider="openai-compatible", base_url=upstream),
            Connection(name="here", provider="embedded"),
        ),
        models=(*models, Model(alias="embed", connection="here", model="embedded-embedder", capabilities=embeds)),
        roles={"world_model": "plain", "judge": "judge", "embedder": "embed"},
    )
    able = {**{name: getattr(FREE, name) for name in FREE.__struct_fields__}, "maximum_output_tokens": 16_384}
    judge = Model(alias="judge", connection="loopback", model="judge", capabilities=Capabilities(**able))
    command = ConfigureProviders(connections=command.connections, models=(*command.models, judge), roles=command.roles)
    with open_journal(root, "bench", providers.FAMILY, create=True) as journal:
        journal.submit(Step(providers.FAMILY, command)).result()


def _listening(server: subprocess.Popen[str]) -> tuple[str, int]:
    key = ""
    for line in server.stdout or ():
        if line.startswith("Gateway key file: "):
            key = Path(line.split(": ", 1)[1].strip()).read_text("utf-8").strip()
        elif line.startswith("Uvicorn running on "):
            return key, urlsplit(line.split()[3]).port or 0
    raise RuntimeError("the gateway ended before it listened")


def run(folder: Path, requests: int) -> list[Bar]:
    """Serve and return the figures."""
    with Served(folder / "root") as served:
        bars = [*_plain(served, requests), *_streams(served, requests), *_replays(served, requests)]
        held = served.megabytes()
        if held is not None:
            bars.append(Bar(f"gateway, memory after {served.asked:,} requests", held, 100, "MB", "250"))
    return [*bars, *_routing(requests)]


def _routing(rounds: int) -> list[Bar]:
    """Return the CPU of one decision, measured in a process that is set up like the gateway's."""
    bars: list[Bar] = []
    for tasks, most in ((50, 0.7), (10_000, 3.0)):
        words = [sys.executable, "-m", "bench.deciding", str(tasks), str(max(8, rounds // 64))]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        took = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, text=True, check=True).stdout
        bars.append(Bar(f"gateway, routing decision, {tasks:,} fit tasks", float(took), most, "CPU ms"))
    return bars


def _plain(served: Served, requests: int) -> list[Bar]:
    bars: list[Bar] = []
    plain = served.request()
    served.ask(4, requests // 4, lambda _client, _number: plain)
    for clients, most, peer in ((1, 1.5, "8.6"), (16, 1.0, "8.6"), (64, None, "8.6")):
        figures, cpu = served.ask(clients, requests, lambda _client, _number: plain)
        bars += _cpu(f"gateway, {clients} clients", cpu, most, peer)
        bars.append(Bar(f"gateway, {clients} clients", figures.rate, None, "requests/s", "105"))
    bars.append(Bar("gateway, 64 clients, p99", MILLI * quantile(figures.whole, 0.99), 75, "ms", "800"))
    bars.append(Bar("gateway, 64 clients, ms a request", MILLI / figures.rate, MILLI / 1500, "ms", "7.1"))
    return bars


def _streams(served: Served, requests: int) -> list[Bar]:
    streamed = served.request(stream=True)
    _, cpu = served.ask(16, requests, lambda _client, _number: streamed)
    bars = _cpu("gateway, stream of 50 chunks, 16 clients", cpu, 1.5, "")
    for clients, most in ((1, 2), (64, 6)):
        rounds = max(clients, requests // (50 if clients == 1 else 5))
        what = f"gateway, first token of {PACED_CHUNKS} added, {clients} clients, median"
        bars.append(Bar(what, MILLI * _added(served, clients, rounds), most, "ms", "9.5"))
    return bars


def _added(served: Served, clients: int, requests: int) -> float:
    """Return the seconds that the gateway adds to a first token: through it, less what the provider itself takes.

    Clients begin one after the other over the time of one stream: all at once would measure how they queue.
    """
    paced = served.request("paced", stream=True)
    spread = PACED_CHUNKS * PACE
    count = max(clients, requests // ROUNDS)
    through: list[float] = []
    direct: list[float] = []
    for _ in range(ROUNDS):  # in turns: the machine is never equally busy for long
        figures, _cpu_of_one = served.ask(clients, count, lambda _client, _number: paced, spread=spread)
        through += figures.first
        port = urlsplit(served.upstream).port or 0
        direct += load(port, clients, count, lambda _client, _number: paced, spread=spread).first
    return quantile(through, 0.5) - quantile(direct, 0.5)


def _replays(served: Served, requests: int) -> list[Bar]:
    keyed = [served.request(key=f"bench-{number}") for number in range(16)]
    served.ask(16, 16, lambda client, _number: keyed[client])
    figures, cpu = served.ask(16, requests * 2, lambda client, _number: keyed[client])
    bars = _cpu("gateway, replay of a key, 16 clients", cpu, 0.2, "2.0")
    bars.append(Bar("gateway, replay of a key, 16 clients, ms each", MILLI / figures.rate, MILLI / 6000, "ms", "2.0"))
    return bars


def _cpu(what: str, cpu: float | None, most: float | None, peer: str) -> list[Bar]:
    return [] if cpu is None else [Bar(what, cpu, most, "CPU ms", peer)]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        for bar in run(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 3200):
            print(f"{bar.what:60} {bar.measured:10.3f} {bar.most} {bar.unit}")
