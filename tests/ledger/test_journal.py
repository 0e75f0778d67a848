"""The journal: what is added, and what is read of it."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger import digests, refusals, store
from ledger.event import KINDS, Blobs, Family, Step, event
from ledger.families import contents
from ledger.journal import Journal, Recorded
from ledger.locks import Sidecar, is_free
from ledger.merkle import root_of
from ledger.verify import verify
from ledger.writer import Writer
from tests.ledger.notes import (
    NOTES,
    TALLY,
    CloseTally,
    NoteTaken,
    TakeOnce,
    TallyClosed,
    TooMany,
    note,
    opened,
    tamper,
    worded,
)


def test_stored_bytes_are_canonical_and_hash_to_the_id(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        (first,) = journal.submit(note("a", 3, name='k"é'), cause="b3:cause").result()
        (second,) = journal.submit(note("a")).result()
    assert first.bytes.decode() == (
        '{"actor":"test 0","at":1700000000000000,"body":{"name":"k\\"é","number":3,"subject":"a","text":null},'
        '"cause":"b3:cause","key":"k\\"é","kind":"test-note-taken@1","stream":"note:a","version":1}'
    )
    assert (
        first.bytes
        == json.dumps(json.loads(first.bytes), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    )
    assert (first.seq, first.version, first.stream, first.key) == (1, 1, "note:a", 'k"é')
    assert (second.seq, second.version, second.key, second.cause) == (2, 2, None, None)
    assert first.id == digests.event_id(first.bytes)
    assert first.head == digests.chained(bytes(32), first.id)
    assert second.head == digests.chained(first.head, second.id)


def test_a_record_tells_what_its_bytes_say(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a", 3), cause="b3:cause").result()
        (record,) = journal.events()
        assert (record.at, record.actor, record.cause) == (1_700_000_000_000_000, "test 0", "b3:cause")
        assert record.event is record.event == NoteTaken(subject="a", number=3)
        assert repr(record) == "<event 1: test-note-taken@1 in note:a>"


def test_what_was_recorded_is_there_after_opening_again(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a", 3)).result()
        journal.submit(Step(TALLY, CloseTally())).result()
        before = (journal.position(), journal.checkpoint(), journal.state(NOTES), journal.state(TALLY))
    with opened(tmp_path / "root", create=False) as journal:
        assert (journal.position(), journal.checkpoint(), journal.state(NOTES), journal.state(TALLY)) == before
        assert before[3] == (3, 1)
        assert [record.seq for record in journal.submit(note("a")).result()] == [3]


def test_only_the_kinds_that_families_read_are_folded(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root) as journal:
        for number in range(5):
            journal.submit(note("a", number)).result()
        journal.submit(Step(TALLY, CloseTally())).result()
    with Journal.open(root, [contents.FAMILY], actor="test", clock=lambda: 0) as journal:
        assert journal.state(contents.FAMILY) is None
        assert journal.position()[0] == 6
    few = Family(
        name="test-closings",
        kinds=(TallyClosed,),
        initial=lambda: 0,
        decide=lambda command, state, found: (),
        evolve=lambda state, seen: state + 1,
    )
    with Journal.open(root, [NOTES, few], actor="test", clock=lambda: 0) as journal:
        assert journal.state(few) == 1
        journal.submit(note("a"), Step(few, CloseTally())).result()
        assert journal.state(few) == 1
    for number in range(9):
        with opened(root) as journal:
            journal.submit(Step(TALLY, CloseTally()), note("a", number)).result()
    with Journal.open(root, [few], actor="test", clock=lambda: 0) as journal:
        assert journal.state(few) == 10
    with Journal.open(root, [NOTES], actor="test", clock=lambda: 0) as journal:
        assert journal.state(NOTES) == [10 + 1 + sum(range(9))]


def test_a_state_that_is_first_needed_within_a_commit_has_what_goes_before_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    few = Family(
        name="test-closings",
        kinds=(TallyClosed,),
        initial=lambda: 0,
        decide=lambda command, state, found: (TallyClosed(total=-state),),
        evolve=lambda state, seen: state + 1,
    )
    with Journal.open(root, [NOTES, TALLY, few], actor="test", clock=lambda: 0, create=True) as journal:
        with together(root):
            journal.submit(note("first"))
            time.sleep(0.05)  # until the writer has taken this one and waits for the lock
            futures = [journal.submit(step) for step in (note("a"), Step(TALLY, CloseTally()), Step(few, CloseTally()))]
        assert [future.result()[0].event for future in futures[1:]] == [TallyClosed(total=2), TallyClosed(total=-1)]
        assert (journal.state(TALLY), journal.state(few)) == ((2, 2), 2)


@contextmanager
def together(root: Path) -> Iterator[None]:
    """Keep the writer from committing, so that what is submitted meanwhile is committed together."""
    sidecar = Sidecar(root / "ledger.lock")
    with sidecar.held():
        yield
    sidecar.close()


def test_an_awaited_record_is_in_the_view_and_in_the_file(tmp_path: Path) -> None:
    async def all_of() -> None:
        with opened(tmp_path / "root") as journal:
            recorded = await asyncio.gather(*(journal.record(note(f"s{number}")) for number in range(50)))
            assert sorted(record.seq for (record,) in recorded) == list(range(1, 51))
            assert journal.state(NOTES) == [50]
            assert journal.position()[0] == 50

    asyncio.run(all_of())


def test_an_await_that_was_cancelled_disturbs_nobody(tmp_path: Path) -> None:
    async def all_of() -> None:
        with opened(tmp_path / "root") as journal:
            given_up = asyncio.ensure_future(journal.record(note("a")))
            kept = asyncio.ensure_future(journal.record(note("b")))
            await asyncio.sleep(0)
            given_up.cancel()
            await kept
            assert given_up.cancelled()
            future = journal.submit(note("c"))
            future.cancel()
            await journal.record(note("d"))
            assert journal.state(NOTES)[0] in (3, 4)

    asyncio.run(all_of())


def test_a_loop_that_ended_disturbs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "root") as journal:
        waiting = []
        monkeypatch.setattr(Writer, "put", lambda self, submission: waiting.append(submission))

        async def leave() -> None:
            asyncio.ensure_future(journal.record(note("a")))  # noqa: RUF006 - given up on purpose
            await asyncio.sleep(0)

        asyncio.run(leave())
        monkeypatch.undo()
        assert journal._writer is not None
        journal._writer.put(waiting[0])
        journal.submit(note("b")).result()
        assert journal.state(NOTES) == [2]


def test_a_key_that_is_recorded_with_the_same_facts_adds_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        (first,) = journal.submit(note("a", name="k")).result()
        again, other = journal.submit(note("a", name="k"), note("a", name="l")).result()
        assert (again.seq, again.bytes, other.seq) == (first.seq, first.bytes, 2)
        both = journal.submit(note("b", name="m"), note("b", name="m")).result()
        assert [record.seq for record in both] == [3, 3]
        assert journal.state(NOTES) == [3]


@pytest.mark.parametrize("other", [note("a", 2, name="k"), note("b", 1, name="k")])
def test_a_key_that_is_recorded_with_other_facts_is_a_conflict(tmp_path: Path, other: Step) -> None:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a", name="k")).result()
        with pytest.raises(refusals.KeyConflict, match="event 1 already records test-note-taken@1"):
            journal.submit(note("c"), other).result()
        assert journal.state(NOTES) == [1]
        assert journal.position()[0] == 1


def test_a_command_gets_what_is_recorded_under_the_keys_it_asks_for(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        once = Step(NOTES, TakeOnce(name="k"))
        first, second, both = journal.submit(once), journal.submit(once), journal.submit(once, once)
        assert len(first.result()) == 1
        assert (second.result(), both.result()) == ((), ())
        assert len(journal.submit(Step(NOTES, TakeOnce(name="n")), Step(NOTES, TakeOnce(name="n"))).result()) == 1
    with opened(tmp_path / "root") as journal:
        assert journal.submit(once).result() == ()


def test_a_later_step_sees_what_an_earlier_one_decided(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a", 1)).result()
        *_, closed = journal.submit(note("a", 2), note("b", 3), Step(TALLY, CloseTally())).result()
        assert closed.event == TallyClosed(total=6)
        assert journal.state(TALLY) == (6, 1)


def test_a_refused_step_takes_its_submission_back_and_leaves_others(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("first", 1)).result()
        futures = [
            journal.submit(note("a", 2)),
            journal.submit(note("b", 3), Step(TALLY, CloseTally()), note("b", 4, ceiling=9)),
            journal.submit(note("c", 5)),
            journal.submit(Step(TALLY, CloseTally())),
        ]
        with pytest.raises(TooMany, match="10 is too many"):
            futures[1].result()
        (closed,) = futures[3].result()
        assert closed.event == TallyClosed(total=8)
        assert [record.stream for record in journal.events()] == ["note:first", "note:a", "note:c", "tally"]
        assert journal.submit(note("b", 1)).result()[0].version == 1


def test_a_mistake_in_a_decision_reaches_its_submitter_only(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        wrong = journal.submit(note("a", 2**60))
        right = journal.submit(note("a", 1))
        with pytest.raises((ValueError, TooMany)):
            wrong.result()
        wrong = journal.submit(note("a\ud800", 1))
        with pytest.raises(ValueError, match="surrogate"):
            wrong.result()
        assert right.result()[0].seq == 1


def test_a_command_of_a_family_that_was_not_opened_is_a_mistake(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal, pytest.raises(refusals.FamilyNotOpened, match="contents"):
        journal.submit(Step(contents.FAMILY, contents.EraseContent(content="b3:", reason="x")))


def test_many_submissions_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    commit = store.Store.commit

    def counted(self: store.Store) -> None:
        commits.append(1)
        commit(self)

    monkeypatch.setattr(store.Store, "commit", counted)
    with opened(tmp_path / "root") as journal:
        futures = [journal.submit(note(f"s{number % 7}", name=f"k{number}")) for number in range(1000)]
        seqs = [future.result()[0].seq for future in futures]
        assert seqs == list(range(1, 1001))
        assert len(commits) < 500
        versions = [record.version for record in journal.events(stream="note:s0")]
        assert versions == list(range(1, len(versions) + 1))


def test_threads_that_submit_first_at_once_share_a_writer(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        threads = [threading.Thread(target=lambda: journal.submit(note("a")).result()) for _ in range(4)]
        with journal._starting:
            for thread in threads:
                thread.start()
            time.sleep(0.05)  # until all of them wait to start the writer
        for thread in threads:
            thread.join()
        assert journal.state(NOTES) == [4]
        assert len(list(journal.events())) == 4


def test_what_a_refresh_has_read_is_not_folded_twice(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal, opened(tmp_path / "root") as other:
        other.submit(note("a")).result()
        journal.refresh()
        journal.submit(note("b")).result()
        assert journal.state(NOTES) == [2]
        other.submit(note("c")).result()
        seen = list(journal._committed)
        journal.refresh()
        journal._committed.extend(seen + [[record] for record in journal.events()])
        assert journal.state(NOTES) == [3]
        assert journal.position() == other.position() or other.position()[0] == 3


def test_closing_a_journal_whose_root_is_gone_says_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "root")
    (tmp_path / "root" / "ledger.db").rename(tmp_path / "moved.db")
    journal.close()


def test_nobody_is_told_before_the_commit_has_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    commit = store.Store.commit
    futures: list[Future[tuple[Recorded, ...]]] = []

    def watched(self: store.Store) -> None:
        seen.append((futures[-1].done(), journal.state(NOTES)[0], journal.position()[0]))
        commit(self)

    with opened(tmp_path / "root") as journal:
        journal.submit(note("a")).result()
        monkeypatch.setattr(store.Store, "commit", watched)
        with together(tmp_path / "root"):
            futures.append(journal.submit(note("b")))
        futures[0].result()
        assert seen == [(False, 1, 1)]
        assert journal.state(NOTES) == [2]


def test_streams_keep_their_versions_when_they_are_more_than_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.newest.STREAMS_REMEMBERED", 3)
    with opened(tmp_path / "root") as journal:
        versions = [journal.submit(note(f"s{number % 6}")).result()[0].version for number in range(18)]
    assert versions == [1] * 6 + [2] * 6 + [3] * 6


def test_events_are_read_by_kind_by_stream_and_from_a_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.store.ROWS_AT_ONCE", 2)
    with opened(tmp_path / "root") as journal:
        for number in range(5):
            journal.submit(note("even" if number % 2 == 0 else "odd")).result()
            journal.submit(Step(TALLY, CloseTally())).result()

        def seqs(*kinds: type, stream: str | None = None, after: int = 0) -> list[int]:
            return [record.seq for record in journal.events(*kinds, stream=stream, after=after)]

        assert seqs() == list(range(1, 11))
        assert seqs(after=7) == [8, 9, 10]
        assert seqs(NoteTaken) == [1, 3, 5, 7, 9]
        assert seqs(TallyClosed, NoteTaken, after=4) == [5, 6, 7, 8, 9, 10]
        assert seqs(stream="note:even") == [1, 5, 9]
        assert seqs(stream="note:even", after=1) == [5, 9]
        assert seqs(TallyClosed, stream="note:even") == []


def test_reading_stays_at_the_position_where_it_began(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a")).result()
        reading = journal.events()
        assert next(reading).seq == 1
        journal.submit(note("a")).result()
        assert list(reading) == []


def test_an_event_is_found_by_kind_and_key(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a", name="k"), note("a", name="l")).result()
        found = journal.find(NoteTaken, "l")
        assert found is not None
        assert found.seq == 2
        assert journal.find(NoteTaken, "m") is None
        assert journal.find(TallyClosed, "l") is None
        assert {key: record.seq for key, record in journal.find_many(NoteTaken, ["l", "m", "k"]).items()} == {
            "l": 2,
            "k": 1,
        }


def test_a_checkpoint_covers_the_ids_of_all_events(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        assert journal.checkpoint().size == 0
        for _ in range(3):
            journal.submit(note("a")).result()
            checkpoint = journal.checkpoint()
            ids = [record.id for record in journal.events()]
            assert checkpoint[:3] == ("example.org/test", len(ids), root_of(ids))


def test_a_new_journal_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = set()
    for number in range(2):
        with Journal.open(tmp_path / str(number), [], actor="test", clock=lambda: 0, create=True) as journal:
            names.add(journal.checkpoint().origin)
    assert len(names) == 2
    assert all(name.startswith("exp-ledger/") and len(name) == 35 for name in names)


@pytest.mark.parametrize("words", ["short", "long " * 100, os.urandom(500).hex()])
def test_content_travels_with_the_event_that_names_it(tmp_path: Path, words: str) -> None:
    step, blobs = worded(words)
    with opened(tmp_path / "root") as journal:
        (record,) = journal.submit(step, blobs=blobs).result()
        (digest,) = blobs.contents
        assert journal.blob(digest) == words.encode()
        assert journal.blobs([digest]) == {digest: words.encode()}
        assert isinstance(record.event, NoteTaken)
        assert record.event.text is not None
        assert record.event.text.blob == digest
        journal.submit(step).result()  # recorded content need not be given again
        later = journal.submit(*worded("new")[:1], blobs=worded("new")[1])
        again = journal.submit(worded("new")[0])
        assert (later.result()[0].seq, again.result()[0].seq) == (3, 4)


def test_content_that_several_steps_name_is_stored_once(tmp_path: Path) -> None:
    first, blobs = worded("shared words")
    with opened(tmp_path / "root") as journal:
        assert len(journal.submit(first, first, note("a"), blobs=blobs).result()) == 3
        assert journal.blob(next(iter(blobs.contents))) == b"shared words"
    assert verify(tmp_path / "root" / "ledger.db", full=True) == []


def test_content_that_no_event_names_is_not_stored(tmp_path: Path) -> None:
    _, blobs = worded("never named")
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a"), blobs=blobs).result()
        with pytest.raises(refusals.ContentUnusable, match="missing; it belongs to no event"):
            journal.blob(next(iter(blobs.contents)))


def test_an_event_that_names_content_nobody_gave_is_a_mistake(tmp_path: Path) -> None:
    step, _ = worded("never given")
    with opened(tmp_path / "root") as journal:
        with pytest.raises(refusals.ContentNotGiven, match="names the content b3:"):
            journal.submit(step).result()
        assert journal.position()[0] == 0


@pytest.mark.parametrize(
    ("damage", "how"),
    [
        ("UPDATE blobs SET bytes = x'00'", "damaged"),
        ("UPDATE blobs SET codec = 'plain'", "damaged"),
        ("UPDATE blobs SET size = size + 1", "damaged"),
        ("UPDATE blobs SET bytes = CAST('other' AS BLOB), size = 5, codec = 'plain'", "damaged"),
        ("DELETE FROM blobs", "missing"),
    ],
)
def test_damaged_content_is_refused_with_every_event_that_names_it(tmp_path: Path, damage: str, how: str) -> None:
    step, blobs = worded("the same words " * 20)
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a")).result()
        for _ in range(25):
            journal.submit(step, blobs=blobs).result()
    tamper(tmp_path / "root", damage)
    with opened(tmp_path / "root") as journal:
        with pytest.raises(refusals.ContentUnusable) as refused:
            journal.blob(next(iter(blobs.contents)))
        assert f"is {how}; it belongs to events 2, 3, 4," in refused.value.what
        assert refused.value.what.endswith("21 and 5 more")
        assert refused.value.seqs == tuple(range(2, 27))


def test_erased_content_is_gone_from_the_file_and_said_to_be_erased(tmp_path: Path) -> None:
    root = tmp_path / "root"
    step, blobs = worded("a quite private matter")
    digest = next(iter(blobs.contents))
    erase = Step(contents.FAMILY, contents.EraseContent(content=digest, reason="asked by its author"))
    families = [NOTES, TALLY, contents.FAMILY]
    with Journal.open(root, families, actor="test", clock=lambda: 0, create=True) as journal:
        journal.submit(step, blobs=blobs).result()
        assert len(journal.submit(erase).result()) == 1
        assert journal.submit(erase).result() == ()
        with pytest.raises(refusals.ContentErased, match=r"not reproducible: erased.*by event 2.*to event 1"):
            journal.blob(digest)
        journal.submit(step).result()  # naming it again neither fails nor brings it back
    assert b"private matter" not in (root / "ledger.db").read_bytes()


def test_the_log_is_emptied_when_it_is_big_and_by_the_last_one_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WAL_LIMIT_BYTES", 200_000)
    log = tmp_path / "root" / "ledger.db-wal"
    sizes = []
    with opened(tmp_path / "root") as journal:
        for number in range(30):
            journal.submit(note(f"s{number}")).result()
            journal.submit(note(f"s{number}")).result()
            sizes.append(log.stat().st_size)
    assert max(sizes) < 400_000
    assert not log.exists() or log.stat().st_size == 0


def test_whoever_leaves_empties_the_log(tmp_path: Path) -> None:
    log = tmp_path / "root" / "ledger.db-wal"
    with opened(tmp_path / "root") as stays:
        with opened(tmp_path / "root") as leaves:
            leaves.submit(note("a")).result()
            assert log.stat().st_size > 0
        assert log.stat().st_size == 0
        stays.refresh()
        assert stays.state(NOTES) == [1]


def test_a_reader_in_the_middle_of_something_delays_the_emptying_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WAL_LIMIT_BYTES", 1)
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a")).result()
        with_open_cursor = journal._store._connection.execute("SELECT seq FROM events")
        next(with_open_cursor)
        journal.submit(note("b")).result()
        assert [record.seq for record in journal.submit(note("c")).result()] == [3]
        with_open_cursor.close()
        journal.submit(note("d")).result()
        assert (tmp_path / "root" / "ledger.db-wal").stat().st_size == 0


def test_a_root_is_private_and_ignored_by_git(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "root"
    with opened(root, process="me") as journal:
        journal.submit(note("a")).result()
        assert journal.process == "me"
        assert not is_free(root, "me")
        modes = {path.name: path.stat().st_mode & 0o777 for path in root.iterdir()}
    assert is_free(root, "me")
    assert root.stat().st_mode & 0o777 == 0o700
    assert (root / ".gitignore").read_text() == "*\n"
    assert modes.pop("locks") == 0o700
    assert set(modes) >= {"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.lock", ".gitignore"}
    assert set(modes.values()) == {0o600}


def test_a_journal_has_the_settings_of_the_format(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as journal:
        ask = journal._store._connection.execute
        pragmas = ["journal_mode", "synchronous", "page_size", "application_id", "user_version", "trusted_schema"]
        found = {name: ask(f"PRAGMA {name}").get for name in [*pragmas, "cell_size_check", "wal_autocheckpoint"]}
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "page_size": 16_384,
        "application_id": 0x45585031,
        "user_version": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "wal_autocheckpoint": 0,
    }


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET key = 'x'",
        "DELETE FROM events",
        "UPDATE blobs SET size = 0",
        "UPDATE origins SET name = 'x'",
        "DELETE FROM origins",
    ],
)
def test_the_file_itself_refuses_changes(tmp_path: Path, statement: str) -> None:
    step, blobs = worded("words")
    with opened(tmp_path / "root") as journal:
        journal.submit(step, blobs=blobs).result()
    connection = sqlite3.connect(tmp_path / "root" / "ledger.db")
    with pytest.raises(sqlite3.IntegrityError, match="is never"):
        connection.execute(statement)
    connection.close()


def test_closing_records_what_still_waits_and_then_nothing_more(tmp_path: Path) -> None:
    journal = opened(tmp_path / "root")
    futures = [journal.submit(note("a")) for _ in range(20)]
    journal.close()
    journal.close()
    assert [future.result()[0].seq for future in futures] == list(range(1, 21))
    with pytest.raises(refusals.JournalClosed):
        journal.submit(note("a"))
    unused = opened(tmp_path / "root")
    unused.close()
    with pytest.raises(refusals.JournalClosed):
        unused.submit(note("a"))


def test_an_event_of_a_later_release_is_refused_by_name_when_it_is_read(tmp_path: Path) -> None:
    @event("test-later-thing@1")
    class LaterThing(NoteTaken):
        pass

    del KINDS["test-later-thing@1"]
    with opened(tmp_path / "root") as journal:
        journal.submit(note("a")).result()
    odd = Family(
        name="test-odd",
        kinds=(LaterThing,),
        initial=lambda: None,
        decide=lambda command, state, found: (LaterThing(subject="x", number=1),),
        evolve=lambda state, seen: None,
    )
    with Journal.open(tmp_path / "root", [odd], actor="test", clock=lambda: 0) as journal:
        journal.submit(Step(odd, CloseTally())).result()
        (record,) = journal.events(LaterThing)
        with pytest.raises(refusals.UnknownKind, match="event 2 is of kind test-later-thing@1"):
            record.event  # noqa: B018 - decoding is what refuses


@pytest.mark.parametrize(
    ("damage", "event_named", "words"),
    [
        (
            "UPDATE events SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"number\":3', '\"number\":4') AS BLOB)",
            3,
            "not what",
        ),
        ("DELETE FROM events WHERE seq = 2", 2, "is missing"),
        ("DELETE FROM events WHERE seq = 1", 1, "is missing"),
    ],
)
def test_a_damaged_event_stops_the_opening_and_is_named(
    tmp_path: Path, damage: str, event_named: int, words: str
) -> None:
    with opened(tmp_path / "root") as journal:
        for number in range(1, 6):
            journal.submit(note("a", number)).result()
    tamper(tmp_path / "root", damage)
    with pytest.raises(refusals.JournalDamaged, match=words) as refused:
        opened(tmp_path / "root")
    assert refused.value.seq == event_named
    assert f"event {event_named}" in refused.value.where


def test_a_blob_ref_in_text_is_no_reference(tmp_path: Path) -> None:
    words = '"blob":"b3:' + "0" * 64 + '"'
    with opened(tmp_path / "root") as journal:
        (record,) = journal.submit(note(words)).result()
        assert record.seq == 1


def test_blobs_are_held_until_they_are_recorded() -> None:
    blobs = Blobs()
    reference = blobs.put(b"\x00\xff", media="application/octet-stream")
    assert (reference.size, reference.media, blobs.contents[reference.blob]) == (
        2,
        "application/octet-stream",
        b"\x00\xff",
    )


def test_what_another_process_recorded_before_the_first_write_is_seen_once_it_is_returned(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as late, opened(tmp_path / "root") as early:
        early.submit(note("a", name="n")).result()
        (known,) = late.submit(note("a", name="n")).result()
        assert [record.seq for record in late.events(NoteTaken)] == [known.seq] == [1]
        assert late.state(NOTES) == [1]


def test_a_first_write_that_adds_nothing_still_shows_why_it_did_not(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as late, opened(tmp_path / "root") as early:
        early.submit(Step(NOTES, TakeOnce(name="one"))).result()
        assert late.submit(Step(NOTES, TakeOnce(name="one"))).result() == ()
        assert late.state(NOTES) == [3]


def test_what_is_recorded_and_never_read_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.journal.UNREAD", 3)
    with opened(tmp_path / "root") as journal:
        for _ in range(20):
            journal.submit(note("a")).result()
            assert len(journal._committed) <= 4
        assert journal.state(NOTES) == [20]
