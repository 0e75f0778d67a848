"""What the views say is what the states and the events say, and what the page says of them is so."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from commands.opening import open_journal, read_journal
from commands.querying.derived import make
from commands.querying.views import VIEWS
from ledger.event import Blobs, Step
from ledger.families import calls, cells, contents, judging, serving, traces
from ledger.families.calls import CallAnswered, CallFailed, CallLost, CallReleased, ReserveCall, SettleCall
from ledger.families.serving import (
    AcceptRequest,
    AttemptFailed,
    Counted,
    EndRequest,
    RefuseRequest,
    RequestAccepted,
    RequestAnswered,
    RequestFailed,
    RequestLost,
    RequestRefused,
    RequestRerouted,
    RetryDispatch,
    RouteDecided,
)
from ledger.prompt import Usage
from tests.commands.reading import Journey, Said

HERE = Path(__file__).resolve().parents[3]
QUESTION = "b3:" + "{:064x}"


def asked(exp: Said, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = exp.json("query", sql)["rows"]
    return rows


def documented() -> dict[str, set[str]]:
    """Return the columns that the page describes, by view."""
    page = (HERE / "docs" / "reading.md").read_text("utf-8")
    found = {}
    for part in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        name, _, text = part.partition("\n")
        text = text.partition("\n## ")[0]
        cells_ = re.findall(r"^\| ([a-z0-9_, ]+) \|", text, re.MULTILINE)
        found[name] = {column for cell in cells_ for column in cell.split(", ")} - {"column"}
    return found


def test_every_view_and_column_is_described_and_no_other(exp: Said) -> None:
    listed = {row["view"]: set(row["columns"].split(", ")) for row in exp.json("query")["rows"]}
    assert documented() == listed
    assert set(listed) == {*VIEWS, "events", "journal"}


def test_the_views_of_a_whole_path_agree_with_its_events(exp: Said, journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        kinds = Counter(record.kind.partition("@")[0] for record in journal.events())
        seqs = [record.seq for record in journal.events()]
    assert [row["seq"] for row in asked(exp, "SELECT seq FROM events ORDER BY seq")] == seqs
    for view, kind in (
        ("calls", "call-reserved"),
        ("cells", "cell-opened"),
        ("judgments", "judgment-recorded"),
        ("labels", "label-recorded"),
        ("traces", "trace-imported"),
        ("exclusions", "input-excluded"),
    ):
        assert asked(exp, f"SELECT count(*) AS n FROM {view}")[0]["n"] == kinds[kind], view  # noqa: S608 - names above
    outcomes = {row["outcome"]: row["n"] for row in asked(exp, "SELECT outcome, count(*) AS n FROM cells GROUP BY 1")}
    assert outcomes == {"finished": kinds["cell-finished"]}
    aliases = asked(exp, "SELECT alias, count(*) AS n FROM cells GROUP BY 1 ORDER BY 1")
    assert [(row["alias"], row["n"]) for row in aliases] == [("large", 9), ("small", 9)]


def test_costs_are_exact_in_nano_dollars_and_as_text(exp: Said, journey: Journey) -> None:
    rows = asked(exp, "SELECT run, settled_nano_usd, settled_usd FROM (SELECT name AS run, * FROM spend)")
    by_run: Counter[str] = Counter()
    for row in rows:
        assert Decimal(row["settled_usd"]) * 10**9 == row["settled_nano_usd"]
        by_run[row["run"]] += row["settled_nano_usd"]
    with open_journal(journey.root, "test", calls.FAMILY) as journal:
        state: calls.Calls = journal.state(calls.FAMILY)
        assert by_run == {run: totals.settled for run, totals in state.runs.items()}


def test_a_call_s_row_has_all_that_its_events_say(exp: Said, journey: Journey) -> None:
    with read_journal(journey.root) as journal:
        answered = [record for record in journal.events(CallAnswered) if b'"reply":{' in record.bytes][5]
        body = json.loads(answered.bytes)["body"]
        key = f"{body['question']}:{body['attempt']}:{body['dispatch']}"
        reserved = journal.find(calls.CallReserved, key)
        assert reserved is not None
        set_aside = json.loads(reserved.bytes)["body"]
    (row,) = asked(exp, f"SELECT * FROM calls WHERE question = '{body['question']}'")  # noqa: S608 - a digest
    assert row["outcome"] == "answered"
    assert row["taken_for_lost"] == 0
    assert (row["reserved_seq"], row["ended_seq"]) == (reserved.seq, answered.seq)
    assert (row["alias"], row["run"], row["worst_case_nano_usd"]) == tuple(
        set_aside[name] for name in ("alias", "run", "worst_case")
    )
    for name in ("attempt", "dispatch", "served_model", "latency_us", "problem"):
        assert row[name] == body[name], name
    assert row["cost_nano_usd"] == body["cost"]
    assert row["reply"] == body["reply"]["blob"]
    assert row["asked"] == set_aside["asked"]["blob"]
    for name, count in body["usage"].items():
        assert row[name] == count, name


def test_scores_are_null_where_there_is_none(tmp_path: Path, exp: Said) -> None:
    blobs = Blobs()
    reply = blobs.put("no score at all")
    common: dict[str, Any] = {"subject": "cell-1", "setup": "setup-1", "axes": ("fit", "tone"), "reply": reply}
    said = (
        judging.AxisScore(axis="fit", score=-250_000, rationale="x"),
        judging.AxisScore(axis="tone", score=0, rationale="x"),
    )
    with open_journal(tmp_path, "test", judging.FAMILY, create=True) as journal:
        replies: list[Any] = [judging.Unreadable(reason="nothing there"), said]
        for attempt, what in enumerate(replies):
            command = judging.RecordJudgment(**common, question="b3:1", attempt=attempt, said=what)
            journal.submit(Step(judging.FAMILY, command), blobs=blobs).result()
    exp.root = tmp_path
    rows = asked(exp, "SELECT attempt, axis, score_millionths, score, valid, problem FROM judgments ORDER BY seq")
    assert [tuple(row.values()) for row in rows] == [
        (0, "fit", None, None, 0, "nothing there"),
        (0, "tone", None, None, 0, "nothing there"),
        (1, "fit", -250_000, "-0.250000", 1, None),
        (1, "tone", 0, "0.000000", 1, None),
    ]


def reserve(number: int, *, worst: int | None = 1_000, run: str = "run-1") -> ReserveCall:
    blobs = Blobs()
    return ReserveCall(
        question=QUESTION.format(number),
        attempt=0,
        run=run,
        ceiling=None,
        alias="m",
        worst_case=worst,
        process="p",
        asked=blobs.put(f"question {number}"),
    )


def test_money_is_counted_as_the_calls_family_counts_it(tmp_path: Path, exp: Said) -> None:
    """Answered and unpriced, failed with and without a cost, released, lost, lost and then answered, and open."""

    def end(kind: Any, number: int, **more: Any) -> SettleCall:
        common = {"question": QUESTION.format(number), "attempt": 0, "dispatch": 0, "run": "run-1"}
        return SettleCall(end=kind(**common, **more))

    answer: dict[str, Any] = {"reply": None, "usage": Usage(), "served_model": None, "latency_us": 5}
    failure: dict[str, Any] = {"reason": "status", "status": 500, "sent": True}
    endings = [
        end(CallAnswered, 1, cost=700, **answer),
        end(CallAnswered, 2, cost=None, **answer),
        end(CallFailed, 3, cost=None, **failure),
        end(CallFailed, 4, cost=0, **failure),
        end(CallReleased, 5),
        end(CallLost, 6, process="p"),
        end(CallLost, 7, process="p"),
        end(CallAnswered, 7, cost=900, **answer),
        end(CallLost, 8, process="p"),
        end(CallAnswered, 8, cost=None, **answer),
    ]
    with open_journal(tmp_path, "test", calls.FAMILY, create=True) as journal:
        for number in range(1, 10):
            blobs = Blobs()
            blobs.put(f"question {number}")
            journal.submit(Step(calls.FAMILY, reserve(number, worst=1_000 * number)), blobs=blobs).result()
        for ending in endings:
            journal.submit(Step(calls.FAMILY, ending)).result()
        totals = journal.state(calls.FAMILY).totals("run-1")
    exp.root = tmp_path
    (row,) = asked(exp, "SELECT * FROM spend")
    assert (row["source"], row["name"], row["alias"]) == ("run", "run-1", "m")
    assert row["settled_nano_usd"] == totals.settled
    assert row["ambiguous_nano_usd"] == totals.ambiguous
    assert row["reserved_nano_usd"] == totals.reserved == 9_000
    assert row["calls"] == totals.calls == 8
    assert row["answered"] == totals.answered == 4
    assert row["unpriced"] == totals.unpriced
    outcomes = [one["outcome"] for one in asked(exp, "SELECT outcome FROM calls ORDER BY question")]
    assert outcomes == ["answered", "answered", "failed", "failed", "released", "lost", "answered", "answered", "open"]
    unknown = asked(exp, "SELECT cost_nano_usd, cost_usd, input_tokens FROM calls WHERE question LIKE '%2'")
    assert unknown == [{"cost_nano_usd": None, "cost_usd": None, "input_tokens": None}]


def accept(number: int, worst: int | None) -> AcceptRequest:
    request = f"p-{number}"
    return AcceptRequest(
        accepted=RequestAccepted(
            request=request,
            route="chat.completions",
            identity="me",
            model="plain",
            alias="m",
            streamed=False,
            ghost=False,
            process="p",
            worst_case=worst,
        ),
        decided=RouteDecided(
            request=request,
            alias="m",
            reason="named",
            api="chat.completions",
            base_url="http://x",
            sent="",
            policy=None,
        ),
    )


def test_requests_are_counted_as_the_serving_family_counts_them(tmp_path: Path, exp: Said) -> None:
    answered: dict[str, Any] = {
        "response": None,
        "usage": Counted(input_tokens=3, output_tokens=4),
        "served_model": "m-1",
        "as_pinned": True,
        "redacted": False,
        "latency_us": 50,
        "first_byte_us": 20,
    }
    steps = [
        *(accept(number, 1_000 * number) for number in range(1, 6)),
        RetryDispatch(failed=AttemptFailed(request="p-1", dispatch=0, reason="reset", worst_case=1_000)),
        RetryDispatch(
            failed=AttemptFailed(request="p-5", dispatch=0, reason="status", worst_case=5_000, alias="m", cost=50),
            rerouted=RequestRerouted(
                request="p-5",
                dispatch=1,
                alias="n",
                reason="failover",
                api="x",
                base_url="http://y",
                sent="",
                worst_case=700,
            ),
        ),
        EndRequest(ending=RequestAnswered(request="p-1", cost=400, **answered)),
        EndRequest(ending=RequestAnswered(request="p-2", cost=None, **answered)),
        EndRequest(ending=RequestFailed(request="p-3", status=502, code="upstream", error=None, cost=0)),
        EndRequest(ending=RequestLost(request="p-4", process="p")),
        RefuseRequest(
            refused=RequestRefused(request="p-9", route="chat.completions", identity="me", status=400, code="bad")
        ),
    ]
    with open_journal(tmp_path, "test", serving.FAMILY, create=True) as journal:
        for step in steps:
            journal.submit(Step(serving.FAMILY, step)).result()
        state: serving.Serving = journal.state(serving.FAMILY)
    exp.root = tmp_path
    row, other = asked(exp, "SELECT * FROM spend ORDER BY alias")
    assert (row["source"], row["name"], row["alias"], other["alias"]) == ("gateway", "me", "m", "n")
    assert row["settled_nano_usd"] == state.settled == 450
    assert row["ambiguous_nano_usd"] == state.ambiguous == 7_000
    assert (row["reserved_nano_usd"], other["reserved_nano_usd"]) == (0, 700)
    assert state.reserved == 700
    assert (row["calls"], row["answered"], other["calls"], other["answered"]) == (4, 2, 1, 0)
    rows = asked(exp, "SELECT request, outcome, status, code, retries, output_tokens FROM requests ORDER BY request")
    assert [tuple(one.values()) for one in rows] == [
        ("p-1", "answered", None, None, 1, 4),
        ("p-2", "answered", None, None, 0, 4),
        ("p-3", "failed", 502, "upstream", 0, None),
        ("p-4", "lost", None, None, 0, None),
        ("p-5", "open", None, None, 1, None),
        ("p-9", "refused", 400, "bad", 0, None),
    ]


def test_exclusions_of_inputs_and_of_cells_are_in_one_view(tmp_path: Path, exp: Said) -> None:
    blobs = Blobs()
    detail = blobs.put("{broken")
    one = traces.InputExcluded(source="b3:1", place="line 3", reason="not-json", detail=detail, count=2)
    cell = cells.Cell(
        project="p",
        build="build-1",
        task="task-1",
        lineage="b3:2",
        part="fit",
        candidate="b3:3",
        world_model="b3:4",
        embedder="b3:5",
        setup="setup-1",
        maximum_model_calls=3,
        sample=0,
        asked_at=(),
        version="rollout@1",
    )
    out = cells.CellExcluded(cell=cell.id, reason="judge_unreadable", problem="the reply is empty")
    with open_journal(tmp_path, "test", traces.FAMILY, cells.FAMILY, create=True) as journal:
        journal.submit(
            Step(traces.FAMILY, traces.RecordImport(source="b3:1", traces=(), excluded=(one,))),
            Step(cells.FAMILY, cells.OpenCells(cells=(cell,))),
            Step(cells.FAMILY, cells.TakeStep(step=0, taken=out)),
            blobs=blobs,
        ).result()
    exp.root = tmp_path
    rows = asked(exp, "SELECT what, source, place, reason, count, detail, cell, problem FROM exclusions ORDER BY seq")
    assert [tuple(row.values()) for row in rows] == [
        ("input", "b3:1", "line 3", "not-json", 2, detail.blob, None, None),
        ("cell", None, None, "judge_unreadable", 1, None, cell.id, "the reply is empty"),
    ]
    (row,) = asked(exp, "SELECT outcome, reason, alias, sample FROM cells")
    assert row == {"outcome": "excluded", "reason": "judge_unreadable", "alias": None, "sample": 0}


def test_the_newest_label_about_the_same_is_in_force_and_an_erased_trace_is_marked(
    tmp_path: Path, exp: Said, journey: Journey
) -> None:
    exp.root = journey.copied(tmp_path)
    with open_journal(exp.root, "test", judging.FAMILY, contents.FAMILY) as journal:
        trace = next(journal.events(traces.TraceImported)).key or ""
        label = next(journal.events(judging.LabelRecorded)).event
        assert isinstance(label, judging.LabelRecorded)
        other = judging.LabelRecorded(
            **{name: getattr(label, name) for name in label.__struct_fields__} | {"score": 0, "rationale": None}
        )
        published = next(journal.events(judging.CalibrationPublished)).event
        assert isinstance(published, judging.CalibrationPublished)
        command = judging.PublishCalibration(labels=(other,), calibration=published)
        journal.submit(Step(judging.FAMILY, command)).result()
        journal.submit(Step(contents.FAMILY, contents.EraseContent(content=trace, reason="asked-for"))).result()
    rows = asked(exp, f"SELECT score, in_force FROM labels WHERE subject = '{label.subject}' ORDER BY seq")  # noqa: S608 - an id
    assert [tuple(row.values()) for row in rows] == [("1.000000", 0), ("0.000000", 1)]
    assert asked(exp, "SELECT trace FROM traces WHERE erased") == [{"trace": trace}]


def test_no_content_is_in_the_database(journey: Journey, tmp_path: Path) -> None:
    with read_journal(journey.root) as journal:
        make(journal, tmp_path / "views.db")
        stored = (tmp_path / "views.db").read_bytes()
        for record in journal.events(traces.TraceImported):
            task = traces.decoded(journal.blob(record.key or "")).task
            assert task
            assert task.encode() not in stored


@pytest.mark.parametrize("view", [*VIEWS, "events", "journal"])
def test_every_view_can_be_asked_of_an_empty_journal(view: str, tmp_path: Path, exp: Said) -> None:
    with open_journal(tmp_path, "test", create=True):
        pass
    exp.root = tmp_path
    assert len(asked(exp, f"SELECT * FROM {view}")) == (view == "journal")  # noqa: S608 - one of our own names
