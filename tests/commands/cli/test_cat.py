"""Exact bytes."""

from __future__ import annotations

import base64
import os
import pty
import subprocess
import sys
from pathlib import Path

from commands.opening import open_journal, read_journal
from ledger import digests
from ledger.event import Blobs, Step
from ledger.families import traces
from tests.commands.reading import Journey, Said


def catted(root: Path, name: str) -> bytes:
    command = [sys.executable, "-m", "commands.main", "cat", name, "--root", str(root)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_the_bytes_of_an_event_are_those_that_its_id_is_of(journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        record = journal.at(30)
        assert record is not None
    assert catted(journey.root, "30") == record.bytes
    assert digests.event_id(catted(journey.root, record.id.hex())) == record.id


def test_the_bytes_of_a_content_hash_to_its_digest(journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        digest = next(journal.events(traces.TraceImported)).key or ""
    assert digests.content_digest(catted(journey.root, digest)) == digest


def recorded(root: Path, content: bytes) -> str:
    blobs = Blobs()
    detail = blobs.put(content)
    excluded = traces.InputExcluded(
        source="b3:1", place=digests.content_digest(content), reason="not-json", detail=detail, count=1
    )
    with open_journal(root, "test", traces.FAMILY, create=True) as journal:
        step = Step(traces.FAMILY, traces.RecordImport(source="b3:1", traces=(), excluded=(excluded,)))
        journal.submit(step, blobs=blobs).result()
    return detail.blob


def test_json_has_text_or_base64(tmp_path: Path, exp: Said) -> None:
    text, binary = recorded(tmp_path / "text", b"caf\xc3\xa9 \x1b[2J"), recorded(tmp_path / "binary", b"\xff\x00\x1b")
    exp.root = tmp_path / "text"
    assert exp.json("cat", text) == {"id": text, "size": 10, "text": "caf\u00e9 \x1b[2J", "base64": None}
    exp.root = tmp_path / "binary"
    assert exp.json("cat", binary) == {
        "id": binary,
        "size": 3,
        "text": None,
        "base64": base64.b64encode(b"\xff\x00\x1b").decode(),
    }


def test_a_pipe_gets_every_byte_and_a_terminal_nothing_that_acts(tmp_path: Path) -> None:
    content = b"before\x1b[2J\x07after\xe2\x80\xae\xff"
    digest = recorded(tmp_path, content)
    assert catted(tmp_path, digest) == content
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "commands.main", "cat", digest, "--root", str(tmp_path)]
    subprocess.run(command, check=True, stdout=child)
    os.close(child)
    shown = os.read(parent, 1000)
    os.close(parent)
    assert b"beforeafter" in shown
    assert not {b"\x1b", b"\x07", b"\xe2\x80\xae"} & {
        shown[at : at + size] for at in range(len(shown)) for size in (1, 3)
    }
