"""An event with its causes and effects, and contents."""

from __future__ import annotations

import json
from pathlib import Path

from commands.opening import open_journal
from ledger import digests
from ledger.families import calls, cells
from tests.commands.cli.test_cat import recorded
from tests.commands.reading import Journey, Said


def test_an_event_is_shown_with_its_facts_and_an_excerpt_of_each_content(exp: Said, journey: Journey) -> None:
    with open_journal(journey.root, "test") as journal:
        record = next(journal.events(cells.WorldModelAnswered))
        stored = json.loads(record.bytes)
        reply = journal.blob(stored["body"]["reply"]["blob"])
    shown = exp.json("show", str(record.seq))
    assert shown["body"] == stored["body"]
    assert shown["id"] == digests.named(record.id)
    (content,) = shown["contents"]
    assert content["at"] == "/reply"
    assert content["state"] == "held"
    assert content["size"] == len(reply)
    assert content["excerpt"] == " ".join(reply.decode().split())[:240] + "..."


def test_causes_are_the_events_that_it_rests_on(exp: Said, journey: Journey) -> None:
    with open_journal(journey.root, "test") as journal:
        turned = next(journal.events(cells.CandidateTurned))
        body = json.loads(turned.bytes)["body"]
        answered = journal.find(calls.CallAnswered, f"{body['question']}:{body['attempt']}")
    assert answered is not None
    assert [row["seq"] for row in exp.json("show", str(turned.seq))["causes"]] == [answered.seq]


def test_effects_are_later_events_that_name_what_it_brought(exp: Said, journey: Journey) -> None:
    with open_journal(journey.root, "test") as journal:
        turned = next(journal.events(cells.CandidateTurned))
        body = json.loads(turned.bytes)["body"]
        answered = journal.find(calls.CallAnswered, f"{body['question']}:{body['attempt']}")
        assert answered is not None
    assert turned.seq in [row["seq"] for row in exp.json("show", str(answered.seq))["effects"]]
    kinds = [row["kind"] for row in exp.json("show", journey.ids["policy"])["effects"]]
    assert kinds == ["report-published@1"]
    built = {row["kind"] for row in exp.json("show", journey.ids["build"])["effects"]}
    assert built == {"optimization-started@1", "cell-opened@1"}


def test_a_content_is_shown_with_the_events_that_name_it(exp: Said, journey: Journey) -> None:
    with open_journal(journey.root, "test") as journal:
        turned = next(journal.events(cells.CandidateTurned))
        digest = json.loads(turned.bytes)["body"]["reply"]["blob"]
    shown = exp.json("show", digest[:15])
    assert shown["digest"] == digest
    assert turned.seq in [row["seq"] for row in shown["named_by"]]
    assert f"event {turned.seq}" not in exp.text("show", digest)
    assert f"named_by: {turned.seq} " in exp.text("show", digest)


def test_the_text_says_what_the_json_says(exp: Said, journey: Journey) -> None:
    shown, text = exp.json("show", journey.ids["report"]), exp.text("show", journey.ids["report"])
    for name in ("seq", "id", "kind", "at", "actor", "stream", "key"):
        assert f"{name}: {shown[name]}\n" in text
    assert "cause: none\n" in text
    assert f"causes: {shown['causes'][0]['seq']} " in text


def test_an_excerpt_is_one_line_of_what_can_be_shown_and_none_of_what_is_no_text(exp: Said, tmp_path: Path) -> None:
    exp.root = tmp_path
    assert exp.json("show", recorded(tmp_path, b"two\n\nlines \x1b[2Jof it"))["excerpt"] == "two lines of it"
    assert exp.json("show", recorded(tmp_path, b"\xff\xfe"))["excerpt"] is None
