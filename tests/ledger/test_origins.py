"""Events of other origins: kept as they are, read on their own, and never taken for the journal's."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ledger import digests, refusals
from ledger.drafts import Foreign
from ledger.event import Blobs, Event, Step
from ledger.families import budget
from ledger.families.budget import BudgetSet, SetBudget
from ledger.families.imports import BundleImported, Counted
from ledger.journal import Journal
from ledger.verify import verify

HERE, THERE = "test/here", "test/there"


def opened(root: Path, origin: str = HERE, *, reading: str | None = None) -> Journal:
    clock = itertools.count(1)
    return Journal.open(
        root, (budget.FAMILY,), actor="t", clock=lambda: next(clock), create=True, origin=origin, reading=reading
    )


def spent(root: Path, *ceilings: int, origin: str = HERE) -> list[bytes]:
    """Set budgets, and return what is stored of them."""
    with opened(root, origin) as journal:
        for ceiling in ceilings:
            journal.submit(Step(budget.FAMILY, SetBudget(ceiling=ceiling))).result()
        return [record.bytes for record in journal.events(BudgetSet)]


def admitted(journal: Journal, events: list[bytes]) -> None:
    """Admit events of the other origin, announced as a bundle is."""

    def announce(fresh: int) -> tuple[Event, ...]:
        return (BundleImported(bundle="b3:0", origins=(Counted(origin=THERE, events=fresh),)),) if fresh else ()

    journal.admit(Foreign(THERE, events, announce), Blobs())
    journal.refresh()


def test_imported_events_keep_their_ids_and_change_no_state(tmp_path: Path) -> None:
    there = spent(tmp_path / "there", 10, 20, origin=THERE)
    spent(tmp_path / "here", 5)
    with opened(tmp_path / "here") as journal:
        admitted(journal, there)
        assert journal.state(budget.FAMILY).ceiling == 5
        assert [record.id for record in journal.events() if record.origin != 1] == [*map(digests.event_id, there)]
        assert list(journal.origins().values()) == [HERE, THERE]
        journal.submit(Step(budget.FAMILY, SetBudget(ceiling=7))).result()
        assert [record.version for record in journal.events(BudgetSet)] == [1, 2]
        assert [record.kind for record in journal.events()][2:4] == ["budget-set@1", "bundle-imported@1"]
    with opened(tmp_path / "here") as again:
        assert again.state(budget.FAMILY).ceiling == 7
    with opened(tmp_path / "here", reading=THERE) as other:
        assert other.state(budget.FAMILY).ceiling == 20
        assert [record.bytes for record in other.events(BudgetSet)] == there
        with pytest.raises(refusals.OriginNotOurs):
            other.submit(Step(budget.FAMILY, SetBudget(ceiling=1)))
    assert verify(tmp_path / "here" / "ledger.db", full=True) == []


def test_importing_the_same_again_adds_nothing_and_a_part_first_is_no_damage(tmp_path: Path) -> None:
    there = spent(tmp_path / "there", 10, 20, 30, origin=THERE)
    with opened(tmp_path / "here") as journal:
        admitted(journal, there[2:])
        assert verify(tmp_path / "here" / "ledger.db", full=True) == []
        admitted(journal, there)
        admitted(journal, there)
        assert journal.position()[0] == 5
    assert verify(tmp_path / "here" / "ledger.db", full=True) == []


def test_an_origin_that_says_two_things_is_refused_whole(tmp_path: Path) -> None:
    there = spent(tmp_path / "there", 10, 20, origin=THERE)
    forged = [there[0], there[1].replace(b'"ceiling":20', b'"ceiling":21')]
    assert forged[1] != there[1]
    with opened(tmp_path / "here") as journal:
        admitted(journal, there)
        with pytest.raises(refusals.OriginForked, match="version 2"):
            admitted(journal, forged)
        assert journal.position()[0] == 3


def test_an_origin_that_nothing_was_imported_of_is_named(tmp_path: Path) -> None:
    spent(tmp_path / "here", 1)
    for name in ("test/nowhere", "elsewhere"):
        with pytest.raises(refusals.OriginUnknown, match=name):
            opened(tmp_path / "here", reading=name)


def test_the_beginning_of_an_origin_s_name_must_mean_one(tmp_path: Path) -> None:
    there = spent(tmp_path / "there", 10, origin=THERE)
    spent(tmp_path / "here", 5)
    with opened(tmp_path / "here") as journal:
        admitted(journal, there)
    with opened(tmp_path / "here", reading="test/th") as other:
        assert other.state(budget.FAMILY).ceiling == 10
    with pytest.raises(refusals.OriginUnknown, match="more than one"):
        opened(tmp_path / "here", reading="test/")


def test_what_another_process_imports_moves_no_stream_of_ones_own(tmp_path: Path) -> None:
    there = spent(tmp_path / "there", 10, 20, 30, origin=THERE)
    with opened(tmp_path / "here") as one, opened(tmp_path / "here") as two:
        one.submit(Step(budget.FAMILY, SetBudget(ceiling=5))).result()
        admitted(two, there)
        (record,) = one.submit(Step(budget.FAMILY, SetBudget(ceiling=9))).result()
        assert record.version == 2
    assert verify(tmp_path / "here" / "ledger.db", full=True) == []
