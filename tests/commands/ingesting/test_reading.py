"""Reading inputs: any size and compression, bounded memory, nothing left behind, and totals that add up."""

from __future__ import annotations

import contextlib
import gc
import gzip
import io
import json
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from commands.ingesting import reading, spool
from commands.ingesting.reading import ExportUnreadable, Input, InputExpands, Reading, inputs
from ledger import digests
from ledger.families.traces import Exclusion, Trace
from projections.normal_form import lines as normal_lines
from projections.normal_form.sources import NothingRecognised, SeveralRecognised
from tests.projections.spans_double import Span, attributes, lines, session

TWO = session("aaaa", "Say hi", [("echo hi", "hi\n"), ("true", "")])
OTHER = session("bbbb", "Count", [("wc -l f", "3 f\n")])


def keep(text: str) -> tuple[str, int]:
    return text, 0


def of_bytes(*contents: bytes, **options: Any) -> tuple[list[Trace], list[Exclusion], Reading]:
    given_inputs = [Input(f"in{number}", partial(io.BytesIO, content)) for number, content in enumerate(contents)]
    return of(Reading(given_inputs, keep, **options))


def of(one: Reading) -> tuple[list[Trace], list[Exclusion], Reading]:
    found = list(one)
    totals = one.totals
    assert totals.units == totals.used + totals.excluded
    assert totals.excluded == sum(one.units for one in found if isinstance(one, Exclusion))
    assert totals.excluded == totals.reasons.total()
    return (
        sorted((one for one in found if isinstance(one, Trace)), key=lambda trace: trace.name),
        [one for one in found if isinstance(one, Exclusion)],
        one,
    )


def envelope(spans: list[Span]) -> dict[str, Any]:
    return {
        "resourceSpans": [
            {"resource": {"attributes": attributes({"team": "search"})}, "scopeSpans": [{"spans": spans}]}
        ]
    }


def as_protobuf(spans: list[Span]) -> bytes:
    named = [
        {
            **span,
            "traceId": (span["traceId"] * 8)[:32],
            "spanId": f"{number + 1:016x}",
            "startTimeUnixNano": str(span["startTimeUnixNano"]),
            "endTimeUnixNano": str(span["endTimeUnixNano"]),
        }
        for number, span in enumerate(spans)
    ]
    json_text = envelope(named)
    data: bytes = json_format.ParseDict(json_text, ExportTraceServiceRequest()).SerializeToString()
    return data


PLAIN = b"".join(lines([*TWO, *OTHER]))


def test_the_source_is_found_and_said_why_and_every_unit_is_used() -> None:
    traces, exclusions, read = of_bytes(PLAIN)
    assert [trace.name for trace in traces] == ["aaaa", "bbbb"]
    assert exclusions == []
    assert (read.found[0].source, read.found[0].why) == ("otlp", "it is a span with a trace id and startTimeUnixNano")
    assert (read.totals.units, read.totals.used, read.totals.traces, read.totals.turns) == (6, 6, 2, 3)
    assert read.totals.paired == {"order": 3}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_compression_is_seen_in_the_first_bytes_also_twice_and_digests_are_of_plain_bytes(pack: Any) -> None:
    plain = of_bytes(PLAIN)
    for packed in (pack(PLAIN), gzip.compress(pack(PLAIN)), pack(PLAIN[:200]) + pack(PLAIN[200:])):
        traces, _, read = of_bytes(packed)
        assert traces == plain[0]
        assert (read.digest, read.found[0].size) == (plain[2].digest, len(PLAIN))
    with pytest.raises(ExportUnreadable, match="more than twice"):
        of_bytes(gzip.compress(gzip.compress(pack(PLAIN))))
    with pytest.raises(ExportUnreadable, match="compression is broken"):
        of_bytes(pack(PLAIN)[:-20])


