"""SQL that only reads, on a database that follows the journal."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import stat
import time
from pathlib import Path

import pytest

from commands.opening import open_journal
from commands.querying import derived
from commands.querying.asking import Query
from commands.querying.printing import MOST_ROWS
from ledger.event import Step
from ledger.families import budget, contents
from tests.commands.cli.test_cat import recorded
from tests.commands.reading import Journey, Said


@pytest.fixture
def said(exp: Said, journey: Journey, tmp_path: Path) -> Said:
    exp.root = journey.copied(tmp_path)
    return exp


def position(said: Said) -> int:
    rows = said.json("query", "SELECT position, (SELECT max(seq) FROM events) AS last FROM journal")["rows"]
    assert rows[0]["position"] == rows[0]["last"]
    return int(rows[0]["position"])


def spend(root: Path, ceiling: int) -> None:
    with open_journal(root, "test", budget.FAMILY) as journal:
        journal.submit(Step(budget.FAMILY, budget.SetBudget(ceiling=ceiling))).result()


def test_it_follows_the_journal_and_appends_only_what_is_new(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    before = position(said)
    monkeypatch.setattr(derived, "make", lambda *_: pytest.fail("it was made anew"))
    assert position(said) == before
    spend(said.root, 5)
    assert position(said) == before + 1
    assert said.json("query", "SELECT max(seq) AS n FROM events")["position"] == before + 1


@pytest.mark.parametrize(
    "how", ["deleted", "damaged", "empty", "another release's", "another journal's", "another past's"]
)
def test_it_is_made_anew_when_it_can_not_be_appended_to(how: str, said: Said) -> None:
    before = position(said)
    path = said.root / "views.db"
    if how == "deleted":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(b"no database at all" * 1000)
    elif how == "empty":
        path.write_bytes(b"")
    else:
        column = {"another release's": "version", "another journal's": "origin", "another past's": "head"}[how]
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM events WHERE seq > 3")
            connection.execute(f"UPDATE journal SET {column} = 'b3:00'")  # noqa: S608 - one of three names
        connection.close()
    spend(said.root, 6)
    assert position(said) == before + 1
    assert said.json("query", "SELECT count(*) AS n FROM events")["rows"] == [{"n": before + 1}]


def test_only_its_owner_can_read_it_and_nothing_else_is_left(said: Said) -> None:
    position(said)
    spend(said.root, 7)
    position(said)
    assert stat.S_IMODE((said.root / "views.db").stat().st_mode) == 0o600
    assert {path.name for path in said.root.glob("views*")} == {"views.db", "views.lock"}


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DELETE FROM events", "DELETE events"),
        ("INSERT INTO journal VALUES (1, 2, 3, 4)", "INSERT journal"),
        ("UPDATE events SET kind = 'x'", "UPDATE events kind"),
        ("CREATE TABLE t (x)", ""),
        ("CREATE TEMP TABLE t (x)", ""),
        ("DROP VIEW calls", ""),
        ("ATTACH 'ledger.db' AS j", "ATTACH"),
        ("ATTACH ':memory:' AS j", "ATTACH"),
        ("DETACH main", "DETACH main"),
        ("PRAGMA journal_mode = DELETE", "PRAGMA journal_mode DELETE"),
        ("PRAGMA query_only = OFF", "PRAGMA query_only OFF"),
        ("PRAGMA writable_schema = ON", "PRAGMA writable_schema ON"),
        ("PRAGMA user_version", "PRAGMA user_version"),
        ("SELECT load_extension('x')", "the function load_extension"),
        ("VACUUM INTO 'stolen.db'", ""),
        ("BEGIN", "TRANSACTION"),
        ("REINDEX", "REINDEX"),
        ("ANALYZE", ""),
    ],
)
def test_whatever_does_more_than_read_is_refused_and_named(
    sql: str, why: str, said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    position(said)
    before = (said.root / "views.db").read_bytes()
    said.text("query", sql, code=110)
    assert why in said.error
    assert "the query can't be answered: it would do more than read" in said.error
    assert (said.root / "views.db").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy"]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT absent FROM calls", "no such column: absent"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("/* silence */", "asks for nothing"),
        ("SELECT zeroblob(1000000000)", "too big"),
        ("SELECT '\x00'", ""),
        ("SELECT " + "'" + "x" * 1_100_000 + "'", "too"),
    ],
)
def test_sql_that_is_wrong_is_refused_by_name(sql: str, says: str, said: Said) -> None:
    said.text("query", sql, code=110)
    assert says in said.error
    assert "Traceback" not in said.error


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"


@pytest.mark.parametrize("what", ["count(*)", "x"])
def test_a_query_ends_in_time(what: str, said: Said) -> None:
    begun = time.monotonic()
    said.text("query", ENDLESS.format(what), "--time-limit", "1", "--csv", code=218)
    assert 0.9 < time.monotonic() - begun < 8
    assert "stopped after 1 seconds" in said.error


def test_a_database_that_was_opened_to_be_read_can_not_be_written_whatever_is_authorized(said: Said) -> None:
    position(said)
    query = Query(said.root / "views.db", lambda _: None, seconds=5)
    query._connection.set_authorizer(None)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        query._connection.execute("DELETE FROM events")
    query.close()


def test_content_is_what_was_recorded_and_null_where_there_is_none(tmp_path: Path, exp: Said) -> None:
    text, binary = recorded(tmp_path, b"caf\xc3\xa9"), recorded(tmp_path, b"\xff\x00")
    gone = recorded(tmp_path, b"gone soon")
    with open_journal(tmp_path, "test", contents.FAMILY) as journal:
        journal.submit(Step(contents.FAMILY, contents.EraseContent(content=gone, reason="asked-for"))).result()
    exp.root = tmp_path
    listed = ", ".join(f"content('{digest}')" for digest in (text, binary, gone, "b3:zz", "x"))
    (row,) = exp.json("query", f"SELECT {listed}, content(NULL), content(7)")["rows"]
    assert list(row.values()) == ["caf\u00e9", {"base64": "/wA="}, None, None, None, None, None]


def test_a_content_that_is_missing_is_refused_by_name(said: Said) -> None:
    said.text("query", f"SELECT content('b3:{'0' * 64}')", code=38)
    assert "missing" in said.error


def test_json_keeps_types_and_every_column(said: Said) -> None:
    sql = "SELECT 1 AS a, 2.5 AS a, NULL AS b, 'x' AS a, x'00ff' AS c, 9e999 AS d, 9007199254740993 AS e"
    assert said.json("query", sql)["rows"] == [
        {"a": 1, "a_2": 2.5, "b": None, "a_3": "x", "c": {"base64": "AP8="}, "d": "inf", "e": 9007199254740993}
    ]
    assert said.json("query", "SELECT 1 WHERE 0")["rows"] == []


def test_csv_can_be_read_again_and_holds_no_formula(said: Said) -> None:
    first = "SELECT 'a,\"b\"' AS x, NULL AS y, '=1+1' AS z"
    second = "SELECT char(27) || '[2Jtwo' || char(10) || 'lines', -5, '@x'"
    sql = f"{first} UNION ALL {second}"
    rows = list(csv.reader(io.StringIO(said.text("query", sql, "--csv"))))
    assert rows == [["x", "y", "z"], ['a,"b"', "", "'=1+1"], ["two\nlines", "-5", "'@x"]]


def test_a_table_has_all_rows_or_is_refused(said: Said) -> None:
    table = said.text("query", "SELECT 7 AS seven, NULL AS none, 'x' AS x, x'0102' AS y").splitlines()
    assert [line.split() for line in table] == [
        ["seven", "none", "x", "y"],
        ["-----", "----", "-", "-------"],
        ["7", "NULL", "x", "x'0102'"],
    ]
    rows = ENDLESS.format("x") + f" LIMIT {MOST_ROWS + 1}"
    said.text("query", rows, code=110)
    assert f"more than {MOST_ROWS} rows" in said.error
    assert len(said.text("query", rows, "--csv").splitlines()) == MOST_ROWS + 2


def test_output_is_a_database_of_its_own_and_never_replaces_one(said: Said, tmp_path: Path) -> None:
    target = tmp_path / "mine.db"
    assert said.text("query", "--output", str(target)) == ""
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with sqlite3.connect(target) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone()[0] > 50
    connection.close()
    before = target.read_bytes()
    said.text("query", "SELECT 1", "--output", str(target), code=219)
    assert target.read_bytes() == before
    said.text("query", "--output", str(tmp_path / "no" / "where.db"), code=219)


def test_the_journal_is_never_opened_by_another_sqlite(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    connect = sqlite3.connect

    def watched(name: object, **more: object) -> sqlite3.Connection:
        opened.append(str(name))
        return connect(name, **more)  # type: ignore[call-overload,no-any-return]  # as it came

    monkeypatch.setattr(sqlite3, "connect", watched)
    position(said)
    assert opened
    assert not [name for name in opened if "ledger.db" in name]


def test_two_processes_bring_it_up_to_date_at_once(said: Said, journey: Journey) -> None:
    import subprocess  # noqa: PLC0415 - here alone
    import sys  # noqa: PLC0415 - as above

    spend(said.root, 8)
    words = [sys.executable, "-m", "commands.main", "query", "SELECT count(*) AS n FROM events", "--json"]
    both = [
        subprocess.Popen([*words, "--root", str(said.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0, 0], outputs
    assert len({json.dumps(json.loads(out)["rows"]) for out, _ in outputs}) == 1
