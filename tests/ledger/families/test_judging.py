from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import canonical, digests, estimates
from ledger.episode import Episode, Turn
from ledger.event import BlobRef, Event
from ledger.families import judging
from ledger.families.judging import (
    DEFAULT_RUBRIC,
    SCALE,
    Anchor,
    Axis,
    AxisScore,
    CalibrationPublished,
    JudgeSetUp,
    JudgmentRecorded,
    LabelRecorded,
    PublishCalibration,
    RecordJudgment,
    Rubric,
    SetUpJudge,
    Unreadable,
    evidence,
    in_words,
    judge_prompt,
    read_judgment,
    rubric_gaps,
    scaled,
)

REF = BlobRef(blob=f"b3:{'1' * 64}", size=1, media="text/plain")
OTHER_REF = BlobRef(blob=f"b3:{'2' * 64}", size=1, media="text/plain")
TWO = Rubric(
    axes=(
        Axis(name="care", question="Was it careful?", low=-2 * SCALE, high=2 * SCALE, anchors=()),
        Axis(name="speed", question="Was it fast?", low=0, high=10 * SCALE, anchors=()),
    )
)


def said(score: str, rationale: str = '"It shows."') -> str:
    return f'{{"axes":{{"task-success":{{"score":{score},"rationale":{rationale}}}}}}}'


def never_found(kind: str, key: str) -> Event | None:
    return None


# Reading replies.


@pytest.mark.parametrize(
    ("score", "millionths"),
    [("0", 0), ("1", SCALE), ("1.0", SCALE), ("0.6875", 687_500), ("1e-1", 100_000), ("-0.0", 0), ("0.0000005", 0)],
)
def test_a_score_is_read_exactly_into_millionths(score: str, millionths: int) -> None:
    assert read_judgment(said(score), DEFAULT_RUBRIC) == (
        AxisScore(axis="task-success", score=millionths, rationale="It shows."),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "the reply is empty"),
        (" \n", "the reply is empty"),
        ("The agent did well: 0.9", "the reply isn't JSON"),
        (said("0.5")[:-4], "the reply isn't JSON"),
        ("[" * 100_000, "the reply isn't JSON"),
        ("[]", "the reply isn't an object with axes"),
        ('{"axes":[]}', "the reply isn't an object with axes"),
        ('{"axes":{}}', "task-success: not scored"),
        ('{"axes":{"task-success":0.5}}', "task-success: not scored"),
        (said('"0.5"'), "task-success: the score isn't a number"),
        (said("true"), "task-success: the score isn't a number"),
        (said("null"), "task-success: the score isn't a number"),
        (said("NaN"), "the reply says one thing twice, or a number that is none"),
        (said("Infinity"), "the reply says one thing twice, or a number that is none"),
        (said('0.1,"score":1'), "the reply says one thing twice, or a number that is none"),
        (said("1.0000001"), "task-success: the score is out of range"),
        (said("-0.0000001"), "task-success: the score is out of range"),
        (said("7"), "task-success: the score is out of range"),
        (said("1e999999999"), "task-success: the score is out of range"),
        (said("9" * 5_000), "task-success: the score is out of range"),
        (said("0.5", '" "'), "task-success: no rationale"),
        (said("0.5", "null"), "task-success: no rationale"),
        (said("0.5")[:-2] + ',"mood":{}}}', "the reply scores 1 axes that the rubric doesn't have"),
    ],
)
def test_a_reply_without_a_usable_judgment_is_unreadable_with_its_reason(text: str | None, reason: str) -> None:
    assert read_judgment(text, DEFAULT_RUBRIC) == Unreadable(reason=reason)


@pytest.mark.parametrize("fenced", ["```json\n{}\n```", "```\n{}\n```\n", "\n```JSON\n{}```"])
def test_a_code_fence_around_a_reply_is_tolerated(fenced: str) -> None:
    assert not isinstance(read_judgment(fenced.replace("{}", said("0.5")), DEFAULT_RUBRIC), Unreadable)


