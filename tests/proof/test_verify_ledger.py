"""The stand-alone verifier: it is small, rests on nothing of the product, and names what is wrong."""

import ast
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3

from tests.proof import mutations
from tests.proof.mutations import STAND_ALONE, Tampering
from tools.make_golden import GOLDEN

FORMAT = STAND_ALONE.parents[1] / "docs" / "format.md"
EVERY = sorted(GOLDEN.glob("*.db"))


def verified(*arguments: object) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, STAND_ALONE, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, [" ".join(line.split(" ", 2)[:2]) for line in done.stdout.splitlines()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copyfile(GOLDEN / "build.db", tmp_path / "ledger.db")
    return tmp_path


def test_it_is_short_and_imports_only_what_python_brings_and_blake3() -> None:
    text = STAND_ALONE.read_text("utf-8")
    assert len(text.splitlines()) < 150
    assert max(map(len, text.splitlines())) <= 120
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"blake3"}


def test_the_declarations_it_knows_are_those_of_the_page() -> None:
    (declared,) = re.findall(r"```sql\n(CREATE.*?)```", FORMAT.read_text("utf-8"), re.DOTALL)
    statements = sorted(re.split(r";\n(?=CREATE|\Z)", declared)[:-1])
    assert blake3(";".join(statements).encode()).hexdigest(16) in STAND_ALONE.read_text("utf-8")


@pytest.mark.parametrize("golden", EVERY, ids=lambda path: path.stem)
def test_every_golden_journal_is_well(golden: Path, tmp_path: Path) -> None:
    shutil.copyfile(golden, tmp_path / "ledger.db")
    assert verified(tmp_path / "ledger.db") == (0, [])


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM events WHERE seq = 7", "event-missing 7"),
        ("UPDATE events SET id = zeroblob(32) WHERE seq = 7", "event-changed 7"),
        ("UPDATE events SET head = zeroblob(32) WHERE seq = 7", "chain-broken 7"),
        ("UPDATE events SET bytes = x'ff' WHERE seq = 7", "event-illegible 7"),
        ("UPDATE events SET kind = 'another@1' WHERE seq = 7", "column-changed 7"),
        ("UPDATE events SET seq = 0 WHERE seq = 7", "event-misplaced 0"),
        ("UPDATE events SET origin = 9 WHERE seq = 7", "origin-unknown 7"),
        ("UPDATE events SET origin = 9 WHERE seq = 7", "origin-unannounced 8"),
        ("INSERT INTO origins VALUES (2, 'example.org')", "origin-unused 0"),
        ("UPDATE blobs SET size = size + 1 WHERE rowid = 1", "content-damaged"),
        ("DELETE FROM blobs WHERE rowid = 1", "content-missing"),
        ("INSERT INTO blobs VALUES (zeroblob(32), 0, 'plain', x'')", "content-unreferred 0"),
        ("CREATE TABLE more (a)", "schema-changed 0"),
        ("PRAGMA application_id = 7", "not-a-journal 0"),
        ("PRAGMA user_version = 2", "journal-too-new 0"),
        ("PRAGMA user_version = 0", "journal-too-old 0"),
        ("DELETE FROM origins", "origin-unknown 0"),
        ("UPDATE events SET seq = -9223372036854775808 WHERE seq = 7", "event-misplaced -9223372036854775808"),
        ("UPDATE events SET seq = -1, kind = 'another@1' WHERE seq = 7", "column-changed -1"),
        ("UPDATE events SET seq = -1, id = zeroblob(32) WHERE seq = 7", "event-changed -1"),
        ("INSERT INTO blobs VALUES (zeroblob(32), 1, 'plain', x'')", "content-damaged 0"),
        ("INSERT INTO blobs VALUES (zeroblob(32), 1, 'plain', x'')", "content-unreferred 0"),
    ],
)
def test_what_is_damaged_is_named(statement: str, expected: str, root: Path) -> None:
    with Tampering(root) as rows:
        rows.execute(statement)
    status, said = verified(root / "ledger.db")
    assert status == 1
    assert any(line.startswith(expected) for line in said), said


def say(root: Path, old: bytes, new: bytes) -> None:
    """Let event 7 say something else, and make ids and heads that fit."""
    with Tampering(root) as rows:
        head = bytes(32)
        for seq, data in rows.execute("SELECT seq, bytes FROM events ORDER BY seq").fetchall():
            assert seq != 7 or old in data
            said = data.replace(old, new, 1) if seq == 7 else data
            made = blake3(b"\0" + said).digest()
            head = blake3(b"\2" + head + made).digest()
            rows.execute("UPDATE events SET bytes = ?, id = ?, head = ? WHERE seq = ?", (said, made, head, seq))


