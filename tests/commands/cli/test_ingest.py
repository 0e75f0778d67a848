"""``exp ingest``: what is read is recorded once, counts once it was read whole, and adds up."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands.ingesting import recording
from commands.ingesting.flags import FORMATS
from commands.ingesting.reading import Reading
from commands.main import run
from ledger.families import ingests, traces
from ledger.families.ingests import ImportCompleted
from ledger.families.traces import InputExcluded, TraceImported
from projections.normal_form.sources import NAMES
from tests.commands.building.roots import built, configured, events, export, ids, opened, spans
from tests.projections.spans_double import lines, session

Captured = pytest.CaptureFixture[str]


def ingest(capsys: Captured, root: Path, *arguments: str | Path) -> tuple[int, dict[str, Any], str]:
    """Run ``exp ingest``; return its exit code, its JSON result and what it said on stderr."""
    capsys.readouterr()
    code = run(["ingest", *map(str, arguments), "--root", str(root), "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else {}, said.err


def content(root: Path) -> list[bytes]:
    """Return every recorded content."""
    with opened(root) as journal:
        found = {digest for record in journal.events() for digest in _named(record.bytes)}
        return [journal.blob(digest) for digest in sorted(found)]


def _named(stored: bytes) -> Iterator[str]:
    from ledger.recorded import references  # noqa: PLC0415 - its only caller

    yield from (found.decode() for found in references(stored))


def test_formats_on_the_command_line_are_those_that_can_be_read() -> None:
    assert FORMATS == NAMES


def test_an_import_says_what_it_read_as_what_and_why_and_adds_up(tmp_path: Path, capsys: Captured) -> None:
    path = export(tmp_path / "x.jsonl")
    with path.open("ab") as file:
        file.write(b'{broken\n"no span"\n')
    code, result, _ = ingest(capsys, tmp_path / "root", path)
    assert code == 0
    (given,) = result["input"]
    assert (given["source"], given["bytes"]) == ("otlp", path.stat().st_size)
    assert "span" in given["why"]
    assert result["units"] == result["used"] + result["excluded-units"] == len(spans()) + 2
    assert result["excluded-units"] == sum(row["units"] for row in result["excluded"]) == 2
    assert (result["traces"], result["traces-new"], result["turns"], result["imported"]) == (30, 30, 60, "now")
    assert sum(row["count"] for row in result["paired"]) == 60
    kinds = events(tmp_path / "root")
    assert (kinds.count(TraceImported.kind), kinds.count(InputExcluded.kind), kinds[-1]) == (
        30,
        2,
        ImportCompleted.kind,
    )
    assert run(["check", "--full", "--root", str(tmp_path / "root")]) == 0


def test_an_import_says_what_it_is_part_of_and_what_comes_next(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", export(tmp_path / "x.jsonl")
    assert "notes" in ingest(capsys, root, path, "--dry-run")[1]
    alone = ingest(capsys, root, path)[1]
    assert alone["project"] == "none"
    assert "--project" in alone["notes"][0]
    part = ingest(capsys, root, path, "--project", "shop")[1]
    assert part["project"] == "shop"
    assert "`exp build shop`" in part["notes"][0]


def test_places_of_a_reason_are_listed_by_number(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", tmp_path / "x.jsonl"
    path.write_bytes(b"".join(lines([{**span, "attributes": []} for span in spans(6)])) + b"{broken\n")
    assert ingest(capsys, root, path, export(tmp_path / "y.jsonl"), "--project", "p")[0] == 0
    assert run(["ingest", "show", "p", "--root", str(root), "--json", "--reason", "span-without-content"]) == 0
    found = [int(row["place"].rpartition(" ")[2]) for row in json.loads(capsys.readouterr().out)["place"]]
    assert len(found) > 9
    assert found == sorted(found)


def test_the_same_again_adds_nothing_wherever_it_is_and_however_packed(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", export(tmp_path / "x.jsonl")
    path.write_bytes(path.read_bytes() + b"{broken\n")
    first = ingest(capsys, root, path, "--project", "p")[1]
    packed = tmp_path / "elsewhere" / "x.jsonl"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for again in (path, packed):
        code, result, _ = ingest(capsys, root, again, "--project", "p")
        assert (code, result["imported"], result["traces-new"]) == (0, "before", 0)
        assert (result["position"], result["head"]) == (first["position"], first["head"])
    other = ingest(capsys, root, path, "--project", "q")[1]
    assert (other["imported"], other["traces-new"], other["position"]) == ("now", 0, first["position"] + 1)


def test_a_grown_file_adds_only_what_is_new_of_it(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", tmp_path / "x.jsonl"
    path.write_bytes(b"{broken\n" + b"".join(lines(spans(4))))
    first = ingest(capsys, root, path, "--project", "p")[1]
    with path.open("ab") as file:
        file.write(b"{also broken\n" + b"".join(lines(spans(6)[len(spans(4)) :])))
    code, grown, _ = ingest(capsys, root, path, "--project", "p")
    assert (code, grown["traces"], grown["traces-new"]) == (0, 6, 2)
    assert grown["position"] == first["position"] + 4  # two traces, a finding, the import
    assert run(["ingest", "show", "p", "--root", str(root), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["units"] for row in shown["import"]] == [first["units"], grown["units"]]
    assert [row["units"] for row in shown["excluded-of"]] == [1, 2]
    assert shown["traces-in-project"] == 6


def test_an_input_that_leaves_out_something_else_is_another_import(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", tmp_path / "x.jsonl"
    for line in (b"{broken", b"{other"):
        path.write_bytes(b"".join(lines(spans(2))) + line + b"\n")
        assert ingest(capsys, root, path, "--project", "p")[1]["imported"] == "now"
    assert run(["ingest", "show", "p", "--root", str(root), "--reason", "not-json", "--json"]) == 0
    assert [row["excerpt"] for row in json.loads(capsys.readouterr().out)["place"]] == ["{broken", "{other"]


def test_a_trace_that_grew_replaces_the_one_of_its_name_in_the_project(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", tmp_path / "x.jsonl"
    whole = session("a" * 32, "Do it", [("one", "1"), ("two", "2")])
    path.write_bytes(b"".join(lines(session("a" * 32, "Do it", [("one", "1")]))))
    ingest(capsys, root, path, "--project", "p")
    path.write_bytes(b"".join(lines(whole)))
    ingest(capsys, root, path, "--project", "p")
    with opened(root) as journal:
        completed = journal.state(ingests.FAMILY).of("p")
        (member,) = ingests.members(journal.blob(one.traces.blob) for one in completed)
        assert len(traces.decoded(journal.blob(member)).turns) == 2
    assert events(root).count(TraceImported.kind) == 2


def test_a_dry_run_says_the_same_and_records_nothing(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", export(tmp_path / "x.jsonl")
    code, dry, _ = ingest(capsys, root, path, "--dry-run")
    assert (code, dry["imported"], root.exists()) == (0, "not yet", False)
    done = ingest(capsys, root, path)[1]
    for said in (dry, done):
        for key in ("notes", "imported", "position", "head", "checkpoint"):
            said.pop(key, None)
    assert dry == done
    before = events(root)
    assert ingest(capsys, root, path, "--dry-run")[1]["traces-new"] == 0
    assert ingest(capsys, root, export(tmp_path / "y.jsonl", 33), "--dry-run")[1]["traces-new"] == 3
    assert events(root) == before


def test_files_directories_and_standard_input_are_read_together(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "exports"
    (folder / "b").mkdir(parents=True)
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(b"".join(lines(spans(9)[-4:])))
    halves = lines(spans(4))
    (folder / "a.jsonl").write_bytes(b"".join(halves[::2]))  # each trace is in both files
    (folder / "b" / "c.jsonl").write_bytes(b"".join(halves[1::2]))
    (folder / ".hidden").write_text("x")
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    root = folder / "ledger"
    configured(root)
    code, result, _ = ingest(capsys, root, folder, folder / "a.jsonl")
    assert code == 0
    assert [one["name"] for one in result["input"]] == ["a.jsonl", "b/c.jsonl"]
    assert {(Path(one["path"]).name, one["why"]) for one in result["skipped"]} == {
        (".hidden", "it is hidden"),
        ("link.jsonl", "it is a link to what is outside"),
        ("folder", "it is a link to a directory"),
        ("pipe", "it is no regular file"),
        ("ledger", "it is a ledger"),
    }
    assert result["traces"] == 4
    whole = ingest(capsys, tmp_path / "other", export(tmp_path / "x.jsonl", 4))[1]
    assert whole["turns"] == result["turns"]
    command = [sys.executable, "-m", "commands.main", "ingest", "-", "--root", str(root), "--json"]
    said = subprocess.run(command, input=b"".join(lines(spans(5))), capture_output=True, check=True, timeout=60)
    assert json.loads(said.stdout)["traces-new"] == 1


def test_a_ledger_is_no_input(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    (tmp_path / "link").symlink_to(root / "ledger.db")
    for path in (root / "ledger.db", tmp_path / "link", root / "ledger.db-wal"):
        assert ingest(capsys, root, path)[0] == 98
    assert run(["check", "--root", str(root)]) == 0


@pytest.mark.parametrize("name", ["show", "export", "files"])
def test_a_file_named_as_a_command_is_given_as_a_path(
    name: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export(tmp_path / name)
    assert ingest(capsys, tmp_path / "root", f"./{name}")[1]["traces"] == 30
    assert ingest(capsys, tmp_path / "root", "files", name)[1]["traces"] == 30


def test_options_may_come_first_and_help_names_the_commands(tmp_path: Path, capsys: Captured) -> None:
    path = export(tmp_path / "x.jsonl")
    assert run(["ingest", "--source", "otlp", "--root", str(tmp_path / "root"), str(path)]) == 0
    capsys.readouterr()
    assert run(["ingest", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("export", "files", "show", "`exp ingest X` is `exp ingest files X`"))
    assert run(["ingest"]) == 2


def test_an_interrupted_import_counts_for_nothing_until_it_was_run_again(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, path = tmp_path / "root", export(tmp_path / "x.jsonl")
    monkeypatch.setattr(recording, "TOGETHER", 5)
    whole = Reading.__iter__

    def interrupted(self: Reading) -> Iterator[Any]:
        for number, one in enumerate(whole(self)):
            if number == 17:
                raise KeyboardInterrupt
            yield one

    with monkeypatch.context() as patched:
        patched.setattr(Reading, "__iter__", interrupted)
        assert ingest(capsys, root, path, "--project", "p")[0] == 130
    kinds = events(root)
    assert ImportCompleted.kind not in kinds
    assert 0 < kinds.count(TraceImported.kind) < 30
    assert run(["ingest", "show", "p", "--root", str(root)]) == 97
    code, result, _ = ingest(capsys, root, path, "--project", "p")
    assert (code, result["imported"], result["traces-new"]) == (0, "now", 30 - kinds.count(TraceImported.kind))
    assert events(root).count(TraceImported.kind) == 30


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_half_imported_and_no_scratch_file(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", export(tmp_path / "x.jsonl", 3_000)
    command = [sys.executable, "-m", "commands.main", "ingest", str(path), "--project", "p", "--root", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not (root / "ledger.db").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    if process.returncode == 130:
        assert b"interrupted" in said
        assert ImportCompleted.kind not in events(root)
    assert run(["check", "--root", str(root)]) == 0
    assert {one.name for one in root.iterdir()} <= {"ledger.db", "ledger.lock", ".gitignore", "locks"}
    assert ingest(capsys, root, path, "--project", "p")[1]["traces"] == 3_000
    assert events(root).count(TraceImported.kind) == 3_000


def test_a_build_without_files_is_made_of_what_was_imported(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    whole = lines(spans(30))
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    half = len(spans(15))
    first.write_bytes(b"".join(whole[:half]))
    second.write_bytes(b"".join(whole[half:]))
    flags = ["build", "shop", "--root", str(root), "--yes", "--json"]
    assert run(flags) == 97
    for path in (first, second):
        assert ingest(capsys, root, path, "--project", "shop")[0] == 0
    capsys.readouterr()
    assert run(flags) == 0
    made = json.loads(capsys.readouterr().out)
    other = built(capsys, configured(tmp_path / "other"), export(tmp_path / "x.jsonl", 30))[1]
    assert ids(made) == ids(other)
    assert made["traces-accepted"] == 30
    assert run([*flags, "--from-gateway", str(first)]) == 2
    position = made["position"]
    assert run(flags) == 0
    assert json.loads(capsys.readouterr().out)["position"] == position


def test_a_build_from_a_file_records_it_as_an_import_of_its_project(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    first = built(capsys, root, export(tmp_path / "x.jsonl"))[1]
    assert run(["ingest", "show", "shop", "--root", str(root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traces-in-project"] == 30
    assert run(["build", "shop", "--root", str(root), "--yes", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (ids(again), again["position"]) == (ids(first), first["position"])


def test_what_is_written_is_read_again_to_the_same_traces(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", export(tmp_path / "x.jsonl")
    ingest(capsys, root, path, "--project", "p")
    ingest(capsys, root, export(tmp_path / "y.jsonl", 35), "--project", "q")
    out = tmp_path / "out.jsonl"
    command = ["ingest", "export", "--root", str(root)]
    assert run([*command, "--project", "p", "--output", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["traces"], said["bytes"]) == (30, out.stat().st_size)
    assert out.stat().st_mode & 0o777 == 0o600
    assert all("resourceSpans" in json.loads(line) for line in out.read_text().splitlines())
    again = ingest(capsys, tmp_path / "again", out, "--project", "p")[1]
    assert again["units"] == again["used"]
    with opened(root) as journal, opened(tmp_path / "again") as other:
        listed = [one.state(ingests.FAMILY).of("p")[0].traces.blob for one in (journal, other)]
        assert listed[0] == listed[1]
    assert run([*command, "--project", "p"]) == 0
    assert capsys.readouterr().out == out.read_text()
    assert run(command) == 0
    assert len(capsys.readouterr().out.splitlines()) == 35
    assert run([*command, "--output", str(out)]) == 200
    assert run([*command, "--output", str(tmp_path / "none" / "x")]) == 200
    assert run([*command, "--json"]) == 2
    assert run([*command, "--project", "nothing"]) == 97
    assert {one.name for one in tmp_path.iterdir()} == {"root", "again", "x.jsonl", "y.jsonl", "out.jsonl"}


SECRETS = {
    "email": ("bob@example.com", "bob\\u0040example.com"),
    "card": ("4111 1111 1111 1111",),
    "phone": ("+1 555 010 9999",),
    "api-key": ("sk-abcdefghijklmnopqrstuvwx",),
    "customer": ("CUST-123456",),
}


def with_secrets(path: Path) -> Path:
    """Write an export that holds each secret in a task, an argument, a result, a name and an attribute."""
    everything = " and ".join(value for values in SECRETS.values() for value in values if "\\" not in value)
    made = session("b" * 32, f"Write to {everything}", [(f"echo {everything}", everything)])
    inner = json.dumps({"to": json.dumps({"cc": everything})}).replace("@", "\\u0040")
    made += session("c" * 32, "Nested", [(inner, inner)], topic=everything[:60])
    for one in made:
        one["attributes"].append({"key": "bob@example.com", "value": {"stringValue": everything[:70]}})
    path.write_bytes(b"".join(lines(made)) + b'{"broken ' + everything.encode() + b"\n")
    return path


def test_nothing_that_is_to_be_left_out_is_recorded_anywhere(tmp_path: Path, capsys: Captured) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "customer"\nregex = "CUST-[0-9]{6}"\n')
    path = with_secrets(tmp_path / "bob@example.com.jsonl")
    root = tmp_path / "root"
    code, result, _ = ingest(capsys, root, path, "--project", "p", "--redact", "all", "--redact-rules", rules)
    assert code == 0
    counted = {row["detector"]: row["count"] for row in result["redacted"]}
    assert set(counted) == set(SECRETS)
    assert result["redactions"] == sum(counted.values())
    for held in [*content(root), (root / "ledger.db").read_bytes()]:
        for values in SECRETS.values():
            assert not [value for value in values if value.encode() in held]
    assert run(["ingest", "show", "p", "--root", str(root), "--json", "--reason", "not-json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {row["detector"]: row["count"] for row in shown["redacted"]} == counted
    assert "[email:" in shown["place"][0]["excerpt"]
    assert shown["import"][0]["redacting"].endswith("customer")


def test_numbers_in_arguments_are_left_out_and_json_stays_json(tmp_path: Path, capsys: Captured) -> None:
    card, root = 4111111111111111, tmp_path / "root"
    function = {"name": "pay", "arguments": {"card": card, "who": "bob@example.com"}}
    said = [
        {"role": "user", "content": "Pay"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"paid": card})},
    ]
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"messages": said, "metadata": {"bob@example.com": card}}) + "\n")
    code, result, _ = ingest(capsys, root, path, "--project", "p", "--redact", "card,email")
    assert (code, result["traces"]) == (0, 1)
    assert not [held for held in content(root) if str(card).encode() in held or b"bob@" in held]
    with opened(root) as journal:
        (one,) = journal.events(TraceImported)
        assert isinstance(one.event, TraceImported)
        (turn,) = traces.decoded(journal.blob(one.event.trace)).turns
    assert json.loads(turn.arguments)["card"] == json.loads(turn.observation)["paid"]


def test_equal_values_stay_equal_within_a_ledger_and_not_across_ledgers(tmp_path: Path, capsys: Captured) -> None:
    path = with_secrets(tmp_path / "x.jsonl")

    def marks(root: Path) -> set[bytes]:
        ingest(capsys, root, path, "--redact", "email")
        return {part[:19] for held in content(root) for part in held.split(b"[")[1:] if part.startswith(b"email:")}

    first = marks(tmp_path / "a")
    assert len(first) == 1
    assert not first & marks(tmp_path / "b")


def test_what_is_left_out_decides_which_import_it_is(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", with_secrets(tmp_path / "x.jsonl")
    positions = []
    for flags in ([], ["--redact", "none"], ["--redact", "keys"], ["--redact", "email,phone"], []):
        code, result, _ = ingest(capsys, root, path, "--project", "p", *flags)
        assert code == 0
        positions.append(result["position"])
    assert positions[0] < positions[1] < positions[2] < positions[3] == positions[4]
    assert ingest(capsys, root, path, "--redact", "passports")[0] == 95
    assert ingest(capsys, root, path, "--redact-rules", tmp_path / "none")[0] == 96


def test_a_build_leaves_out_what_it_is_asked_to(tmp_path: Path, capsys: Captured) -> None:
    root, path = configured(tmp_path / "root"), export(tmp_path / "x.jsonl")
    path.write_bytes(path.read_bytes().replace(b"in folder", b"for bob@example.com in folder"))
    code, result, _ = built(capsys, root, path, "--redact", "email")
    assert (code, result["redactions"] > 0) == (0, True)
    assert [row["detector"] for row in result["redacted"]] == ["email"]
    assert not [held for held in content(root) if b"bob@example.com" in held]


def test_show_lists_the_places_of_a_reason_without_terminal_controls(tmp_path: Path, capsys: Captured) -> None:
    root, path = tmp_path / "root", tmp_path / "x.jsonl"
    path.write_bytes(b"".join(lines(spans(2))) + b"{\x1b[31mred\n")
    ingest(capsys, root, path, "--project", "p")
    assert run(["ingest", "show", "p", "--root", str(root), "--reason", "not-json"]) == 0
    said = capsys.readouterr().out
    assert "place:" in said
    assert "red" in said
    assert "\x1b" not in said
    assert run(["ingest", "show", "other", "--root", str(root)]) == 97
    assert run(["ingest", "show", "p", "--root", str(tmp_path / "none")]) == 30


def test_rollouts_of_one_declared_task_are_on_one_side(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    made = spans(30)
    for one in made:
        number = int(one["traceId"], 16)
        if number % 3 == 0:
            one["attributes"].append({"key": "gen_ai.conversation.id", "value": {"stringValue": f"c{number % 2}"}})
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(lines(made)))
    code, result, _ = built(capsys, root, path)
    assert code == 0
    assert result["lineages-joined"] == [{"by": "conversation", "count": 2}]
    assert "one task or one conversation" in result["rule"]
    assert result["lineage-groups"] == 30 - 10 + 2
