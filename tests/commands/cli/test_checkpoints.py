"""Checkpoints and proofs: a journal that only grew is told from one that was cut, rewritten, forked or swapped."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest
from blake3 import blake3
from click.testing import CliRunner, Result

from commands.cli import checkpoint as checkpointing
from commands.cli import prove, verify_checkpoint
from commands.proving import CheckpointUnfit, CheckpointWanted, EventTooNew, ProofUnwritable
from ledger import refusals
from ledger.inspecting import Inspected
from ledger.merkle import Checkpoint
from ledger.proving import leaves
from tests.ledger.notes import note, opened, tamper

EVENTS = 7


def grown(root: Path, *numbers: int) -> None:
    with opened(root) as journal:
        for number in numbers:
            journal.submit(note("a", number)).result()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(EVENTS):
        grown(tmp_path / "root", number)
    return tmp_path / "root"


def run(command: object, *arguments: str | Path) -> Result:
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(command.command, words, standalone_mode=False)  # type: ignore[attr-defined]


def kept(root: Path, file: Path) -> Path:
    result = run(checkpointing, "--root", root, "--output", file)
    assert (result.exception, result.output) == (None, "")
    return file


def compared(root: Path, *files: Path, more: tuple[str, ...] = ()) -> list[dict[str, object]]:
    result = run(verify_checkpoint, *files, "--root", root, "--json", *more)
    assert result.exception is None
    told = json.loads(result.output)
    assert result.return_value == (0 if told["well"] else 1)
    findings: list[dict[str, object]] = told["findings"]
    assert told["well"] == (not findings)
    return findings


def test_a_checkpoint_says_what_the_journal_says_of_itself(root: Path) -> None:
    with opened(root) as journal:
        now = journal.checkpoint()
    result = run(checkpointing, "--root", root)
    assert Checkpoint.read(result.output) == now
    told = json.loads(run(checkpointing, "--root", root, "--json").output)
    assert told == {
        "origin": "example.org/test",
        "size": EVENTS,
        "root": base64.b64encode(now.root).decode(),
        "written": None,
    }


def test_what_was_kept_is_never_overwritten(root: Path, tmp_path: Path) -> None:
    kept(root, tmp_path / "one")
    before = (tmp_path / "one").read_bytes()
    for file in (tmp_path / "one", tmp_path / "nowhere" / "one", tmp_path):
        result = run(checkpointing, "--root", root, "--output", file)
        assert isinstance(result.exception, ProofUnwritable)
    assert (tmp_path / "one").read_bytes() == before


def test_a_journal_that_only_grew_continues_every_checkpoint(root: Path, tmp_path: Path) -> None:
    files = [kept(root, tmp_path / "seven")]
    assert compared(root, *files) == []
    grown(root, 1, 2, 3)
    files.append(kept(root, tmp_path / "ten"))
    assert compared(root, *files) == []
    result = run(verify_checkpoint, *files, "--root", root)
    assert (result.output, result.return_value) == ("", 0)


def test_the_checkpoint_of_an_empty_journal_is_continued_by_any_of_its_origin(tmp_path: Path) -> None:
    opened(tmp_path / "root").close()
    file = kept(tmp_path / "root", tmp_path / "none")
    assert compared(tmp_path / "root", file) == []
    grown(tmp_path / "root", 1)
    assert compared(tmp_path / "root", file) == []


def test_a_tail_that_was_cut_off_is_named(root: Path, tmp_path: Path) -> None:
    file = kept(root, tmp_path / "kept")
    tamper(root, "DELETE FROM events WHERE seq > 5")
    (finding,) = compared(root, file)
    assert (finding["name"], finding["seq"], finding["place"]) == ("journal-truncated", 6, str(file))
    assert finding["meaning"] == "the journal held 7 events and now holds 5: events 6 to 7 are gone"


def test_a_restored_backup_that_was_appended_to_is_a_fork_of_every_later_checkpoint(tmp_path: Path) -> None:
    """Its chain holds and every check of it alone is well: only what was kept elsewhere tells."""
    root, backup = tmp_path / "root", tmp_path / "backup"
    grown(root, 1, 2, 3)
    early = kept(root, tmp_path / "early")
    shutil.copytree(root, backup)
    later = []
    for number in range(4, 7):
        grown(root, number)
        later.append(kept(root, tmp_path / f"later-{number}"))
    for number in range(40, 46):
        grown(backup, number)
        assert compared(backup, early) == []
        for file in later:
            size = Checkpoint.read(file.read_text("utf-8")).size
            (finding,) = compared(backup, early, file)
            forked = size <= number - 36
            assert finding["name"] == ("journal-rewritten" if forked else "journal-truncated")
            assert finding["seq"] == (4 if forked else number - 35)
            (finding,) = [*compared(backup, file, more=("--against", str(root)))][1:]
            assert (finding["name"], finding["seq"]) == ("event-differs", 4)


def test_several_checkpoints_narrow_down_where_a_journal_was_rewritten(root: Path, tmp_path: Path) -> None:
    files = []
    other = tmp_path / "other"
    for size in range(1, EVENTS + 1):
        grown(other, size - 1 if size < 5 else 100)
        files.append(kept(other, tmp_path / f"kept-{size}"))
    findings = compared(root, *reversed(files))
    assert [finding["seq"] for finding in findings] == [5, 5, 5]
    assert findings[0]["meaning"] == (
        "events 5 to 5 aren't those that the journal held: it was rewritten, or forked there"
    )
    assert compared(root, files[0], more=("--against", str(root))) == []


def test_a_checkpoint_of_another_journal_is_told(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "other"
    file.write_text(Checkpoint("example.org/other", 3, bytes(32)).text(), "utf-8")
    (finding,) = compared(root, file)
    assert finding["name"] == "origin-differs"


def test_a_damaged_event_is_named_and_no_checkpoint_is_made_of_it(root: Path, tmp_path: Path) -> None:
    file = kept(root, tmp_path / "kept")
    for statement, seq in (
        ("UPDATE events SET id = zeroblob(32) WHERE seq = 6", 6),
        ("UPDATE events SET bytes = CAST('text' AS BLOB) WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 3", 3),
    ):
        tamper(root, statement)
        for result in (run(checkpointing, "--root", root), run(verify_checkpoint, file, "--root", root)):
            assert isinstance(result.exception, refusals.JournalDamaged)
            assert result.exception.seq == seq


def test_leaves_that_were_promised_and_are_not_there_are_missed(root: Path) -> None:
    store = Inspected(root / "ledger.db")
    with pytest.raises(refusals.JournalDamaged, match=f"event {EVENTS + 1} is missing"):
        list(leaves(store, EVENTS + 2))
    store.close()


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"\xff", b"x" * (1 << 21)])
def test_what_is_no_checkpoint_is_refused(root: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    for file in (tmp_path / "file", tmp_path, tmp_path / "missing"):
        for result in (
            run(verify_checkpoint, file, "--root", root),
            run(prove, "1", "--checkpoint", file, "--root", root),
        ):
            assert isinstance(result.exception, CheckpointWanted)


def holds(proof: str, stored: bytes, checkpoint: Checkpoint) -> bool:
    """Verify a proof as docs/format.md says, with nothing of the product's but the reading of a checkpoint."""
    above, below = proof.split("\n\n", 1)
    title, index, *hashes = above.split("\n")
    assert title == "c2sp.org/tlog-proof@v1"
    node, last = int(index.removeprefix("index ")), checkpoint.size - 1
    result = blake3(b"\x00" + stored).digest()
    if node > last or Checkpoint.read(below) != checkpoint:
        return False
    for text in hashes:
        other = base64.b64decode(text)
        if last == 0:
            return False
        if node & 1 or node == last:
            result = blake3(b"\x01" + other + result).digest()
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            result = blake3(b"\x01" + result + other).digest()
        node, last = node >> 1, last >> 1
    return last == 0 and result == checkpoint.root


