"""Labels that came with traces: what people noted about them where they were recorded, on the axis of the same name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from commands.labels import read_score
from ledger.families.judging import Axis, Scaled, in_words

if TYPE_CHECKING:
    from commands.calibrating import Bench
    from commands.readings import Build
    from ledger.families.traces import Annotation

HUMAN = "human"
WITHOUT_WORDS = "a person's annotation that came with the trace"
_BEST = frozenset({"pass", "passed", "true", "yes", "correct", "c", "good", "thumbs_up"})
_WORST = frozenset({"fail", "failed", "false", "no", "incorrect", "i", "bad", "thumbs_down"})
_BETWEEN = re.compile(r"[^a-z0-9]+")


class Noted(msgspec.Struct, frozen=True):
    """A label by its key, and why the person gave it; ``problem`` says why there is none."""

    key: str
    score: Scaled | None
    rationale: str
    problem: str = ""


def noted(build: Build, bench: Bench) -> Iterator[Noted]:
    """Yield what people noted on the axes of sampled traces; what can't be read as one score has its problem."""
    for key, item, axis in bench.rows():
        annotations = [
            one
            for one in build.trace(item.subject.removeprefix("trace:")).annotations
            if one.origin == HUMAN and plain(one.name) == plain(axis.name)
        ]
        if not annotations:
            continue
        scores = {scored(one, axis) for one in annotations}
        words = next((one.comment for one in annotations if one.comment.strip()), WITHOUT_WORDS)
        if len(scores) > 1:
            yield Noted(key, None, words, f"{len(annotations)} annotations differ")
        elif (score := next(iter(scores))) is None:
            said = annotations[0].value or annotations[0].label
            yield Noted(key, None, words, f"{said!r} is no score from {in_words(axis.low)} to {in_words(axis.high)}")
        else:
            yield Noted(key, score, words)


def plain(name: str) -> str:
    """Return a name such that writing it otherwise (case, spaces, marks) changes nothing."""
    return _BETWEEN.sub("_", name.lower()).strip("_")


def scored(annotation: Annotation, axis: Axis) -> Scaled | None:
    """Return an annotation on an axis: a number within its range as it is, words for its ends; None otherwise.

    A number on another scale isn't stretched: nobody knows which scale was meant.
    """
    word = plain(annotation.label)
    if word in _BEST | _WORST:
        return axis.high if word in _BEST else axis.low
    score = read_score(annotation.value)
    return score if score is not None and axis.low <= score <= axis.high else None
