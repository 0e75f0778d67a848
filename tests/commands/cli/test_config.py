from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commands.cli import config_budget, config_providers
from commands.main import run
from commands.opening import open_journal
from ledger.errors import Refusal
from ledger.families import budget, providers
from ledger.families.providers import Providers
from ledger.money import NANO, nano_usd

OPENAI = {"name": "openai", "provider": "openai", "api_key_env": "OPENAI_API_KEY"}
WM = {"name": "wm", "provider": "openai-compatible", "api_key_env": "WM_KEY", "base_url": "http://wm.example/base/"}
ABLE = {
    "supports_completions": True,
    "supports_tools": True,
    "supports_structured_output": True,
    "supports_temperature": True,
    "maximum_output_tokens": 16_000,
    "context_window_tokens": 1_048_576,
    "input_cost_per_million_tokens_usd": 0,
    "output_cost_per_million_tokens_usd": 0,
}
FLASH = {"alias": "flash", "connection": "wm", "model": "deep/flash", "served_model_id": "flash", "capabilities": ABLE}
LUNA: dict[str, Any] = {
    "alias": "luna",
    "connection": "openai",
    "model": "gpt-5.6-luna",
    "capabilities": {
        "supports_completions": True,
        "supports_reasoning": True,
        "reasoning_effort": "xhigh",
        "maximum_output_tokens": 32_000,
        "input_cost_per_million_tokens_usd": 0.2,
        "output_cost_per_million_tokens_usd": 1.2,
    },
}
EMBED = {
    "alias": "embed",
    "connection": "openai",
    "model": "text-embedding-3-small",
    "capabilities": {"supports_embeddings": True, "input_cost_per_million_tokens_usd": 0.02},
}
ROLES = ("--world-model", "flash", "--judge", "luna", "--embedder", "embed")
SECRET = "the-value-of-the-key"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("WM_KEY", SECRET)


def arguments(*models: dict[str, Any], connections: tuple[dict[str, Any], ...] = (OPENAI, WM)) -> list[str]:
    given = [argument for one in connections for argument in ("--connection-json", json.dumps(one))]
    return given + [argument for one in models for argument in ("--model-json", json.dumps(one))]


def invoke(root: Path, *given: str) -> Result:
    return CliRunner().invoke(config_providers.command, ["--root", str(root), *given], catch_exceptions=True)


def refusal(result: Result) -> Refusal:
    assert isinstance(result.exception, Refusal), result.exception
    return result.exception


def state(root: Path) -> Providers:
    with open_journal(root, "test", providers.FAMILY) as journal:
        found: Providers = journal.state(providers.FAMILY)
        return found


def events(root: Path) -> int:
    with open_journal(root, "test", providers.FAMILY) as journal:
        return journal.position()[0]


def whole(root: Path, *more: str) -> Result:
    return invoke(root, *arguments(FLASH, LUNA, EMBED), *ROLES, *more)


def test_a_configuration_is_recorded_shown_and_rendered(tmp_path: Path) -> None:
    result = whole(tmp_path / "r", "--non-interactive")
    assert result.exit_code == 0, result.exception
    assert "world_model: flash\n" in result.stdout
    assert "base_url=http://wm.example/base/ credential=WM_KEY" in result.stdout
    configured = state(tmp_path / "r")
    assert configured.connections["wm"].base_url == "http://wm.example/base/"
    assert configured.connections["openai"].base_url == "https://api.openai.com/v1"
    luna = configured.endpoint("luna").capabilities
    assert (luna.input_price, luna.output_price, luna.cached_input_price) == (nano_usd("0.2"), nano_usd("1.2"), None)
    assert configured.endpoint("flash").capabilities.input_price == 0
    assert 'world_model = "flash"' in (tmp_path / "r" / "models.toml").read_text()
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in everything


def test_the_same_configuration_again_appends_nothing(tmp_path: Path) -> None:
    whole(tmp_path / "r")
    before = events(tmp_path / "r")
    result = whole(tmp_path / "r")
    assert result.exit_code == 0
    assert "recorded: nothing new" in result.stdout
    assert events(tmp_path / "r") == before


def test_another_configuration_under_the_same_name_needs_replace(tmp_path: Path) -> None:
    whole(tmp_path / "r")
    other = {**FLASH, "model": "deep/flash-2"}
    refused = invoke(tmp_path / "r", *arguments(other))
    assert "--replace" in refusal(refused).remedy
    assert state(tmp_path / "r").endpoint("flash").model.model == "deep/flash"
    assert invoke(tmp_path / "r", *arguments(other), "--replace").exit_code == 0
    assert state(tmp_path / "r").endpoint("flash").model.model == "deep/flash-2"


def test_the_base_url_of_the_environment_is_frozen_here_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert "base_url=http://127.0.0.1:9/v1" in whole(tmp_path / "r").stdout
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8/v1")
    assert refusal(whole(tmp_path / "r")).name == "configuration-differs"
    assert state(tmp_path / "r").connections["openai"].base_url == "http://127.0.0.1:9/v1"
    assert invoke(tmp_path / "r").exit_code == 0  # showing reads nothing from the environment


