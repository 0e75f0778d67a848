"""Builds: a project uses its newest one, and the same one again changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from ledger.event import BlobRef, Event
from ledger.families import builds
from ledger.families.builds import BuildCompleted, Builds, BuildWanted, CompleteBuild, artifact_id

REF = BlobRef(blob="b3:" + "0" * 64, size=1, media="text/plain")
BUILD = BuildCompleted(
    project="p",
    build="build-1",
    source="b3:" + "1" * 64,
    serving_rag="s",
    fit_rag="f",
    world_model="w",
    embedder="e",
    model="m",
    manifest=REF,
    vectors=REF,
    dimensions=4,
)
OTHER = msgspec.structs.replace(BUILD, build="build-2")


def folded(events: Sequence[BuildCompleted]) -> Builds:
    state = Builds()
    for one in events:
        state = builds.evolve(state, one)
    return state


def decided(build: BuildCompleted, *before: BuildCompleted) -> tuple[Event, ...]:
    return builds.decide(CompleteBuild(completed=build), folded(before), lambda *_: None)


def test_the_same_build_again_appends_nothing_also_from_another_export() -> None:
    assert decided(BUILD) == (BUILD,)
    assert decided(BUILD, BUILD) == ()
    assert decided(msgspec.structs.replace(BUILD, source="b3:" + "2" * 64), BUILD) == ()


def test_an_earlier_build_made_again_is_the_one_that_is_used() -> None:
    assert decided(BUILD, BUILD, OTHER) == (BUILD,)
    assert folded([BUILD, OTHER, BUILD]).of("p") == BUILD


def test_projects_do_not_see_each_others_builds() -> None:
    state = folded([BUILD])
    with pytest.raises(BuildWanted) as refused:
        state.of("q")
    assert "exp build q" in refused.value.remedy
    assert "built are p" in refused.value.where


def test_an_id_depends_on_kind_and_inputs_alone() -> None:
    assert artifact_id("fit-rag", 1, "a") == artifact_id("fit-rag", 1, "a")
    assert len({artifact_id("fit-rag", 1), artifact_id("fit-rag", 2), artifact_id("rag", 1)}) == 3
    assert artifact_id("fit-rag", 1).startswith("fit-rag-")
