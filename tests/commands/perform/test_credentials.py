from __future__ import annotations

import os
from pathlib import Path

import pytest

from commands.perform.credentials import LARGEST_FILE, CredentialMissing, credential
from ledger.families.providers import Connection


def connection(path: Path) -> Connection:
    return Connection(name="c", provider="openai-compatible", base_url="http://h", api_key_file=str(path))


def test_a_small_regular_file_holds_the_credential(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x" * 20 + "\n")
    assert credential(connection(tmp_path / "key")) == "x" * 20


@pytest.mark.parametrize("kind", ["pipe", "device", "endless", "huge", "folder", "absent", "empty"])
def test_a_credential_file_that_is_none_is_named_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "key"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind in {"device", "endless"}:
        path = Path("/dev/null" if kind == "device" else "/dev/zero")
    elif kind == "huge":
        path.write_bytes(b"x" * (LARGEST_FILE + 1))
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    with pytest.raises(CredentialMissing):
        credential(connection(path))
