from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands.labels import Given, LabelsRefused, LabelsWanted, Wanted, label_key, read_labels, read_score, spelled
from ledger.families.judging import DEFAULT_RUBRIC, SCALE, Axis, in_words

AXIS = DEFAULT_RUBRIC.axes[0]
KEY = "t1:task-success"
OTHER = "t2:task-success"
ids = st.text(st.characters(codec=None), max_size=12) | st.text("a_:-0A F=\n", max_size=6)


@given(ids)
def test_a_key_has_only_characters_that_survive_shells_and_terminals(trace_id: str) -> None:
    key = label_key(spelled(trace_id), "task-success")
    assert re.fullmatch(r"[A-Za-z0-9_:-]+", key)
    assert not key.startswith("-")


@given(ids, ids)
def test_different_traces_have_different_keys(one: str, other: str) -> None:
    keys = {label_key(spelled(name), "a") for name in (one, other)}
    assert len(keys) == len({one, other})


@given(ids)
def test_a_spelled_id_can_be_read_back(trace_id: str) -> None:
    parts = re.findall(r":([0-9A-F]{2})|([A-Za-z0-9_-])", spelled(trace_id))
    data = b"".join(bytes.fromhex(code) if code else plain.encode() for code, plain in parts)
    assert data.decode(errors="surrogatepass") == trace_id


@pytest.mark.parametrize(
    ("trace_id", "key"),
    [("6d7a-41_b", "6d7a-41_b"), ("a:b", "a:3Ab"), ("-x", ":2Dx"), ("a b", "a:20b"), ("é", ":C3:A9"), ("", "")],
)
def test_ordinary_ids_are_left_as_they_are(trace_id: str, key: str) -> None:
    assert spelled(trace_id) == key


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("1", SCALE),
        (" 0.5 ", SCALE // 2),
        ("-1e-1", -100_000),
        ("1.000000", SCALE),
        ("0.0000001", None),
        ("nan", None),
        ("inf", None),
        ("1_0", None),
        ("\uff11", None),
        (".5", SCALE // 2),
        ("1.", SCALE),
        ("SCORE", None),
        ("", None),
        ("1e99", None),
        ("1,5", None),
        ("0x1", None),
        ("1e-999999999", None),
    ],
)
def test_a_score_is_a_decimal_of_at_most_six_places(text: str, score: int | None) -> None:
    assert read_score(text) == score


def items(**changes: Wanted) -> dict[str, Wanted]:
    return {KEY: Wanted(AXIS, 700_000), OTHER: Wanted(AXIS, SCALE)} | changes


def test_labels_that_agree_need_no_rationale_and_those_that_correct_do() -> None:
    read = read_labels([f"{KEY}=0.7", f"{OTHER}=0"], [f"{OTHER}=It failed = badly."], items())
    assert (read.wrong, read.missing) == ([], [])
    assert read.given == {KEY: Given(700_000, None), OTHER: Given(0, "It failed = badly.")}


def test_everything_missing_is_listed_at_once_with_its_flag() -> None:
    read = read_labels([f"{KEY}=1"], [], items())
    assert read.missing == [f"--judgment {KEY}=TEXT", f"--label {OTHER}=SCORE"]
    assert read.wrong == []


@pytest.mark.parametrize(
    ("labels", "judgments", "words"),
    [
        (["t3:task-success=1"], [], "--label t3:task-success: no sampled item has this key"),
        ([f"{KEY}=1.1"], [], f"--label {KEY}: '1.1' is out of range; write a number from 0 to 1"),
        ([f"{KEY}=-0.1"], [], "is out of range"),
        ([f"{KEY}=SCORE"], [], "'SCORE' is no number with at most six decimals"),
        ([f"{KEY}=0.7", f"{KEY}=0.7"], [], f"--label {KEY}: it is there twice"),
        ([KEY], [], f"--label {KEY}: it has no value; write --label {KEY}=SCORE"),
        ([], [KEY], f"write --judgment {KEY}=TEXT"),
        ([], [f"{KEY}= "], f"--judgment {KEY}: the rationale is empty"),
        ([], [f"{KEY}=a", f"{KEY}=b"], f"--judgment {KEY}: it is there twice"),
        ([], ["x=a"], "--judgment x: no sampled item has this key"),
    ],
)
def test_what_cant_be_used_is_refused_by_its_flag(labels: list[str], judgments: list[str], words: str) -> None:
    read = read_labels(labels, judgments, items())
    assert len(read.wrong) == 1
    assert words in read.wrong[0]


