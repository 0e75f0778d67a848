"""Clients that aren't Python's own: the official one for Node, the command llm, and curl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.gateway.provider_double import Provider
from tests.commands.gateway.running import HELLO, Gateway, configured, streamed

NODE = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    double = Provider()
    yield double
    double.close()


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(configured(tmp_path_factory.mktemp("clients") / "root", provider.url)) as running:
        yield running


def ran(*words: str, folder: Path | None = None, env: dict[str, str] | None = None) -> str:
    ended = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def node_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client for Node, installed from its lock file; skips where that can't be had."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are needed to try the official client for Node")
    folder = tmp_path_factory.mktemp("node")
    for file in NODE.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    ended = subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if ended.returncode:
        pytest.skip(f"the official client for Node can't be installed: {ended.stderr[-300:]}")
    return folder


def test_the_official_client_for_node_gets_what_it_asks_for(gateway: Gateway, node_project: Path) -> None:
    said = json.loads(ran("node", "asks.mjs", gateway.url, gateway.key, folder=node_project))
    assert said == {
        "plain": "ready",
        "route": "plain",
        "same": True,
        "replayed": "true",
        "streamed": "ready",
        "usage": 15,
        "vectors": 2,
        "listed": True,
        "refused": {"name": "NotFoundError", "status": 404, "code": "model_not_found"},
    }


@pytest.mark.parametrize("flags", [(), ("--no-stream",)])
def test_the_command_llm_gets_an_answer(gateway: Gateway, tmp_path: Path, flags: tuple[str, ...]) -> None:
    llm = shutil.which("llm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if llm is None:
        pytest.skip("the command llm is needed to try it: pip install llm")
    named = {"model_id": "ours", "model_name": "plain", "api_base": f"{gateway.url}/v1", "api_key_name": "ours"}
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([named]))  # JSON is YAML
    (tmp_path / "keys.json").write_text(json.dumps({"ours": gateway.key}))
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
    assert ran(llm, "-m", "ours", *flags, "--no-log", "Say ready.", env=env).strip() == "ready"


def test_curl_gets_an_answer_a_stream_and_an_error(gateway: Gateway) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is needed to try it")

    def asked(body: object, *more: str) -> str:
        key = ("-H", f"authorization: bearer {gateway.key}")
        words = (curl or "", "-sS", *key, *more, "--json", json.dumps(body), f"{gateway.url}/v1/chat/completions")
        return ran(*words)

    assert json.loads(asked(HELLO))["choices"][0]["message"]["content"] == "ready"
    frames = asked(streamed(), "--no-buffer").split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    assert json.loads(asked({**HELLO, "messages": []}))["error"]["code"] == "invalid_body"
    large = {**HELLO, "messages": [{"role": "user", "content": "x" * 100_000}]}
    assert "ready" in asked(large)  # curl asks for leave to send it