def test_all_gaps_are_reported_at_once_and_no_root_is_left(tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {**WM, "base_url": None},
        {"name": "x", "provider": "other"},
        {"name": "y", "provider": "openai", "api_key": SECRET},
        {"name": "z", "provider": "openai", "api_key_env": "sk-" + SECRET},
    ]
    models = [
        {**FLASH, "capabilities": {**ABLE, "maximum_output_tokens": "many", "input_cost_per_million_tokens_usd": -1}},
        {**LUNA, "capabilities": {"supports_completions": True, "reasoning_effort": "high"}},
    ]
    result = invoke(tmp_path / "r", *arguments(*models, connections=tuple(bad)), "--judge", "ghost")
    gaps = refusal(result).remedy
    for expected in (
        "--connection-json wm: openai-compatible needs",
        "--connection-json x: provider:",
        "--connection-json y: api_key: no such field",
        "--connection-json z: api_key_env: must be the name of an environment variable",
        "--model-json flash: capabilities.maximum_output_tokens:",
        "--model-json flash: capabilities.input_cost_per_million_tokens_usd: must not be negative",
        "--model-json luna: capabilities.reasoning_effort needs",
        "no world model: --world-model ALIAS",
        "--judge ghost names no model",
        "no embedder: --embedder ALIAS",
    ):
        assert expected in gaps, expected
    assert SECRET not in gaps
    assert len(gaps.splitlines()) == 10
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"name":"a","name":"b"}', '{"name":NaN}', "[" * 100_000, '{"name":"a\\ud800"}']
)
def test_what_is_no_entry_is_a_gap_and_no_traceback(tmp_path: Path, text: str) -> None:
    result = invoke(tmp_path / "r", "--connection-json", text)
    assert "--connection-json" in refusal(result).remedy


@pytest.mark.parametrize(
    "base_url",
    [
        "ftp://x",
        "x",
        "http://",
        "http://user:pass@host/",
        "http://host:99999/",
        "http://host/#fragment",
        'http://host/"',
        f"http://host/?key={SECRET}",
        "http://[broken",
    ],
)
def test_a_base_url_that_cannot_be_used_or_holds_a_credential_is_a_gap(tmp_path: Path, base_url: str) -> None:
    result = invoke(tmp_path / "r", *arguments(connections=({**WM, "base_url": base_url},)))
    assert "base_url" in refusal(result).remedy
    assert SECRET not in refusal(result).remedy


@pytest.mark.parametrize("price", ["0.2", True, None, 1e-10])
def test_a_price_is_an_exact_number_or_unknown(tmp_path: Path, price: object) -> None:
    luna = {**LUNA, "capabilities": {**LUNA["capabilities"], "input_cost_per_million_tokens_usd": price}}
    result = invoke(tmp_path / "r", *arguments(FLASH, luna, EMBED), *ROLES)
    if price is None:
        assert state(tmp_path / "r").endpoint("luna").capabilities.input_price is None
    else:
        assert "dollars" in refusal(result).remedy


def test_a_judge_below_the_needed_output_limit_is_refused(tmp_path: Path) -> None:
    result = invoke(tmp_path / "r", *arguments(FLASH, LUNA, EMBED), *ROLES[:2], "--judge", "flash", *ROLES[4:])
    assert "16,384" in refusal(result).remedy


def test_embedded_models_need_no_capabilities_and_no_credential(tmp_path: Path) -> None:
    names = ("world-model", "judge", "embedder", "small", "large")
    models = [{"alias": name, "connection": "e", "model": f"embedded-{name}"} for name in names]
    result = invoke(
        tmp_path / "r",
        *arguments(*models, connections=({"name": "e", "provider": "embedded"},)),
        *("--world-model", "world-model", "--judge", "judge", "--embedder", "embedder"),
    )
    assert result.exit_code == 0, result.exception
    configured = state(tmp_path / "r")
    small, large = (configured.endpoint(name).capabilities for name in ("small", "large"))
    assert 0 < (small.input_price or 0) < (large.input_price or 0)


def test_an_edited_view_is_reported_and_never_trusted(tmp_path: Path) -> None:
    whole(tmp_path / "r")
    path = tmp_path / "r" / "models.toml"
    path.write_text(path.read_text().replace('judge = "luna"', 'judge = "flash"'))
    result = whole(tmp_path / "r")
    assert result.exit_code == 0
    assert "edited by hand" in result.stderr
    assert "judge: luna" in result.stdout
    assert 'judge = "luna"' in path.read_text()


def test_json_says_the_same(tmp_path: Path) -> None:
    shown = json.loads(whole(tmp_path / "r", "--json").stdout)
    assert shown["judge"] == "luna"
    assert {one["alias"] for one in shown["model"]} == {"flash", "luna", "embed"}


def test_the_budget_is_read_and_set(tmp_path: Path) -> None:
    runner = CliRunner()
    root = ["--root", str(tmp_path / "r")]
    assert "$10.00" in runner.invoke(config_budget.command, root).stdout
    assert not (tmp_path / "r").exists()
    assert "$75.00" in runner.invoke(config_budget.command, ["75", *root]).stdout
    again = runner.invoke(config_budget.command, ["75.00", *root])
    assert "nothing new" in again.stdout
    assert "$75.00" in json.loads(runner.invoke(config_budget.command, [*root, "--json"]).stdout)["budget"]
    with open_journal(tmp_path / "r", "test", budget.FAMILY) as journal:
        assert journal.position()[0] == 1
        assert journal.state(budget.FAMILY).ceiling == 75 * NANO


@pytest.mark.parametrize("amount", ["-1", "abc", "nan", "1e-10"])
def test_a_budget_that_is_no_amount_is_a_wrong_command_line(tmp_path: Path, amount: str) -> None:
    assert run(["config", "budget", "--root", str(tmp_path / "r"), "--", amount]) == 2
