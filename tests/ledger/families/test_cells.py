"""Cells: each step once, in order, and owed until closed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.event import BlobRef, Event
from ledger.families import cells
from ledger.families.cells import (
    CandidateTurned,
    Cell,
    CellExcluded,
    CellFinished,
    Cells,
    Misspoken,
    OpenCells,
    Simulated,
    StepOutOfOrder,
    TakeStep,
    read_simulation,
    read_turn,
)
from ledger.prompt import Reply, ToolCall, Usage

REPLY = BlobRef(blob="b3:" + "0" * 64, size=1, media="application/json")


def a_cell(task: str = "t1", candidate: str = "c1", **changed: Any) -> Cell:
    facts: dict[str, Any] = {
        "project": "p",
        "build": "b",
        "task": task,
        "lineage": f"lineage-{task}",
        "part": "fit",
        "candidate": candidate,
        "world_model": "w",
        "embedder": "e",
        "setup": "s",
        "maximum_model_calls": 3,
        "sample": 0,
        "asked_at": ("here", "there"),
        "version": "1",
    }
    return Cell(**(facts | changed))


def turned(cell: Cell, turn: int, calls: int = 1) -> CandidateTurned:
    return CandidateTurned(
        cell=cell.id, turn=turn, attempt=0, question=f"q{turn}", reply=REPLY, calls=calls, shape="calls"
    )


def finished(cell: Cell) -> CellFinished:
    return CellFinished(cell=cell.id, ended="final", model_calls=2, actions=1, input_tokens=1, output_tokens=None)


def nothing(kind: str, key: str) -> Event | None:
    del kind, key
    return None


def decided(state: Cells, command: Any, recorded: dict[tuple[str, str], Event]) -> Cells:
    for event in cells.decide(command, state, lambda kind, key: recorded.get((kind, key))):
        assert event.key is not None
        recorded[event.kind, event.key] = event
        state = cells.evolve(state, event)
    return state


def test_opening_cells_again_appends_nothing() -> None:
    command = OpenCells(cells=(a_cell(), a_cell("t2")))
    state = decided(Cells(), command, {})
    assert cells.decide(command, state, nothing) == ()
    assert list(cells.wanted(state)) == [a_cell().id, a_cell("t2").id]


def test_another_optimization_opens_only_the_cells_that_are_new() -> None:
    state = decided(Cells(), OpenCells(cells=(a_cell(),)), {})
    more = cells.decide(OpenCells(cells=(a_cell(), a_cell(candidate="c2"))), state, nothing)
    assert [event.stream for event in more] == [f"cell:{a_cell(candidate='c2').id}"]


@pytest.mark.parametrize(
    "changed",
    [
        {"build": "x"},
        {"candidate": "x"},
        {"setup": "x"},
        {"maximum_model_calls": 9},
        {"sample": 1},
        {"asked_at": ("x",)},
        {"world_model": "x"},
        {"embedder": "x"},
    ],
)
def test_whatever_decides_a_rollout_is_in_its_cells_id(changed: dict[str, Any]) -> None:
    assert a_cell(**changed).id != a_cell().id


def test_a_step_taken_again_appends_nothing() -> None:
    cell, recorded = a_cell(), dict[tuple[str, str], Event]()
    state = decided(Cells(), OpenCells(cells=(cell,)), recorded)
    step = TakeStep(step=0, taken=turned(cell, 0))
    state = decided(state, step, recorded)
    assert cells.decide(step, state, lambda kind, key: recorded.get((kind, key))) == ()


def test_a_recorded_step_with_other_facts_is_left_to_the_journal_to_refuse() -> None:
    cell, recorded = a_cell(), dict[tuple[str, str], Event]()
    state = decided(Cells(), OpenCells(cells=(cell,)), recorded)
    state = decided(state, TakeStep(step=0, taken=turned(cell, 0)), recorded)
    other = TakeStep(step=0, taken=turned(cell, 0, calls=2))
    assert cells.decide(other, state, lambda kind, key: recorded.get((kind, key))) == (other.taken,)


@pytest.mark.parametrize("step", [1, 2])
def test_a_step_before_the_one_it_follows_from_is_refused(step: int) -> None:
    state = decided(Cells(), OpenCells(cells=(a_cell(),)), {})
    with pytest.raises(StepOutOfOrder):
        cells.decide(TakeStep(step=step, taken=turned(a_cell(), step)), state, nothing)


def test_a_step_of_a_cell_that_nobody_opened_is_refused() -> None:
    with pytest.raises(StepOutOfOrder):
        cells.decide(TakeStep(step=0, taken=turned(a_cell(), 0)), Cells(), nothing)


@pytest.mark.parametrize("closing", ["finished", "excluded"])
def test_a_closed_cell_is_no_longer_wanted(closing: str) -> None:
    cell = a_cell()
    end: Any = finished(cell)
    if closing == "excluded":
        end = CellExcluded(cell=cell.id, reason="judge_unreadable", problem="empty")
    state = decided(Cells(), OpenCells(cells=(cell, a_cell("t2"))), {})
    state = cells.evolve(state, end)
    assert list(cells.wanted(state)) == [a_cell("t2").id]
    assert state.closed(cell.id)
    assert (cell.id in state.excluded) == (closing == "excluded")
    assert cells.decide(OpenCells(cells=(cell,)), state, nothing) == ()


@given(st.permutations(range(6)))
def test_events_of_independent_cells_in_another_order_give_the_same_reading(order: list[int]) -> None:
    both = [a_cell("t1"), a_cell("t2")]
    opened = [cells.CellOpened(cell=cell.id, facts=cell) for cell in both]
    events: list[list[Event]] = [[opened[at], turned(both[at], 0), finished(both[at])] for at in (0, 1)]
    queues = [iter(one) for one in events]
    state = Cells()
    for place in order:
        state = cells.evolve(state, next(queues[place % 2]))
    assert state == Cells(owed={}, finished={both[0].id, both[1].id}, excluded={})


def reply(text: str | None, calls: tuple[ToolCall, ...] = (), finish: str = "stop") -> Reply:
    return Reply(text=text, tool_calls=calls, finish_reason=finish, served_model="m", usage=Usage())


@pytest.mark.parametrize(
    ("given_reply", "shape"),
    [
        (reply("done"), "final"),
        (reply("don", finish="length"), "cut-off"),
        (reply(None), "empty"),
        (reply("  \n"), "empty"),
        (reply(None, (ToolCall("x", "bash", "{}"),)), "calls"),
        (reply("look", (ToolCall("x", "", "nonsense"),), "length"), "calls"),
    ],
)
def test_whatever_a_candidate_replies_is_a_turn(given_reply: Reply, shape: str) -> None:
    assert read_turn(given_reply).shape == shape


@pytest.mark.parametrize(
    "text",
    [
        '{"observation": "ok", "error": false, "done": true}',
        '```json\n{"observation": "ok", "error": false, "done": true}\n```',
        '\n  ```\n{"done": true, "error": false, "observation": "ok", "more": 1}\n```\n',
    ],
)
def test_one_object_is_read_in_a_fence_or_not(text: str) -> None:
    assert read_simulation(text) == Simulated(observation="ok", error=False, done=True)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "  ",
        "the file is there",
        '{"observation": "ok"}',
        '{"observation": 1, "error": false, "done": false}',
        '{"observation": "ok", "error": "no", "done": false}',
        '{"observation": "ok", "error": false, "done": 1}',
        '{"observation": "ok", "error": false, "done": false',
        '[{"observation": "ok", "error": false, "done": false}]',
        '{"observation": "ok", "error": false, "done": false} {}',
        "null",
        "[" * 5_000,
        '{"observation": "\\ud800", "error": false, "done": false}',
    ],
)
def test_anything_else_breaks_the_protocol_with_a_reason(text: str | None) -> None:
    read = read_simulation(text)
    assert isinstance(read, Misspoken)
    assert read.problem