def test_one_bad_axis_makes_the_whole_reply_unreadable() -> None:
    reply = '{"axes":{"care":{"score":1,"rationale":"r"},"speed":{"score":11,"rationale":"r"}}}'
    assert read_judgment(reply, TWO) == Unreadable(reason="speed: the score is out of range")


def test_scores_come_in_the_order_of_the_rubric() -> None:
    reply = '{"axes":{"speed":{"score":9.5,"rationale":"r"},"care":{"score":-2,"rationale":"r"}}}'
    read = read_judgment(reply, TWO)
    assert not isinstance(read, Unreadable)
    assert [(one.axis, one.score) for one in read] == [("care", -2 * SCALE), ("speed", 9_500_000)]


def test_a_lone_surrogate_in_a_rationale_is_replaced() -> None:
    read = read_judgment(said("0.5", '"x\\ud800"'), DEFAULT_RUBRIC)
    assert not isinstance(read, Unreadable)
    canonical.encode(read[0])


@given(st.text())
def test_reading_any_text_never_fails(text: str) -> None:
    read_judgment(text, DEFAULT_RUBRIC)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["axes", "task-success", "score", "rationale"]), inner)
        ),
    )
)
def test_reading_any_json_never_fails_and_never_leaves_the_range(value: Any) -> None:
    read = read_judgment(json.dumps(value), DEFAULT_RUBRIC)
    assert isinstance(read, Unreadable) or all(0 <= one.score <= SCALE for one in read)


@given(st.integers(0, SCALE))
def test_what_a_score_is_in_words_is_read_back_as_the_same_score(score: int) -> None:
    assert scaled(Decimal(in_words(score))) == score
    read = read_judgment(said(in_words(score)), DEFAULT_RUBRIC)
    assert not isinstance(read, Unreadable)
    assert read[0].score == score


# Asking.


def test_the_prompt_is_the_one_that_the_setup_id_stands_for() -> None:
    """When this changes, PROMPT_VERSION must: judgments of another prompt aren't the same setup's."""
    episode = Episode(
        task="t", turns=(Turn(tool="a", arguments="{}", observation="o", error=True),), final=None, ended="cut"
    )
    prompt = judge_prompt(TWO, episode)
    assert prompt.reply_schema is not None
    asked = canonical.digest_input(list(prompt.messages), prompt.reply_schema)
    assert (judging.PROMPT_VERSION, digests.content_digest(asked)[:15]) == (1, PINNED)


PINNED = "b3:3e7f04fb3ae6"


def test_a_rubric_with_fractions_is_shown_exactly() -> None:
    rubric = Rubric(
        axes=(Axis(name="a", question="q", low=100_000, high=250_001, anchors=(Anchor(score=100_000, meaning="m"),)),)
    )
    text = judge_prompt(rubric, Episode(task="t", turns=(), final=None, ended="final")).messages[1]["content"]
    assert '"anchors":[{"meaning":"m","score":0.1}],"high":0.250001,"low":0.1' in text


def test_short_evidence_is_shown_whole() -> None:
    turn = Turn(tool="shell", arguments='{"command":"ls"}', observation="a\nb\x1b[31m", error=False)
    shown = json.loads(evidence(Episode(task="list", turns=(turn,), final="two files", ended="final")))
    assert shown == {
        "task": "list",
        "turns": [msgspec.to_builtins(turn)],
        "final": "two files",
        "ended": "final",
        "elided": None,
    }


texts = st.text(max_size=20).flatmap(lambda text: st.integers(0, 3_000).map(lambda times: text * times))
turns = st.builds(Turn, tool=texts, arguments=texts, observation=texts, error=st.booleans())


