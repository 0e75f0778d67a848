"""Reading a build: what it says is what was recorded, and what isn't is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from commands import building
from commands.readings import read_build
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import builds
from ledger.families.builds import BuildCompleted, BuildDiffers, BuildWanted, CompleteBuild
from ledger.journal import Journal
from tests.commands.building.roots import built, configured, export, opened

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path, capsys: Captured) -> Path:
    root = configured(tmp_path / "root")
    assert built(capsys, root, export(tmp_path / "x.jsonl"))[0] == 0
    return root


def test_a_build_is_read_with_its_tasks_tools_and_traces(root: Path) -> None:
    with opened(root) as journal:
        build = read_build(journal, "shop")
        assert {task.part for task in build.tasks} == {"fit", "held-out"}
        assert [tool.name for tool in build.tools] == ["bash"]
        for task in build.tasks:
            trace = build.trace(task.trace)
            assert (trace.task, trace.lineage) == (task.text, task.lineage)
            assert build.episode(task.trace).ended == "recorded"
            assert build.representative(task.lineage) == task.trace
            assert build.trace_id(task.lineage) == build.trace_id(task.trace) == trace.name
            side = build.fit_lineages if task.part == "fit" else build.held_out_lineages
            assert task.lineage in side
        assert list(build.fit_lineages) == sorted(build.fit_lineages)


def test_a_project_without_a_build_is_told_how_to_make_one(root: Path) -> None:
    with opened(root) as journal, pytest.raises(BuildWanted, match="nothing is built"):
        read_build(journal, "other")


def test_a_build_is_derived_again_from_traces_and_vectors(root: Path) -> None:
    with opened(root) as journal:
        assert building.verify_build(journal, "shop").id == read_build(journal, "shop").id


def recorded_otherwise(journal: Journal, **changes: object) -> int:
    known: BuildCompleted = journal.state(builds.FAMILY).of("shop")
    other = msgspec.structs.replace(known, build="build-other", **changes)
    return journal.submit(Step(builds.FAMILY, CompleteBuild(completed=other))).result()[0].seq


@pytest.mark.parametrize("field", ["serving_rag", "fit_rag", "world_model", "embedder", "model"])
def test_an_id_that_cannot_be_derived_is_named_by_its_event(field: str, root: Path) -> None:
    with opened(root) as journal:
        seq = recorded_otherwise(journal, **{field: "something-else"})
        with pytest.raises(BuildDiffers, match=f"event {seq} .* ids"):
            building.verify_build(journal, "shop")


@pytest.mark.parametrize("change", ["task", "part", "member"])
def test_a_manifest_that_cannot_be_derived_is_named_by_its_event(change: str, root: Path) -> None:
    with opened(root) as journal:
        manifest = read_build(journal, "shop").manifest
        blobs = Blobs()
        if change == "task":
            changed = msgspec.structs.replace(manifest, tasks=manifest.tasks[1:])
        elif change == "part":
            first = manifest.members[0]
            turned = msgspec.structs.replace(first, part="fit" if first.part == "held-out" else "held-out")
            changed = msgspec.structs.replace(manifest, members=(turned, *manifest.members[1:]))
        else:
            changed = msgspec.structs.replace(manifest, members=manifest.members[1:])
        ref = blobs.put(building.encoded(changed))
        known: BuildCompleted = journal.state(builds.FAMILY).of("shop")
        other = msgspec.structs.replace(known, build="build-other", manifest=ref)
        journal.submit(Step(builds.FAMILY, CompleteBuild(completed=other)), blobs=blobs).result()
        with pytest.raises(BuildDiffers, match="split, tasks or tools"):
            building.verify_build(journal, "shop")


def test_vectors_that_no_answer_brought_are_named(root: Path) -> None:
    with opened(root) as journal:
        known: BuildCompleted = journal.state(builds.FAMILY).of("shop")
        vectors = bytearray(journal.blob(known.vectors.blob))
        vectors[5] ^= 1
        blobs = Blobs()
        other = msgspec.structs.replace(known, build="build-other", vectors=blobs.put(bytes(vectors)))
        journal.submit(Step(builds.FAMILY, CompleteBuild(completed=other)), blobs=blobs).result()
        with pytest.raises(BuildDiffers, match="vectors"):
            building.verify_build(journal, "shop")


def test_a_trace_whose_content_is_gone_is_named_by_the_journal(root: Path) -> None:
    with opened(root) as journal:
        known: BuildCompleted = journal.state(builds.FAMILY).of("shop")
        other = msgspec.structs.replace(known, build="build-other", vectors=known.vectors, dimensions=0)
        journal.submit(Step(builds.FAMILY, CompleteBuild(completed=other))).result()
        with pytest.raises(Refusal):
            building.verify_build(journal, "shop")
