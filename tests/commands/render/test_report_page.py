"""The page: well formed, alone, silent, and with everything that was recorded escaped."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from typing import Any

import msgspec
import pytest

from commands.render import report_cells
from commands.render import report_page as report_page_module
from commands.render.html import page, recorded, table
from commands.render.report_figure import figure
from commands.render.report_page import report_page
from commands.render.report_text import report_text
from commands.reporting.sheet import Sheet
from ledger.families.providers import Endpoint
from ledger.prompt import Question
from tests.commands.optimizing.planted import World, call
from tests.commands.render.pages import Parts
from tests.commands.reporting.worlds import HOSTILE, sheet_of


def hostile(endpoint: Endpoint, question: Question, asked: dict[str, Any]) -> str | dict[str, Any] | None:
    """Whatever a model can say is hostile; of the cheap candidate every fourth rollout can't be judged."""
    if endpoint.alias == "world":
        return json.dumps({"observation": HOSTILE, "error": True, "done": False})
    if endpoint.alias == "judge":
        if b"cheap" in question.body and b"sorting" in question.body:
            return f"{HOSTILE} no score"
        return json.dumps({"axes": {"task-success": {"score": 0.5, "rationale": HOSTILE}}})
    if endpoint.alias == "embed":
        return None
    if asked["messages"][-1]["role"] == "tool":
        return HOSTILE
    stratum = "sorting" if "Sort" in asked["messages"][1]["content"] else "other"
    made = call("bash", json.dumps({"command": f"{endpoint.alias} {stratum} {HOSTILE}"}))
    return {**made, "content": HOSTILE}


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Sheet:
    world = World(tmp_path_factory.mktemp("hostile") / "root", fit=8, held_out=4)
    world.says = hostile
    world.optimize()
    made = sheet_of(world)
    tasks = tuple(msgspec.structs.replace(task, text=f"{HOSTILE} {task.text}", label=HOSTILE) for task in made.tasks)
    return msgspec.structs.replace(made, tasks=tasks, notes=(HOSTILE,), project=HOSTILE)


@pytest.fixture(scope="module")
def parts(sheet: Sheet) -> Parts:
    return Parts(report_page(sheet))


def test_nothing_that_was_recorded_becomes_an_element(sheet: Sheet, parts: Parts) -> None:
    assert not parts.all("script")
    assert not parts.all("img")
    assert not [part for part in parts.found if any(name.startswith("on") for name in part.attributes)]
    written = report_page(sheet)
    assert written.count("&lt;script&gt;alert(") > 50
    assert "<script" not in written
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", written)


