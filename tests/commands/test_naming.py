"""What may be typed to mean something that is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands.naming import IdAmbiguous, IdUnknown, find
from commands.opening import open_journal, read_journal
from ledger import digests
from ledger.drafts import Foreign
from ledger.event import Blobs, Step
from ledger.families import serving
from ledger.families.imports import BundleImported, Counted
from ledger.families.traces import TraceImported, decoded
from ledger.recorded import references
from tests.commands.reading import Journey, Said


def test_a_number_is_a_position(journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        named = find(journal, "7")
        assert named.record is not None
        assert named.record.seq == 7
        assert named.name == digests.named(named.record.id)


def test_any_unique_beginning_of_a_digest_will_do_with_or_without_its_mark(journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        record = journal.at(20)
        assert record is not None
        content = journal.events(TraceImported)
        trace = next(content).key or ""
        for text in (record.id.hex(), record.id.hex()[:16], f"b3:{record.id.hex()[:17]}"):
            named = find(journal, text)
            assert named.record is not None
            assert named.record.seq == 20
        assert find(journal, trace[:20]).content == trace
        assert find(journal, trace[3:20]).content == trace


def test_digits_that_are_no_position_may_begin_a_digest(journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        digit = [record.id.hex() for record in journal.events() if record.id.hex()[:6].isdigit()]
        if not digit:
            pytest.skip("no id of this journal begins with six decimal digits")
        assert find(journal, digit[0][:6]).name.startswith(f"b3:{digit[0][:6]}")


def test_an_ambiguous_beginning_is_refused_and_every_match_named(journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        first = journal.at(11)
        assert first is not None
        names = [f"b3:{record.id.hex()}" for record in journal.events()]
        names += [record.key or "" for record in journal.events(TraceImported)]
        shared = next(name[:7] for name in names if sum(other.startswith(name[:7]) for other in names) > 1)
        with pytest.raises(IdAmbiguous) as refused:
            find(journal, shared)
        wanted = [name for name in names if name.startswith(shared)]
        assert {match.split()[0] for match in refused.value.matches} >= set(wanted)
        assert all(match in refused.value.remedy for match in refused.value.matches)


def test_artifacts_go_by_the_beginning_of_their_ids(journey: Journey) -> None:
    kinds = {
        "policy": "policy-frozen@1",
        "report": "report-published@1",
        "calibration": "calibration-published@1",
        "build": "build-completed@1",
        "serving-rag": "build-completed@1",
        "world-model": "build-completed@1",
    }
    with read_journal(journey.root) as journal:
        for name, kind in kinds.items():
            for text in (journey.ids[name], journey.ids[name][: len(name) + 4]):
                named = find(journal, text)
                assert named.record is not None
                assert named.record.kind == kind
                assert named.name == journey.ids[name]


def test_a_trace_goes_by_the_name_its_producer_gave_it(journey: Journey) -> None:
    with open_journal(journey.root, "test") as journal:
        record = next(journal.events(TraceImported))
        name = decoded(journal.blob(record.key or "")).name
        named = find(journal, name)
        assert named.record is not None
        assert named.record.seq == record.seq
        assert named.content == record.key


@pytest.mark.parametrize(
    "text", ["", "0", "999999", "abc", "policy-zz", "b3:", "b3:zz", "no such trace", "f" * 65, "%s", "9" * 40]
)
def test_what_names_nothing_is_refused(text: str, journey: Journey) -> None:
    with read_journal(journey.root) as journal, pytest.raises(IdUnknown):
        find(journal, text)


def test_what_was_imported_from_another_origin_is_found_and_read_there(
    journey: Journey, tmp_path: Path, exp: Said
) -> None:
    blobs = Blobs()
    with read_journal(journey.root) as journal:
        origin = journal.origin
        events = [record.bytes for record in journal.events()]
        for stored in events:
            for digest in references(stored):
                blobs.put(journal.blob(digest.decode()))
    with open_journal(tmp_path, "test", create=True) as journal:
        counted = (Counted(origin=origin, events=len(events)),)
        journal.admit(Foreign(origin, events, lambda _: (BundleImported(bundle="b3:0", origins=counted),)), blobs)
    whole = exp.text("why", journey.ids["policy"], "--all")
    exp.root = tmp_path
    assert exp.text("why", journey.ids["policy"], "--all") == whole
    assert exp.json("show", journey.ids["report"][:12])["origin"] == 2
    assert exp.json("show", "7")["origin"] == 2
    assert exp.text("cat", journey.ids["build"]) == next(one.decode() for one in events if b"build-completed" in one)
    exp.text("why", "policy-zz", code=108)


def test_a_request_whose_id_begins_another_s_is_found_by_its_whole_id(tmp_path: Path) -> None:
    with open_journal(tmp_path, "test", serving.FAMILY, create=True) as journal:
        for request in ("abcd-1", "abcd-12", "abcd-2"):
            refused = serving.RequestRefused(
                request=request, route="chat.completions", identity="me", status=400, code="bad"
            )
            journal.submit(Step(serving.FAMILY, serving.RefuseRequest(refused=refused))).result()
    with read_journal(tmp_path) as journal:
        for seq, request in enumerate(("abcd-1", "abcd-12", "abcd-2"), 1):
            named = find(journal, request)
            assert named.record is not None
            assert (named.name, named.record.seq) == (request, seq)
        with pytest.raises(IdAmbiguous):
            find(journal, "abcd-")