def test_a_label_that_was_given_wrongly_isnt_called_missing_too() -> None:
    assert read_labels([f"{KEY}=7"], [], {KEY: Wanted(AXIS, 0)}).missing == []


def test_a_rationale_alone_is_no_label() -> None:
    assert read_labels([], [f"{KEY}=why"], {KEY: Wanted(AXIS, 0)}).missing == [f"--label {KEY}=SCORE"]


def test_excluded_items_need_no_label_and_take_none() -> None:
    excluded = {KEY: Wanted(AXIS, None)}
    assert read_labels([], [], excluded).missing == []
    assert "excluded" in read_labels([f"{KEY}=1"], [], excluded).wrong[0]


def test_recorded_labels_neednt_be_repeated() -> None:
    known = {KEY: Wanted(AXIS, 700_000, label=0, explained=True)}
    assert read_labels([], [], known).given == {KEY: Given(0, None)}
    again = read_labels([f"{KEY}=0"], [], known)
    assert (again.given, again.missing) == ({KEY: Given(0, None)}, [])


def test_a_new_label_needs_a_rationale_of_its_own() -> None:
    known = {KEY: Wanted(AXIS, 700_000, label=0, explained=True)}
    assert read_labels([f"{KEY}=0.1"], [], known).missing == [f"--judgment {KEY}=TEXT"]


@given(
    st.dictionaries(st.sampled_from([KEY, OTHER]), st.integers(-10, SCALE + 10)), st.sets(st.sampled_from([KEY, OTHER]))
)
def test_labels_are_complete_or_something_is_said(scores: dict[str, int], why: set[str]) -> None:
    read = read_labels(
        [f"{key}={in_words(score)}" for key, score in scores.items()], [f"{key}=r" for key in why], items()
    )
    complete = all(
        key in scores and 0 <= scores[key] <= SCALE and (scores[key] == item.proposal or key in why)
        for key, item in items().items()
    )
    assert complete == (not read.wrong and not read.missing)
    if complete:
        assert {key: given.score for key, given in read.given.items()} == scores


def test_ranges_are_those_of_each_axis() -> None:
    axis = Axis(name="a", question="q", low=-2 * SCALE, high=2 * SCALE, anchors=())
    wanted = {"t:a": Wanted(axis, -2 * SCALE)}
    assert read_labels(["t:a=-2"], [], wanted).given == {"t:a": Given(-2 * SCALE, None)}
    assert "from -2 to 2" in read_labels(["t:a=2.5"], [], wanted).wrong[0]


def test_refusals_list_one_flag_a_line_and_no_other_token_like_one() -> None:
    refusal = LabelsWanted("p", [f"--label {KEY}=SCORE", f"--label {OTHER}=SCORE"], "at most $1.00")
    text = f"{refusal.what}\n{refusal.where}\n{refusal.remedy}"
    assert re.findall(r"[A-Za-z0-9_:-]+=SCORE", text) == [f"{KEY}=SCORE", f"{OTHER}=SCORE"]
    assert f"\n--label {KEY}=SCORE\n" in text
    assert refusal.exit_code == 12
    wrong = LabelsRefused("p", ["--label x: no sampled item has this key"], [f"--label {KEY}=SCORE"])
    assert wrong.remedy.splitlines()[1:] == ["also missing:", f"--label {KEY}=SCORE"]
    assert "1 answer from a person is missing" in LabelsWanted("p", ["--label x=SCORE"], "").what
