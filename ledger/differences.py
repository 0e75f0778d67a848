"""Differences of two JSON values, each with its JSON pointer (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple


class Absent:
    """Stands where one side has a member or an element and the other has none; JSON has no such value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()


class Difference(NamedTuple):
    """Where two values differ, and what stands there in each."""

    pointer: str
    left: object
    right: object


def differences(left: object, right: object, pointer: str = "") -> Iterator[Difference]:
    """Yield each place where two JSON values differ, members in sorted order; a value of another type differs as one.

    Lists are compared place by place.
    """
    pairs: list[tuple[str, object, object]]
    if isinstance(left, dict) and isinstance(right, dict):
        pairs = [
            (str(name), left.get(name, ABSENT), right.get(name, ABSENT)) for name in sorted(left.keys() | right.keys())
        ]
    elif isinstance(left, list) and isinstance(right, list):
        pairs = [
            (str(place), one, other) for place, (one, other) in enumerate(zip_longest(left, right, fillvalue=ABSENT))
        ]
    else:
        if type(left) is not type(right) or left != right:
            yield Difference(pointer, left, right)
        return
    for name, one, other in pairs:
        yield from differences(one, other, f"{pointer}/{escaped(name)}")


def first_difference(left: object, right: object) -> Difference | None:
    """Return the first difference; None when there is none."""
    return next(differences(left, right), None)


def escaped(name: str) -> str:
    """Return a member's name as a part of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")
