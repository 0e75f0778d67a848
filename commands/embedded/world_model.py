"""The world model of the stand-in: it copies the most similar example that it is shown, or says that none is near."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from commands.embedded.asked import read_object, read_text

ABSTENTION = "[no recorded example is similar enough to this action; what it would do is unknown]"
UNREADABLE = "[no recorded example could be read from the request]"

# Of a thousand: how much of an action, and of task and action together, must be the same for an example to count.
ACTION_FLOOR, FLOOR = 180, 220
_TASK_WEIGHT, _ACTION_WEIGHT = 35, 65
_MOST_EXAMPLES = 16
_MOST_CHARACTERS = 600
_NAMED = re.compile(r"(?:https?://|/)[\w.@%+~:/\-]*[\w/]")


def reply(asked: str, turns: int | None = None, *, never_done: bool = False) -> dict[str, Any]:
    """Return observation, error and done for the action in a request's text.

    ``turns`` makes an episode end with its turn of that number, whatever was observed; ``never_done`` leaves its end to
    the candidate.
    """
    question = read_object(asked)
    if question is None:
        return {"observation": UNREADABLE, "error": False, "done": False}
    action = question.get("action")
    action = action if isinstance(action, dict) else {}
    task, arguments = read_text(question.get("task")), read_text(action.get("arguments"))
    earlier = [turn for turn in _objects(question.get("conversation")) if turn.get("tool")]
    best, similarity = _nearest(task, read_text(action.get("tool")), arguments, _objects(question.get("examples")))
    known = best is not None and similarity >= FLOOR
    error = bool(known and best and best.get("error"))
    if turns is not None:
        done = len(earlier) + 1 >= turns
    else:
        done = known and not error and not never_done and _finishes(task, [*earlier, {"arguments": arguments}])
    observation = read_text(best.get("observation")) if known and best is not None else ABSTENTION
    return {"observation": observation, "error": error, "done": done}


def _nearest(task: str, tool: str, arguments: str, examples: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, int]:
    """Return the most similar example and its similarity in thousandths; of equals the first."""
    best, most = None, -1
    of_task, of_action = _trigrams(task), _trigrams(_values(arguments))
    for example in examples[:_MOST_EXAMPLES]:
        if tool and read_text(example.get("tool")) not in {tool, ""}:
            continue
        of_actions = _alike(of_action, _trigrams(_values(example.get("arguments"))))
        if of_actions < ACTION_FLOOR:
            continue
        near = (
            _TASK_WEIGHT * _alike(of_task, _trigrams(read_text(example.get("task")))) + _ACTION_WEIGHT * of_actions
        ) // 100
        if near > most:
            best, most = example, near
    return best, most


def _finishes(task: str, turns: list[dict[str, Any]]) -> bool:
    """Tell whether everything that a task names (paths, addresses) has been touched; no names, no way to tell."""
    named = set(_NAMED.findall(task))
    written = " ".join(read_text(turn.get("arguments")) for turn in turns)
    return bool(named) and all(name in written for name in named)


def _values(arguments: Any) -> str:  # noqa: ANN401 - whatever the request holds
    """Return the values of a call's arguments without the names, which all calls of a function share."""
    given = read_object(arguments) if isinstance(arguments, str) else arguments
    return " ".join(map(read_text, given.values())) if isinstance(given, dict) else read_text(arguments)


def _trigrams(text: str) -> set[str]:
    text = f" {text[:_MOST_CHARACTERS]} "
    return {text[at : at + 3] for at in range(len(text) - 2)}


def _alike(one: set[str], other: set[str]) -> int:
    """Return how much two sets share, in thousandths (Dice)."""
    return 2000 * len(one & other) // (len(one) + len(other)) if one or other else 0


def _objects(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever the request holds
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def encoded(answer: dict[str, Any]) -> str:
    """Return a reply as the JSON text of a message."""
    return msgspec.json.encode(answer).decode()