def test_an_archive_is_refused_by_name() -> None:
    with pytest.raises(ExportUnreadable, match="zip archive"):
        of_bytes(b"PK\x03\x04" + bytes(60))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_what_expands_beyond_what_exports_do_is_refused(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(reading, "BUFFER_BYTES", 1 << 12)
    bomb = pack(pack(b" " * (8 << 20)))
    with pytest.raises(InputExpands, match="nothing was recorded"):
        of_bytes(bomb)
    monkeypatch.setattr(reading, "FREE_BYTES", 1 << 30)
    assert of_bytes(bomb)[0] == []


def test_protobuf_is_read_as_one_message_and_as_many_with_lengths() -> None:
    data = as_protobuf([*TWO, *OTHER])
    size = len(data)
    varint = bytes([size & 0x7F | 0x80, size >> 7]) if size >= 128 else bytes([size])  # below 16 KiB
    expected = of_bytes(data)
    assert [len(trace.turns) for trace in expected[0]] == [2, 1]
    assert ("team", "search") in expected[0][0].attributes
    assert expected[2].found[0].why == "it is OTLP protobuf"
    for framed in (varint + data, size.to_bytes(4, "big") + data, gzip.compress(data)):
        assert of_bytes(framed)[0] == expected[0]
    twice = (size.to_bytes(4, "big") + data) * 2
    traces, exclusions, read = of_bytes(twice)
    assert traces == expected[0]
    assert read.totals.duplicate == 2
    assert {one.reason for one in exclusions} == {"trace-repeated"}


def test_broken_protobuf_is_a_finding_with_its_byte() -> None:
    data = as_protobuf(TWO)
    traces, exclusions, _ = of_bytes(data[:-7])
    assert (traces, [one.reason for one in exclusions]) == ([], ["protobuf-broken"])
    assert exclusions[0].place.startswith("byte ")
    damaged = bytearray(data)
    damaged[20] ^= 0xFF
    assert of_bytes(bytes(damaged))[2].totals.units >= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_no_damage_to_protobuf_stops_the_reading(place: int, damage: bytes) -> None:
    data = bytearray(as_protobuf(TWO))
    data[place : place + len(damage)] = damage
    with contextlib.suppress(NothingRecognised):
        of_bytes(bytes(data))


def test_a_source_that_is_named_is_taken_and_dialects_that_are_not_its_own_are_left_out() -> None:
    traces, _, read = of_bytes(PLAIN, source_name="otel-genai")
    assert (len(traces), read.found[0].why) == (2, "it was named")
    traces, exclusions, read = of_bytes(PLAIN, source_name="openinference")
    assert traces == []
    assert {one.reason for one in exclusions} == {"other-dialect"}
    assert (read.totals.units, read.totals.excluded) == (6, 6)


def test_nothing_is_guessed() -> None:
    with pytest.raises(NothingRecognised):
        of_bytes(b'{"some": "thing"}\n')
    chat = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    with pytest.raises(SeveralRecognised, match="as otlp or as chat-json"):
        of_bytes(b"".join(lines([envelope(TWO), chat])))
    traces, exclusions, read = of_bytes(b"")
    assert (traces, exclusions, read.found[0].source) == ([], [], "")
    assert [one.reason for one in of_bytes(b"?\n?\n")[1]] == ["not-json", "not-json"]


def test_a_trace_over_several_inputs_is_one_and_places_name_the_input() -> None:
    first, second = b"".join(lines(TWO[:2])), b"".join([*lines(TWO[2:]), b"?\n"])
    traces, exclusions, read = of_bytes(first, second)
    assert traces == of_bytes(b"".join(lines(TWO)))[0]
    assert [one.place for one in exclusions] == ["in1: line 3"]
    assert read.digest not in {one.digest for one in read.found}
    assert of_bytes(second, first)[2].digest == read.digest


def test_inputs_of_one_name_and_content_add_up() -> None:
    content = PLAIN + b"?\n" + lines([{**TWO[0], "traceId": "only", "attributes": []}])[0]
    found, _, read = of(Reading([Input("x", partial(io.BytesIO, content))] * 2, keep))
    assert (len(found), read.totals.units, read.totals.excluded) == (2, 16, 4)


def test_lines_that_are_too_long_are_named_and_the_others_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal_lines, "LINE_BYTES", 1 << 12)
    long = b'{"traceId": "' + b"x" * 20_000 + b'"}\n'
    traces, exclusions, _ = of_bytes(b"".join([*lines(TWO), long, *lines(OTHER)]))
    assert len(traces) == 2
    assert [(one.place, one.reason, one.units) for one in exclusions] == [("line 5", "line-too-long", 1)]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_larger_than_is_held_is_taken_apart(indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal_lines, "LINE_BYTES", 1 << 12)
    monkeypatch.setattr(normal_lines, "WHOLE_FILE_BYTES", 1 << 12)
    many = [span for number in range(40) for span in session(f"{number:04x}a", "Say", [("echo", "hi")])]
    whole = of_bytes(b"".join(json.dumps(envelope([one])).encode() + b"\n" for one in many))
    for document in (envelope(many), [envelope([one]) for one in many]):
        traces, exclusions, read = of_bytes(json.dumps(document, indent=indent).encode())
        assert exclusions == []
        assert traces == whole[0]
        assert ("team", "search") in traces[0].attributes
        assert read.totals.units == 80
    cut = json.dumps(envelope(many), indent=indent).encode()[:-40]
    traces, exclusions, _ = of_bytes(cut)
    assert len(traces) > 35
    assert "not-json" in {one.reason for one in exclusions}


def test_a_part_larger_or_deeper_than_is_held_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal_lines, "LINE_BYTES", 1 << 12)
    large = {**TWO[0], "name": ["x"] * 4_000}
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    odd = {"resourceSpans": [3, {"scopeSpans": [7, {"spans": [large, {**TWO[0], "name": deep}, *TWO]}]}]}
    traces, exclusions, read = of_bytes(json.dumps(odd).encode())
    assert len(traces) == 1
    found = sorted(one.reason for one in exclusions)
    assert found == ["nested-too-deeply", "not-a-span", "value-too-large"]
    assert (read.totals.units, read.totals.excluded) == (8, 4)


