"""Snapshots: opening folds only what came after them, and nothing that is wrong with one changes a state."""

from __future__ import annotations

import importlib
import pkgutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect
import pytest
from blake3 import blake3

from ledger import families, folding, recorded, refusals, snapshots
from ledger.drafts import Foreign
from ledger.event import BlobRef, Blobs, Event, Family
from ledger.families import calls, judging, providers, serving
from ledger.journal import Journal
from ledger.snapshots import Snapshots, differences
from ledger.store import Store
from tests.ledger.notes import NOTES, TALLY, NoteTaken, note, opened, tamper

LIMIT = 8


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find a snapshot worth it after a few events."""
    monkeypatch.setattr(snapshots, "WORTH", LIMIT)
    monkeypatch.setattr("ledger.journal.WORTH", LIMIT)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return where the positions of all events that are folded from the file will be listed."""
    seen: list[int] = []
    decode = recorded.decode

    def noticed(kind: str, stored: bytes, seq: int) -> Event:
        seen.append(seq)
        return decode(kind, stored, seq)

    monkeypatch.setattr(folding, "decode", noticed)
    return seen


def _noted(root: Path, count: int, process: str = "p1") -> None:
    with opened(root, process=process) as journal:
        for _ in range(count):
            journal.submit(note("a")).result()
            journal.state(NOTES)


def _kept(root: Path) -> list[str]:
    folder = root / "snapshots"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _found(root: Path, *more: Family) -> list[tuple[str, str]]:
    found = list(differences(root / "ledger.db", [NOTES, TALLY, *more]))
    assert all(difference.meaning and difference.remedy for difference in found)
    return [(difference.name, difference.place) for difference in found]


def test_opening_folds_what_came_after_the_snapshot_and_nothing_else(tmp_path: Path, read: list[int]) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT + 3)
    assert _kept(root) == ["test-notes", "test-tally"]
    read.clear()
    with opened(root) as journal:
        assert journal.state(NOTES) == [LIMIT + 3]
        assert journal.state(TALLY) == (LIMIT + 3, 0)
    assert read == [LIMIT + 1, LIMIT + 2, LIMIT + 3]


def test_a_decision_is_made_on_the_snapshot_and_what_came_after(tmp_path: Path, read: list[int]) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT + 3)
    with opened(root) as journal:
        read.clear()
        with pytest.raises(Exception, match=f"{LIMIT + 4} is too many"):
            journal.submit(note("a", ceiling=LIMIT + 3)).result()
        assert journal.submit(note("a", ceiling=LIMIT + 4)).result()[0].seq == LIMIT + 4
    assert read == [LIMIT + 1, LIMIT + 2, LIMIT + 3]


def test_a_short_journal_has_none(tmp_path: Path) -> None:
    _noted(tmp_path / "root", LIMIT - 1)
    assert _kept(tmp_path / "root") == []


def test_a_process_without_a_name_leaves_none(tmp_path: Path) -> None:
    _noted(tmp_path / "root", 3 * LIMIT, process="")
    assert _kept(tmp_path / "root") == []


def test_one_is_made_when_opening_took_long(tmp_path: Path, read: list[int]) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT, process="")
    opened(root, process="p2").close()
    assert _kept(root) == ["test-notes", "test-tally"]
    read.clear()
    opened(root).close()
    assert read == []


def test_one_is_made_when_leaving_after_events_that_were_read_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root, process="p1") as journal:
        _noted(root, LIMIT, process="")
        journal.refresh()
        assert _kept(root) == []
    assert _kept(root) == ["test-notes", "test-tally"]


def test_snapshots_are_private(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT)
    assert stat.S_IMODE((root / "snapshots").stat().st_mode) == 0o700
    assert {stat.S_IMODE((root / "snapshots" / name).stat().st_mode) for name in _kept(root)} == {0o600}


def test_a_big_state_is_written_less_often(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, "p1")
    assert kept.due() == LIMIT
    many = msgspec.structs.replace(NOTES, initial=list)
    kept.save([many], {NOTES.name: list(range(100_000))}, 1, bytes(32))
    assert kept.due() > 100_000 // snapshots.BYTES_AN_EVENT
    kept.save([many], {NOTES.name: []}, 1, bytes(32))
    assert kept.due() == LIMIT


