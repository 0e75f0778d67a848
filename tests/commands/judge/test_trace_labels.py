"""Labels that came with traces: people's, on the axis of the same name, and never stretched from another scale."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from commands.trace_labels import WITHOUT_WORDS, plain, scored
from ledger.families.judging import Axis, LabelRecorded, scaled
from ledger.families.traces import Annotation, Trace
from tests.commands.judge.roots import Shell, built, count, opened, trace


def number(text: str) -> int:
    found = scaled(Decimal(text))
    assert found is not None
    return found


AXIS = Axis(name="task-success", question="?", low=number("0"), high=number("1"), anchors=())


def annotated(name: str, *annotations: Annotation) -> Trace:
    return msgspec.structs.replace(trace(name), annotations=annotations)


def human(value: str = "", *, name: str = "Task Success", label: str = "", comment: str = "") -> Annotation:
    return Annotation(name=name, value=value, label=label, origin="human", comment=comment)


@pytest.mark.parametrize(
    ("value", "label", "expected"),
    [
        ("0.25", "", "0.25"),
        ("1", "", "1"),
        ("1.1", "", None),
        ("-1", "", None),
        ("5", "", None),
        ("", "PASS", "1"),
        ("", "incorrect", "0"),
        ("1", "Failed", "0"),
        ("", "splendid", None),
        ("", "", None),
    ],
)
def test_a_score_is_read_on_the_axis_or_not_at_all(value: str, label: str, expected: str | None) -> None:
    assert scored(human(value, label=label), AXIS) == (None if expected is None else number(expected))


def test_names_are_the_same_however_they_are_written() -> None:
    assert plain("Task Success") == plain("task-success") == plain("TASK_SUCCESS ") == "task_success"
    assert plain("tasksuccess") != plain("task success")


def labels(root: Path) -> list[LabelRecorded]:
    with opened(root) as journal:
        found = [record.event for record in journal.events(LabelRecorded)]
        for one in found:
            assert isinstance(one, LabelRecorded)
            assert one.rationale is not None
            journal.blob(one.rationale.blob)
        return [one for one in found if isinstance(one, LabelRecorded)]


def test_labels_that_came_with_traces_are_used_with_where_they_are_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    built(
        root,
        [
            annotated("a", human("0.25", comment="It read the wrong file.")),
            annotated("b", human(label="pass")),
            annotated("c", human("7")),
            annotated("d", human("0.5"), human("0.75")),
            annotated("e", msgspec.structs.replace(human("1"), origin="model")),
            annotated("f", human("1", name="helpfulness")),
            annotated("held", human("1")),
        ],
        held_out=1,
    )
    shell = Shell(root, capsys)
    assert shell.set_up().code == 0
    said = shell.calibrate("--labels-from-traces", "--partial")
    assert said.code == 0
    assert said.values("labels-from-traces") == ["2"]
    unused = "\n".join(said.values("annotation-unused"))
    assert "is no score from 0 to 1" in unused
    assert "2 annotations differ" in unused
    found = labels(root)
    assert sorted(one.score for one in found) == [number("0.25"), number("1")]
    assert {(one.origin, one.shown) for one in found} == {("trace", False)}
    with opened(root) as journal:
        words = {journal.blob(one.rationale.blob).decode() for one in found if one.rationale is not None}
    assert words == {"It read the wrong file.", WITHOUT_WORDS}
    before = count(root)
    assert shell.calibrate("--labels-from-traces", "--partial").code == 0
    assert count(root) == before
    key = next(line.split()[0] for line in said.values("label") if line.startswith("a:"))
    own = ["--label", f"{key}=0.75", "--judgment", f"{key}=No, the right one."]
    assert shell.calibrate("--labels-from-traces", "--partial", *own).code == 0
    newest = labels(root)[-1]
    assert (newest.score, newest.origin, newest.shown) == (number("0.75"), "", True)
    assert shell.calibrate("--labels-from-traces", "--partial").code == 0
    assert len(labels(root)) == 3


def test_without_the_option_nothing_of_traces_is_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built(tmp_path / "root", [annotated("a", human("0.25"))])
    shell = Shell(tmp_path / "root", capsys)
    shell.set_up()
    assert shell.calibrate().code == 12
    assert labels(tmp_path / "root") == []