def test_the_order_and_the_traces_are_the_same_in_memory_and_in_a_scratch_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [span for number in range(60) for span in session(f"{number + 1:032x}", "Say", [("echo", str(number))])]
    content = b"".join(lines(many[::-1]))
    in_memory = list(Reading([Input("a", lambda: io.BytesIO(content))], keep, scratch=tmp_path))
    monkeypatch.setattr(spool, "HELD_BYTES", 4_000)
    made: list[Any] = []
    real = tempfile.TemporaryFile

    def watched(**given: Any) -> Any:
        made.append(real(**given))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    spooled = Reading([Input("a", lambda: io.BytesIO(content))], keep, scratch=tmp_path)
    assert list(spooled) == in_memory
    assert (spooled.totals.units, spooled.totals.used, spooled.totals.duplicate) == (120, 120, 0)
    assert len(made) == 1
    assert made[0].closed
    monkeypatch.setattr(spool, "TOGETHER_BYTES", 600)
    again = list(Reading([Input("a", lambda: io.BytesIO(content))], keep, scratch=tmp_path))
    assert sorted(map(str, again)) == sorted(map(str, in_memory))
    assert list(tmp_path.iterdir()) == []


def test_the_scratch_file_has_no_name_and_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", 1)
    read = iter(Reading([Input("a", lambda: io.BytesIO(PLAIN))], keep, scratch=tmp_path))
    next(read)
    files = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    (scratch,) = [one for one in files if str(tmp_path) in str(one.readlink())]
    assert scratch.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    read.close()  # type: ignore[attr-defined] # a generator, as an interrupted reader leaves it
    assert not scratch.is_symlink() or str(tmp_path) not in str(scratch.readlink())


def test_progress_adds_up_to_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(PLAIN))
    seen: list[int] = []
    list(Reading(inputs([path]), keep, progress=seen.append))
    assert sum(seen) == path.stat().st_size == inputs([path])[0].size


def test_directories_are_walked_in_order_and_links_do_not_lead_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "b").mkdir(parents=True)
    outside.mkdir()
    for path in (root / "b" / "2.jsonl", root / "a.jsonl", outside / "x.jsonl", root / ".hidden"):
        path.write_bytes(b"")
    (root / "c.jsonl").symlink_to(outside / "x.jsonl")
    (root / "d.jsonl").symlink_to(root / "a.jsonl")
    (root / "e").symlink_to(outside)
    os.mkfifo(root / "pipe")
    assert [one.name for one in inputs([root])] == ["a.jsonl", "b/2.jsonl"]
    (named,) = inputs([root / "c.jsonl"])
    with named.open() as file:
        assert file.read() == b""


@pytest.mark.parametrize("path", ["/dev/zero", "missing", "with\0nul"])
def test_what_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(ExportUnreadable):
        list(Reading(inputs([path]), keep))


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExportUnreadable, match="no regular file"):
        list(Reading(inputs([tmp_path / "pipe"]), keep))


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PLAIN)))
    assert len(of(Reading(inputs(["-"]), keep))[0]) == 2


hostile = st.lists(
    st.sampled_from([*lines(TWO), *lines(OTHER), b"?\n", b"\n", b"[[[[\n", b"\xff\xfe\n", b"\x00\n", b'"a"\n', b"{}\n"])
    | st.binary(max_size=30),
    max_size=12,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hostile)
def test_totals_add_up_whatever_is_read(pieces: list[bytes]) -> None:
    try:
        of_bytes(b"".join([*lines(TWO), *pieces]))
    except (ExportUnreadable, NothingRecognised, SeveralRecognised):
        return


@pytest.fixture(autouse=True)
def _no_scratch_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert not list(tmp_path.glob("tmp*"))


def test_empty_lines_are_counted_however_many_there_are() -> None:
    first, *rest = PLAIN.splitlines(keepends=True)
    content = b"\n" * 70_000 + first + b"\n" * 65 + b"{\n" + b"\n" * 3_000_000 + b"".join(rest) + b"no\n"
    traces, exclusions, one = of_bytes(content)
    assert traces == of_bytes(PLAIN)[0]
    places = [70_000 + 1 + 65 + 1, 70_000 + 1 + 65 + 1 + 3_000_000 + len(rest) + 1]
    assert [(found.place, found.reason) for found in exclusions] == [(f"line {at}", "not-json") for at in places]
    assert one.found[0].size == len(content)
    assert one.digest == digests.content_digest(content)


def test_collecting_cycles_is_as_before_once_a_reading_ends_or_is_left() -> None:
    before = gc.get_threshold()
    of_bytes(PLAIN)
    assert gc.get_threshold() == before
    left = iter(Reading([Input("in", partial(io.BytesIO, PLAIN))], keep))
    next(left)
    assert gc.get_threshold() != before
    left.close()  # type: ignore[attr-defined] # it is a generator
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
