"""The sentences: each says what the numbers say, and no more."""

from __future__ import annotations

import msgspec
import pytest

from commands.reporting.sheet import Sheet
from commands.reporting.summary import summary
from projections.calibration import Corrected
from projections.report import Difference
from tests.commands.optimizing.planted import World
from tests.commands.reporting.worlds import sheet_of


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Sheet:
    world = World(tmp_path_factory.mktemp("summary") / "root", fit=4, held_out=4)
    world.optimize()
    return sheet_of(world)


def said(sheet: Sheet, beginning: str) -> str:
    return next(sentence for sentence in summary(sheet) if beginning in sentence)


def with_difference(sheet: Sheet, one: Difference) -> Sheet:
    others = tuple(other for other in sheet.report.differences if other.name != one.name)
    return msgspec.structs.replace(sheet, report=msgspec.structs.replace(sheet.report, differences=(*others, one)))


@pytest.mark.parametrize(
    ("value", "low", "high", "shown", "words"),
    [
        (100_000, 50_000, 150_000, True, "+0.100 (95% interval 0.050 to 0.150); chance alone hardly explains it."),
        (-20_000, -70_000, 30_000, False, "-0.020 (95% interval -0.070 to 0.030): so few tasks don't show that there"),
        (0, 0, 0, False, "The difference is exactly 0."),
    ],
)
def test_a_difference_is_claimed_only_where_it_is_shown(
    sheet: Sheet, value: int, low: int, high: int, words: str, *, shown: bool
) -> None:
    one = Difference(name="perf-gain", value=value, low=low, high=high, shown=shown)
    assert words in said(with_difference(sheet, one), "Routing scores")


def test_an_undefined_difference_says_why(sheet: Sheet) -> None:
    one = Difference(name="perf-gain", undefined="fewer than two lineages count")
    assert "is undefined: fewer than two lineages count." in said(with_difference(sheet, one), "Routing scores")


@pytest.mark.parametrize(
    ("value", "low", "high", "shown", "words"),
    [
        (539_000, 357_000, 700_000, True, "Routing saves 53.9% (95% interval 35.7% to 70.0%)."),
        (-200_000, -300_000, -100_000, True, "costs 20.0% more: the share saved is negative (95% interval -30.0% to"),
        (50_000, -10_000, 90_000, False, "; so few tasks don't show whether anything is saved."),
        (0, 0, 0, False, "Nothing is saved."),
    ],
)
def test_what_is_saved_is_said_with_its_sign_and_doubt(
    sheet: Sheet, value: int, low: int, high: int, words: str, *, shown: bool
) -> None:
    one = Difference(name="cost-save", value=value, low=low, high=high, shown=shown)
    assert words in said(with_difference(sheet, one), "Answering these tasks")


def with_lines(sheet: Sheet, **changes: object) -> Sheet:
    lines = tuple(msgspec.structs.replace(line, **changes) for line in sheet.lines)
    return msgspec.structs.replace(sheet, lines=lines)


def test_an_unknown_cost_is_not_compared_and_a_free_one_not_saved_on(sheet: Sheet) -> None:
    assert "unknown" in said(with_lines(sheet, cost=None), "What these tasks cost")
    assert "What is free can't be saved on." in said(with_lines(sheet, cost=0), "Answering these tasks")


def test_tasks_that_move_are_counted_by_where_they_go(sheet: Sheet) -> None:
    first, *rest = (msgspec.structs.replace(one, alias="dear") for one in sheet.report.routed)
    moved = msgspec.structs.replace(first, alias="cheap")
    report = msgspec.structs.replace(sheet.report, routed=(moved, *rest))
    words = said(msgspec.structs.replace(sheet, report=report), "The router sends")
    assert words == "The router sends 1 of 4 held-out tasks elsewhere: 1 to cheap."
    stays = msgspec.structs.replace(sheet.report, routed=(first, *rest))
    assert "every held-out task to the incumbent, dear" in said(
        msgspec.structs.replace(sheet, report=stays), "The router sends"
    )


def test_people_s_passes_are_told_with_their_interval_or_not_at_all(sheet: Sheet) -> None:
    known = msgspec.structs.replace(
        sheet, calibration=msgspec.structs.replace(sheet.calibration, id="calibration-x", missing="")
    )
    some = Corrected(value=600_000, low=300_000, high=900_000)
    assert "people would pass about 60.0% (95% interval 30.0% to 90.0%)" in said(
        with_lines(known, corrected=some), "The judge passes"
    )
    any_share = Corrected(value=600_000, low=0, high=1_000_000)
    assert said(with_lines(known, corrected=any_share), "The judge passes").endswith("it could be any.")
    none = Corrected(undefined="the labels identify sensitivity only")
    assert "isn't known: the labels identify sensitivity only." in said(
        with_lines(known, corrected=none), "The judge passes"
    )
    assert "No routed task counts" in said(with_lines(sheet, raw=None), "share of passes")
