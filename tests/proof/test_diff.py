"""Comparing: twenty pairs of runs with one change each; the change is named by its pointer, and so is what follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from commands.main import run
from commands.optimizing import planning
from ledger.episode import Turn
from ledger.families.judging import DEFAULT_RUBRIC
from ledger.families.traces import Exclusion
from ledger.money import NANO
from tests.proof.laboratory import ABLE, TASKS, Facts, Laboratory, call, priced, trace

Said = Mapping[str, Any]
Diff = Callable[..., tuple[int, Said]]
CAUSES = ("inputs", "answers", "questions", "cells")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("first") / "root").taken()


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str]) -> Diff:
    def compared(one: Path | str, other: Path | str, *arguments: str) -> tuple[int, Said]:
        capsys.readouterr()
        status = run(["diff", str(one), str(other), *arguments, "--json"])
        captured = capsys.readouterr()
        return status, json.loads(captured.out or captured.err)

    return compared


def pointers(said: Said, section: str) -> list[str]:
    return [row["pointer"] for row in said.get(section, ())]


def consequences(said: Said) -> set[str]:
    """Return the sections that say what follows, but for names and times."""
    return {name for name in said if name not in {"kind", "a", "b", "different", "names", "latency", *CAUSES}}


@dataclass(frozen=True)
class Pair:
    """A change, the inputs that it is, and what must follow from it and nothing else."""

    name: str
    facts: Facts
    inputs: list[str]
    questions: list[tuple[str, str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    cells: dict[str, int] = field(default_factory=dict)
    follows: set[str] = field(default_factory=set)


BASE = Facts()


def models(**changed: Any) -> dict[str, Any]:
    return {**BASE.models, **changed}


def rubric_with(question: str) -> Any:
    axis = msgspec.structs.replace(DEFAULT_RUBRIC.axes[0], question=question)
    return msgspec.structs.replace(DEFAULT_RUBRIC, axes=(axis,))


def with_trace(number: int, **changed: Any) -> tuple[Any, ...]:
    return tuple(trace(at, **changed) if at == number else trace(at) for at in range(len(TASKS)))


def turn(number: int, **changed: Any) -> Turn:
    return msgspec.structs.replace(trace(number).turns[0], **changed)


def says(wanted: str, reply: Any, when: str = "") -> Callable[[str, dict[str, Any]], Any]:
    """Return a provider that answers otherwise when it is this model and the request holds this text."""

    def saying(alias: str, request: dict[str, Any]) -> Any:
        return reply if alias == wanted and when in json.dumps(request) else None

    return saying


CHEAP = "cheap at work"
WORLD = json.dumps({"observation": "done, in another way", "error": False, "done": False})
PAIRS = [
    Pair("a label", replace(BASE, labels={0: 500_000}), ["/labels/{}/task-success/score"]),
    Pair(
        "a rubric",
        replace(BASE, rubric=rubric_with("Was it done?")),
        ["/judge/rubric/axes/0/question"],
        questions=[("judge", "/request/messages/1/content")],
    ),
    Pair(
        "a price",
        replace(BASE, models=models(cheap=("model-cheap", priced(2)))),
        ["/candidates/cheap/capabilities/input_price", "/candidates/cheap/capabilities/output_price"],
        follows={"costs", "report"},
    ),
    Pair(
        "a candidate",
        replace(BASE, candidates=("cheap", "dear", "middling")),
        ["/candidates/middling"],
        cells={"middling": 6},
        follows={"costs", "report"},
    ),
    Pair(
        "a trace line",
        replace(BASE, traces=with_trace(0, turns=(turn(0, observation="sorted: done"),))),
        ["/build/traces/trace-0/turns/0/observation"],
        questions=[("world model", "/request/messages/1/content")],
    ),
    Pair(
        "a model's answer",
        replace(BASE, says=says("cheap", "cheap is through, and glad", "rainfall")),
        [],
        answers=["/finish_reason", "/text", "/tool_calls/0"],
        follows={"scores", "costs"},
    ),
    Pair(
        "what the world model answers",
        replace(BASE, says=says("world", WORLD)),
        [],
        answers=["/text"] * 12,
    ),
    Pair(
        "a served model",
        replace(BASE, served={"cheap": "model-cheap-0613"}),
        ["/candidates/cheap/served_model_id"],
        answers=["/served_model"] * 12,
    ),
    Pair("a budget", replace(BASE, budget=900 * NANO), ["/budget"]),
    Pair(
        "an incumbent",
        replace(BASE, incumbent="cheap"),
        ["/incumbent"],
        follows={"report", "routes"},
    ),
    Pair(
        "a split size",
        replace(BASE, wanted=(3, 2)),
        ["/build/fit_tasks"],
        cells={"cheap": 1, "dear": 1},
        follows={"environment", "costs"},
    ),
    Pair(
        "a judge's model",
        replace(BASE, models=models(judge=("model-judge-2", ABLE))),
        ["/judge/model"],
        questions=[("judge", "/request/model")],
    ),
    Pair(
        "a parameter",
        replace(BASE, models=models(cheap=("model-cheap", priced(1, supports_temperature=False)))),
        ["/candidates/cheap/capabilities/supports_temperature"],
        questions=[("candidate", "/request/temperature")],
    ),
    Pair(
        "an exclusion",
        replace(BASE, says=says("world", "no protocol at all", CHEAP)),
        [],
        answers=["/text"] * 6,
        follows={"exclusions", "scores", "costs", "report"},
    ),
    Pair(
        "a line that is left out",
        replace(BASE, excluded=(Exclusion(place="line 9", reason="not-json", detail="{"),)),
        ["/build/excluded/line 9"],
    ),
    Pair(
        "an embedder",
        replace(BASE, models=models(embed=("model-embed-2", BASE.models["embed"][1]))),
        ["/build/embedder/model"],
    ),
    Pair(
        "a world model",
        replace(BASE, models=models(world=("model-world-2", ABLE))),
        ["/world_model/model"],
        questions=[("world model", "/request/model")],
    ),
    Pair(
        "a tool's schema",
        replace(BASE, traces=with_trace(0, turns=(turn(0, arguments='{"command": "sort", "timeout": 9}'),))),
        ["/build/traces/trace-0/turns/0/arguments"],
        questions=[("candidate", "/request/tools/0/function/parameters/properties/timeout")],
        follows={"environment"},
    ),
    Pair("another project's name", replace(BASE, project="another"), []),
    Pair("another time, place and order", replace(BASE, starts_at=9_000_000, concurrency=1), []),
    Pair(
        "the turns of a rollout",
        replace(BASE, turns=1),
        ["/maximum_model_calls"],
        questions=[("candidate", "")],
        follows={"costs", "report"},
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_one_change_of_a_pair_is_named_and_so_is_what_follows(
    pair: Pair, first: Laboratory, tmp_path: Path, diff: Diff
) -> None:
    other = Laboratory(tmp_path / "root", pair.facts).taken()
    status, said = diff(first.root, other.root)
    assert said["kind"] == "run"
    expected = [one.format(_first_label(said)) for one in pair.inputs]
    assert pointers(said, "inputs") == expected
    assert sorted((row["role"], row["pointer"]) for row in said.get("questions", ())) == sorted(pair.questions)
    assert sorted(pointers(said, "answers")) == sorted(pair.answers)
    assert {row["candidate"]: row["cells"] for row in said.get("cells", ())} == pair.cells
    assert consequences(said) == pair.follows
    differs = bool(pair.inputs or pair.questions or pair.answers or pair.cells)
    assert (status, said["different"]) == (int(differs), differs)
    mirrored = diff(other.root, first.root)[1]
    assert pointers(mirrored, "inputs") == pointers(said, "inputs")
    assert [row["b"] for row in mirrored.get("inputs", ())] == [row["a"] for row in said.get("inputs", ())]


def _first_label(said: Said) -> str:
    found = pointers(said, "inputs")
    return found[0].split("/")[2] if found and found[0].startswith("/labels/") else ""


def of_change(name: str) -> Facts:
    return next(pair.facts for pair in PAIRS if pair.name == name)


def test_a_sample_is_named(first: Laboratory, tmp_path: Path, diff: Diff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SAMPLE", 1)
    other = Laboratory(tmp_path / "root").taken()
    monkeypatch.undo()
    said = diff(first.root, other.root)[1]
    assert pointers(said, "inputs") == ["/samples/0"]


def test_a_tolerance_is_named(first: Laboratory, tmp_path: Path, diff: Diff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "TOLERANCE", 400_000)
    other = Laboratory(tmp_path / "root").taken()
    said = diff(first.root, other.root)[1]
    assert pointers(said, "inputs") == ["/tolerance"]
    assert [(row["a"], row["b"]) for row in said["routes"]] == [("dear", "cheap")] * 2
    assert "cheap: worse" in said["routes"][0]["why"]
    assert "now not-worse" in said["routes"][0]["why"]


def test_better_scores_move_routes_and_the_neighbours_that_moved_them_are_named(
    first: Laboratory, tmp_path: Path, diff: Diff
) -> None:
    better = replace(BASE, scores={"cheap": 900, "dear": 900})
    other = Laboratory(tmp_path / "root", better).taken()
    said = diff(first.root, other.root)[1]
    assert {row["role"] for row in said["answers"]} == {"judge"}
    assert len(said["scores"]) == 6
    assert {(row["a"], row["b"]) for row in said["scores"]} == {("0.700000", "0.900000")}
    why = said["routes"][0]["why"]
    assert "cheap: worse (700000 against 900000" in why
    assert "neighbours with other scores: trace-" in why


def test_a_thing_and_itself_do_not_differ_and_nothing_is_said(
    first: Laboratory, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--root", str(first.root)]
    for name in (first.run, first.finished.frozen.policy.id, "build-", "calibration-"):
        assert run(["diff", name, name, *root]) == 0
        assert capsys.readouterr().out == ""


def test_builds_and_calibrations_are_compared_too(first: Laboratory, tmp_path: Path, diff: Diff) -> None:
    other = Laboratory(tmp_path / "root", replace(of_change("a trace line"), labels={1: 0})).taken()
    status, said = diff(f"{first.root}:build-", f"{other.root}:build-")
    assert (status, said["kind"]) == (1, "build")
    assert pointers(said, "inputs") == ["/build/traces/trace-0/turns/0/observation"] or pointers(said, "inputs") == [
        "/traces/trace-0/turns/0/observation"
    ]
    status, said = diff(f"{first.root}:calibration-", f"{other.root}:calibration-")
    assert (status, said["kind"]) == (1, "calibration")
    assert any(pointer.endswith("/task-success/score") for pointer in pointers(said, "inputs"))
    assert "/task-success/bias" in pointers(said, "agreement")


def test_things_of_two_kinds_are_not_compared(first: Laboratory, diff: Diff) -> None:
    status, said = diff(first.run, "build-", "--root", str(first.root))
    assert (status, said["error"]["name"]) == (216, "kinds-differ")


def test_the_table_shortens_and_the_page_holds_all_as_text(
    first: Laboratory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m\u202e" + "x" * 300
    facts = replace(BASE, traces=with_trace(0, final=hostile))
    other = Laboratory(tmp_path / "root", facts).taken()
    page = tmp_path / "diff.html"
    assert run(["diff", str(first.root), str(other.root), "--html", str(page)]) == 1
    printed = capsys.readouterr().out
    assert "/build/traces/trace-0/final" in printed
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert max(map(len, printed.splitlines())) < 400
    text = page.read_text("utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "x" * 300 in text
    assert "\x1b" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_a_page_that_can_not_be_written_is_named(first: Laboratory, tmp_path: Path, diff: Diff) -> None:
    status, said = diff(first.root, first.root, "--html", str(tmp_path / "nowhere" / "x.html"))
    assert (status, said["error"]["name"]) == (240, "file-unwritable")


def test_an_answer_is_named_once_however_many_cells_share_it(first: Laboratory, tmp_path: Path, diff: Diff) -> None:
    facts = replace(BASE, says=says("cheap", call("bash", {"command": "cheap, otherwise"}), "rainfall"))
    other = Laboratory(tmp_path / "root", facts).taken()
    answers = diff(first.root, other.root)[1]["answers"]
    assert [(row["role"], row["pointer"], row["turn"]) for row in answers] == [
        ("candidate", "/tool_calls/0/arguments", 0)
    ]
    assert "at work" in answers[0]["a"]
    assert "otherwise" in answers[0]["b"]


def test_an_answer_that_two_candidates_share_is_named_once(tmp_path: Path, diff: Diff) -> None:
    shared = replace(
        BASE,
        models=models(twin=("model-cheap", priced(1, context_window_tokens=9_000))),
        candidates=("cheap", "dear", "twin"),
        says=lambda alias, request: _same(alias, request, "at work"),
    )
    one = Laboratory(tmp_path / "one", shared).taken()
    two = Laboratory(
        tmp_path / "two", replace(shared, says=lambda alias, request: _same(alias, request, "at play"))
    ).taken()
    answers = diff(one.root, two.root)[1]["answers"]
    assert [row["pointer"] for row in answers] == ["/tool_calls/0/arguments"]


def _same(alias: str, request: dict[str, Any], word: str) -> Any:
    """Answer for cheap and its twin alike, in other words where a task is about rainfall and nothing was done yet."""
    if alias not in {"cheap", "twin"} or request["messages"][-1]["role"] == "tool":
        return "through" if alias in {"cheap", "twin"} else None
    return call("bash", {"command": f"cheap {word if 'rainfall' in json.dumps(request) else 'at work'}"})


def test_a_task_that_keeps_its_model_is_no_other_route_whatever_its_score(
    first: Laboratory, tmp_path: Path, diff: Diff
) -> None:
    other = Laboratory(tmp_path / "root", replace(BASE, scores={"cheap": 700, "dear": 950})).taken()
    said = diff(first.root, other.root)[1]
    assert len(said["scores"]) == 6
    assert "routes" not in said


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"source": "s9"}, ["source"]), ({"source": "s9", "final": "fine"}, ["final"])],
    ids=["only where it was read from", "what it says too"],
)
def test_where_a_trace_was_read_from_is_named_only_when_nothing_else_differs(
    changed: dict[str, Any], named: list[str], first: Laboratory, tmp_path: Path, diff: Diff
) -> None:
    other = Laboratory(tmp_path / "root", replace(BASE, traces=with_trace(0, **changed))).taken()
    said = diff(first.root, other.root)[1]
    assert pointers(said, "inputs") == [f"/build/traces/trace-0/{name}" for name in named]


def test_two_runs_of_one_journal_cost_what_each_one_s_prices_make_of_the_same_answers(
    tmp_path: Path, diff: Diff
) -> None:
    lab = Laboratory(tmp_path / "root").prepared()
    lab.optimize()
    before = lab.run
    lab.facts = of_change("a price")
    lab.configure()
    lab.optimize()
    lab.journal.close()
    said = diff(before, lab.run, "--root", str(tmp_path / "root"))[1]
    assert "answers" not in said
    assert [(row["candidate"], row["b"]) for row in said["costs"]] == [("cheap", "0.003600000")]


def test_a_root_stands_for_its_newest_run(tmp_path: Path, diff: Diff) -> None:
    root = tmp_path / "root"
    lab = Laboratory(root).prepared()
    lab.optimize()
    before = lab.run
    lab.facts = replace(BASE, incumbent="cheap")
    lab.optimize()
    lab.journal.close()
    assert diff(root, lab.run, "--root", str(root))[0] == 0
    assert diff(root, f"{root}:{before}", "--root", str(tmp_path))[0] == 1
