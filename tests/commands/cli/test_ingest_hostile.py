"""Hostile input through the command line: refused by name or recorded with its reason, never a crash."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from commands.main import run
from projections.normal_form import lines as reading_lines
from tests.projections.spans_double import lines, session

Captured = pytest.CaptureFixture[str]
GOOD = session("a" * 32, "Do it", [("one", "1"), ("two", "2")])
BIG = "9" * 4_000


def ingest(capsys: Captured, root: Path, path: Path, *flags: str) -> tuple[int, dict[str, Any], str]:
    capsys.readouterr()
    code = run(["ingest", str(path), "--project", "p", "--root", str(root), "--json", *flags])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else {}, said.err


def given(path: Path, *more: bytes) -> Path:
    path.write_bytes(b"".join(lines(GOOD)) + b"".join(line + b"\n" for line in more))
    return path


def like(**changes: object) -> bytes:
    return json.dumps({**GOOD[0], "traceId": "b" * 32, **changes}).encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested-too-deeply"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nested-too-deeply"),
        (b"{broken", "not-json"),
        (b"\x00\x00", "not-json"),
        (b'"text"', "not-a-span"),
        (b"\xff\xfe{}", None),
        (b"NaN", None),
        (b'{"traceId": "d", "spanId": ' + b"9" * 9_000 + b"}", None),  # more digits than Python reads
        (b'{"traceId": NaN, "spanId": Infinity, "startTimeUnixNano": -Infinity}', None),
    ],
)
def test_a_line_that_is_no_span_is_recorded_with_its_reason(
    line: bytes, reason: str | None, tmp_path: Path, capsys: Captured
) -> None:
    code, result, _ = ingest(capsys, tmp_path / "root", given(tmp_path / "x.jsonl", line))
    assert code == 0
    assert (result["traces"], result["units"]) == (1, len(GOOD) + 1)
    assert result["units"] == result["used"] + result["excluded-units"]
    if reason is not None:
        assert reason in {row["reason"] for row in result["excluded"]}
    assert run(["ingest", "show", "p", "--root", str(tmp_path / "root"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["units"], shown["used"]) == (result["units"], result["used"])
    assert shown.get("excluded") == result.get("excluded")


@pytest.mark.parametrize(
    "line",
    [
        like(startTimeUnixNano=int(BIG), endTimeUnixNano=BIG),
        like(startTimeUnixNano=1e308, endTimeUnixNano=-(10**40)),
        like(startTimeUnixNano=True, endTimeUnixNano=[], name={"a": 1}),
        like(spanId="\ud800", name="\udfff lone"),
        like(name="nul \x00 and \x1b[31m", spanId="\x00"),
        like(parentSpanId=GOOD[0]["spanId"], spanId=GOOD[0]["spanId"]),
        like(attributes=[{"key": "gen_ai.usage.input_tokens", "value": {"intValue": BIG}}]),
        like(attributes=[{"key": "gen_ai.prompt", "value": {"arrayValue": {"values": [None, 1, {}]}}}]),
        like(attributes={"gen_ai.prompt": ["x", {"role": 7}], "gen_ai.tool.name": 7}),
        like(events=[1, None, {"name": 3, "attributes": 4}], status=[], attributes=7),
    ],
)
def test_a_span_with_odd_values_is_read_or_recorded(line: bytes, tmp_path: Path, capsys: Captured) -> None:
    code, result, _ = ingest(capsys, tmp_path / "root", given(tmp_path / "x.jsonl", line))
    assert code == 0
    assert result["units"] == len(GOOD) + 1 == result["used"] + result["excluded-units"]
    assert result["traces"] >= 1
    assert run(["ingest", "export", "--root", str(tmp_path / "root")]) == 0
    assert run(["check", "--full", "--root", str(tmp_path / "root")]) == 0


def test_parents_in_a_circle_and_ids_with_two_contents_are_both_kept(tmp_path: Path, capsys: Captured) -> None:
    one, other, *rest = session("c" * 32, "Circle", [("one", "1"), ("two", "2")])
    one["parentSpanId"], other["parentSpanId"] = other["spanId"], one["spanId"]
    twice = {**rest[-1], "name": "another content"}
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(lines([one, other, *rest, twice])))
    code, result, _ = ingest(capsys, tmp_path / "root", path)
    assert (code, result["traces"], result["units"]) == (0, 1, 5)
    found = {row["reason"] for row in (*result.get("finding", ()), *result.get("excluded", ()))}
    assert "span-id-reused" in found


def test_a_line_that_is_too_long_is_passed_over(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_lines, "LINE_BYTES", 4_096)
    long = like(name="x" * 10_000)
    code, result, _ = ingest(capsys, tmp_path / "root", given(tmp_path / "x.jsonl", long))
    assert (code, result["traces"]) == (0, 1)
    assert result["units"] == result["used"] + result["excluded-units"]
    assert "line-too-long" in {row["reason"] for row in result["excluded"]}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (gzip.compress(b"x" * (300 << 20), 9, mtime=0), 94),
        (gzip.compress(b"x" * 100_000, mtime=0)[:-40], 41),
        (gzip.compress(gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), mtime=0), 41),
        (b"\x28\xb5\x2f\xfd broken", 41),
        (b"PK\x03\x04 archive", 41),
        (b"\0" * 257 + b"ustar\x0000" + b'\n{"resourceSpans": []}', 41),
        ('{"resourceSpans": []}'.encode("utf-16"), 41),
        ('{"resourceSpans": []}'.encode("utf-16-le"), 41),
        ('{"resourceSpans": []}'.encode("utf-32-be"), 41),
        (b'{"unknown": "structure"}\n', 92),
    ],
    ids=["bomb", "cut off", "three layers", "broken zstd", "zip", "tar", "UTF-16", "no mark", "UTF-32", "unknown"],
)
def test_an_input_that_cannot_be_read_is_refused_by_name_and_records_nothing(
    content: bytes, code: int, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    found, _, err = ingest(capsys, tmp_path / "root", path)
    assert found == code
    assert json.loads(err)["error"]["where"].startswith(str(path))
    assert run(["ingest", "show", "p", "--root", str(tmp_path / "root")]) == 97


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, capsys: Captured) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "none", tmp_path / "loop", Path("a\0b")):
        assert ingest(capsys, tmp_path / "root", path)[0] == 41


def test_a_link_that_is_named_is_followed(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "link").symlink_to(given(tmp_path / "x.jsonl"))
    assert ingest(capsys, tmp_path / "root", tmp_path / "link")[1]["traces"] == 1


def test_an_empty_input_gives_nothing_and_says_so(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    code, result, _ = ingest(capsys, tmp_path / "root", path)
    assert (code, result["units"], result["traces"], result["input"][0]["source"]) == (0, 0, 0, "none")
    assert ingest(capsys, tmp_path / "root", path)[1]["imported"] == "before"
    assert run(["ingest", "show", "p", "--root", str(tmp_path / "root")]) == 0
