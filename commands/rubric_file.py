"""Rubric files: JSON or TOML, read exactly, with everything that is wrong reported at once."""

from __future__ import annotations

import json
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from commands.regular_file import open_regular
from ledger.errors import Refusal
from ledger.families.judging import Anchor, Axis, Rubric, Scaled, rubric_gaps, scaled

_AXIS = frozenset({"name", "question", "low", "high", "anchors"})
_ANCHOR = frozenset({"score", "meaning"})
_BROKEN = 0
MOST_BYTES = 1 << 20
_SHAPE = (
    'a rubric is {"axes": [{"name": "task-success", "question": "...", "low": 0, "high": 1, '
    '"anchors": [{"score": 1, "meaning": "..."}]}]}, in JSON or TOML'
)


class RubricUnusable(Refusal, name="rubric-unusable", exit_code=19):
    """The rubric file can't be used; every gap is listed."""

    def __init__(self, path: Path, gaps: tuple[str, ...]) -> None:
        super().__init__(
            "the rubric can't be used; nothing was recorded",
            where=f"--rubric-file {path}",
            remedy="\n".join((*gaps, _SHAPE)),
        )


def read_rubric(path: Path) -> Rubric:
    """Return the rubric in a file; RubricUnusable with everything that is wrong with it."""
    gaps: list[str] = []
    content = _content(path)
    axes = content.get("axes") if isinstance(content, dict) else None
    if not isinstance(axes, list):
        raise RubricUnusable(path, ("it has no list of axes",))
    _refuse_unknown("the rubric", content, frozenset({"axes"}), gaps)
    rubric = Rubric(axes=tuple(_axis(place, axis, gaps) for place, axis in enumerate(axes, 1)))
    if not gaps:
        gaps += rubric_gaps(rubric)
    if gaps:
        raise RubricUnusable(path, tuple(gaps))
    return rubric


def _content(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise RubricUnusable(path, (f"it is larger than {MOST_BYTES} bytes",))
        text = content.decode().replace("\r\n", "\n")
        if path.suffix == ".toml":
            return tomllib.loads(text, parse_float=Decimal)
        return json.loads(text, parse_float=Decimal)
    except OSError as error:
        raise RubricUnusable(path, (f"it can't be read: {error.strerror}",)) from error
    except (ValueError, RecursionError, InvalidOperation) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise RubricUnusable(path, (f"it isn't {kind}: {error}",)) from error


def _axis(place: int, axis: object, gaps: list[str]) -> Axis:
    where = f"axis {place}"
    read = _table(where, axis, _AXIS, gaps)
    anchors = read.get("anchors", [])
    if not isinstance(anchors, list):
        gaps.append(f"{where}: anchors must be a list")
        anchors = []
    return Axis(
        name=_text(where, "name", read, gaps),
        question=_text(where, "question", read, gaps),
        low=_score(where, "low", read, gaps),
        high=_score(where, "high", read, gaps),
        anchors=tuple(_anchor(f"{where}, anchor {number}", anchor, gaps) for number, anchor in enumerate(anchors, 1)),
    )


def _anchor(where: str, anchor: object, gaps: list[str]) -> Anchor:
    read = _table(where, anchor, _ANCHOR, gaps)
    return Anchor(score=_score(where, "score", read, gaps), meaning=_text(where, "meaning", read, gaps))


def _table(where: str, value: object, known: frozenset[str], gaps: list[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        gaps.append(f"{where}: it must be an object")
        return {}
    _refuse_unknown(where, value, known, gaps)
    return value


def _refuse_unknown(where: str, value: dict[str, Any], known: frozenset[str], gaps: list[str]) -> None:
    gaps += [f"{where}: {name!r} is unknown" for name in sorted(set(value) - known)]


def _text(where: str, name: str, table: dict[str, Any], gaps: list[str]) -> str:
    value = table.get(name)
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    gaps.append(f"{where}: {name} must be text")
    return ""


def _score(where: str, name: str, table: dict[str, Any], gaps: list[str]) -> Scaled:
    value = table.get(name)
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        score = scaled(Decimal(value))
        if score is not None:
            return score
    gaps.append(f"{where}: {name} must be a number within a million, with at most six decimals")
    return _BROKEN
