"""A gateway that really runs: the command in a process of its own, on a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from commands.opening import open_journal
from ledger.event import Event, Step
from ledger.families import policies, providers, serving
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Model

SECRET = "sk-the-provider-key-0123456789"
PRICED = Capabilities(
    supports_completions=True,
    supports_tools=True,
    supports_structured_output=True,
    supports_temperature=True,
    maximum_output_tokens=16_384,
    context_window_tokens=128_000,
    input_price=1_000_000_000,
    output_price=2_000_000_000,
    cached_input_price=100_000_000,
)
HELLO = {"model": "plain", "messages": [{"role": "user", "content": "Say ready."}]}


def models(url: str) -> ConfigureProviders:
    reasoning = Capabilities(
        **_fields(PRICED) | {"supports_reasoning": True, "reasoning_effort": "high", "supports_temperature": False}
    )
    embeds = Capabilities(supports_embeddings=True, input_price=0)
    return ConfigureProviders(
        connections=(
            Connection(name="compatible", provider="openai-compatible", base_url=url, api_key_env="DOUBLE_KEY"),
            Connection(name="openai", provider="openai", base_url=url, api_key_env="DOUBLE_KEY"),
            Connection(name="bare", provider="openai-compatible", base_url=url),
            Connection(name="keyless", provider="openai-compatible", base_url=url, api_key_env="NOT_SET_ANYWHERE"),
            Connection(name="here", provider="embedded"),
        ),
        models=(
            Model(alias="plain", connection="compatible", model="m", capabilities=PRICED),
            Model(alias="other", connection="compatible", model="m2", capabilities=PRICED),
            Model(alias="pinned", connection="bare", model="x", served_model_id="m", capabilities=PRICED),
            Model(alias="elsewhere", connection="bare", model="x", served_model_id="another", capabilities=PRICED),
            Model(alias="keyless", connection="keyless", model="m", capabilities=PRICED),
            Model(alias="modern", connection="openai", model="gpt", capabilities=PRICED),
            Model(alias="thinker", connection="openai", model="gpt-think", capabilities=reasoning),
            Model(alias="small", connection="here", model="embedded-small", capabilities=PRICED),
            Model(alias="embed", connection="here", model="embedded-embedder", capabilities=embeds),
        ),
        roles={"world_model": "plain", "judge": "plain", "embedder": "embed"},
    )


def _fields(capabilities: Capabilities) -> dict[str, Any]:
    return {name: getattr(capabilities, name) for name in capabilities.__struct_fields__}


def configured(root: Path, url: str) -> Path:
    with open_journal(root, "test", providers.FAMILY, create=True) as journal:
        journal.submit(Step(providers.FAMILY, models(url))).result()
    return root


class Gateway:
    """The running command; leaving it stops the process."""

    def __init__(self, root: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.root = root
        self.arguments = arguments
        self.env = {**os.environ, "DOUBLE_KEY": SECRET, **(env or {})}
        self.process: subprocess.Popen[str]
        self.url = ""
        self.key = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "commands.main",
            "run",
            *self.arguments,
            "--root",
            str(self.root),
            "--port",
            "0",
        ]
        self.process = subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.printed = [self.process.stdout.readline().rstrip("\n")]
        if not self.printed[0].startswith("Gateway key file: "):
            assert self.process.stderr is not None
            raise AssertionError(self.printed[0] + self.process.stderr.read())
        self.printed.append(self.process.stdout.readline().rstrip("\n"))
        self.key_file = Path(self.printed[0].removeprefix("Gateway key file: "))
        self.key = self.key_file.read_text().strip()
        self.url = self.printed[1].removeprefix("Uvicorn running on ")
        self.port = int(self.url.rpartition(":")[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=20)

    def restart(self) -> None:
        if self.process.poll() is None:
            assert self.stop() == 0
        self.__exit__(None, None, None)
        self.start()

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}", **headers}, timeout=30, trust_env=False
        )

    def ask(self, body: Any = HELLO, key: str | None = None, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"Content-Type": "application/json", **headers}
        if key is not None:
            named["Idempotency-Key"] = key
        with self.client() as client:
            return client.post("/v1/chat/completions", content=content, headers=named)

    def events(self, *kinds: type[Event]) -> list[Any]:
        with open_journal(self.root, "test", serving.FAMILY, policies.FAMILY) as journal:
            return [record.event for record in journal.events(*kinds)]

    def blob(self, digest: str) -> bytes:
        with open_journal(self.root, "test", serving.FAMILY) as journal:
            return journal.blob(digest)

    def state(self) -> serving.Serving:
        with open_journal(self.root, "test", serving.FAMILY) as journal:
            state: serving.Serving = journal.state(serving.FAMILY)
            return state


def streamed(**fields: Any) -> dict[str, Any]:
    return {**HELLO, "stream": True, **fields}