@given(
    st.builds(
        Episode,
        task=texts,
        turns=st.lists(turns, max_size=12).map(tuple),
        final=st.none() | texts,
        ended=st.just("cut"),
    )
)
def test_evidence_of_any_episode_is_json_within_its_limit(episode: Episode) -> None:
    shown = evidence(episode)
    assert len(shown) <= judging.EVIDENCE_BYTES
    read = json.loads(shown)
    whole = json.loads(msgspec.json.encode(episode)) | {"elided": None}
    assert (read == whole) == (read["elided"] is None)


def test_evidence_that_is_too_long_loses_its_middle_and_says_so_with_the_digest_of_the_whole() -> None:
    long = [Turn(tool="t", arguments=str(number), observation="x" * 2_000, error=False) for number in range(100)]
    episode = Episode(task="first words", turns=tuple(long), final="last words", ended="final")
    shown = json.loads(evidence(episode))
    whole = msgspec.json.encode(
        {"task": "first words", "turns": long, "final": "last words", "ended": "final", "elided": None}, order="sorted"
    )
    kept = [int(turn["arguments"]) for turn in shown["turns"]]
    assert shown["elided"] == {"digest": digests.content_digest(whole), "bytes": len(whole), "turns": 100 - len(kept)}
    assert (kept[0], kept[-1]) == (0, 99)
    assert len(kept) >= 10
    assert (shown["task"], shown["final"]) == ("first words", "last words")


def test_one_long_text_keeps_both_its_ends() -> None:
    turn = Turn(tool="t", arguments="{}", observation="begins " + 'é"\x00' * 30_000 + " ends", error=False)
    shown = json.loads(evidence(Episode(task="t", turns=(turn,), final=None, ended="recorded")))["turns"][0][
        "observation"
    ]
    assert shown.startswith("begins ")
    assert shown.endswith(" ends")
    assert "bytes left out" in shown


def test_limits_are_those_that_plans_are_made_with() -> None:
    assert (judging.EVIDENCE_BYTES, judging.ATTEMPTS, judging.OUTPUT_LIMIT) == (
        estimates.EVIDENCE_BYTES,
        estimates.ATTEMPTS,
        estimates.JUDGE_OUTPUT,
    )


# Rubrics.


def test_the_default_rubric_has_no_gap() -> None:
    assert rubric_gaps(DEFAULT_RUBRIC) == ()


def test_every_gap_of_a_rubric_is_named_at_once() -> None:
    rubric = Rubric(
        axes=(
            Axis(name="Bad:Name", question=" ", low=SCALE, high=SCALE, anchors=(Anchor(score=0, meaning=""),)),
            Axis(name="far", question="q", low=0, high=judging.GREATEST_SCORE + 1, anchors=()),
            Axis(
                name="far",
                question="q",
                low=0,
                high=SCALE,
                anchors=(Anchor(score=0, meaning="a"), Anchor(score=0, meaning="b")),
            ),
        )
    )
    text = "\n".join(rubric_gaps(rubric))
    for words in ("twice", "lower-case", "question is empty", "range is empty", "goes beyond", "outside", "no meaning"):
        assert words in text
    assert rubric_gaps(Rubric(axes=())) == ("it has no axis",)


def test_a_setup_is_named_by_its_rubric_and_its_judge() -> None:
    ids = {judging.setup_id(rubric, judge) for rubric in (DEFAULT_RUBRIC, TWO) for judge in ("b3:1", "b3:2")}
    assert len(ids) == 4
    assert judging.setup_id(TWO, "b3:1") in ids


# Decisions.


def judged(**changes: Any) -> RecordJudgment:
    facts: dict[str, Any] = {
        "subject": "trace:b3:1",
        "setup": "setup-1",
        "question": "b3:2",
        "attempt": 0,
        "reply": REF,
        "axes": ("care", "speed"),
        "said": (AxisScore(axis="care", score=1, rationale="r"), AxisScore(axis="speed", score=2, rationale="r")),
    }
    return RecordJudgment(**(facts | changes))


def found_in(events: tuple[Event, ...]) -> Any:
    recorded = {(event.kind, event.key): event for event in events}
    return lambda kind, key: recorded.get((kind, key))


