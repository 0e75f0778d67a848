"""Content gone, proof kept, and everyone told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from commands.main import TREE
from commands.opening import open_journal, read_journal
from ledger import digests, refusals
from ledger.event import Blobs, Step
from ledger.families import cells, contents, traces
from ledger.families.traces import TraceImported, decoded
from ledger.verify import verify
from tests.commands.reading import Journey, Said


@pytest.fixture
def said(exp: Said, journey: Journey, tmp_path: Path) -> Said:
    exp.root = journey.copied(tmp_path)
    return exp


def stored(root: Path, digest: str) -> bytes:
    """Return a content's bytes as they are in the database."""
    connection = apsw.Connection(str(root / "ledger.db"), flags=apsw.SQLITE_OPEN_READWRITE)
    row = connection.execute("SELECT bytes FROM blobs WHERE digest = ?", (digests.raw(digest),)).fetchone()
    connection.close()
    assert row is not None
    assert isinstance(row[0], bytes)
    return row[0]


def everywhere(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.read_bytes()


def a_reply(root: Path) -> tuple[int, str]:
    with read_journal(root) as journal:
        record = next(journal.events(cells.CandidateTurned))
        return record.seq, json.loads(record.bytes)["body"]["reply"]["blob"]


def test_without_a_yes_it_is_shown_and_stays(said: Said) -> None:
    _, digest = a_reply(said.root)
    before = said.text("log")
    shown = said.text("erase", digest, "--reason", "a wish", code=111)
    assert f"content: {digest} state=held" in shown
    assert "nothing was erased" in said.error
    assert said.text("log") == before
    with read_journal(said.root) as journal:
        assert digests.content_digest(journal.blob(digest)) == digest


def test_the_bytes_are_gone_from_every_file_of_the_root_and_the_chain_holds(said: Said) -> None:
    _, digest = a_reply(said.root)
    there = stored(said.root, digest)
    piece = there[8:-8]  # what no header or trailer shares
    assert any(piece in content for content in everywhere(said.root))
    said.text("erase", digest, "--reason", "a wish", "--yes")
    assert not any(piece in content for content in everywhere(said.root))
    assert verify(said.root / "ledger.db", full=True) == []
    said.text("check", "--full")


def test_a_backup_made_afterwards_holds_nothing_of_it(said: Said, tmp_path: Path) -> None:
    if "backup" not in TREE.entries:
        pytest.skip("there is no backup command")
    _, digest = a_reply(said.root)
    piece = stored(said.root, digest)[8:-8]
    said.text("erase", digest, "--reason", "a wish", "--yes")
    said.text("backup", str(tmp_path / "kept"))
    kept = tmp_path / "kept"
    files = [kept.read_bytes()] if kept.is_file() else list(everywhere(kept))
    assert files
    assert not any(piece in content for content in files)


def test_every_referrer_is_named(said: Said) -> None:
    seq, digest = a_reply(said.root)
    with read_journal(said.root) as journal:
        wanted = [record.seq for record in journal.events() if digest.encode() in record.bytes]
    assert seq in wanted
    assert len(wanted) > 1
    done = said.json("erase", digest, "--reason", "a wish", "--yes")
    assert [row["event"] for row in done["referrer"]] == wanted
    with read_journal(said.root) as journal:
        record = journal.find(contents.ContentErased, digest)
        assert record is not None
        assert done["erased"] == [{"content": digest, "event": record.seq}]


def test_the_reason_is_recorded_as_a_content_without_keys(said: Said) -> None:
    _, digest = a_reply(said.root)
    said.text("erase", digest, "--reason", " it held sk-abcdefghijklmnopqrstuv \x1b[2J", "--yes")
    with read_journal(said.root) as journal:
        record = journal.find(contents.ContentErased, digest)
        assert record is not None
        body = json.loads(record.bytes)["body"]
        assert body["reason"] == "asked-for"
        assert journal.blob(body["why"]["blob"]) == b"it held [redacted] \x1b[2J"


def test_erasing_twice_records_once_and_succeeds(said: Said) -> None:
    _, digest = a_reply(said.root)
    first = said.json("erase", digest, "--reason", "a wish", "--yes")
    log = said.text("log")
    again = said.json("erase", digest[:24], "--reason", "another", "--yes")
    assert again["erased"] == first["erased"]
    assert again["content"] == [{"content": digest, "state": "not there"}]
    assert said.text("log") == log
    said.text("erase", digest, "--reason", "not agreed, and nothing to agree to")


def test_an_event_stands_for_all_its_contents_and_a_trace_name_for_its_trace(said: Said) -> None:
    with read_journal(said.root) as journal:
        built = next(record for record in journal.events() if record.kind == "build-completed@1")
        body = json.loads(built.bytes)["body"]
        trace = next(journal.events(TraceImported)).key or ""
        name = decoded(journal.blob(trace)).name
    done = said.json("erase", str(built.seq), "--reason", "a wish", "--yes")
    assert {row["content"] for row in done["erased"]} == {body["manifest"]["blob"], body["vectors"]["blob"]}
    assert [row["content"] for row in said.json("erase", name, "--reason", "a wish", "--yes")["erased"]] == [trace]
    with read_journal(said.root) as journal, pytest.raises(refusals.ContentErased):
        journal.blob(trace)


def test_an_event_without_contents_and_an_unknown_id_are_refused(said: Said) -> None:
    said.text("erase", "1", "--reason", "a wish", "--yes", code=217)
    assert "connection-configured" in said.error
    said.text("erase", "b3:0123456789", "--reason", "a wish", "--yes", code=108)
    said.text("erase", "7", "--reason", "  ", "--yes", code=2)


def test_what_depends_on_it_is_said_to_be_erased_and_never_another_number(said: Said, journey: Journey) -> None:
    seq, digest = a_reply(said.root)
    said.text("erase", digest, "--reason", "a wish", "--yes")
    said.text(*journey.stage.optimize(), code=60)
    assert f"not reproducible: erased. The content {digest}" in said.error
    said.text("cat", digest, code=60)
    assert "not reproducible: erased" in said.error
    shown = said.json("show", str(seq))
    assert shown["contents"][0]["state"] == "erased"
    assert "not reproducible: erased by event" in said.text("show", str(seq))
    assert said.json("show", digest)["state"] == "erased"
    said.text("why", journey.ids["report"], "--all")


def test_an_erased_trace_keeps_its_build_from_being_derived_again(said: Said, journey: Journey) -> None:
    with read_journal(said.root) as journal:
        trace = next(journal.events(TraceImported)).key or ""
    said.text("erase", trace, "--reason", "a wish", "--yes")
    said.text(*journey.stage.optimize(), code=60)
    assert trace in said.error
    manifest = next(row for row in said.json("show", journey.ids["build"])["contents"] if row["at"] == "/manifest")
    said.text("erase", manifest["digest"], "--reason", "a wish", "--yes")
    tree = said.json("why", journey.ids["build"])
    assert "not reproducible: erased" in tree["rests_on"][0]["problem"]
    assert "not reproducible: erased" in said.text("why", journey.ids["build"])


def test_what_was_erased_stays_erased_when_the_same_content_is_recorded_again(tmp_path: Path) -> None:
    blobs = Blobs()
    detail = blobs.put("a text that somebody wants gone")

    def excluded(place: str) -> Step:
        one = traces.InputExcluded(source="b3:1", place=place, reason="not-json", detail=detail, count=1)
        return Step(traces.FAMILY, traces.RecordImport(source="b3:1", traces=(), excluded=(one,)))

    erasing = Step(contents.FAMILY, contents.EraseContent(content=detail.blob, reason="asked-for"))
    with open_journal(tmp_path, "test", traces.FAMILY, contents.FAMILY, create=True) as journal:
        journal.submit(excluded("line 1"), blobs=blobs).result()
        both = journal.submit(erasing, blobs=None), journal.submit(excluded("line 2"), blobs=blobs)
        assert [len(one.result()) for one in both] == [1, 1]
        assert not journal.holds(detail.blob)
    with open_journal(tmp_path, "test", traces.FAMILY) as journal:
        assert len(journal.submit(excluded("line 3"), blobs=blobs).result()) == 1
        assert not journal.holds(detail.blob)
        with pytest.raises(refusals.ContentErased):
            journal.blob(detail.blob)
    assert verify(tmp_path / "ledger.db", full=True) == []
