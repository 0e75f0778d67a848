"""Gateway traffic: conversations by what their requests repeat, and a reason for each request that is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands.ingesting import traffic
from commands.ingesting.traffic import NothingServed, Traffic
from commands.main import run
from ledger.families import serving
from ledger.families.traces import Exclusion, Trace
from tests.commands.building.roots import configured
from tests.commands.ingesting.served import Served, called, gave, opened, said, streamed, user

Captured = pytest.CaptureFixture[str]
ASKED = user("Count the lines of a.txt")
CALL = called("bash", '{"command":"wc -l a.txt"}', "c1")
GAVE = gave("7 a.txt", "c1")
SYSTEM = {"role": "system", "content": "Be brief."}


def read(root: Path) -> tuple[list[Trace], dict[str, list[str]], Traffic]:
    with opened(root) as journal:
        found = Traffic(journal, lambda text: (text, 0))
        given = list(found)
        left: dict[str, list[str]] = {}
        for one in given:
            if isinstance(one, Exclusion):
                left.setdefault(one.reason, []).append(one.place)
        totals = found.totals
        assert totals.units == totals.used + totals.excluded
        assert totals.excluded == sum(one.units for one in given if isinstance(one, Exclusion))
        return sorted((one for one in given if isinstance(one, Trace)), key=lambda one: one.name), left, found


def test_requests_that_repeat_what_was_said_are_one_conversation(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("r1", [SYSTEM, ASKED], CALL)
        served.exchange("other", [user("Say ready.")], said("ready"))
        echoed = {**CALL, "content": "", "audio": None}  # clients repeat a message in words of their own
        served.exchange("r2", [SYSTEM, ASKED, echoed, GAVE], said("There are 7."))
    traces, left, found = read(tmp_path)
    assert [one.name for one in traces] == ["gateway-other", "gateway-r1"]
    assert left == {}
    whole = traces[1]
    assert (whole.task, whole.final, whole.system) == (ASKED["content"], "There are 7.", "Be brief.")
    assert [(turn.tool, turn.arguments, turn.observation) for turn in whole.turns] == [
        ("bash", '{"command":"wc -l a.txt"}', "7 a.txt")
    ]
    assert whole.cost == 3_000
    assert found.totals.units == 3
    assert [(one.source, one.size > 0) for one in found.found] == [("gateway", True)]


def test_a_streamed_answer_is_put_together_and_continued(tmp_path: Path) -> None:
    function = {"name": "bash", "arguments": '{"command":'}
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.accept("r1", [ASKED])
        pieces: list[dict[str, Any]] = [
            {"role": "assistant", "content": ""},
            {"tool_calls": [{"index": 0, "id": "c1", "function": function}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"wc -l a.txt"}'}}]},
        ]
        served.answer("r1", streamed(*pieces), "text/event-stream")
        served.accept("r2", [ASKED, CALL, GAVE])
        served.answer("r2", streamed({"content": "There "}, {"content": "are 7."}), "text/event-stream")
    (whole,), _, _ = read(tmp_path)
    assert whole.name == "gateway-r1"
    assert [turn.arguments for turn in whole.turns] == ['{"command":"wc -l a.txt"}']
    assert whole.final == "There are 7."


@pytest.mark.parametrize("echoed", ['{"command": "wc -l \\u00e4.txt"}', '{ "command":"wc -l \u00e4.txt" }'])
def test_arguments_that_a_client_wrote_anew_are_the_same(tmp_path: Path, echoed: str) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("r1", [ASKED], called("bash", '{"command":"wc -l \u00e4.txt"}', "c1"))
        served.exchange("r2", [ASKED, called("bash", echoed, "c1"), GAVE], said("7"))
        served.exchange("r3", [user("Else."), called("bash", "{no json", "c1"), GAVE], said("7"))
    traces, left, _ = read(tmp_path)
    assert [(one.name, one.cost) for one in traces] == [("gateway-r1", 3_000), ("gateway-r3", 1_500)]
    assert not left


def test_two_that_go_on_from_one_place_are_two_conversations(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("r1", [ASKED], said("Which one?"))
        served.exchange("r2", [ASKED, said("Which one?"), user("the first")], said("5"))
        served.exchange("r3", [ASKED, said("Which one?"), user("the second")], said("6"))
        served.exchange("r4", [ASKED, said("Which one?"), user("the second"), said("6"), user("sure?")], said("yes"))
    traces, _, _ = read(tmp_path)
    assert [(one.name, one.final) for one in traces] == [("gateway-r1", "5"), ("gateway-r3", "yes")]


def test_a_request_continues_the_longest_conversation_that_it_repeats(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("r1", [ASKED], said("Which one?"))
        served.exchange("r2", [ASKED, said("Which one?"), user("the first")], said("5"))
        served.exchange("r3", [ASKED], said("Which one?"))
        served.exchange("r4", [ASKED, said("Which one?"), user("the first"), said("5"), user("sure?")], said("yes"))
    traces, _, _ = read(tmp_path)
    assert [(one.name, one.final) for one in traces] == [("gateway-r1", "yes"), ("gateway-r3", "Which one?")]


def test_the_same_words_of_somebody_else_continue_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("r1", [ASKED], said("Which one?"))
        served.exchange("r2", [ASKED, user("Which one?"), user("no")], said("6"))
    traces, _, _ = read(tmp_path)
    assert [one.name for one in traces] == ["gateway-r1", "gateway-r2"]


def test_content_in_parts_is_the_same_as_content_in_one_text(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("r1", [ASKED], said("Which one?"))
        parts: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "Which one?"}]}
        parted = {"role": "user", "content": [{"type": "text", "text": ASKED["content"]}]}
        served.exchange("r2", [parted, parts, user("the first")], said("5"))
        served.exchange("r3", [ASKED, user("Which one?"), user("no")], said("6"))  # the role is another
    traces, _, _ = read(tmp_path)
    assert [one.name for one in traces] == ["gateway-r1", "gateway-r3"]


def test_each_request_that_is_left_out_says_why(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("good", [ASKED], said("7"))
        served.accept("ghost", None)
        served.answer("ghost", None)
        served.accept("failed", [ASKED])
        served.end(serving.RequestFailed(request="failed", status=500, code="x", error=None))
        served.accept("abandoned", [ASKED])
        served.end(serving.RequestAbandoned(request="abandoned", reason="client-left"))
        served.accept("lost", [ASKED])
        served.end(serving.RequestLost(request="lost", process="p"))
        served.accept("open", [ASKED])
        served.accept("broken", [ASKED])
        served.answer("broken", b"{not json")
        served.accept("stream", [ASKED])
        served.answer("stream", b"data: {not json\n\n", "text/event-stream")
        served.accept("odd", None, b'{"messages": 7}')
        served.answer("odd", b"[]")
    _, left, found = read(tmp_path)
    assert found.totals.units == 9
    odd = left.pop("not-a-conversation", None) or left.pop("conversation-without-messages", None)
    assert odd == ["request odd"]
    assert left == {
        "content-not-kept": ["request ghost"],
        "request-failed": ["request failed"],
        "request-abandoned": ["request abandoned"],
        "request-lost": ["request lost"],
        "request-open": ["request open"],
        "not-json": ["request broken", "request stream"],
    }


def test_beyond_a_number_of_one_reason_the_rest_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "LISTED", 2)
    with opened(tmp_path) as journal:
        served = Served(journal)
        for number in range(5):
            served.accept(f"r{number}", [ASKED])
    _, left, found = read(tmp_path)
    assert left == {"request-open": ["request r0", "request r1", "elsewhere"]}
    assert found.totals.units == 5


def test_content_that_was_erased_is_left_out_as_such(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        served.exchange("r1", [ASKED], said("7"))
        response = journal.find(serving.RequestAnswered, "r1")
        assert response is not None
        assert isinstance(response.event, serving.RequestAnswered)
        assert response.event.response is not None
    assert run(["erase", response.event.response.blob, "--root", str(tmp_path), "--reason", "asked to", "--yes"]) == 0
    assert read(tmp_path)[1] == {"content-erased": ["request r1"]}


def test_without_requests_there_is_nothing_to_import(tmp_path: Path, capsys: Captured) -> None:
    with opened(tmp_path) as journal, pytest.raises(NothingServed):
        list(Traffic(journal, lambda text: (text, 0)))
    assert run(["ingest", "--from-gateway", "--root", str(tmp_path)]) == 99
    assert run(["ingest", "--from-gateway", "--dry-run", "--root", str(tmp_path / "none")]) == 99
    assert run(["ingest", "--from-gateway", "file", "--root", str(tmp_path)]) == 2
    assert run(["ingest", "files", "--root", str(tmp_path)]) == 2
    capsys.readouterr()


@pytest.mark.parametrize("hostile", [b"[1, 2]", b'{"choices": 1}', b'{"choices": [1]}', b'"x"', b"null", b"[[[]]]"])
def test_an_answer_of_any_shape_is_read_or_left_out(hostile: bytes, tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        served = Served(journal)
        for number, body in enumerate(
            (b"[]", b'{"messages": [1, null, {"role": 7, "tool_calls": [3]}]}', b'{"messages": "x"}')
        ):
            served.accept(f"r{number}", None, body)
            served.answer(f"r{number}", hostile)
        served.accept("s", [{"role": "user", "content": [{"text": 1}], "tool_calls": {}}])
        served.answer("s", b"data: " + hostile + b"\n\n", "text/event-stream")
    _, _, found = read(tmp_path)
    assert found.totals.units == 4


def test_conversations_are_imported_for_a_project_and_grow(tmp_path: Path, capsys: Captured) -> None:
    with opened(tmp_path) as journal:
        Served(journal).exchange("r1", [ASKED], CALL)
    command = ["ingest", "--from-gateway", "--project", "p", "--root", str(tmp_path), "--json"]
    assert run(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["units"], first["input"][0]["source"]) == (1, "gateway")
    assert run(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["position"], again["imported"]) == (first["position"], "before")
    with opened(tmp_path) as journal:
        Served(journal).exchange("r2", [ASKED, CALL, GAVE], said("There are 7."))
    assert run(command) == 0
    grown = json.loads(capsys.readouterr().out)
    assert (grown["traces-new"], grown["imported"]) == (1, "now")
    assert run(["ingest", "show", "p", "--root", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["traces-in-project"] == 1


def test_a_build_is_made_of_what_the_gateway_answered(tmp_path: Path, capsys: Captured) -> None:
    root = configured(tmp_path)
    with opened(root) as journal:
        served = Served(journal)
        for number in range(12):
            asked = user(f"Count the {'abcdefghijkl'[number] * 40} of folder {number * 7919}")
            served.exchange(f"r{number}", [asked], CALL)
            served.exchange(f"s{number}", [asked, CALL, GAVE], said("7"))
    flags = ["--root", str(root), "--yes", "--json"]
    assert run(["build", "shop", "--from-gateway", *flags]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["traces-accepted"], made["observations"]) == (12, 12)
    assert made["input"][0]["source"] == "gateway"
    assert run(["build", "shop", *flags]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["build"], again["position"]) == (made["build"], made["position"])