def test_a_proof_convinces_whoever_has_the_events_bytes_and_a_checkpoint(root: Path, tmp_path: Path) -> None:
    file = kept(root, tmp_path / "kept")
    with opened(root) as journal:
        then, stored = journal.checkpoint(), [record.bytes for record in journal.events()]
    grown(root, 1, 2)
    with opened(root) as journal:
        now = journal.checkpoint()
    for seq in range(1, EVENTS + 1):
        proof = run(prove, str(seq), "--root", root).output
        assert holds(proof, stored[seq - 1], now)
        assert not holds(proof, stored[seq % EVENTS], now)
        proof = run(prove, str(seq), "--root", root, "--checkpoint", file).output
        assert holds(proof, stored[seq - 1], then)
        assert not holds(proof, stored[seq - 1], now)


def test_a_proof_keeps_the_signatures_of_its_checkpoint(root: Path, tmp_path: Path) -> None:
    file = kept(root, tmp_path / "kept")
    signature = "\n— example.org/witness c2lnbmF0dXJl\n"
    file.write_text(file.read_text("utf-8") + signature, "utf-8")
    assert compared(root, file) == []
    result = run(prove, "2", "--root", root, "--checkpoint", file, "--output", tmp_path / "proof")
    assert (result.exception, result.output) == (None, "")
    assert (tmp_path / "proof").read_text("utf-8").endswith(file.read_text("utf-8"))


def test_a_proof_in_json_says_the_same(root: Path) -> None:
    told = json.loads(run(prove, "3", "--root", root, "--json").output)
    text = run(prove, "3", "--root", root).output
    assert [bytes.fromhex(one) for one in told["hashes"]] == [
        base64.b64decode(line) for line in text.split("\n\n", 1)[0].split("\n")[2:]
    ]
    assert (told["event"], told["index"], told["checkpoint"]["size"]) == (3, 2, EVENTS)


def test_nothing_is_proved_against_a_checkpoint_that_does_not_fit(root: Path, tmp_path: Path) -> None:
    file = kept(root, tmp_path / "kept")
    grown(root, 9)
    result = run(prove, str(EVENTS + 1), "--root", root, "--checkpoint", file)
    assert isinstance(result.exception, EventTooNew)
    file.write_text(Checkpoint("example.org/test", 3, bytes(32)).text(), "utf-8")
    result = run(prove, "1", "--root", root, "--checkpoint", file)
    assert isinstance(result.exception, CheckpointUnfit)
