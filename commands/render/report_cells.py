"""Cells of a report: a heat map of candidates and tasks, each cell of which leads to its rollout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import htpy as h

from commands.render.html import code, folded, hidden, recorded, table
from commands.render.plain import one_line
from commands.render.report_words import count, dollars, plural, score
from ledger.families.judging import in_words

if TYPE_CHECKING:
    from htpy import Element, Node

    from commands.reporting.sheet import Asked, Call, Cell, Judged, Seen, Sheet

SHADES = 6
MILLION = 1_000_000
TEXTS = 800_000  # characters of recorded text on a page, shared out among its rollouts
LEAST, MOST = 120, 3_000  # characters of one text
MOST_CELLS = 1_500  # that are shown in full; the others keep their place in the heat map
DIGEST = 19  # characters of a digest: enough for `exp show`
MOST_TASKS = 500  # rows of a heat map
MICRO = 1_000
MOST_BRIEF = 160


def heat_map(sheet: Sheet) -> list[Node]:
    """Return the heat maps: held-out tasks, and folded away those that were learned from."""
    if not sheet.cells:
        return [h.p[one_line(f"No cells are shown: {sheet.missing.get('cells', 'none are recorded')}.")]]
    held = [task for task in sheet.tasks if task.part == "held-out"]
    fit = [task for task in sheet.tasks if task.part == "fit"]
    return [
        h.p[
            "Each cell is a candidate's score on a task, from 0 to 1, and leads to the rollout. Framed: where it goes."
        ],
        h.ul(class_="key", aria_hidden="true")[
            [h.li[h.i(class_=f"h{shade}"), _range(shade)] for shade in range(SHADES)],
            h.li[h.i(class_="out"), "excluded"],
        ],
        _map(sheet, "Held-out tasks", held),
        folded(f"Tasks that were learned from ({len(fit)})", _map(sheet, "Fit tasks", fit), class_="table"),
    ]


def _range(shade: int) -> str:
    low, high = (score(MILLION * edge // SHADES, 2) for edge in (shade, shade + 1))
    return f"{low} to {high}"


def _map(sheet: Sheet, caption: str, tasks: Sequence[Asked]) -> Element:
    by_place: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in sheet.cells:
        by_place[cell.task, cell.alias].append(cell)
    shown = {cell.id for cell in _shown(sheet)}
    return h.div(class_="scroll", role="region", aria_label=caption, tabindex="0")[
        h.table(class_="heat")[
            h.caption[f"{caption} ({count(len(tasks))})"],
            h.thead[h.tr[h.th(scope="col")["task"], [h.th(scope="col")[one_line(one)] for one in sheet.candidates]]],
            h.tbody[
                [
                    h.tr[
                        h.th(scope="row", title=one_line(task.label))[h.span(class_="task")[_brief(task.text)]],
                        [_cell(by_place[task.id, alias], task.routed == alias, shown) for alias in sheet.candidates],
                    ]
                    for task in tasks[:MOST_TASKS]
                ]
            ],
        ],
        h.p[f"{plural(len(tasks) - MOST_TASKS, 'task')} more are left out here."] if len(tasks) > MOST_TASKS else None,
    ]


def _brief(text: str) -> str:
    """Return the beginning of a task, for one who looks for it."""
    shown = one_line(text[: 2 * MOST_BRIEF])
    return (shown if len(shown) <= MOST_BRIEF else f"{shown[:MOST_BRIEF].rstrip()}…") or "(no text)"


def _cell(cells: Sequence[Cell], routed: bool, shown: set[str]) -> Element:  # noqa: FBT001 - one caller
    if not cells:
        return h.td["-"]
    scores = [cell.score for cell in cells if cell.score is not None]
    mean = (2 * sum(scores) + len(scores)) // (2 * len(scores)) if scores else None
    shade = "out" if mean is None else f"h{min(mean * SHADES // MILLION, SHADES - 1)}"
    missing = all(cell.reason and not cell.calls for cell in cells)
    said: Node = [
        score(mean, 2) if mean is not None else "none" if missing else "excl.",
        h.span[f"of {len(cells)}"] if len(cells) > 1 else None,
        hidden(" routed here") if routed else None,
    ]
    inner = h.a(href=f"#{cells[0].id}")[said] if cells[0].id in shown else said
    return h.td(class_=f"{shade} to" if routed else shade)[inner]


def _shown(sheet: Sheet) -> list[Cell]:
    """Return the cells that are shown in full: held-out ones first, as many as a page can hold."""
    told = [cell for cell in sheet.cells if cell.calls or cell.turns or cell.judged]
    return sorted(told, key=lambda cell: cell.part == "fit")[:MOST_CELLS]


# Rollouts.


class _Room(NamedTuple):
    """How much of each recorded text is shown."""

    most: int


def rollouts(sheet: Sheet) -> list[Node]:
    """Return every rollout, folded away by task."""
    shown = _shown(sheet)
    by_task: dict[str, list[Cell]] = defaultdict(list)
    for cell in shown:
        by_task[cell.task].append(cell)
    texts = sum(2 * len(cell.turns) + 3 for cell in shown)
    room = _Room(min(max(TEXTS // max(texts, 1), LEAST), MOST))
    if not shown:
        why = sheet.missing.get("rollouts") or sheet.missing.get("cells", "none are recorded")
        return [h.p[one_line(f"No rollouts are shown: {why}.")]]
    left = len(sheet.cells) - len(shown)
    return [
        h.p[
            "What each candidate did, what came back, and what the judge said. ",
            f"Texts longer than {count(room.most)} characters are shortened; ",
            h.code["exp cat"],
            " prints them whole by the digests of the calls.",
        ],
        h.p[f"{plural(left, 'rollout')} more are in the journal and left out here."] if left else None,
        [_task(task, by_task[task.id], room) for task in sheet.tasks if by_task[task.id]],
    ]


def _task(task: Asked, cells: Sequence[Cell], room: _Room) -> Element:
    return folded(
        [h.strong[_brief(task.text)], " ", h.span(class_="muted")[f"{task.part}, {plural(len(cells), 'rollout')}"]],
        h.p(class_="muted")["task of trace ", code(task.label), "; source ", code(task.lineage, DIGEST)],
        recorded(task.text, room.most),
        h.p[one_line(f"Routed to {task.routed}: {(task.why or '').replace('-', ' ')}.")] if task.routed else None,
        [_rollout(cell, room) for cell in cells],
    )


def _rollout(cell: Cell, room: _Room) -> Element:
    came = f"score {score(cell.score)}" if cell.score is not None else f"excluded: {cell.reason}"
    sample = f", sample {cell.sample + 1}" if cell.sample else ""
    return folded(
        [one_line(f"{cell.alias}{sample}: {came}"), ", routed here" if cell.routed else None],
        h.div(class_="cell", id=cell.id)[
            h.p(class_="muted")[code(cell.id), f"; ended: {cell.ended or 'not at all'}; cost {dollars(cell.cost)}"],
            h.p[one_line(cell.problem)] if cell.problem else None,
            h.ol(class_="turns")[[_turn(one, room) for one in cell.turns]]
            if cell.turns
            else h.p["No action was taken."],
            [h.h3["Closing message"], recorded(cell.final, room.most)] if cell.final is not None else None,
            [_judged(one, room) for one in cell.judged],
            folded(f"Calls ({len(cell.calls)})", _calls(cell.calls), class_="table") if cell.calls else None,
        ],
    )


def _turn(one: Seen, room: _Room) -> Element:
    by = "" if one.by == "world model" else f" (by {one.by})"
    if one.error and not (one.tool or one.arguments or one.observation):
        return h.li[recorded(one.said, room.most, "said bad")]
    return h.li[
        recorded(one.said, room.most) if one.said else None,
        h.div["calls ", h.strong[one_line(one.tool) or "(no name)"]],
        recorded(one.arguments, room.most),
        h.div[("came back as an error" if one.error else "came back") + by],
        recorded(one.observation, room.most, "said bad" if one.error else "said"),
    ]


def _judged(one: Judged, room: _Room) -> list[Node]:
    given = "no usable score" if one.score is None else in_words(one.score)
    return [
        h.h3[one_line(f"The judge on {one.axis}: {given}")],
        h.p[one_line(one.problem)] if one.problem else None,
        recorded(one.words, room.most),
    ]


def _calls(calls: Sequence[Call]) -> Node:
    header = ("asked", "turn", "model", "cost", "ms", "tokens", "question", "reply")
    return table("In the order in which they were asked", header, [_call(one) for one in calls])


def _call(one: Call) -> tuple[Node, ...]:
    again = f" (attempt {one.attempt + 1})" if one.attempt else ""
    took = "unknown" if one.latency_us is None else count(one.latency_us // MICRO)
    turn = "-" if one.role == "judge" else str(one.turn + 1)
    return (
        f"{one.role}{again}",
        turn,
        one_line(one.served_model or "unknown"),
        dollars(one.cost),
        took,
        f"{count(one.input_tokens)} / {count(one.output_tokens)}",
        code(one.question, DIGEST),
        code(one.reply, DIGEST),
    )
