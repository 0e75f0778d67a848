"""Names with indices: ``messages.0.role``, ``messages.10.content`` and so on, put together to lists and objects."""

from __future__ import annotations

from typing import Any

MOST_INDEX = 100_000


def taken(attributes: dict[str, Any], prefix: str) -> Any:  # noqa: ANN401 - any JSON value
    """Take the attributes whose names begin so out, and return what they spell: a list when they are numbered."""
    root: dict[str, Any] = {}
    for name in [name for name in attributes if name.startswith(prefix)]:
        value = attributes.pop(name)
        at, *path = [root, *name.removeprefix(prefix).split(".")]
        for step in path[:-1]:
            below = at.get(step)
            if not isinstance(below, dict):
                below = at[step] = {}
            at = below
        at.setdefault(path[-1], value)
    return listed(root)


def listed(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return objects whose members are all numbers as lists, in the order of the numbers."""
    if not isinstance(value, dict):
        return value
    inner = {name: listed(item) for name, item in value.items()}
    if inner and all(name.isdecimal() and name.isascii() for name in inner):
        return [inner[name] for name in sorted(inner, key=lambda name: (len(name.lstrip("0")), name))]
    return inner


def moved(attributes: dict[str, Any], names: dict[str, str]) -> None:
    """Give attributes their present names. One that is there already under its present name stays as it is."""
    for old, new in names.items():
        if (value := attributes.pop(old, None)) is not None and value != "":
            attributes.setdefault(new, value)


def objects(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    """Return the objects in a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
