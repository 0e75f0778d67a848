"""A stage for trials: a witness that answers as the stand-in does and counts, and commands run as a user runs them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from commands.embedded.answer import answer

HERE = Path(__file__).parent
CORPUS = HERE.parent.parent / "fixtures" / "traces" / "shell-sessions.otel.jsonl"
APIS = {"chat/completions": "chat.completions", "responses": "responses", "embeddings": "embeddings"}
KEY = "proof-credential-value-7a61"

Reply = tuple[int, dict[str, Any]]
Provider = Callable[[str, dict[str, Any]], Reply]


class Witness:
    """A provider on loopback that counts each request, independently of what the journal says."""

    def __init__(self, provider: Provider = answer, *, seconds: Callable[[int], float] = lambda _: 0.0) -> None:
        self.requests: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        self._provider = provider
        self._lock = threading.Lock()
        witness = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with witness._lock:
                    witness.requests["POST"] += 1
                    witness.bodies.append(body)
                    count = witness.requests["POST"]
                time.sleep(seconds(count))
                api = next(api for path, api in APIS.items() if self.path.endswith(path))
                status, said = witness._provider(api, json.loads(body))
                content = json.dumps(said).encode()
                with contextlib.suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Clients are killed in trials; that is no error here."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """The base URL of the provider."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def count(self) -> int:
        """How many requests were made so far."""
        return self.requests["POST"]

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def witnessing(provider: Provider = answer, *, seconds: Callable[[int], float] = lambda _: 0.0) -> Iterator[Witness]:
    """Run a witness for a while."""
    witness = Witness(provider, seconds=seconds)
    try:
        yield witness
    finally:
        witness.close()


def model(alias: str, name: str, price: str = "0.1", **capabilities: object) -> str:
    """Return a ``--model-json`` argument."""
    known = {
        "supports_completions": True,
        "supports_tools": True,
        "supports_structured_output": True,
        "supports_temperature": True,
        "maximum_output_tokens": 16_384,
        "context_window_tokens": 1_000_000,
        "input_cost_per_million_tokens_usd": float(price),
        "output_cost_per_million_tokens_usd": float(price) * 4,
    }
    return json.dumps({"alias": alias, "connection": "proof", "model": name, "capabilities": known | capabilities})


EMBED = json.dumps(
    {
        "alias": "embed",
        "connection": "proof",
        "model": "text-embedding-3-small",
        "capabilities": {
            "supports_completions": False,
            "supports_embeddings": True,
            "input_cost_per_million_tokens_usd": 0.02,
            "context_window_tokens": 8192,
        },
    }
)


class Stage:
    """One root, and the commands of the path in it."""

    def __init__(self, folder: Path, url: str, *, traces: Path = CORPUS) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.url = url
        self.traces = traces
        self.environment = os.environ | {"PROOF_KEY": KEY, "NO_COLOR": "1"}

    def exp(self, *arguments: str, dies_after: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in a process of its own; with ``dies_after`` it is killed after that many commits."""
        return subprocess.run(
            self.command(*arguments, dies_after=dies_after),
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def command(self, *arguments: str, dies_after: int | None = None) -> list[str]:
        """Return the words that start a command."""
        rooted = [*arguments, "--root", str(self.root)]
        if dies_after is None:
            return [sys.executable, "-m", "commands.main", *rooted]
        return [sys.executable, str(HERE / "dying.py"), str(dies_after), *rooted]

    def configure(self, *models: str) -> None:
        """Configure world model, judge and embedder, two candidates, and more."""
        connection = {
            "name": "proof",
            "provider": "openai-compatible",
            "api_key_env": "PROOF_KEY",
            "base_url": self.url,
        }
        given = [
            EMBED,
            model("world", "embedded-world-model"),
            model("judge", "embedded-judge"),
            *self.candidates(),
            *models,
        ]
        done = self.exp(
            *("config", "providers", "--non-interactive", "--connection-json", json.dumps(connection)),
            *(word for text in given for word in ("--model-json", text)),
            *("--world-model", "world", "--judge", "judge", "--embedder", "embed"),
        )
        assert done.returncode == 0, done.stderr
        assert self.exp("config", "budget", "100").returncode == 0

    @staticmethod
    def candidates() -> tuple[str, str]:
        """Return two candidates of different skill and price."""
        return model("small", "embedded-small", "0.1"), model("large", "embedded-large", "1")

    @property
    def build(self) -> tuple[str, ...]:
        """The command that builds."""
        return (
            *("build", "shell", str(self.traces), "--source", "otlp", "--yes", "--non-interactive"),
            *("--max-build-cost-usd", "5", "--fit-tasks", "6", "--held-out-tasks", "3"),
        )

    setup: tuple[str, ...] = ("config", "judge", "setup", "shell", "--approve", "--non-interactive")
    calibrate: tuple[str, ...] = (
        *("config", "judge", "calibrate", "shell", "--sample-size", "3", "--yes", "--non-interactive"),
    )

    def optimize(self, *candidates: str, maximum_cost: str = "100") -> tuple[str, ...]:
        """Return the command that optimizes."""
        chosen = candidates or ("small", "large")
        return (
            *("optimize", "router", "shell"),
            *(word for alias in chosen for word in ("--candidate", alias)),
            *("--incumbent", "large", "--maximum-provider-cost-usd", maximum_cost, "--maximum-judgments", "200"),
            *("--maximum-model-calls", "6", "--yes", "--non-interactive"),
        )

    def labelled(self, proposals: str) -> tuple[str, ...]:
        """Return the second pass of a calibration from what the first one printed."""
        keys = sorted(set(re.findall(r"([A-Za-z0-9_:-]+)=SCORE", proposals)))
        pairs = ((f"{key}=1", f"{key}=A label for a trial.") for key in keys)
        words = (word for label, why in pairs for word in ("--label", label, "--judgment", why))
        return (*self.calibrate, "--approve", *words)


def said(output: str, key: str) -> str:
    """Return the value of the first ``key: value`` line."""
    found = re.search(rf"^{re.escape(key)}: (.+)$", output, re.MULTILINE)
    assert found, (key, output)
    return found[1]


def ids(outputs: Sequence[str]) -> dict[str, str]:
    """Return every artifact id that commands printed."""
    kinds = "serving-rag|fit-rag|world-model|build|calibration|policy|report"
    return dict(re.findall(rf"^({kinds}): (\S+)$", "\n".join(outputs), re.MULTILINE))
