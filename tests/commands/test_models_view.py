from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from commands import models_view
from commands.opening import open_journal
from ledger.event import Step
from ledger.families import budget, providers
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Model
from ledger.journal import Journal
from ledger.money import nano_usd

ALL = Capabilities(
    supports_completions=True,
    supports_embeddings=True,
    maximum_output_tokens=16_384,
    input_price=nano_usd("0.25"),
    output_price=0,
)


def configured(root: Path, model: str = "m") -> Journal:
    journal = open_journal(root, "test", providers.FAMILY, budget.FAMILY, create=True)
    command = ConfigureProviders(
        connections=(Connection(name="c", provider="openai-compatible", base_url="http://x"),),
        models=(Model(alias="a.b", connection="c", model=model, capabilities=ALL),),
        roles={"world_model": "a.b", "judge": "a.b", "embedder": "a.b"},
        replace=True,
    )
    journal.submit(Step(providers.FAMILY, command)).result()
    return journal


def test_the_view_carries_its_position_and_says_what_is_configured(tmp_path: Path) -> None:
    with configured(tmp_path) as journal:
        assert models_view.keep(journal) == "absent"
    path = tmp_path / "models.toml"
    view = tomllib.loads(path.read_text())
    assert view["journal"]["position"] == 5
    assert view["roles"] == {"world_model": "a.b", "judge": "a.b", "embedder": "a.b"}
    assert view["connections"] == {"c": {"provider": "openai-compatible", "base_url": "http://x"}}
    assert view["models"]["a.b"]["input_usd_per_million_tokens"] == "0.25"
    assert view["models"]["a.b"]["output_usd_per_million_tokens"] == "0"
    assert "cached_input_usd_per_million_tokens" not in view["models"]["a.b"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_fresh_view_is_left_alone_also_when_other_events_follow(tmp_path: Path) -> None:
    with configured(tmp_path) as journal:
        models_view.keep(journal)
        before = (tmp_path / "models.toml").stat().st_mtime_ns
        journal.submit(Step(budget.FAMILY, budget.SetBudget(ceiling=1))).result()
        assert models_view.keep(journal) == "fresh"
    assert (tmp_path / "models.toml").stat().st_mtime_ns == before


def test_a_stale_view_is_rendered_again(tmp_path: Path) -> None:
    with configured(tmp_path) as journal:
        models_view.keep(journal)
    with configured(tmp_path, "other") as journal:
        assert models_view.keep(journal) == "stale"
        assert models_view.keep(journal) == "fresh"
    assert 'model = "other"' in (tmp_path / "models.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [("http://x", "http://evil"), ("position = 5", "position = 6"), ("digest", "digests"), ("[roles]", "\n[roles]")],
)
def test_an_edited_view_is_told_from_a_stale_one_and_kept_beside(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "models.toml"
    with configured(tmp_path) as journal:
        models_view.keep(journal)
        edited = path.read_text().replace(old, new, 1)
        path.write_text(edited)
        assert models_view.keep(journal) == "edited"
        assert models_view.keep(journal) == "fresh"
    assert (tmp_path / "models.toml.edited").read_text() == edited
    assert "evil" not in path.read_text()


def test_an_edited_view_is_edited_also_after_the_configuration_moved_on(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    with configured(tmp_path) as journal:
        models_view.keep(journal)
        path.write_text(path.read_text() + "# mine\n")
    with configured(tmp_path, "other") as journal:
        assert models_view.keep(journal) == "edited"


def test_dollars_are_exact() -> None:
    assert [models_view.dollars(nano) for nano in (0, 1, 250_000_000, 75_000_000_000)] == [
        "0",
        "0.000000001",
        "0.25",
        "75",
    ]
