"""Verifying: every change is found, and named by the event it is in."""

# ruff: noqa: S608 - tampering is done in SQL, with values of these tests
from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from commands.cli.check import command
from ledger import digests, refusals, store
from ledger import verify as verifying
from ledger.errors import Refusal
from ledger.event import Step
from ledger.families import contents
from ledger.inspecting import Inspected, Rows
from ledger.journal import Journal
from ledger.recorded import Recorded
from ledger.verify import Finding, verify
from tests.ledger.notes import NOTES, TALLY, CloseTally, note, opened, tamper, worded
from tests.ledger.test_origins import THERE, admitted, spent
from tests.ledger.test_origins import opened as origins_opened

WORDS = "the words of event 5 " * 20


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root of nine events: notes 1 to 4 and 6, contents in 5 and 8, tallies 7 and 9."""
    root = tmp_path_factory.mktemp("sound") / "root"
    with opened(root) as journal:
        for number in range(4):
            journal.submit(note("a", number, name=f"k{number}")).result()
        step, blobs = worded(WORDS)
        journal.submit(step, blobs=blobs).result()
        journal.submit(note("b")).result()
        journal.submit(Step(TALLY, CloseTally())).result()
        journal.submit(worded(WORDS, subject="again")[0], blobs=blobs).result()
        journal.submit(Step(TALLY, CloseTally())).result()
    return root


@pytest.fixture
def root(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "copy"))


def check(root: Path, *, full: bool = True, after: int = 0) -> list[Finding]:
    """Return the findings beside those about the triggers, which tampering had to drop."""
    found = verify(root / "ledger.db", full=full, after=after)
    return [finding for finding in found if finding.name != "schema-changed"]


def test_a_journal_as_it_was_recorded_has_no_findings(root: Path) -> None:
    for full in (False, True):
        for after in range(10):
            assert verify(root / "ledger.db", full=full, after=after) == []


def test_an_empty_journal_has_no_findings(tmp_path: Path) -> None:
    opened(tmp_path / "root").close()
    assert verify(tmp_path / "root" / "ledger.db", full=True) == []


def test_each_bit_of_an_event_matters(root: Path) -> None:
    connection = sqlite3.connect(root / "ledger.db")
    (stored,) = connection.execute("SELECT bytes FROM events WHERE seq = 4").fetchone()
    connection.close()
    for place in range(0, len(stored), 3):
        changed = bytearray(stored)
        changed[place] ^= 1 << place % 8
        tamper(root, f"UPDATE events SET bytes = x'{changed.hex()}' WHERE seq = 4")
        assert ("event-changed", 4) in [finding[:2] for finding in check(root, full=False)]
    tamper(root, f"UPDATE events SET bytes = x'{stored.hex()}' WHERE seq = 4")
    assert check(root) == []


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("UPDATE events SET id = zeroblob(32) WHERE seq = 3", [("event-changed", 3)]),
        ("UPDATE events SET head = zeroblob(32) WHERE seq = 3", [("chain-broken", 3), ("chain-broken", 4)]),
        ("UPDATE events SET kind = 'test-other@1' WHERE seq = 3", [("column-changed", 3)]),
        ("UPDATE events SET stream = 'note:z' WHERE seq = 3", [("column-changed", 3)]),
        ("UPDATE events SET version = 99 WHERE seq = 3", [("column-changed", 3)]),
        ("UPDATE events SET key = 'z' WHERE seq = 3", [("column-changed", 3)]),
        ("UPDATE events SET key = NULL WHERE seq = 3", [("column-changed", 3)]),
        ("UPDATE events SET origin = 7 WHERE seq = 9", [("origin-unannounced", 9), ("origin-unknown", 9)]),
        ("DELETE FROM events WHERE seq IN (6, 7)", [("event-missing", 6), ("version-wrong", 9)]),
        ("DELETE FROM events WHERE seq = 8; DELETE FROM blobs", [("content-missing", 5), ("event-missing", 8)]),
        ("DELETE FROM events WHERE seq = 1", [("event-missing", 1), ("version-wrong", 2)]),
        ("UPDATE events SET seq = 70 WHERE seq = 9", [("event-missing", 9)]),
        ("DELETE FROM blobs", [("content-missing", 5)]),
        ("UPDATE blobs SET bytes = zeroblob(9)", [("content-damaged", 5)]),
        ("UPDATE blobs SET size = size - 1", [("content-damaged", 5)]),
        (f"UPDATE blobs SET codec = 'plain', bytes = x'{WORDS[::-1].encode().hex()}'", [("content-damaged", 5)]),
        (
            "INSERT INTO blobs VALUES (zeroblob(32), 0, 'plain', x'')",
            [("content-damaged", 0), ("content-unreferred", 0)],
        ),
        (
            f"INSERT INTO blobs VALUES (x'{digests.raw(digests.content_digest(b'x')).hex()}', 1, 'plain', x'78')",
            [("content-unreferred", 0)],
        ),
        ("DELETE FROM origins", [("origin-unknown", seq) for seq in range(10)]),
        ("INSERT INTO origins VALUES (2, 'example.org/other')", [("origin-unused", 0)]),
        (
            "UPDATE events SET seq = 0 WHERE seq = 9",
            [("event-misplaced", 0), ("version-wrong", 0), ("version-wrong", 7)],
        ),
        (
            "UPDATE events SET seq = 0, key = 'z', id = zeroblob(32) WHERE seq = 9",
            [
                ("column-changed", 0),
                ("event-changed", 0),
                ("event-misplaced", 0),
                ("version-wrong", 0),
                ("version-wrong", 7),
            ],
        ),
        (
            "UPDATE events SET seq = -9223372036854775807 - 1 WHERE seq = 1",
            [("event-misplaced", -9223372036854775808), ("event-missing", 1)],
        ),
        (
            "UPDATE blobs SET rowid = -9223372036854775807 - 1, size = 1",
            [("content-damaged", 5)],
        ),
        (
            "UPDATE events SET seq = -4 WHERE seq = 1",
            [("event-misplaced", -4), ("event-missing", 1)],
        ),
        ("UPDATE events SET seq = 4611686018427387904 WHERE seq = 9", [("event-missing", 9)]),
        ("UPDATE events SET head = x'00' WHERE seq = 9", [("chain-broken", 9)]),
        ("UPDATE events SET bytes = x'' WHERE seq = 9", [("event-changed", 9), ("event-illegible", 9)]),
        ("UPDATE events SET kind = CAST(x'ff41' AS TEXT) WHERE seq = 3", [("column-changed", 3)]),
        ("UPDATE events SET stream = CAST(x'6e6f74653a61ff' AS TEXT) WHERE seq = 3", [("column-changed", 3)]),
        ('UPDATE events SET key = stream || \'","kind":"\' || kind WHERE seq = 3', [("column-changed", 3)]),
        ("UPDATE blobs SET size = -1", [("content-damaged", 5)]),
        ("UPDATE blobs SET rowid = 4611686018427387904", []),
        (
            "UPDATE blobs SET digest = x'00'",
            [("content-damaged", 0), ("content-unreferred", 0), ("content-missing", 5)],
        ),
    ],
)
def test_each_change_is_found_and_named(root: Path, damage: str, expected: list[tuple[str, int]]) -> None:
    tamper(root, *damage.split("; "))
    assert [finding[:2] for finding in check(root)] == expected


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("id", "'text'", ["event-changed"]),
        ("head", "'text'", ["chain-broken", "chain-broken"]),
        ("head", "NULL", ["chain-broken", "chain-broken"]),
        ("bytes", "CAST(bytes AS TEXT)", ["event-changed", "event-illegible", "version-wrong"]),
        ("bytes", "CAST(x'ff' AS TEXT)", ["event-changed", "event-illegible", "version-wrong"]),
        ("bytes", "NULL", ["event-changed", "event-illegible", "version-wrong"]),
        ("kind", "CAST(kind AS BLOB)", ["column-changed"]),
        ("stream", "NULL", ["column-changed"]),
        ("version", "CAST(version AS TEXT)", ["column-changed"]),
        ("version", "3.0", ["column-changed"]),
        ("key", "CAST(key AS BLOB)", ["column-changed"]),
        ("origin", "'1'", ["origin-unknown", "origin-unannounced", "version-wrong"]),
    ],
)
def test_a_value_of_another_type_is_found_whatever_it_says(
    root: Path, column: str, value: str, expected: list[str]
) -> None:
    """The table's own declaration refuses these; a damaged page doesn't ask."""
    connection = sqlite3.connect(root / "ledger.db")
    connection.execute("CREATE TABLE loose (seq, id, head, origin, kind, stream, version, key, bytes)")
    connection.execute("INSERT INTO loose SELECT * FROM events")
    connection.execute(f"UPDATE loose SET {column} = {value} WHERE seq = 3")
    connection.execute("DROP TABLE events")
    connection.execute(
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, id, head, origin, kind, stream, version, key, bytes)"
    )
    connection.execute("INSERT INTO events SELECT * FROM loose")
    connection.commit()
    connection.close()
    for full in (True, False):
        found = [finding for finding in check(root, full=full) if finding.name != "structure-damaged"]
        assert [finding.name for finding in found] == expected
        assert {finding.seq for finding in found} <= {3, 4}


def test_what_stands_behind_a_packed_content_is_found(root: Path) -> None:
    connection = sqlite3.connect(root / "ledger.db")
    (packed,) = connection.execute("SELECT bytes FROM blobs WHERE codec = 'zlib'").fetchone()
    connection.close()
    for changed in (packed + b"x", packed[:-1]):
        tamper(root, f"UPDATE blobs SET bytes = x'{changed.hex()}'")
        assert [finding[:2] for finding in check(root)] == [("content-damaged", 5)]


def test_looking_at_many_rows_at_once_and_at_each_finds_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    all_hold = verifying._Check._all_hold

    def watched(self: verifying._Check, rows: Rows) -> bool:
        seen.append(all_hold(self, rows))
        return seen[-1]

    monkeypatch.setattr(verifying._Check, "_all_hold", watched)
    assert verify(root / "ledger.db", full=True) == []
    assert seen == [True]
    monkeypatch.setattr(verifying._Check, "_all_hold", lambda _self, _rows: False)
    assert verify(root / "ledger.db", full=True) == []


def test_two_events_that_changed_places_are_found(root: Path) -> None:
    tamper(
        root,
        "UPDATE events SET seq = 100 WHERE seq = 2",
        "UPDATE events SET seq = 2 WHERE seq = 6",
        "UPDATE events SET seq = 6 WHERE seq = 100",
    )
    assert {2, 6} <= {finding.seq for finding in check(root)}


def test_a_forged_event_that_fits_the_chain_is_found_by_its_version_and_key(root: Path) -> None:
    """Whoever can write the file can extend the chain; what they add must still be an event that could be."""
    connection = sqlite3.connect(root / "ledger.db")
    stored, head = connection.execute(
        "SELECT bytes, (SELECT head FROM events WHERE seq = 9) FROM events WHERE seq = 1"
    ).fetchone()
    ident = digests.event_id(stored)
    connection.execute("DROP INDEX events_by_key")
    connection.execute("DROP INDEX events_by_stream")
    connection.execute(
        "INSERT INTO events SELECT 10, id, ?, origin, kind, stream, version, key, bytes FROM events WHERE seq = 1",
        (digests.chained(head, ident),),
    )
    connection.commit()
    connection.close()
    for full in (True, False):
        assert sorted(finding.meaning for finding in check(root, full=full)) == [
            "event 10 has version 1 of its stream and should have 5",
            "events 1, 10 have the same id",
            "events 1, 10 have the same key",
            "events 1, 10 have the same version",
        ]


def test_what_is_no_event_is_called_illegible(root: Path) -> None:
    for words in (b"not JSON", b"{}", b'{"actor":"a"}', b"\xff"):
        tamper(root, f"UPDATE events SET bytes = x'{words.hex()}' WHERE seq = 6")
        assert [finding[:2] for finding in check(root)] == [("event-changed", 6), ("event-illegible", 6)]


def test_a_finding_about_content_lists_every_event_that_names_it(root: Path) -> None:
    tamper(root, "UPDATE blobs SET bytes = zeroblob(1)")
    (finding,) = check(root)
    assert finding.place == "blobs, for events 5, 8"
    assert finding.meaning.endswith("isn't what its digest says; it belongs to events 5, 8")
    assert check(root, full=False) == []
    assert [found.place for found in check(root, after=5)] == ["blobs, for event 8"]


def test_what_was_erased_on_purpose_is_no_finding(root: Path) -> None:
    digest = digests.content_digest(WORDS.encode())
    with Journal.open(root, [contents.FAMILY], actor="test", clock=lambda: 0) as journal:
        erase = contents.EraseContent(content=digest, reason="asked")
        journal.submit(Step(contents.FAMILY, erase)).result()
    assert verify(root / "ledger.db", full=True) == []


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("DROP TRIGGER events_are_never_deleted", "events_are_never_deleted"),
        ("DROP INDEX events_by_key", "events_by_key"),
        ("CREATE TABLE extra (x)", "extra"),
        ("CREATE TRIGGER sly AFTER INSERT ON events BEGIN DELETE FROM blobs; END", "sly"),
    ],
)
def test_a_declaration_that_was_altered_is_found(root: Path, statement: str, name: str) -> None:
    connection = sqlite3.connect(root / "ledger.db")
    connection.execute(statement)
    connection.close()
    (finding,) = verify(root / "ledger.db")
    assert (finding.name, finding.place) == ("schema-changed", f"ledger.db, {name}")


def test_an_index_that_disagrees_with_its_table_is_found_by_a_full_check(root: Path) -> None:
    connection = sqlite3.connect(root / "ledger.db")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'events_by_kind'")
    connection.execute("PRAGMA writable_schema = RESET")
    connection.commit()
    connection.close()
    names = {finding.name for finding in verify(root / "ledger.db", full=True)}
    assert names == {"schema-changed", "structure-damaged"}


def test_damage_to_the_pages_is_found_wherever_it_is(root: Path) -> None:
    """Flip bits all over the file: no flip in an event may go unnoticed, and none may raise."""
    path = root / "ledger.db"
    plain = path.read_bytes()
    connection = sqlite3.connect(path)
    events = [bytes(row[0]) for row in connection.execute("SELECT bytes FROM events")]
    connection.close()
    for stored in events:
        place = plain.index(stored) + len(stored) // 3
        changed = bytearray(plain)
        changed[place] ^= 4
        path.write_bytes(bytes(changed))
        assert verify(path) != []
    for place in range(100, len(plain), 1409):
        changed = bytearray(plain)
        changed[place] ^= 255
        path.write_bytes(bytes(changed))
        try:
            verify(path, full=True)
        except Refusal:
            continue


@pytest.mark.parametrize("seqs", [(4,), (9,), (8, 9)])
def test_events_that_can_not_be_read_are_named_one_by_one(
    root: Path, monkeypatch: pytest.MonkeyPatch, seqs: tuple[int, ...]
) -> None:
    fetch = Inspected._fetch

    def failing(self: Inspected, query: str, table: str, place: str, low: int, high: int) -> Rows:
        rows = fetch(self, query, table, place, low, high)
        if table == "events" and any(row[0] in seqs for row in rows):
            raise apsw.CorruptError("database disk image is malformed")
        return rows

    monkeypatch.setattr(Inspected, "_fetch", failing)
    assert [finding[:2] for finding in check(root)] == [("unreadable", seq) for seq in seqs]


def test_a_part_that_can_not_be_read_is_a_finding_and_the_other_parts_are_checked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Inspected, upto: int) -> list[str]:
        raise apsw.CorruptError("database disk image is malformed")

    monkeypatch.setattr(Inspected, "blobs", failing)
    tamper(root, "UPDATE events SET key = 'z' WHERE seq = 3")
    assert {finding.name for finding in check(root)} == {"unreadable", "column-changed"}


def test_a_position_beyond_the_end_is_refused(root: Path) -> None:
    assert verify(root / "ledger.db", after=9) == []
    for position in (10, -1):
        with pytest.raises(refusals.NoSuchEvent, match="the journal ends with event 9"):
            verify(root / "ledger.db", after=position)


def test_a_check_from_a_position_finds_only_what_comes_after_it(root: Path) -> None:
    tamper(root, "UPDATE events SET key = 'z' WHERE seq IN (3)", "UPDATE events SET head = zeroblob(32) WHERE seq = 9")
    assert [finding[:2] for finding in check(root, after=2)] == [("column-changed", 3), ("chain-broken", 9)]
    assert [finding[:2] for finding in check(root, after=3)] == [("chain-broken", 9)]
    assert check(root, after=9) == []


def _run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], standalone_mode=False)
    assert result.exception is None
    return int(result.return_value), result.output


def test_the_command_is_silent_when_all_is_well(root: Path) -> None:
    assert _run("--root", root) == (0, "")
    assert _run("--root", root, "--full", "--from", "3") == (0, "")
    status, output = _run("--root", root, "--json")
    assert (status, json.loads(output)) == (0, {"well": True, "findings": []})


def test_the_command_prints_every_finding_with_its_place_and_remedy(root: Path) -> None:
    tamper(root, "UPDATE events SET key = 'z' WHERE seq = 3")
    status, output = _run("--root", root)
    assert status == 1
    assert output.endswith(
        "the column key of event 3 says 'z', but the event says 'k2'\n"
        "  in event 3, column key\n"
        "  run `exp check --from 2` after restoring; nothing after event 2 holds\n"
    )
    status, output = _run("--root", root, "--json")
    found = json.loads(output)
    assert (status, found["well"]) == (1, False)
    assert found["findings"][-1]["seq"] == 3
    assert set(found["findings"][-1]) == {"name", "seq", "place", "meaning", "remedy"}


def test_the_document_declares_what_the_store_declares() -> None:
    """docs/format.md promises that a verifier can be written from it alone."""
    text = Path(__file__).parents[2].joinpath("docs/format.md").read_text(encoding="utf-8")
    assert text.split("```sql\n", 1)[1].split("```", 1)[0].strip() == store.SCHEMA.strip()
    for said in (store.APPLICATION_ID, store.PAGE_BYTES, hex(store.APPLICATION_ID)):
        assert str(said) in text


def test_families_of_these_tests_are_known(root: Path) -> None:
    with opened(root) as journal:
        assert (journal.state(NOTES), journal.state(TALLY)) == ([9], (9, 2))


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    """Return a root of five events: one of its own, two of another origin, what announces them, and one more."""
    there = spent(tmp_path / "there", 10, 20, origin=THERE)
    spent(tmp_path / "here", 5)
    with origins_opened(tmp_path / "here") as journal:
        admitted(journal, there)
    spent(tmp_path / "here", 6)
    return tmp_path / "here"


def test_imported_events_that_are_announced_have_no_findings(joined: Path) -> None:
    for full in (False, True):
        for after in range(6):
            assert verify(joined / "ledger.db", full=full, after=after) == []


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            "DELETE FROM events WHERE seq = 5; UPDATE events SET origin = 1 WHERE seq = 3",
            [("origin-unannounced", 3), ("origin-unannounced", 4)],
        ),
        ("UPDATE events SET origin = 3 WHERE seq = 3", [("origin-unknown", 3), ("origin-unannounced", 4)]),
        ("UPDATE origins SET name = 'test/elsewhere' WHERE origin = 2", [("origin-unannounced", 4)]),
        ("DELETE FROM events WHERE seq > 3", [("origin-unannounced", 3)]),
        ("DELETE FROM events WHERE seq > 1", [("origin-unused", 0)]),
        ("UPDATE origins SET origin = 7 WHERE origin = 2; UPDATE events SET origin = 7 WHERE origin = 2", []),
    ],
)
def test_a_changed_origin_is_found(joined: Path, damage: str, expected: list[tuple[str, int]]) -> None:
    tamper(joined, *damage.split("; "))
    assert [finding[:2] for finding in check(joined)] == expected
    if "seq = 3" in damage:
        assert [finding[:2] for finding in check(joined, after=2)] == expected


def test_the_document_names_every_finding() -> None:
    text = Path(__file__).parents[2].joinpath("docs/format.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", text.split("## What must hold", 1)[1].split("##", 1)[0], re.MULTILINE)
    assert listed == ["not-a-journal", "journal-too-new", "journal-too-old", *verifying.FINDINGS]


def forged(root: Path, stored: bytes, kind: str, stream: str, *, origin: int = 1, key: str | None = None) -> None:
    """Append bytes with an id and a head that fit, as whoever can write the file could."""
    journal = Inspected(root / "ledger.db")
    seq, head = journal.last()
    ident = digests.event_id(stored)
    journal.begin()
    journal.insert([(seq + 1, ident, digests.chained(head, ident), kind, stream, 1, key, stored, origin)])
    journal.commit()
    journal.close()


END = b',"cause":null,"key":null,"kind":"test-note-taken@1","stream":"note:%s","version":1}'


UNCANONICAL = {
    "no JSON": b"{no JSON}",
    "no object": b"[]",
    "a byte that is no UTF-8": b'{"a":"\xff"}',
    "a surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "a lone surrogate": b'{"a":"\\ud800"}',
    "a member twice": b'{"a":1,"a":1}',
    "members out of order": b'{"b":1,"a":1}',
    "a space": b'{"a": 1}',
    "a line feed": b'{"a":\n1}',
    "a float": b'{"a":1.5}',
    "a float that is whole": b'{"a":1.0}',
    "an exponent": b'{"a":1e5}',
    "no number": b'{"a":NaN}',
    "a zero with a sign": b'{"a":-0}',
    "a leading zero": b'{"a":01}',
    "an integer above": b'{"a":9007199254740992}',
    "an integer below": b'{"a":[[-9007199254740992]]}',
    "a greater integer": b'{"a":188000000000000000000000000}',
    "a needless escape": b'{"a":"\\u00e9"}',
    "an escape in upper case": b'{"a":"\\u001F"}',
    "an escaped slash": b'{"a":"\\/"}',
    "a control character as it is": b'{"a":"\x01"}',
    "a name that isn't ASCII": '{"a":[{"é":1}]}'.encode(),
    "arrays 5,000 deep": b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "objects 5,000 deep": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "arrays one too deep": b'{"a":' + b"[" * 99 + b"]" * 99 + b"}",
}
CANONICAL = {
    "text and numbers": '{"a":"é\x7f\\b\\u001f\\"","b":[9007199254740991,-9007199254740991,0],"c":{"d":null}}'.encode(),
    "arrays as deep as they may be": b'{"a":' + b"[" * 98 + b"]" * 98 + b"}",
    "the words of a name": b'{"a":"\\"blob\\":\\"b3:' + b"0" * 64 + b'\\""}',
}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("body", UNCANONICAL)
def test_an_event_that_is_not_canonical_is_illegible_although_its_digests_hold(
    root: Path, body: str, *, full: bool
) -> None:
    forged(root, b'{"actor":"t","at":1,"body":' + UNCANONICAL[body] + END % b"z", "test-note-taken@1", "note:z")
    assert [finding[:2] for finding in check(root, full=full)] == [("event-illegible", 10)]


@pytest.mark.parametrize("body", CANONICAL)
def test_whatever_is_canonical_is_legible(root: Path, body: str) -> None:
    forged(root, b'{"actor":"t","at":1,"body":' + CANONICAL[body] + END % b"z", "test-note-taken@1", "note:z")
    assert check(root) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":1', b'"version":1,"version":1'),
        (b'"at":1', b'"at":9007199254740992'),
        (b'"at":1', b'"at":1.0'),
        (b'"at":1', b'"at":true'),
        (b'"actor":"t"', b'"actor":null'),
        (b'"actor":"t"', b'"actor":"t","also":1'),
        (b'"cause":null,', b""),
        (b'"actor"', b' "actor"'),
        (b'"version":1}', b'"version":1}\n'),
        (b'"version":1}', b'"version":1}{}'),
    ],
)
def test_an_event_with_other_members_is_illegible(root: Path, old: bytes, new: bytes) -> None:
    stored = b'{"actor":"t","at":1,"body":{}' + END % b"z"
    forged(root, stored.replace(old, new), "test-note-taken@1", "note:z")
    assert [finding[:2] for finding in check(root, full=False)] == [("event-illegible", 10)]


def test_a_deep_event_is_refused_by_its_name_by_whoever_reads_it() -> None:
    stored = b'{"actor":' + b"[" * 50_000 + b"]" * 50_000 + b',"at":1,"body":{"number":1,"subject":"z"}' + END % b"z"
    record = Recorded((10, b"", b"", "test-note-taken@1", "note:z", 1, None, stored, 1))
    for reading in (lambda: record.event, lambda: record.at):
        with pytest.raises(refusals.JournalDamaged) as caught:
            reading()
        assert "event 10" in caught.value.what


ERASING = b',"cause":null,"key":"%s","kind":"content-erased@1","stream":"contents","version":1}'


@pytest.mark.parametrize("column", ["key = 'b3:x'", "kind = 'x'", "key = NULL", "stream = 'x'"])
def test_a_content_that_was_erased_is_not_missing_when_only_a_column_says_otherwise(root: Path, column: str) -> None:
    name = digests.content_digest(WORDS.encode())
    stored = b'{"actor":"t","at":1,"body":{}' + ERASING % name.encode()
    forged(root, stored, "content-erased@1", "contents", key=name)
    tamper(root, "DELETE FROM blobs")
    assert check(root) == []
    tamper(root, f"UPDATE events SET {column} WHERE seq = 10")
    assert [finding[:2] for finding in check(root)] == [("column-changed", 10)]


def test_a_content_is_missing_when_only_a_column_says_that_it_was_erased(root: Path) -> None:
    name = digests.content_digest(WORDS.encode())
    tamper(root, "DELETE FROM blobs", f"UPDATE events SET kind = 'content-erased@1', key = '{name}' WHERE seq = 9")
    found = [finding[:2] for finding in check(root)]
    assert found == [("content-missing", 5), ("column-changed", 9), ("column-changed", 9)]


def test_what_bytes_say_twice_is_found_where_no_index_sees_it(root: Path) -> None:
    connection = sqlite3.connect(root / "ledger.db")
    (stored,) = connection.execute("SELECT bytes FROM events WHERE seq = 3").fetchone()
    connection.close()
    changed = stored.replace(b'"version":3', b'"version":4').replace(b'"key":"k2"', b'"key":"k3"')
    tamper(root, f"UPDATE events SET bytes = x'{changed.hex()}' WHERE seq = 3")
    assert sorted({finding[:2] for finding in check(root)}) == [
        ("column-changed", 3),
        ("event-changed", 3),
        ("recorded-twice", 4),
        ("version-wrong", 3),
        ("version-wrong", 4),
    ]
    assert [finding.meaning for finding in check(root) if finding.name == "recorded-twice"] == [
        "events 3, 4 have the same version",
        "events 3, 4 have the same key",
    ]


def test_events_that_are_three_times_there_are_found_at_each_later_place(root: Path) -> None:
    tamper(
        root,
        "DROP INDEX events_by_stream",
        "DROP INDEX events_by_key",
        "UPDATE events SET (bytes, id) = (SELECT bytes, id FROM events WHERE seq = 2) WHERE seq IN (3, 4)",
    )
    twice = [finding for finding in check(root) if finding.name == "recorded-twice"]
    assert [finding.seq for finding in twice] == [3, 3, 3, 4, 4, 4]
    assert {finding.meaning for finding in twice} == {
        f"events 2, 3, 4 have the same {what}" for what in ("id", "version", "key")
    }


def test_a_file_that_was_cut_in_half_is_unreadable(root: Path) -> None:
    content = (root / "ledger.db").read_bytes()
    (root / "ledger.db").write_bytes(content[: len(content) // 2])
    assert [finding[:2] for finding in check(root)] == [("unreadable", 0)]
    (root / "snapshots").mkdir()
    result = CliRunner().invoke(command, ["--root", str(root)], standalone_mode=False)
    assert (result.exception, result.return_value) == (None, 1)
    assert result.output.startswith("unreadable 0 SQLite can't read any of the file: ")


def test_the_journal_s_own_name_that_is_gone_is_found_without_any_event(tmp_path: Path) -> None:
    opened(tmp_path / "root").close()
    tamper(tmp_path / "root", "DELETE FROM origins")
    assert [finding[:2] for finding in check(tmp_path / "root")] == [("origin-unknown", 0)]


def test_in_text_a_finding_begins_with_its_name_and_its_event(root: Path) -> None:
    tamper(root, "UPDATE events SET kind = 'x' || char(10) || 'y' WHERE seq = 3")
    printed = CliRunner().invoke(command, ["--root", str(root)], standalone_mode=False).output.splitlines()
    assert [line.split(" ")[:2] for line in printed if not line.startswith("  ")][-1] == ["column-changed", "3"]
    assert len(printed) % 3 == 0


def test_columns_that_quote_their_way_into_the_body_are_found(root: Path) -> None:
    stored = b'{"actor":"t","at":1,"body":{"a":1,"key":null,"kind":"x"}' + END % b"z"
    kind = 'x"},"cause":null,"key":null,"kind":"test-note-taken@1'
    forged(root, stored, kind, "note:z")
    assert stored.endswith(f',"key":null,"kind":"{kind}","stream":"note:z","version":1}}'.encode())
    assert [finding[:2] for finding in check(root, full=False)] == [("column-changed", 10)]


def test_columns_that_hold_what_json_writes_with_escapes_are_compared_as_text(root: Path) -> None:
    stored = b'{"actor":"t","at":1,"body":{}' + END % b"\\\\"
    forged(root, stored, "test-note-taken@1", "note:\\")
    assert check(root, full=False) == []
    tamper(root, "UPDATE events SET stream = 'note:\\\\' WHERE seq = 10")
    assert [finding[:2] for finding in check(root, full=False)] == [("column-changed", 10)]


def test_an_announcement_of_events_that_are_not_there_is_found(root: Path) -> None:
    body = b'{"bundle":"b3:0","origins":[{"events":1,"origin":"test/there"}]}'
    start = b'{"actor":"t","at":1,"body":' + body + b',"cause":null,"key":null,"kind":"bundle-imported@1"'
    forged(root, start + b',"stream":"imports","version":1}', "bundle-imported@1", "imports")
    assert [finding[:2] for finding in check(root)] == [("origin-unannounced", 10)]


def test_imported_events_are_followed_from_one_lot_of_rows_to_the_next(
    joined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent(joined, 7)
    monkeypatch.setattr("ledger.inspecting.ROWS_AT_ONCE", 1)
    assert check(joined) == []
    tamper(joined, "DELETE FROM events WHERE seq = 4")
    assert [finding[:2] for finding in check(joined)] == [("event-missing", 4), ("origin-unannounced", 5)]


def test_an_imported_event_that_an_own_one_follows_is_unannounced_there(
    joined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged(joined, b'{"actor":"t","at":1,"body":{}' + END % b"y", "test-note-taken@1", "note:y", origin=2)
    spent(joined, 7)
    spent(joined, 8)
    monkeypatch.setattr("ledger.inspecting.ROWS_AT_ONCE", 1)
    assert [finding[:2] for finding in check(joined)] == [("origin-unannounced", 7)]


def test_an_end_that_a_scan_does_not_reach_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inspected, "events", lambda _self, _after, _upto: iter(()))
    assert [finding[:2] for finding in check(root, full=False)] == [("event-missing", 1)]