@pytest.mark.parametrize(
    "more",
    [b"1", b"-9007199254740991", b"[" * 98 + b"]" * 98, '"é\\u001f\x7f\\n"'.encode(), b"[true,false,null,{},0]"],
)
def test_what_is_canonical_is_legible(more: bytes, root: Path) -> None:
    say(root, b'"body":{', b'"body":{"0":' + more + b",")
    assert verified(root / "ledger.db") == (0, [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"actor":', b'{ "actor":'),
        (b'{"actor":', b'\xef\xbb\xbf{"actor":'),
        (b'{"actor":"e', b'{"actor":"\\u0065'),
        (b'"body":{', b'"body":{"~":1,'),
        (b'"body":{', b'"body":{"0":1,"0":1,'),
        (b'"body":{', b'"body":{"0":1.5,'),
        (b'"body":{', b'"body":{"0":NaN,'),
        (b'"body":{', b'"body":{"0":-0,'),
        (b'"body":{', b'"body":{"0":9007199254740992,'),
        (b'"body":{', b'"body":{"0":[-9007199254740992],'),
        (b'"body":{', '"body":{"0é":1,'.encode()),
        (b'"body":{', b'"body":{"0":"\\ud800",'),
        (b'"body":{', b'"body":{"0":"\\u00e9",'),
        (b'"body":{', b'"body":{"0":' + b"[" * 99 + b"]" * 99 + b","),
        (b'"body":{', b'"body":{"0":' + b"[" * 98 + b"{}" + b"]" * 98 + b","),
        (b'"body":{', b'"body":{"0":' + b"[" * 99999 + b"]" * 99999 + b","),
    ],
)
def test_what_is_not_canonical_is_illegible(old: bytes, new: bytes, root: Path) -> None:
    say(root, old, new)
    status, said = verified(root / "ledger.db")
    assert status == 1
    assert "event-illegible 7" in said
    assert not {"event-changed 7", "chain-broken 7", "chain-broken 8", "column-changed 7"} & set(said)


def test_what_is_there_twice_is_told_by_the_bytes_for_each_reason(root: Path) -> None:
    with Tampering(root) as rows:
        rows.execute(
            "INSERT INTO events SELECT (SELECT max(seq) + 1 FROM events), id, head, origin, kind, 'another', 1, NULL,"
            " bytes FROM events WHERE seq = 7"
        )
        (last, key) = rows.execute("SELECT max(seq), (SELECT key FROM events WHERE seq = 7) FROM events").fetchone()
    said = verified(root / "ledger.db")[1]
    assert said.count(f"recorded-twice {last}") == (2 if key is None else 3)
    assert {f"chain-broken {last}", f"column-changed {last}", f"version-wrong {last}"} < set(said)


def test_a_column_erases_nothing(root: Path) -> None:
    with Tampering(root) as rows:
        digest = rows.execute("SELECT 'b3:' || lower(hex(digest)) FROM blobs WHERE rowid = 1").fetchone()[0]
        rows.execute("DELETE FROM blobs WHERE rowid = 1")
        rows.execute("UPDATE events SET kind = 'content-erased@1', key = ? WHERE seq = 7", (digest,))
    assert any(line.startswith("content-missing ") for line in verified(root / "ledger.db")[1])


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 200])
def test_another_file_is_no_journal(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(content)
    assert verified(tmp_path / "ledger.db") == (1, ["not-a-journal 0"])


def test_half_a_journal_is_unreadable(root: Path) -> None:
    whole = (root / "ledger.db").read_bytes()
    (root / "ledger.db").write_bytes(whole[: len(whole) // 2])
    assert "unreadable 0" in verified(root / "ledger.db")[1]


def test_checkpoints_that_were_kept_are_compared(root: Path) -> None:
    name, size, digest, _ = mutations.sound(root).kept.text().split("\n")
    well, other, longer, forked = (root / name for name in ("well", "other", "longer", "forked"))
    well.write_text(f"{name}\n{size}\n{digest}\nan extension\n\n— a signature\n", "utf-8")
    other.write_text(f"another\n{size}\n{digest}\n", "utf-8")
    longer.write_text(f"{name}\n{int(size) + 1}\n{digest}\n", "utf-8")
    forked.write_text(f"{name}\n{int(size) - 1}\n{digest}\n", "utf-8")
    assert verified(root / "ledger.db", well) == (0, [])
    told = ["origin-differs 0", "journal-truncated 0", "journal-rewritten 0"]
    assert verified(root / "ledger.db", well, other, longer, forked) == (1, told)


@pytest.mark.parametrize("arguments", [(), ("no-such-file",), (EVERY[0], EVERY[0])])
def test_what_is_asked_wrongly_is_said(arguments: tuple[object, ...]) -> None:
    assert verified(*arguments) == (2, [])


@pytest.mark.parametrize("text", ["", "a\n1\n", "a\n01\n{0}\n", "a\n1\n{0}", "a\n1\n{0}\n\nno signature\n"])
def test_what_is_no_checkpoint_is_no_finding(text: str, root: Path) -> None:
    (root / "kept").write_text(text.format("A" * 43 + "="), "utf-8")
    assert verified(root / "ledger.db", root / "kept") == (2, [])


def test_text_of_a_journal_stays_on_its_line(root: Path) -> None:
    connection = sqlite3.connect(root / "ledger.db")
    connection.execute("INSERT INTO origins VALUES (2, 'a' || char(10) || 'b' || char(27))")
    connection.commit()
    connection.close()
    done = subprocess.run(
        [sys.executable, STAND_ALONE, root / "ledger.db"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "origin-unused 0 a\\nb\\x1b\n"