def test_the_page_loads_runs_and_sends_nothing(parts: Parts) -> None:
    loading = [part for part in parts.found if {"src", "srcset", "data", "poster", "action"} & set(part.attributes)]
    assert not loading
    assert not parts.all("link")
    assert all(part.attributes["href"].startswith("#") for part in parts.found if "href" in part.attributes)
    assert not [part for part in parts.found if "style" in part.attributes]
    (style,) = parts.all("style")
    assert "url(" not in "".join(style.text)
    assert "@import" not in "".join(style.text)
    policy = next(
        part.attributes["content"] for part in parts.all("meta") if "content-security-policy" in str(part).lower()
    )
    digest = base64.b64encode(hashlib.sha256("".join(style.text).encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_every_link_leads_somewhere_and_no_id_is_there_twice(parts: Parts) -> None:
    ids = [part.attributes["id"] for part in parts.found if "id" in part.attributes]
    assert len(ids) == len(set(ids))
    assert {part.attributes["href"][1:] for part in parts.all("a")} <= set(ids)
    for part in parts.found:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(part.attributes.get(name, "").split()) <= set(ids)


def test_it_can_be_read_without_eyes(sheet: Sheet, parts: Parts) -> None:
    assert parts.all("html")[0].attributes["lang"] == "en"
    assert len(parts.all("h1")) == len(parts.all("main")) == len(parts.all("nav")) == 1
    assert len(parts.all("h2")) == len(parts.all("section")) == 9
    headings = [int(part.name[1]) for part in parts.found if re.fullmatch("h[1-6]", part.name)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    assert len(parts.all("caption")) == len(parts.all("table"))
    for heading in parts.all("th"):
        assert heading.attributes["scope"] in {"col", "row"}
    figures = [part for part in parts.all("svg") if part.attributes.get("aria-hidden") != "true"]
    assert [part.attributes["role"] for part in figures] == ["img"] * len(figures)
    hidden = [part for part in parts.found if part.attributes.get("class") == "unseen"]
    assert len(hidden) == len(sheet.report.routed) == 4


def test_every_cell_is_in_the_heat_map_and_leads_to_its_rollout(sheet: Sheet, parts: Parts) -> None:
    links = {
        part.attributes["href"][1:]: part for part in parts.all("a") if part.attributes["href"].startswith("#cell-")
    }
    assert set(links) == {cell.id for cell in sheet.cells}
    excluded = {cell.id for cell in sheet.cells if cell.score is None}
    assert excluded
    assert {name for name, part in links.items() if part.text[0] == "excl."} == excluded
    assert {part.text[0] for name, part in links.items() if name not in excluded} == {"0.50"}
    places = {part.attributes["id"]: part for part in parts.found if part.attributes.get("class") == "cell"}
    assert set(places) == set(links)
    assert all(part.around.count("details") == 2 for part in places.values())


def test_the_shade_of_a_cell_follows_its_score(sheet: Sheet) -> None:
    def shade(score: int | None) -> str:
        cells = tuple(msgspec.structs.replace(cell, score=score) for cell in sheet.cells)
        found = Parts(report_page(msgspec.structs.replace(sheet, cells=cells))).all("td")
        (only,) = {
            part.attributes["class"].split()[0]
            for part in found
            if "heat" not in str(part) and part.attributes.get("class")
        }
        return only

    assert [shade(score) for score in (0, 166_666, 166_667, 500_000, 999_999, 1_000_000, None)] == [
        "h0",
        "h0",
        "h1",
        "h3",
        "h5",
        "h5",
        "out",
    ]


def test_a_page_holds_so_many_rollouts_and_says_what_it_leaves_out(
    sheet: Sheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_cells, "MOST_CELLS", 5)
    written = report_page(sheet)
    shown = [part for part in Parts(written).found if part.attributes.get("class") == "cell"]
    held = {cell.id for cell in sheet.cells if cell.part == "held-out"}
    assert len(shown) == 5
    assert {part.attributes["id"] for part in shown} <= held
    assert f"{len(sheet.cells) - 5} rollouts more are in the journal" in written


def test_many_tasks_and_exclusions_are_cut_and_counted(sheet: Sheet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_cells, "MOST_TASKS", 3)
    held = {part.attributes["href"][1:] for part in Parts(report_page(sheet)).all("a")} & {c.id for c in sheet.cells}
    assert len(held) == 2 * 2 * 3  # candidates, maps and rows
    assert "1 task more are left out here." in report_page(sheet)
    monkeypatch.setattr(report_page_module, "MOST_EXCLUSIONS", 1)
    many = msgspec.structs.replace(sheet.report, exclusions=sheet.report.exclusions * 3)
    written = report_page(msgspec.structs.replace(sheet, report=many))
    assert f"that can&#39;t count ({len(many.exclusions)})" in written
    assert "Only the first 1 of each are listed" in written


def test_long_texts_are_shortened_so_that_the_page_stays_small(sheet: Sheet) -> None:
    turn = msgspec.structs.replace(sheet.cells[0].turns[0], observation="x" * 1_000_000)
    cells = tuple(msgspec.structs.replace(cell, turns=(turn,) * 20) for cell in sheet.cells)
    written = report_page(msgspec.structs.replace(sheet, cells=cells))
    assert "characters left out]" in written
    assert len(written) < 2_000_000


def test_the_same_sheet_makes_the_same_bytes(sheet: Sheet) -> None:
    assert report_page(sheet) == report_page(sheet)


def test_a_sheet_without_cells_says_why(sheet: Sheet) -> None:
    bare = msgspec.structs.replace(
        sheet, cells=(), fidelity=(), spent=(), missing={"cells": "the run isn't recorded"}, tasks=()
    )
    written = report_page(bare)
    Parts(written)
    assert "No rollouts are shown: the run isn&#39;t recorded." in written
    assert "Not measured: the run isn&#39;t recorded." in written
    assert "No call is recorded for this run." in written


def test_without_costs_scores_stand_alone(sheet: Sheet) -> None:
    lines = tuple(msgspec.structs.replace(line, cost_a_task=None) for line in sheet.lines)
    drawn = "".join(map(str, figure(msgspec.structs.replace(sheet, lines=lines))))
    assert "What tasks cost is unknown for some" in drawn
    same = tuple(msgspec.structs.replace(line, cost_a_task=5) for line in sheet.lines)
    assert "All ways cost the same" in "".join(map(str, figure(msgspec.structs.replace(sheet, lines=same))))
    none = tuple(msgspec.structs.replace(line, mean=None) for line in sheet.lines)
    assert "nothing to draw" in "".join(map(str, figure(msgspec.structs.replace(sheet, lines=none))))


def test_ways_at_one_place_share_a_mark(sheet: Sheet) -> None:
    drawn = "".join(map(str, figure(sheet)))
    legend = [re.sub("<[^>]*>", "", one) for one in re.findall("<li>.*?</li>", drawn)]
    assert legend[0].startswith("routed (the policy)")
    assert sum("dear (incumbent)" in one for one in legend) == 1
    assert not any(one.startswith("incumbent") for one in legend)


def test_tables_have_roles_and_name_each_cell_for_narrow_screens() -> None:
    found = Parts(str(table("A", ("one", "two"), [("x", "y")])))
    assert [part.attributes.get("role") for part in found.found if part.name not in {"caption", "span"}] == [
        "table",
        "rowgroup",
        "row",
        "columnheader",
        "columnheader",
        "rowgroup",
        "row",
        "rowheader",
        "cell",
    ]
    assert found.all("td")[0].attributes["data-label"] == "two"
    assert table("A", ("one",), []) is None


def test_an_empty_text_is_said_to_be_nothing() -> None:
    assert "<em>nothing</em>" in str(recorded("", 10))
    assert str(recorded("a\x1b[31mb", 10)) == '<pre class="said">ab</pre>'


def test_a_style_is_allowed_by_its_hash_alone() -> None:
    one, other = page("t", "a{}", None), page("t", "b{}", None)
    assert re.findall("sha256-[^']*", one) != re.findall("sha256-[^']*", other)
    assert one.startswith("<!doctype html>")


# In tables.


def test_the_tables_say_what_the_page_says(sheet: Sheet) -> None:
    said = "\n\n".join(report_text(sheet))
    assert said.startswith(f"report {sheet.report_id} of {sheet.run}\n\n- For project ")
    titles = [paragraph.partition("\n")[0] for paragraph in said.split("\n\n")]
    for title in (
        "What makes this say less than it seems to:",
        "Ways to serve the held-out tasks",
        "What routing changes",
        "Held-out cells (* where the policy sends the task)",
        "The judge beside people",
        "Held-out rollouts that can't count",
        "Spend by part",
        "The simulated environment beside recordings",
        "Provenance",
    ):
        assert title in titles
    rows = said[said.index("Held-out cells (*") :].split("\n\n")[0].splitlines()[3:]
    starred = [[mark.endswith("*") for mark in row.split()[-2:]] for row in rows]
    held = [task for task in sheet.tasks if task.part == "held-out"]
    assert starred == [[task.routed == alias for alias in sheet.candidates] for task in held]
    assert {row.split()[-2].rstrip("*") for row in rows} == {"0.50", "excluded"}
    assert "not measured: no calibration of this judge was approved" in said


def test_many_tasks_are_counted_instead_of_listed(sheet: Sheet) -> None:
    held = next(task for task in sheet.tasks if task.part == "held-out")
    many = msgspec.structs.replace(sheet, tasks=(held,) * 32)
    assert "and 2 more" in "\n".join(report_text(many))
