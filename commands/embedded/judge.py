"""The judge of the stand-in: a score for what the evidence supports, counted rather than felt.

Of a thousand points, up to 600 are for how much of what the task names the actions touched, 250 for actions that came
back without error, 150 for ending properly. Points are mapped to each axis' range, exactly.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from commands.embedded.asked import read_object, read_text
from commands.embedded.conversation import abstained
from commands.embedded.names import names_in

_COVERED, _OUTCOME, _ENDED = 600, 250, 150
_QUIET_OUTCOME = 200
_DEFAULT_AXIS = {"name": "task-success", "low": 0, "high": 1}
_WELL_ENDED = ("recorded", "final", "done")


def reply(asked: str) -> str:
    """Return the JSON text of a judgment: a score and a rationale an axis."""
    question = read_object(asked) or {}
    evidence = question.get("evidence")
    rubric = question.get("rubric")
    axes = rubric.get("axes") if isinstance(rubric, dict) else None
    axes = [axis for axis in axes if isinstance(axis, dict)] if isinstance(axes, list) else []
    points, why = _points(evidence) if isinstance(evidence, dict) else (0, "the request holds no evidence to read")
    judged = {
        read_text(axis.get("name")): {
            "score": msgspec.Raw(_score(points, axis.get("low", 0), axis.get("high", 1)).encode()),
            "rationale": f"Stand-in judge, {points} of 1000 points: {why}.",
        }
        for axis in axes or [_DEFAULT_AXIS]
    }
    return msgspec.json.encode({"axes": judged}).decode()


def _points(evidence: dict[str, Any]) -> tuple[int, str]:
    task = read_text(evidence.get("task"))
    turns = [turn for turn in evidence.get("turns") or () if isinstance(turn, dict)]
    final, ended = read_text(evidence.get("final")), read_text(evidence.get("ended"))
    if not turns and not final.strip():
        return 0, "nothing was done and nothing was said"
    written = " ".join(read_text(turn.get("arguments")) for turn in turns) or final
    names = names_in(task)
    lowered = written.lower()
    touched = sum(name in written or name.lower() in lowered for name in names)
    covered = _COVERED * touched // len(names) if names else _COVERED // 2
    outcome, came_back = _outcome(turns)
    end, how = _end(final, ended, tried=touched > 0 or not names)
    why = f"actions touch {touched} of {len(names)} things that the task names; {came_back}; {how}"
    return covered + outcome + end, why


def _outcome(turns: list[dict[str, Any]]) -> tuple[int, str]:
    if not turns:
        return 0, "no action was taken"
    errors = sum(turn.get("error") is True for turn in turns)
    last = turns[-1]
    if last.get("error") is True:
        return 0, f"the last action failed ({errors} of {len(turns)} did)"
    seen = read_text(last.get("observation"))
    if abstained(seen):
        return _OUTCOME // 5, "what the last action did is unknown"
    most = _OUTCOME if seen.strip() else _QUIET_OUTCOME
    share = most * (len(turns) - errors) // len(turns)
    return (most + share) // 2, f"{errors} of {len(turns)} actions failed, the last one didn't"


def _end(final: str, ended: str, *, tried: bool) -> tuple[int, str]:
    if ended not in _WELL_ENDED:
        return 0, f"the episode ended as {ended or 'unknown'}"
    if ended == "final" and not final.strip():
        return 0, "the closing message is empty"
    return (_ENDED, "it ended properly") if tried else (_ENDED // 5, "it ended without having tried")


def _score(points: int, low: Any, high: Any) -> str:  # noqa: ANN401 - whatever the rubric holds
    """Return the JSON number at ``points`` thousandths between low and high, exactly."""
    try:
        least, most = Decimal(str(low)), Decimal(str(high))
    except InvalidOperation:
        least, most = Decimal(0), Decimal(1)
    score = least + (most - least) * points / 1000
    return f"{score.normalize():f}"
