"""The path from traces to a verified replay, over HTTP, against the stand-in that answers at once in two turns."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from bench.measuring import EXP, Bar, Measured, measure, size
from commands.opening import open_journal
from ledger.families.calls import CallAnswered

PROJECT = "bench"
KEY = "BENCH_PROVIDER_KEY"
CANDIDATES = ("bench-one", "bench-two", "bench-three")
CONCURRENCY = 16
_MEGA = 1_000_000


class Sizes(NamedTuple):
    """How much is optimized."""

    fit: int
    held_out: int

    @property
    def cells(self) -> int:
        """Return the cells of all candidates."""
        return (self.fit + self.held_out) * len(CANDIDATES)


class StandIn:
    """The stand-in provider as a process, on any free port."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [*EXP, "provider", "serve", "--port", "0", "--turns", "2"], stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline() if self.process.stdout else ""
        found = re.search(r"http://\S+/v1", line)
        if found is None:
            self.process.kill()
            raise RuntimeError(f"the stand-in says no address: {line!r}")
        self.url = found.group()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(20)

    def requests(self) -> int:
        """Return how many requests were answered."""
        address = self.url.removesuffix("/v1") + "/stand-in/requests"
        with urllib.request.urlopen(address, timeout=10) as response:  # noqa: S310 - the address is our own
            return int(json.load(response)["POST"])


class Course:
    """Runs the commands one after another and keeps what each took."""

    def __init__(self, folder: Path, traces: Path, sizes: Sizes) -> None:
        self.folder, self.traces, self.sizes = folder, traces, sizes
        self.root = folder / "root"
        self.environment = {**os.environ, KEY: "bench-key"}
        self.taken: dict[str, Measured] = {}

    def exp(self, name: str, *arguments: str, status: int = 0) -> Measured:
        """Run a command of exp on the root; RuntimeError when it ends otherwise than it should."""
        measured = measure([*EXP, *arguments, "--root", str(self.root)], self.environment, self.folder)
        if measured.status != status:
            said = (self.folder / "stderr").read_text("utf-8")
            raise RuntimeError(f"{name} ended with {measured.status}: {measured.stdout}{said}")
        self.taken[name] = measured
        return measured

    def prepare(self, url: str) -> None:
        """Configure, build, and set a judge up."""
        connection = {"name": "stand-in", "provider": "openai-compatible", "api_key_env": KEY, "base_url": url}
        models = [_model(name) for name in ("bench-world", "bench-judge", *CANDIDATES)]
        embedder = {"supports_embeddings": True, "input_cost_per_million_tokens_usd": 0, "context_window_tokens": 8192}
        named = {"alias": "bench-embed", "connection": "stand-in", "model": "text-embedding-3-small"}
        models.append({**named, "capabilities": embedder})
        self.exp(
            "config providers",
            *("config", "providers", "--connection-json", json.dumps(connection)),
            *(part for model in models for part in ("--model-json", json.dumps(model))),
            *("--world-model", "bench-world", "--judge", "bench-judge", "--embedder", "bench-embed"),
        )
        sizes = ("--fit-tasks", str(self.sizes.fit), "--held-out-tasks", str(self.sizes.held_out))
        self.exp("build", "build", PROJECT, str(self.traces), "--source", "otlp", "--yes", *sizes)
        self.exp("judge setup", "config", "judge", "setup", PROJECT, "--approve")

    def optimize(self, name: str) -> Measured:
        """Optimize, or replay."""
        return self.exp(
            name,
            *("optimize", "router", PROJECT, "--incumbent", CANDIDATES[0], "--yes"),
            *(part for alias in CANDIDATES for part in ("--candidate", alias)),
            *("--maximum-judgments", str(self.sizes.cells), "--maximum-model-calls", "10"),
            *("--maximum-concurrency", str(CONCURRENCY)),
        )

    def latency(self) -> float:
        """Return the summed seconds that the provider took to answer."""
        with open_journal(self.root, "bench") as journal:
            events = [record.event for record in journal.events(CallAnswered)]
        return sum(event.latency_us for event in events if isinstance(event, CallAnswered)) / _MEGA


def _model(alias: str) -> dict[str, object]:
    free = dict.fromkeys(("input_cost_per_million_tokens_usd", "output_cost_per_million_tokens_usd"), 0)
    able = ("supports_completions", "supports_tools", "supports_structured_output", "supports_temperature")
    limits = {"maximum_output_tokens": 32_000, "context_window_tokens": 1_000_000}
    capabilities = {**dict.fromkeys(able, True), **limits, **free}
    return {"alias": alias, "connection": "stand-in", "model": alias, "capabilities": capabilities}


def run(folder: Path, traces: Path, sizes: Sizes) -> list[Bar]:
    """Take the path and return its figures beside their bars."""
    path = Course(folder, traces, sizes)
    path.exp("warm-up", "config", "budget")
    starts = [measure([*EXP, "--help"], path.environment, folder).cpu for _ in range(5)]
    with StandIn() as provider:
        path.prepare(provider.url)
        first = path.optimize("optimize")
        latency, before = path.latency(), provider.requests()
        again = path.optimize("optimize again")
        calls = provider.requests() - before
    if "replay: verified completed optimization" not in again.stdout:
        raise RuntimeError(f"the second optimization was no verified replay: {again.stdout}")
    build, (held, files) = path.taken["build"], size(path.root)
    ideal = 1.25 * (first.cpu + latency / CONCURRENCY)
    return [
        Bar("exp --help", sorted(starts)[len(starts) // 2], 0.15, "CPU s", "2.0"),
        Bar("build", build.cpu, 4, "CPU s", "24"),
        Bar("build, memory", build.megabytes, 150, "MB", "220"),
        Bar(f"optimize, {sizes.cells} cells", first.cpu, 8, "CPU s", "300"),
        Bar("optimize, wall against 1.25 x (CPU + latency / concurrency)", first.wall, ideal, "s"),
        Bar("optimize, memory", first.megabytes, None, "MB", "229"),
        Bar("the same again", again.cpu, 1, "CPU s", "22"),
        Bar("the same again, calls", calls, 0, "calls", "0"),
        Bar("root", held / _MEGA, 15, "MB", "25"),
        Bar("root, files", files, 20, "files", "2,773"),
    ]
