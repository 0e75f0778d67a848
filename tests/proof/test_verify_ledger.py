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
    return done.returncode, [line.partition(": ")[0] for line in done.stdout.splitlines()]


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
        ("DELETE FROM events WHERE seq = 7", "event-missing event 7"),
        ("UPDATE events SET id = zeroblob(32) WHERE seq = 7", "event-changed event 7"),
        ("UPDATE events SET head = zeroblob(32) WHERE seq = 7", "chain-broken event 7"),
        ("UPDATE events SET bytes = x'ff' WHERE seq = 7", "event-illegible event 7"),
        ("UPDATE events SET kind = 'another@1' WHERE seq = 7", "column-changed event 7"),
        ("UPDATE events SET seq = 0 WHERE seq = 7", "event-misplaced event 0"),
        ("UPDATE events SET origin = 9 WHERE seq = 7", "origin-unknown event 7"),
        ("UPDATE events SET origin = 9 WHERE seq = 7", "origin-unannounced event 8"),
        ("INSERT INTO origins VALUES (2, 'example.org')", "origin-unused event 0"),
        ("UPDATE blobs SET size = size + 1 WHERE rowid = 1", "content-damaged event"),
        ("DELETE FROM blobs WHERE rowid = 1", "content-missing event"),
        ("INSERT INTO blobs VALUES (zeroblob(32), 0, 'plain', x'')", "content-unreferred event 0"),
        ("CREATE TABLE more (a)", "schema-changed event 0"),
        ("PRAGMA application_id = 7", "not-a-journal event 0"),
        ("PRAGMA user_version = 2", "journal-too-new event 0"),
    ],
)
def test_what_is_damaged_is_named(statement: str, expected: str, root: Path) -> None:
    with Tampering(root) as rows:
        rows.execute(statement)
    status, said = verified(root / "ledger.db")
    assert status == 1
    assert any(line.startswith(expected) for line in said), said


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 200])
def test_another_file_is_no_journal(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(content)
    assert verified(tmp_path / "ledger.db") == (1, ["not-a-journal event 0"])


def test_half_a_journal_is_unreadable(root: Path) -> None:
    whole = (root / "ledger.db").read_bytes()
    (root / "ledger.db").write_bytes(whole[: len(whole) // 2])
    assert "unreadable event 0" in verified(root / "ledger.db")[1]


def test_checkpoints_that_were_kept_are_compared(root: Path) -> None:
    name, size, digest, _ = mutations.sound(root).kept.text().split("\n")
    well, other, longer, forked = (root / name for name in ("well", "other", "longer", "forked"))
    well.write_text(f"{name}\n{size}\n{digest}\nan extension\n\n— a signature\n", "utf-8")
    other.write_text(f"another\n{size}\n{digest}\n", "utf-8")
    longer.write_text(f"{name}\n{int(size) + 1}\n{digest}\n", "utf-8")
    forked.write_text(f"{name}\n{int(size) - 1}\n{digest}\n", "utf-8")
    assert verified(root / "ledger.db", well) == (0, [])
    told = ["origin-differs event 0", "journal-truncated event 0", "journal-rewritten event 0"]
    assert verified(root / "ledger.db", well, other, longer, forked) == (1, told)


@pytest.mark.parametrize("arguments", [(), ("no-such-file",), (EVERY[0], EVERY[0])])
def test_what_is_asked_wrongly_is_said(arguments: tuple[object, ...]) -> None:
    assert verified(*arguments) == (2, [])


def test_text_of_a_journal_stays_on_its_line(root: Path) -> None:
    connection = sqlite3.connect(root / "ledger.db")
    connection.execute("INSERT INTO origins VALUES (2, 'a' || char(10) || 'b' || char(27))")
    connection.commit()
    connection.close()
    done = subprocess.run(
        [sys.executable, STAND_ALONE, root / "ledger.db"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "origin-unused event 0: a\\nb\\x1b\n"
