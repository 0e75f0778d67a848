"""Traces: recorded once by content, with what was left out and why."""

from __future__ import annotations

import itertools
from pathlib import Path

from ledger import digests
from ledger.episode import Turn
from ledger.event import Blobs, Step
from ledger.families import traces
from ledger.families.traces import Exclusion, InputExcluded, RecordImport, Trace, TraceImported
from ledger.journal import Journal

TURN = Turn(tool="bash", arguments="{}", observation="", error=False)
TRACE = Trace(name="t-1", source="b3:" + "0" * 64, task="Do", turns=(TURN,), final=None, attributes=(("k", "v"),))
SOURCE = "b3:" + "1" * 64


def recorded(root: Path, *given: tuple[Trace, ...]) -> list[str]:
    ticks = itertools.count(1)
    with Journal.open(root, (traces.FAMILY,), actor="test", clock=lambda: next(ticks), create=True) as journal:
        for some in given:
            blobs = Blobs()
            excluded = traces.excluding(SOURCE, Exclusion(place="line 3", reason="not-json", detail="{x"), blobs)
            imported = tuple(traces.importing(one, blobs) for one in some)
            command = RecordImport(source=SOURCE, traces=imported, excluded=(excluded,))
            journal.submit(Step(traces.FAMILY, command), blobs=blobs).result()
        for record in journal.events(TraceImported):
            assert isinstance(record.event, TraceImported)
            assert traces.decoded(journal.blob(record.event.trace)) in (TRACE, OTHER)
        for record in journal.events(InputExcluded):
            assert isinstance(record.event, InputExcluded)
            assert record.event.detail is not None
            assert journal.blob(record.event.detail.blob) == b"{x"
        return [record.kind for record in journal.events()]


OTHER = Trace(name="t 2", source=SOURCE, task="", turns=(), final="x", attributes=())


def test_a_trace_and_a_finding_are_recorded_once_however_often_they_are_imported(tmp_path: Path) -> None:
    kinds = recorded(tmp_path, (TRACE,), (TRACE, OTHER), (OTHER, TRACE))
    assert sorted(kinds) == ["input-excluded@1", "trace-imported@1", "trace-imported@1"]


def test_a_trace_is_named_by_its_content_and_its_lineage_by_its_source() -> None:
    blobs = Blobs()
    made = traces.importing(TRACE, blobs)
    assert made.trace == digests.content_digest(traces.encoded(TRACE))
    assert made.lineage == TRACE.lineage == traces.lineage_of("t-1")
    assert traces.lineage_of("t-1") != traces.lineage_of("t-2")
    assert traces.decoded(traces.encoded(TRACE)) == TRACE


def test_a_finding_without_words_has_no_content() -> None:
    blobs = Blobs()
    assert traces.excluding(SOURCE, Exclusion(place="line 1", reason="not-json"), blobs).detail is None
    assert blobs.contents == {}


def test_nothing_is_kept_of_recorded_traces_but_in_the_journal() -> None:
    state = traces.Traces()
    event = TraceImported(trace="b3:0", lineage="b3:1", content=Blobs().put("x"))
    assert traces.evolve(state, event) is state
    assert traces.FAMILY.kinds == ()


def test_an_episode_is_what_was_recorded() -> None:
    assert (TRACE.episode.task, TRACE.episode.turns, TRACE.episode.ended) == ("Do", (TURN,), "recorded")


def test_labels_hold_only_what_a_command_line_can() -> None:
    assert traces.label_of("abc_DEF-123") == "abc_DEF-123"
    assert traces.label_of("") != traces.label_of("a:b") != traces.label_of("a=b")
    assert all(len(traces.label_of(name)) == 34 for name in ("", "a:b", "x" * 65, "é"))
