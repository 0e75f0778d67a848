from __future__ import annotations

from pathlib import Path

import pytest

from commands.main import run
from ledger.merkle import Checkpoint


def test_an_import_says_the_checkpoint_that_the_journal_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = Path(__file__).parents[3] / "fixtures" / "traces" / "shell-sessions.otel.jsonl"
    root = str(tmp_path / "root")
    assert run(["ingest", str(corpus), "--root", root]) == 0
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    assert run(["checkpoint", "--root", root]) == 0
    now = Checkpoint.read(capsys.readouterr().out)
    origin, size, digest = said["checkpoint"].split(" ")
    assert Checkpoint.read(f"{origin}\n{size}\n{digest}\n") == now
    assert int(size) == int(said["position"])