def test_an_unreadable_reply_is_recorded_as_invalid_on_every_axis_never_as_a_number() -> None:
    events = judging.decide(judged(said=Unreadable(reason="why")), judging.Judging(), never_found)
    assert [(event.axis, event.score, event.problem) for event in events if isinstance(event, JudgmentRecorded)] == [
        ("care", "invalid", "why"),
        ("speed", "invalid", "why"),
    ]


def test_a_judgment_names_the_judges_own_words_in_its_bytes() -> None:
    (event, _) = judging.decide(judged(), judging.Judging(), never_found)
    assert f'"blob":"{REF.blob}"'.encode() in canonical.encode(event)


SET_UP = JudgeSetUp(project="p", setup="setup-1", rubric=REF, alias="judge", judge="b3:3")
LABEL = LabelRecorded(
    project="p", setup="setup-1", subject="trace:b3:1", axis="care", score=SCALE, rationale=REF, shown=True
)
PUBLISHED = CalibrationPublished(
    project="p", calibration="calibration-1", setup="setup-1", subjects=("trace:b3:1",), approved=False
)


@pytest.mark.parametrize(
    "command",
    [
        SetUpJudge(set_up=SET_UP),
        judged(),
        judged(said=Unreadable(reason="why")),
        PublishCalibration(labels=(LABEL,), calibration=PUBLISHED),
    ],
)
def test_a_repeated_command_appends_nothing(command: Any) -> None:
    state = judging.Judging()
    events = judging.decide(command, state, never_found)
    assert events
    for event in events:
        state = judging.evolve(state, event)
    assert judging.decide(command, state, found_in(events)) == ()


def test_every_key_that_a_command_may_record_is_looked_up() -> None:
    for command in (judged(), PublishCalibration(labels=(), calibration=PUBLISHED)):
        events = judging.decide(command, judging.Judging(), never_found)
        assert set(command.looks_up) == {(event.kind, event.key) for event in events}


def test_another_judgment_of_the_same_answer_is_left_to_the_journal_to_refuse() -> None:
    first = judging.decide(judged(), judging.Judging(), never_found)
    again = judging.decide(judged(reply=OTHER_REF), judging.Judging(), found_in(first))
    assert [event.key for event in again] == [event.key for event in first]


def test_the_newest_setup_and_label_are_in_force() -> None:
    state = judging.Judging()
    newer = msgspec.structs.replace(LABEL, score=0)
    for event in (SET_UP, LABEL, msgspec.structs.replace(SET_UP, setup="setup-2"), newer, PUBLISHED):
        state = judging.evolve(state, event)
    assert state.setups["p"].setup == "setup-2"
    assert state.label("p", "setup-1", "trace:b3:1", "care") == newer
    assert state.label("p", "setup-2", "trace:b3:1", "care") is None
    assert state.approved == set()
    state = judging.evolve(state, msgspec.structs.replace(PUBLISHED, approved=True))
    assert state.approved == {("p", "calibration-1")}


def test_an_approval_is_recorded_beside_the_report_of_the_same_calibration() -> None:
    approved = msgspec.structs.replace(PUBLISHED, approved=True)
    assert approved.key != PUBLISHED.key


def test_a_project_without_a_setup_is_told_how_to_get_one() -> None:
    with pytest.raises(judging.JudgeSetupWanted) as refused:
        judging.read_setup(judging.Judging(), "p", lambda _: b"")
    assert refused.value.remedy == "run `exp config judge setup p --approve`"


def test_a_setup_is_read_back_with_its_rubric() -> None:
    state = judging.evolve(judging.Judging(), SET_UP)
    setup = judging.read_setup(state, "p", {REF.blob: judging.rubric_bytes(TWO)}.__getitem__)
    assert (setup.id, setup.rubric, setup.alias, setup.judge) == ("setup-1", TWO, "judge", "b3:3")
    assert setup.rubric.axis("speed").high == 10 * SCALE
    with pytest.raises(KeyError):
        setup.rubric.axis("none")