def test_a_state_that_can_not_be_written_is_folded_each_time(tmp_path: Path) -> None:
    class Opaque:
        pass

    kept = Snapshots(tmp_path, "p1")
    opaque = msgspec.structs.replace(NOTES, initial=Opaque)
    kept.save([opaque], {NOTES.name: Opaque()}, 1, bytes(32))
    kept.save([NOTES], {NOTES.name: [2**64]}, 1, bytes(32))
    assert _kept(tmp_path) == []


def test_a_root_in_which_none_can_be_written_is_used_all_the_same(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, 1)
    (root / "snapshots").write_text("a file, no folder")
    with opened(root, process="p1") as journal:
        for _ in range(LIMIT + 1):
            journal.submit(note("a")).result()
            journal.state(NOTES)
        assert journal.state(NOTES) == [LIMIT + 2]


def test_another_origin_is_folded_from_its_own_events(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    with Journal.open(elsewhere, [NOTES], actor="t", clock=lambda: 0, create=True, origin="example.org/there") as there:
        events = [there.submit(note("a", 5)).result()[0].bytes for _ in range(LIMIT)]
    with opened(root, process="p1") as journal:
        journal.admit(Foreign("example.org/there", events, lambda count: (NoteTaken(subject="b", number=1),)), Blobs())
        assert journal.state(NOTES) == [1]
    read = Journal.open(root, [NOTES], actor="t", clock=lambda: 0, process="p2", reading="example.org/there")
    assert read.state(NOTES) == [5 * LIMIT]
    read.close()
    with opened(root) as journal:
        assert journal.state(NOTES) == [1]
    assert _found(root) == []
    assert _kept(root) == ["test-notes", "test-tally"]


# What is wrong with one.


def _rewrite(path: Path, **changes: object) -> None:
    snapshot = snapshots._read(path)
    assert snapshot is not None
    content = msgspec.msgpack.encode(msgspec.structs.replace(snapshot, **changes))
    path.write_bytes(snapshots.MAGIC + blake3(content).digest() + content)


SPOILT: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.write_bytes(b""), "snapshot-damaged"),
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "snapshot-damaged"),
    (lambda path: path.write_bytes(path.read_bytes()[:60] + b"\0" + path.read_bytes()[61:]), "snapshot-damaged"),
    (lambda path: path.write_bytes(b"E" + path.read_bytes()[1:]), "snapshot-damaged"),
    (lambda path: _rewrite(path, family="test-tally"), "snapshot-unknown"),
    (lambda path: _rewrite(path, head=bytes(32)), "snapshot-foreign"),
    (lambda path: _rewrite(path, seq=1), "snapshot-foreign"),
    (lambda path: _rewrite(path, seq=LIMIT + 9), "snapshot-foreign"),
    (lambda path: _rewrite(path, state=msgspec.msgpack.encode({"a": 1})), "snapshot-differs"),
    (lambda path: _rewrite(path, release="0.0.9", state=msgspec.msgpack.encode([99])), ""),
    (lambda path: _rewrite(path, shape="b3:0", state=msgspec.msgpack.encode([99])), ""),
    (lambda path: _rewrite(path, version=2, state=msgspec.msgpack.encode([99])), ""),
]


@pytest.mark.parametrize(("spoil", "name"), SPOILT)
def test_what_is_wrong_with_a_snapshot_is_found_and_changes_no_state(
    tmp_path: Path, spoil: Callable[[Path], object], name: str
) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT + 2)
    assert _found(root) == []
    spoil(root / "snapshots" / "test-notes")
    assert _found(root) == ([(name, "snapshots/test-notes")] if name else [])
    with opened(root) as journal:
        assert journal.state(NOTES) == [LIMIT + 2]
        assert journal.submit(note("a", ceiling=LIMIT + 3)).result()


def test_a_state_that_the_events_do_not_fold_to_is_found(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT + 2)
    _rewrite(root / "snapshots" / "test-notes", state=msgspec.msgpack.encode([LIMIT + 1]))
    assert _found(root) == [("snapshot-differs", "snapshots/test-notes")]


def test_a_file_of_no_family_is_found(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT)
    (root / "snapshots" / "test-notes").rename(root / "snapshots" / "whatever")
    assert _found(root) == [("snapshot-unknown", "snapshots/whatever")]


def test_a_snapshot_of_an_older_fold_is_not_used(tmp_path: Path) -> None:
    """Its version goes up with the fold."""
    root = tmp_path / "root"
    _noted(root, LIMIT)
    newer = msgspec.structs.replace(NOTES, version=2)
    store = Store(root / "ledger.db")
    assert Snapshots(root, "").load(store, NOTES, LIMIT) == (LIMIT, [LIMIT])
    assert Snapshots(root, "").load(store, newer, LIMIT) == (0, [0])
    assert Snapshots(root, "").load(store, NOTES, LIMIT - 1) == (0, [0])
    store.close()


