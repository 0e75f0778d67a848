"""Older versions of a kind are read as the newest; what a later release recorded is never skipped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger import digests, refusals
from ledger.event import KINDS, OLDER, Command, Event, Family, Found, Older, Step, event, older
from ledger.journal import Journal
from ledger.kinds import RELEASE
from ledger.store import OWN, Store
from ledger.verify import verify
from tests.ledger.notes import NOTES, opened
from tools import reference


@event("test-measured@3")
class Measured(Event):
    """A length, in millimetres since version 2, and with who measured it since version 3."""

    name: str
    millimetres: int
    by: str | None = None

    @property
    def stream(self) -> str:
        return "measures"

    @property
    def key(self) -> str:
        return self.name


@older("test-measured@2", Measured)
class Measured2(Older):
    """Without who measured it."""

    name: str
    millimetres: int

    def upcast(self) -> Measured:
        return Measured(name=self.name, millimetres=self.millimetres)


@older("test-measured@1", Measured)
class Measured1(Older):
    """In centimetres."""

    name: str
    centimetres: int

    def upcast(self) -> Measured:
        return Measured(name=self.name, millimetres=10 * self.centimetres)


class Measure(Command):
    """Record a length."""

    name: str
    millimetres: int


def _decide(command: Measure, state: dict[str, int], found: Found) -> tuple[Event, ...]:
    del state, found
    return (Measured(name=command.name, millimetres=command.millimetres),)


def _evolve(state: dict[str, int], measured: Measured) -> dict[str, int]:
    return state | {measured.name: measured.millimetres}


MEASURES = Family(name="test-measures", kinds=(Measured,), initial=dict, decide=_decide, evolve=_evolve)


def append(root: Path, kind: str, body: dict[str, object], key: str | None = None) -> None:
    """Record an event as another release would."""
    store = Store(root / "ledger.db")
    seq, head = store.last()
    version = store.version("measures") + 1
    facts = {"actor": "t", "at": 1, "body": body, "cause": None, "key": key, "kind": kind}
    stored = json.dumps(
        {**facts, "stream": "measures", "version": version}, sort_keys=True, separators=(",", ":")
    ).encode()
    ident = digests.event_id(stored)
    store.begin()
    row = (seq + 1, ident, digests.chained(head, ident), kind, "measures", version, key, stored, OWN)
    store.insert([row])
    store.commit()
    store.close()


def measuring(root: Path, *families: Family) -> Journal:
    return Journal.open(root, families or (MEASURES,), actor="t", clock=lambda: 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root with the same kind in each of its versions."""
    opened(tmp_path / "root").close()
    append(tmp_path / "root", "test-measured@1", {"centimetres": 1, "name": "a"}, "a")
    append(tmp_path / "root", "test-measured@2", {"millimetres": 2, "name": "b"}, "b")
    append(tmp_path / "root", "test-measured@3", {"by": "me", "millimetres": 3, "name": "c"}, "c")
    return tmp_path / "root"


def test_each_version_is_folded_found_and_listed_as_the_newest(root: Path) -> None:
    with measuring(root) as journal:
        assert journal.state(MEASURES) == {"a": 10, "b": 2, "c": 3}
        assert [record.event for record in journal.events(Measured)] == [
            Measured(name="a", millimetres=10),
            Measured(name="b", millimetres=2),
            Measured(name="c", millimetres=3, by="me"),
        ]
        found = journal.find(Measured, "a")
        assert found is not None
        assert (found.kind, found.event) == ("test-measured@1", Measured(name="a", millimetres=10))
        assert journal.find(Measured, "z") is None
    assert verify(root / "ledger.db", full=True) == []


def test_an_answer_of_an_older_version_is_not_given_again(root: Path) -> None:
    with measuring(root) as journal:
        (again,) = journal.submit(Step(MEASURES, Measure(name="a", millimetres=10))).result()
        assert (again.seq, again.kind) == (1, "test-measured@1")
        with pytest.raises(refusals.KeyConflict):
            journal.submit(Step(MEASURES, Measure(name="b", millimetres=9))).result()
        (fresh,) = journal.submit(Step(MEASURES, Measure(name="d", millimetres=4))).result()
        assert (fresh.seq, fresh.kind, fresh.version) == (4, "test-measured@3", 4)
        journal.refresh()
        assert journal.state(MEASURES) == {"a": 10, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize("kind", ["test-measured@4", "budget-set@2", "test-surprised@1"])
def test_a_journal_with_a_kind_of_a_later_release_is_refused_by_its_name(root: Path, kind: str) -> None:
    with measuring(root) as journal:
        append(root, kind, {})
        with pytest.raises(refusals.UnknownKind, match=f"event 4 is of kind {kind}"):
            journal.refresh()
    with pytest.raises(refusals.UnknownKind, match=f"event 4 is of kind {kind}"):
        measuring(root, NOTES)
    with Journal.open(root, (), actor="t", clock=lambda: 1) as reading:
        assert [record.kind for record in reading.events()][-1] == kind
        with pytest.raises(refusals.UnknownKind):
            _ = [*reading.events()][-1].event
    assert verify(root / "ledger.db", full=True) == []


@pytest.mark.parametrize("body", [{"name": "d"}, {"millimetres": "4", "name": "d"}, {"name": "d", "stones": 1}])
def test_an_event_that_its_kind_does_not_accept_is_damage(root: Path, body: dict[str, object]) -> None:
    append(root, "test-measured@3", body)
    with pytest.raises(refusals.JournalDamaged, match="event 4 is no test-measured@3"):
        measuring(root)


def test_a_writer_refuses_to_decide_after_what_it_does_not_know(root: Path) -> None:
    with measuring(root) as journal:
        journal.submit(Step(MEASURES, Measure(name="d", millimetres=4))).result()
        append(root, "test-measured@4", {})
        with pytest.raises(refusals.UnknownKind):
            journal.submit(Step(MEASURES, Measure(name="e", millimetres=5))).result()


@pytest.mark.parametrize(
    ("kind", "newest"),
    [
        ("test-measured@3", Measured),
        ("test-measured@4", Measured),
        ("test-measured@1", Measured),
        ("test-weighed@1", Measured),
    ],
)
def test_an_older_version_is_registered_once_and_in_order(kind: str, newest: type[Event]) -> None:
    with pytest.raises(TypeError, match=kind):
        older(kind, newest)(Measured1)


def test_every_kind_that_is_shipped_is_known_without_loading_it() -> None:
    reference.load_everything()
    shipped: Callable[[type], bool] = lambda shape: shape.__module__.partition(".")[0] in reference.PACKAGES  # noqa: E731 - one test's own
    assert {kind for kind, shape in (KINDS | OLDER).items() if shipped(shape)} == RELEASE
