"""``exp gateway key``, ``limits`` and ``usage``."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from commands.gateway.keys import digest_of
from commands.main import run
from commands.opening import open_journal
from ledger.allowances import Limits
from ledger.families import serving


class Exp:
    def __init__(self, capsys: pytest.CaptureFixture[str], root: Path) -> None:
        self.root = root
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        assert run(["gateway", *words, "--root", str(self.root)]) == code
        said = self._capsys.readouterr()
        return said.out if code == 0 else said.err

    def json(self, *words: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self(*words, "--json"))
        return said

    def state(self) -> serving.Serving:
        with open_journal(self.root, "test", serving.FAMILY) as journal:
            state: serving.Serving = journal.state(serving.FAMILY)
            return state


@pytest.fixture
def gateway(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Exp:
    return Exp(capsys, tmp_path / "root")


def test_a_key_is_shown_once_and_only_its_digest_is_recorded(gateway: Exp) -> None:
    said = gateway.json("key", "issue", "team-a")
    key = said["key"]
    assert len(key) >= 40
    assert gateway.state().keys == {digest_of(key): "team-a"}
    assert key.encode() not in (gateway.root / "ledger.db").read_bytes()
    assert key not in gateway("key", "list")
    assert gateway.json("key", "issue", "team-b")["key"] != key


def test_a_key_goes_into_a_private_file_instead_of_being_shown(gateway: Exp, tmp_path: Path) -> None:
    file = tmp_path / "key"
    printed = gateway("key", "issue", "team-a", "--output", str(file))
    key = file.read_text().strip()
    assert key not in printed
    assert str(file) in printed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert digest_of(key) in gateway.state().keys


def test_a_file_that_is_there_is_not_written_over_and_no_key_is_issued(gateway: Exp, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("mine")
    assert str(file) in gateway("key", "issue", "team-a", "--output", str(file), code=223)
    assert file.read_text() == "mine"
    assert gateway.state().keys == {}


def test_a_name_is_issued_once_and_an_unknown_one_is_not_rotated_revoked_or_limited(gateway: Exp) -> None:
    gateway("key", "issue", "team-a")
    assert "rotate team-a" in gateway("key", "issue", "team-a", code=221)
    for words in (("key", "rotate", "x"), ("key", "revoke", "x"), ("limits", "x"), ("usage", "--key", "x")):
        assert "there is team-a" in gateway(*words, code=222)
    assert len(gateway.state().keys) == 1


def test_a_rotated_name_has_one_valid_key_or_two_for_a_while(gateway: Exp) -> None:
    first = digest_of(gateway.json("key", "issue", "team-a", "--budget-per-day", "5")["key"])
    said = gateway.json("key", "rotate", "team-a", "--overlap", "3600")
    second = digest_of(said["key"])
    state = gateway.state()
    now = state.revoked[first] - 1
    assert state.valid(first, now)
    assert not state.valid(first, now + 1)
    assert state.valid(second, now + 1)
    gateway("key", "rotate", "team-a")
    state = gateway.state()
    assert not state.valid(first, now)  # the end that was told before comes sooner now
    assert not state.valid(second, now)
    assert state.account("team-a").limits == Limits(budget_per_day=5_000_000_000)
    assert gateway.json("key", "list")["key"][0]["valid"] == 1


def test_a_revoked_name_has_no_valid_key_and_can_be_given_one_again(gateway: Exp) -> None:
    gateway("key", "issue", "team-a")
    assert "keys taken back: 1" in gateway("key", "revoke", "team-a")
    assert gateway.json("key", "list")["key"][0]["valid"] == 0
    gateway("key", "revoke", "team-a", code=222)
    gateway("key", "rotate", "team-a")
    assert gateway.json("key", "list")["key"][0]["valid"] == 1


def test_limits_are_set_one_by_one_and_taken_away_by_name(gateway: Exp) -> None:
    gateway("key", "issue", "team-a", "--model", "plain", "--model", "other", "--requests-per-minute", "10")
    gateway("limits", "team-a", "--tokens-per-minute", "1000", "--budget-per-month", "0.5")
    assert gateway.state().account("team-a").limits == Limits(
        aliases=("plain", "other"), requests_per_minute=10, tokens_per_minute=1000, budget_per_month=500_000_000
    )
    assert "nothing new" in gateway("limits", "team-a", "--requests-per-minute", "10")
    gateway("limits", "team-a", "--requests-per-minute", "none", "--budget-per-month", "none", "--model", "all")
    assert gateway.state().account("team-a").limits == Limits(tokens_per_minute=1000)
    assert "recorded" not in gateway("limits", "team-a")


def test_all_clients_together_have_limits_too_but_no_models(gateway: Exp) -> None:
    gateway("limits", "--budget-per-day", "20")
    shown = gateway.json("limits")["limits"][0]
    assert (shown["name"], shown["budget_per_day"]) == ("all together", "$20.000000000")
    assert gateway("limits", "--model", "plain", code=2)


@pytest.mark.parametrize(
    "words",
    [
        ("--requests-per-minute", "0"),
        ("--tokens-per-minute", "x"),
        ("--budget-per-day", "-1"),
        ("--budget-per-day", ""),
    ],
)
def test_what_is_no_limit_is_a_usage_error(gateway: Exp, words: tuple[str, ...]) -> None:
    gateway("key", "issue", "team-a", *words, code=2)
    assert not gateway.root.exists()


def test_a_name_is_one_that_nothing_needs_to_quote(gateway: Exp) -> None:
    gateway("key", "issue", "<b>", code=2)


def test_nothing_used_is_told_as_such(gateway: Exp) -> None:
    gateway("key", "issue", "team-a")
    assert gateway("usage") == "requests: 0\ncost: $0.000000000\n"
    said = gateway.json("usage", "--from", "2026-01-01", "--key", "team-a")
    assert (said["data"], said["from"], said["to"]) == ([], "2026-01-01", None)
    gateway("usage", "--from", "never", code=2)
