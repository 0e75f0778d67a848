"""``exp check`` folds every event again and names a snapshot that isn't what they fold to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from commands.cli import check
from ledger import snapshots
from ledger.event import Step
from ledger.families import budget
from ledger.families.budget import SetBudget
from ledger.journal import Journal


def _told(root: Path) -> list[tuple[str, str]]:
    result = CliRunner().invoke(check.command, ["--root", str(root), "--json"], standalone_mode=False)
    assert result.exception is None
    told = json.loads(result.output)
    assert result.return_value == (1 if told["findings"] else 0)
    return [(finding["name"], finding["place"]) for finding in told["findings"]]


def test_a_snapshot_that_is_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.journal.WORTH", 1)
    root = tmp_path / "root"
    with Journal.open(root, [budget.FAMILY], actor="t", clock=lambda: 1, create=True, process="p") as journal:
        journal.submit(Step(budget.FAMILY, SetBudget(ceiling=5))).result()
        assert journal.state(budget.FAMILY).ceiling == 5
    kept = root / snapshots.FOLDER / "budget"
    assert _told(root) == []
    with Journal.open(root, [budget.FAMILY], actor="t", clock=lambda: 1, process="p") as journal:
        wrong = budget.Budget(ceiling=6)
        journal._snapshots.save([budget.FAMILY], {"budget": wrong}, *journal._store.last())
    assert _told(root) == [("snapshot-differs", "snapshots/budget")]
    kept.write_bytes(kept.read_bytes()[:-1])
    assert _told(root) == [("snapshot-damaged", "snapshots/budget")]
    kept.unlink()
    assert _told(root) == []
