"""What ``exp config`` and the options of other commands must not take."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from commands import models_view
from commands.main import run
from tests.commands.cli.test_config import ABLE, EMBED, FLASH, LUNA, OPENAI, ROLES, WM, arguments, invoke, refusal

KEY = "sk-" + "secretpw123" * 3
SHORT = "sk-secretpw123"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.mark.parametrize(
    "base_url",
    [
        f"http://h/v1?api_key={SHORT}",
        f"http://h/v1#{SHORT}",
        f"http://{SHORT}@h/v1",
        f"http://u:{SHORT}@h/v1",
        f"http://h/{KEY}/v1",
        "http://h/v1?",
        "http://h/v1#",
    ],
)
@pytest.mark.parametrize("provider", ["openai-compatible", "openai"])
def test_an_address_with_a_query_a_fragment_or_a_credential_is_never_recorded(
    tmp_path: Path, base_url: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"name": "a", "provider": provider}
    if provider == "openai":
        monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    else:
        connection["base_url"] = base_url
    refused = refusal(invoke(tmp_path / "r", "--connection-json", json.dumps(connection)))
    assert refused.name == "configuration-gaps"
    assert "--connection-json a: base_url" in refused.remedy
    assert "secretpw" not in f"{refused.what}{refused.where}{refused.remedy}"
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "given",
    [
        arguments(connections=({**WM, "api_key_env": SHORT},)),
        arguments(connections=({**WM, "api_key_env": "AKIA" + "A" * 16},)),
        arguments(connections=({"name": "w", "provider": "openai-compatible", "api_key_file": f"/{KEY}"},)),
        arguments(connections=({**WM, "name": KEY},)),
        arguments(connections=({**WM, KEY: 1},)),
        arguments({**FLASH, "model": KEY}),
        arguments({**FLASH, "alias": KEY}),
        arguments({**FLASH, "connection": KEY}),
        arguments({**FLASH, "served_model_id": f"Bearer {KEY}"}),
        arguments({**FLASH, "capabilities": {**ABLE, KEY: [KEY]}}),
        [*arguments(FLASH, LUNA, EMBED), "--judge", KEY],
    ],
)
def test_what_looks_like_a_key_is_refused_wherever_it_stands_and_never_repeated(
    tmp_path: Path, given: list[str]
) -> None:
    refused = refusal(invoke(tmp_path / "r", *given))
    assert refused.name == "configuration-gaps"
    assert "secretpw" not in f"{refused.what}{refused.where}{refused.remedy}"
    assert "AKIA" not in refused.remedy
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("price", ["1e300", "1e999990", "1e99999999999999999999999", "1000001", "9" * 30])
def test_a_price_beyond_what_can_be_recorded_is_a_gap(tmp_path: Path, price: str) -> None:
    text = json.dumps({**FLASH, "capabilities": {**ABLE, "input_cost_per_million_tokens_usd": "PRICE"}})
    text = text.replace('"PRICE"', price)
    refused = refusal(invoke(tmp_path / "r", *arguments(LUNA, EMBED), "--model-json", text, *ROLES))
    assert refused.name == "configuration-gaps"


def test_every_capability_that_is_too_large_is_told_at_once(tmp_path: Path) -> None:
    large = {
        "maximum_output_tokens": 10**9 + 1,
        "context_window_tokens": 99999999999999999999999,
        "input_cost_per_million_tokens_usd": 1e300,
        "output_cost_per_million_tokens_usd": 1_000_001,
    }
    refused = refusal(invoke(tmp_path / "r", *arguments({**FLASH, "capabilities": {**ABLE, **large}}, LUNA, EMBED)))
    for name in large:
        assert f"--model-json flash: capabilities.{name}:" in refused.remedy


@pytest.mark.parametrize("name", ["models.toml", "models.toml.new"])
@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_a_view_that_cannot_be_rendered_is_named_after_the_events_are_recorded(
    tmp_path: Path, name: str, kind: str
) -> None:
    path = tmp_path / "r" / name
    path.parent.mkdir()
    path.mkdir() if kind == "directory" else os.mkfifo(path)
    result = invoke(tmp_path / "r", *arguments(FLASH, LUNA, EMBED, connections=(OPENAI, WM)), *ROLES)
    assert isinstance(result.exception, models_view.ViewUnusable)
    assert not result.stdout
    path.rmdir() if kind == "directory" else path.unlink()
    assert "recorded: nothing new" in invoke(tmp_path / "r").stdout
    assert (tmp_path / "r" / "models.toml").is_file()


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ("1_000", "plain digits"),
        (" 5", "plain digits"),
        ("5 ", "plain digits"),
        ("\u0661\u0662", "plain digits"),
        ("1e-30", "no exponent"),
        ("1e3", "no exponent"),
        ("+5", "plain digits"),
        ("$$5", "plain digits"),
        ("0.0000000001", "finer than a nano-dollar"),
        ("9007199.254740992", "more than can be recorded"),
        ("9" * 5000, "more than can be recorded"),
    ],
)
def test_an_amount_is_plain_decimal_digits(
    tmp_path: Path, amount: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "budget", "--root", str(tmp_path / "r"), "--", amount]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("amount", ["$5", "5", "5.0000000000", "05", "9007199.254740991"])
def test_a_plain_amount_is_taken(tmp_path: Path, amount: str) -> None:
    assert run(["config", "budget", "--root", str(tmp_path / "r"), amount]) == 0


@pytest.mark.parametrize("number", ["9" * 30, "1_000", " 5", "\u0661", "0"])
@pytest.mark.parametrize(
    "command",
    [
        ("optimize", "router", "p", "--incumbent", "a", "--maximum-model-calls"),
        ("optimize", "router", "p", "--incumbent", "a", "--maximum-judgments"),
        ("optimize", "router", "p", "--incumbent", "a", "--maximum-concurrency"),
        ("build", "p", "t", "--source", "otlp", "--fit-tasks"),
        ("build", "p", "t", "--source", "otlp", "--held-out-tasks"),
        ("judge", "calibrate", "p", "--sample-size"),
    ],
)
def test_a_count_is_a_bounded_whole_number_in_plain_digits(
    tmp_path: Path, command: tuple[str, ...], number: str
) -> None:
    (tmp_path / "t").touch()
    given = [str(tmp_path / "t") if one == "t" else one for one in command]
    assert run([*given, number, "--root", str(tmp_path / "r")]) == 2
