"""What may be typed to mean something that is recorded."""

from __future__ import annotations

import pytest

from commands.naming import IdAmbiguous, IdUnknown, find
from commands.opening import open_journal, read_journal
from ledger import digests
from ledger.families.traces import TraceImported, decoded
from tests.commands.reading import Journey


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
    "text", ["", "0", "999999", "abc", "policy-zz", "b3:", "b3:zz", "no such trace", "f" * 65, "%s"]
)
def test_what_names_nothing_is_refused(text: str, journey: Journey) -> None:
    with read_journal(journey.root) as journal, pytest.raises(IdUnknown):
        find(journal, text)
