"""What a cell's score is made of."""

from __future__ import annotations

import pytest

from commands.optimizing.rollout import normalised
from ledger.families.judging import Axis, AxisScore, Rubric

FROM_ONE = Axis(name="care", question="?", low=1_000_000, high=5_000_000, anchors=())
FROM_ZERO = Axis(name="done", question="?", low=0, high=1_000_000, anchors=())


@pytest.mark.parametrize(
    ("scores", "normal"),
    [
        ({"care": 1_000_000}, 0),
        ({"care": 5_000_000}, 1_000_000),
        ({"care": 2_000_000}, 250_000),
        ({"care": 2_000_000, "done": 1_000_000}, 625_000),
        ({"done": 333_333, "care": 1_000_001}, 166_667),
    ],
)
def test_a_score_is_the_mean_of_where_each_axis_is_within_its_range(scores: dict[str, int], normal: int) -> None:
    said = [AxisScore(axis=axis, score=score, rationale="") for axis, score in scores.items()]
    assert normalised(said, Rubric(axes=(FROM_ONE, FROM_ZERO))) == normal
