"""What is released never changes, and what was recorded by a release is still accepted."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tools import released

SHAPE: dict[str, Any] = {
    "$ref": "#/$defs/Thing",
    "$defs": {
        "Thing": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 9},
                "size": {"type": "integer", "minimum": 1},
                "how": {"enum": ["a", "b"]},
                "more": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
                "all": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
                "any": {},
                "rest": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}], "default": None},
            },
            "required": ["name", "size", "how", "pair", "all", "any"],
            "additionalProperties": False,
        },
        "Part": {
            "type": "object",
            "properties": {"inner": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]}},
            "required": [],
        },
    },
}


def changed(*path: str | int, to: object) -> dict[str, Any]:
    shape = copy.deepcopy(SHAPE)
    place: Any = shape["$defs"]
    for step in path[:-1]:
        place = place[step]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return shape


PROPERTIES = ("Thing", "properties")


@pytest.mark.parametrize(
    "shape",
    [
        SHAPE,
        changed(*PROPERTIES, "fresh", to={"type": "string", "default": "x"}),
        changed(*PROPERTIES, "name", "maxLength", to=10),
        changed(*PROPERTIES, "name", "maxLength", to=...),
        changed(*PROPERTIES, "size", to={"type": "number", "minimum": 0}),
        changed(*PROPERTIES, "how", to={"enum": ["a", "b", "c"]}),
        changed(*PROPERTIES, "size", to={"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}),
        changed("Thing", "required", to=["name"]),
    ],
)
def test_a_shape_that_only_grew_accepts_what_was_recorded(shape: dict[str, Any]) -> None:
    assert released.Comparison(shape, SHAPE).differences() == []


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (changed(*PROPERTIES, "size", to=...), ("/size", "is gone")),
        (changed(*PROPERTIES, "size", "type", to="string"), ("/size", "is string and was integer")),
        (changed(*PROPERTIES, "size", "minimum", to=2), ("/size", "has a narrower minimum")),
        (changed(*PROPERTIES, "name", "minLength", to=1), ("/name", "has a narrower minLength")),
        (changed(*PROPERTIES, "name", "maxLength", to=8), ("/name", "has a narrower maxLength")),
        (changed(*PROPERTIES, "name", "pattern", to="x"), ("/name", "has another pattern")),
        (changed(*PROPERTIES, "how", "enum", to=["a"]), ("/how", "takes fewer values")),
        (changed(*PROPERTIES, "name", to={"enum": ["a"]}), ("/name", "takes fewer values")),
        (changed(*PROPERTIES, "more", "anyOf", to=[{"type": "string"}]), ("/more", "lacks one of its alternatives")),
        (changed(*PROPERTIES, "more", "default", to="x"), ("/more", "has another default")),
        (changed(*PROPERTIES, "more", "default", to=...), ("/more", "has another default")),
        (
            changed(*PROPERTIES, "pair", "prefixItems", 1, to={"type": "string"}),
            ("/pair/1", "is string and was integer"),
        ),
        (changed(*PROPERTIES, "pair", "prefixItems", to=[]), ("/pair", "has another number of items")),
        (changed(*PROPERTIES, "all", "items", to={"type": "string"}), ("/all/*", "is string and was object")),
        (changed(*PROPERTIES, "any", to={"type": "string"}), ("/any", "is string and was anything")),
        (changed("Part", "required", to=["inner"]), ("/all/*/inner", "must be there and needn't have been")),
        (
            changed("Thing", "required", to=["name", "size", "how", "pair", "all", "any", "more"]),
            ("/more", "must be there and needn't have been"),
        ),
    ],
)
def test_where_a_shape_no_longer_accepts_what_was_recorded_is_named(
    shape: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert expected in released.Comparison(shape, SHAPE).differences()


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    (tmp_path / "thing-made@1.json").write_text(json.dumps(SHAPE), "utf-8")
    assert released.release(tmp_path, "1.2.3") is None
    return tmp_path


def test_a_release_is_kept_once(schemas: Path) -> None:
    folder = schemas / "released" / "1.2.3"
    assert sorted(path.name for path in folder.iterdir()) == ["released.txt", "thing-made@1.json"]
    assert list(released.problems(schemas)) == []
    assert "never changes" in (released.release(schemas, "1.2.3") or "")
    assert [path.name for path in (schemas / "released").iterdir()] == ["1.2.3"]


def test_a_released_file_that_was_changed_added_or_removed_is_told(schemas: Path) -> None:
    path = schemas / "released" / "1.2.3" / "thing-made@1.json"
    before = path.read_text("utf-8")
    for damage in (lambda: path.write_text(before + " ", "utf-8"), path.unlink):
        damage()
        assert any("never changes" in problem for problem in released.problems(schemas))
        path.write_text(before, "utf-8")
    assert list(released.problems(schemas)) == []
    path.with_name("other.json").write_text("{}", "utf-8")
    assert any("never changes" in problem for problem in released.problems(schemas))


def test_a_kind_that_is_gone_or_narrower_is_told(schemas: Path) -> None:
    now = schemas / "thing-made@1.json"
    now.write_text(json.dumps(changed(*PROPERTIES, "size", to=...)), "utf-8")
    assert list(released.problems(schemas)) == [
        "thing-made@1.json no longer accepts what 1.2.3 recorded: /size is gone"
    ]
    now.unlink()
    (problem,) = released.problems(schemas)
    assert problem.startswith("thing-made@1.json was released in 1.2.3 and is gone")


def test_all_shapes_of_today_accept_themselves() -> None:
    for path in (Path(__file__).parents[2] / "schema").glob("*.json"):
        shape = json.loads(path.read_text("utf-8"))
        assert released.Comparison(shape, shape).differences() == [], path.name
