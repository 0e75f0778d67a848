"""Imports: counted once completed, once for what they give, and the newest wins."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from ledger import digests
from ledger.event import Blobs, Step
from ledger.families import ingests
from ledger.families.ingests import CompleteImport, ImportCompleted, ImportsWanted, members, packed, unpacked
from ledger.journal import Journal

A, B, C, D = (digests.content_digest(text) for text in (b"a", b"b", b"c", b"d"))


def completed(
    blobs: Blobs, project: str = "p", outcome: str = A, source: str = B, name: str = "x.jsonl"
) -> ImportCompleted:
    return ImportCompleted(
        project=project,
        outcome=outcome,
        source=source,
        reading=C,
        inputs=(
            ingests.InputRead(
                name=blobs.put(name), format="otlp", why=blobs.put("it has traceId"), digest=source, size=1
            ),
        ),
        units=3,
        used=2,
        excluded=1,
        refused=0,
        repeated=0,
        findings=blobs.put("[]"),
        traces=blobs.put(packed([(B, A), (A, B)]), "application/x-digests"),
        detectors=("email",),
        redactions=(ingests.Taken(detector="email", count=2),),
    )


def recorded(root: Path, *given: tuple[str, str, str]) -> tuple[list[str], ingests.Ingests]:
    ticks = itertools.count(1)
    with Journal.open(root, (ingests.FAMILY,), actor="test", clock=lambda: next(ticks), create=True) as journal:
        for project, outcome, source in given:
            blobs = Blobs()
            command = CompleteImport(completed=completed(blobs, project, outcome, source))
            journal.submit(Step(ingests.FAMILY, command), blobs=blobs).result()
        return [record.stream for record in journal.events()], journal.state(ingests.FAMILY)


def test_what_gives_the_same_is_imported_once_a_project_whatever_file_it_is_in(tmp_path: Path) -> None:
    streams, state = recorded(tmp_path, ("p", A, B), ("p", A, C), ("q", A, B), ("", A, B), ("p", C, B), ("p", A, B))
    assert streams == ["ingests:p", "ingests:q", "ingests:", "ingests:p"]
    assert [one.outcome for one in state.of("p")] == [A, C]
    assert state.of("p")[0].source == B
    assert state.projects == ("p", "q")
    assert recorded(tmp_path)[1] == state


def test_a_project_without_imports_is_told_how_to_make_one_and_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(ImportsWanted) as refused:
        recorded(tmp_path, ("q", A, B), ("", A, B))[1].of("p")
    assert refused.value.where == "project p; there are imports for q"
    assert "exp ingest FILE --project p" in refused.value.remedy
    with pytest.raises(ImportsWanted) as refused:
        ingests.Ingests().of("p")
    assert refused.value.where == "project p"


def test_traces_are_listed_by_digest_whatever_order_they_came_in() -> None:
    assert packed([(B, A), (A, B)]) == packed([(A, B), (B, A)])
    assert list(unpacked(packed([(B, A), (A, B)]))) == sorted([(A, B), (B, A)])
    assert completed(Blobs()).trace_count == 2


def test_the_newest_import_decides_which_trace_of_a_name_is_meant() -> None:
    old, grown = packed([(A, C), (B, D)]), packed([(D, C)])
    assert members([old, grown]) == sorted([B, D])
    assert members([grown, old]) == sorted([A, B])
    assert members([]) == []


def test_a_build_from_one_source_is_named_by_it_and_from_several_by_all() -> None:
    one = completed(Blobs())
    other = msgspec.structs.replace(one, source=C)
    assert ingests.source_of([one]) == ingests.source_of([one, one]) == B
    assert ingests.source_of([one, other]) == ingests.source_of([other, one])
    assert ingests.source_of([one, other]) not in {B, C}


def test_earlier_imports_are_those_of_the_same_names_read_the_same_way_newest_first() -> None:
    state = ingests.Ingests()
    blobs = Blobs()
    for source, name, reading in ((A, "x", C), (B, "x", C), (A, "x", C), (C, "y", C), (D, "x", A)):
        one = completed(blobs, source=source, name=name)
        ingests.evolve(state, msgspec.structs.replace(one, reading=reading))
    name = blobs.put("x").blob
    assert state.before("p", C, [name]) == [A, B]
    assert state.before("q", C, [name]) == []
    assert state.before("p", C, [name, name]) == []
    for number in range(20):
        ingests.evolve(state, completed(blobs, source=str(number), name="x"))
    assert state.before("p", C, [name]) == [str(number) for number in range(19, 11, -1)]