def test_families_that_stand_at_different_positions_read_each_event_once(tmp_path: Path, read: list[int]) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT)
    (root / "snapshots" / "test-tally").unlink()
    _noted(root, 2, process="")
    read.clear()
    with opened(root) as journal:
        assert journal.state(NOTES) == [LIMIT + 2]
        assert journal.state(TALLY) == (LIMIT + 2, 0)
    assert read == list(range(1, LIMIT + 3))


def test_an_event_that_is_missing_after_the_snapshot_is_missed_at_once(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT + 4)
    tamper(root, "DELETE FROM events WHERE seq = 10")
    with pytest.raises(refusals.JournalDamaged, match="event 10 is missing"):
        opened(root)


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT)
    (root / "snapshots" / "test-notes.gone").write_bytes(b"half")
    with opened(root, process="alive"):
        writing = root / "snapshots" / "test-notes.alive"
        writing.write_bytes(b"half")
        assert _found(root) == []
        with opened(root, process="other"):
            assert _kept(root) == ["test-notes", "test-notes.alive", "test-tally"]
    opened(root, process="other").close()
    assert _kept(root) == ["test-notes", "test-tally"]


def test_windows_of_positions_join_without_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    _noted(root, 23, process="")
    monkeypatch.setattr(folding, "WINDOW", 5)
    with opened(root) as journal:
        assert journal.state(NOTES) == [23]


# The product's own families.


def _families() -> Iterator[Family]:
    for module in pkgutil.iter_modules(families.__path__):
        members = vars(importlib.import_module(f"{families.__name__}.{module.name}")).values()
        yield from (member for member in members if isinstance(member, Family))


@pytest.mark.parametrize("family", list(_families()), ids=lambda family: family.name)
def test_every_state_of_the_product_can_be_written_down_and_read(family: Family) -> None:
    decoder = snapshots._decoder(family)
    assert decoder is not None
    assert decoder.decode(snapshots._encode(family.initial())) == family.initial()


def test_names_of_families_differ_and_can_be_names_of_files() -> None:
    names = [family.name for family in _families()]
    assert len(names) == len(set(names))
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)


def test_states_with_something_in_them_come_back_as_they_were() -> None:
    opened_call = calls.CallReserved(
        question="b3:q", attempt=0, dispatch=1, run="run", alias="a", worst_case=None, process="p",
        asked=BlobRef(blob="b3:b", size=1, media="text/plain"),
    )  # fmt: skip
    filled: list[tuple[Family, Any]] = [
        (serving.FAMILY, serving.Serving(open={"r": serving.Open("p", "a", None, 2)}, settled=2**53)),
        (calls.FAMILY, calls.Calls(open={"b3:q:0": opened_call}, tries={"b3:q:0": 1})),
        (judging.FAMILY, judging.Judging(approved={("a", "b")})),
        (providers.FAMILY, providers.Providers(roles={"judge": "a"})),
    ]
    for family, state in filled:
        decoder = snapshots._decoder(family)
        assert decoder is not None
        assert decoder.decode(snapshots._encode(state)) == state


def test_a_fold_never_reads_an_event_that_is_not_what_was_recorded(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT + 4)
    tamper(root, "UPDATE events SET bytes = CAST('x' AS BLOB) WHERE seq = 10")
    with pytest.raises(refusals.JournalDamaged, match="event 10 is not what was recorded"):
        opened(root)


def test_a_snapshot_of_events_that_are_damaged_is_not_called_well(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _noted(root, LIMIT + 4)
    tamper(root, "UPDATE events SET bytes = CAST('x' AS BLOB) WHERE seq = 2")
    assert _found(root) == [("snapshot-differs", "snapshots/test-notes"), ("snapshot-differs", "snapshots/test-tally")]


def test_a_state_with_a_new_field_has_another_shape() -> None:
    class Before(msgspec.Struct):
        one: int = 0

    class After(msgspec.Struct):
        one: int = 0
        two: int = 0

    assert len({snapshots._shape(state) for state in (Before, After, type(NOTES.initial()))}) == 3


def test_shapes_are_those_of_the_process_before() -> None:
    """A default that is written with its place in memory would make every snapshot useless to the next process."""
    for family in _families():
        assert " at 0x" not in repr(msgspec.inspect.type_info(type(family.initial())))
