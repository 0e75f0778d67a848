"""``exp build``: the same export gives the same ids wherever and whenever it is read, and pays for nothing twice."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import building
from commands.ingesting.asked import Wanted, read
from commands.main import run
from commands.perform.asking import Asking
from commands.perform.calling import Run
from commands.perform.live import Live
from commands.readings import read_build
from ledger.families import providers, traces
from ledger.families.calls import TextEmbedded
from ledger.families.traces import TraceImported
from ledger.redaction import Redactor
from tests.commands.building.roots import built, configured, events, export, ids, opened, spans
from tests.projections.spans_double import lines

Captured = pytest.CaptureFixture[str]


def test_a_build_says_what_was_read_how_it_is_split_what_it_cost_and_where_it_is(
    tmp_path: Path, capsys: Captured
) -> None:
    root = configured(tmp_path / "root")
    assert run(["build", "shop", str(export(tmp_path / "x.jsonl")), "--source", "otlp", "--root", str(root)]) == 0
    said = capsys.readouterr().out
    lines_said = dict(line.split(": ", 1) for line in said.splitlines())
    for key in ("serving-rag", "fit-rag", "world-model", "build"):
        assert re.fullmatch(r"[A-Za-z0-9_-]+", lines_said[key])
    assert (lines_said["traces-accepted"], lines_said["traces-refused"], lines_said["traces-duplicate"]) == (
        "30",
        "0",
        "0",
    )
    assert (lines_said["observations"], lines_said["observations-empty"]) == ("60", "30")
    assert lines_said["lineages"] == "30"
    assert re.match(r"at most \$0\.\d+ of \$10\.00 ", lines_said["embedding-spend-ceiling"])
    assert re.fullmatch(r"\$0\.\d{6}", lines_said["embedding-spend"])
    assert int(lines_said["fit-tasks"]) + int(lines_said["held-out-tasks"]) <= 30
    assert "mod 7" in lines_said["rule"]
    assert "scaled by" in lines_said["rule"]
    assert "trace.metadata.topic" in lines_said["strata-by"]
    with opened(root) as journal:
        assert journal.position() == (int(lines_said["position"]), lines_said["head"])


def test_the_same_export_elsewhere_zipped_and_in_another_order_appends_nothing(
    tmp_path: Path, capsys: Captured
) -> None:
    root = configured(tmp_path / "root")
    path = export(tmp_path / "x.jsonl")
    code, first, _ = built(capsys, root, path)
    assert code == 0
    zipped = tmp_path / "elsewhere" / "y.bin"
    zipped.parent.mkdir()
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    for again in (path, zipped, export(tmp_path / "z.jsonl", reverse=True)):
        code, result, _ = built(capsys, root, again)
        assert (code, ids(result), result["position"], result["head"]) == (
            0,
            ids(first),
            first["position"],
            first["head"],
        )
        assert "0 texts to embed" in result["embedding-spend-ceiling"]
    other = configured(tmp_path / "other root")
    assert ids(built(capsys, other, zipped, project="another")[1]) == ids(first)


def test_ids_change_with_what_they_depend_on_and_with_nothing_else(tmp_path: Path, capsys: Captured) -> None:
    path = export(tmp_path / "x.jsonl")
    first = built(capsys, configured(tmp_path / "a", price=0), path)[1]
    dearer = built(capsys, configured(tmp_path / "b"), path, "--max-build-cost-usd", "3")[1]
    assert ids(dearer) == ids(first)
    fewer = built(capsys, tmp_path / "a", path, "--fit-tasks", "3", "--held-out-tasks", "2")[1]
    assert (fewer["fit-tasks"], fewer["held-out-tasks"]) == (3, 2)
    assert ids(fewer)[:3] == ids(first)[:3]
    assert fewer["build"] != first["build"]
    larger = built(capsys, tmp_path / "a", export(tmp_path / "y.jsonl", 36))[1]
    assert not set(ids(larger)) & set(ids(first))


def test_a_dry_run_says_the_same_and_records_nothing(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    before = events(root)
    code, result, _ = built(capsys, root, export(tmp_path / "x.jsonl"), "--dry-run")
    assert code == 0
    assert events(root) == before
    assert result["traces-accepted"] == 30
    assert "build" not in result
    done = built(capsys, root, export(tmp_path / "x.jsonl"))[1]
    assert {key: value for key, value in result.items() if key != "notes"}.items() <= done.items()


def test_what_is_left_out_is_recorded_with_reason_and_place(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    path = export(tmp_path / "x.jsonl")
    key = "sk-" + "0123456789abcdef" * 2
    with path.open("ab") as file:
        file.write(b"{broken\n")
        file.writelines(lines(spans(1)))
        file.write(lines([{"traceId": "only", "spanId": "s", "name": key}])[0])
    code, result, _ = built(capsys, root, path)
    assert (code, result["traces-accepted"], result["traces-refused"], result["traces-duplicate"]) == (0, 30, 1, 1)
    reasons = {row["reason"] for row in result["excluded"]}
    assert reasons == {"not-json", "trace-repeated", "trace-without-steps", "span-without-content"}
    with opened(root) as journal:
        excluded = [record.event for record in journal.events(traces.InputExcluded)]
        assert {one.reason for one in excluded if isinstance(one, traces.InputExcluded)} == reasons
    assert built(capsys, root, path)[1]["position"] == result["position"]
    assert key.encode() not in (root / "ledger.db").read_bytes()


def test_credentials_leave_traces_before_they_are_hashed(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "plain-words-secret")
    root = tmp_path / "root"
    configuration = ["config", "providers", "--root", str(root), "--non-interactive"]
    embeds = json.dumps(
        {
            "alias": "e",
            "connection": "c",
            "model": "embedded-embedder",
            "capabilities": {"supports_embeddings": True, "input_cost_per_million_tokens_usd": 0},
        }
    )
    says = json.dumps(
        {
            "alias": "w",
            "connection": "c",
            "model": "embedded-world-model",
            "capabilities": {"supports_completions": True, "maximum_output_tokens": 16384},
        }
    )
    connection = '{"name":"c","provider":"embedded"}'
    other = '{"name":"d","provider":"openai","api_key_env":"SHOP_KEY"}'
    roles = ["--world-model", "w", "--judge", "w", "--embedder", "e"]
    flags = ["--connection-json", connection, "--connection-json", other, "--model-json", embeds, "--model-json", says]
    assert run([*configuration, *flags, *roles]) == 0
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(lines(spans())).replace(b"step 0 of", b"step plain-words-secret of"))
    code, result, _ = built(capsys, root, path)
    assert (code, result["redactions"]) == (0, 30)
    with opened(root) as journal:
        for record in journal.events(TraceImported):
            assert isinstance(record.event, TraceImported)
            assert b"plain-words-secret" not in journal.blob(record.event.trace)


@pytest.mark.parametrize(
    ("content", "name", "exit_code"),
    [
        (None, "export-unreadable", 41),
        (b"\x1f\x8b broken", "export-unreadable", 41),
        (gzip.compress(b"x" * 100_000, mtime=0)[:-40], "export-unreadable", 41),
        (b"", "nothing-to-build", 42),
        (b"{}\n", "nothing-to-build", 42),
        (b"".join(lines(spans(1))), "corpus-too-alike", 43),
        (b"".join(lines(spans())).replace(b"gen_ai.prompt", b"gen_ai.nothing"), "no-task-texts", 44),
    ],
    ids=["absent", "not gzip", "cut off", "empty", "no spans", "one trace", "no prompts"],
)
def test_an_export_that_cannot_be_built_from_is_refused_by_name(
    content: bytes | None, name: str, exit_code: int, tmp_path: Path, capsys: Captured
) -> None:
    root = configured(tmp_path / "root")
    before = events(root)
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    code, _, err = built(capsys, root, path)
    assert (code, f'"name": "{name}"' in err) == (exit_code, True)
    assert events(root) == before


def test_a_directory_is_built_from_as_its_files_are(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    assert built(capsys, root, tmp_path)[0] == 42  # nothing is in it but the ledger
    folder = tmp_path / "exports"
    folder.mkdir()
    first = built(capsys, root, export(folder / "x.jsonl"))[1]
    second = built(capsys, root, folder)[1]
    assert ids(second) == ids(first)
    assert second["position"] == first["position"]


def test_what_would_cost_too_much_is_refused_before_anything_is_recorded(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root", price=20_000_000_000_000)
    before = events(root)
    path = export(tmp_path / "x.jsonl")
    code, _, err = built(capsys, root, path, "--max-build-cost-usd", "1")
    assert (code, "--max-build-cost-usd" in err) == (28, True)
    assert built(capsys, root, path, "--max-build-cost-usd", "11")[0] == 25
    assert events(root) == before
    assert built(capsys, configured(tmp_path / "unknown", price=None), path)[0] == 26


def test_a_project_name_and_a_source_must_be_usable(tmp_path: Path, capsys: Captured) -> None:
    path = export(tmp_path / "x.jsonl")
    assert built(capsys, configured(tmp_path / "root"), path, project="a b")[0] == 2
    assert run(["build", "shop", str(path), "--source", "other"]) == 2
    assert run(["build", "shop", str(path), "--source", "otlp", "--root", str(tmp_path / "none")]) == 30
    capsys.readouterr()


def test_no_text_is_embedded_twice_when_a_build_is_interrupted(tmp_path: Path, capsys: Captured) -> None:
    root, path = configured(tmp_path / "root"), export(tmp_path / "x.jsonl")

    async def part() -> None:
        with opened(root) as journal:
            configured_ = journal.state(providers.FAMILY)
            async with Live(configured_) as perform:
                wanted = Wanted("shop", (str(path),), "otlp", None, None, gateway=False)
                material = read(journal, wanted, Redactor(), lambda path, why: None)
                made = building.draft_of(material, (50, 20))
                building.record_inputs(journal, "shop", material)
                asking = Asking(journal, perform, Run("part", None, "test"))
                await asking.embed(configured_.endpoint("embed"), made.unique_texts[:20])

    asyncio.run(part())
    code, result, _ = built(capsys, root, path)
    assert code == 0
    assert "20 are recorded" in result["embedding-spend-ceiling"]
    assert len(events(root, TextEmbedded)) == 60
    assert len(events(root, TraceImported)) == 30
    assert ids(result) == ids(built(capsys, configured(tmp_path / "undisturbed"), path)[1])


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.25, 0.35, 0.45])
def test_a_build_that_is_killed_goes_on_to_the_same_ids(wait: float, tmp_path: Path, capsys: Captured) -> None:
    root, path = configured(tmp_path / "root"), export(tmp_path / "x.jsonl", 200)
    program = [
        sys.executable,
        "-m",
        "commands.main",
        "build",
        "shop",
        str(path),
        "--source",
        "otlp",
        "--root",
        str(root),
    ]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()
    code, result, _ = built(capsys, root, path)
    assert code == 0
    assert ids(result) == ids(built(capsys, configured(tmp_path / "undisturbed"), path)[1])


def test_the_fit_index_holds_no_step_that_is_held_out(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    built(capsys, root, export(tmp_path / "x.jsonl"))
    with opened(root) as journal:
        build = read_build(journal, "shop")
        fit, serving = build.fit_index, build.serving_index
        assert {entry.lineage for entry in fit.entries} == set(build.fit_lineages)
        assert len(serving) == 60
        assert not set(build.fit_lineages) & set(build.held_out_lineages)
        held_out = serving.vectors[
            [e.lineage in build.held_out_lineages for e in serving.entries].index(True)
        ].tobytes()
        found = fit.search(held_out, 60, without_lineage="")
        assert {one.lineage for one in found} == set(build.fit_lineages)
        own = fit.entries[0]
        found = fit.search(fit.vectors[0].tobytes(), 60, without_lineage=own.lineage)
        assert own.lineage not in {one.lineage for one in found}
        best = fit.search(fit.vectors[0].tobytes(), 1, without_lineage="")[0]
        turn = build.trace(own.trace).turns[own.turn]
        assert (best.score, best.arguments, best.observation) == (1_000_000, turn.arguments, turn.observation)


def test_a_pipe_and_a_device_are_no_exports_and_nobody_waits_for_them(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path / "root")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        code, _, err = built(capsys, root, path)
        assert (code, "it is no regular file" in err) == (41, True)


def test_an_export_without_traces_counts_what_it_excluded_and_says_why(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    code, _, err = built(capsys, configured(tmp_path / "root"), path)
    assert code == 42
    assert "(1 excluded)" in err
    assert "nested-too-deeply (1)" in err
