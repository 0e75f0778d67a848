"""Differences of JSON values: every place, by its pointer, in a fixed order."""

from __future__ import annotations

import pytest

from ledger.differences import ABSENT, Difference, differences, first_difference


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"b": 1, "a": 1}, {"b": 2, "a": 3}, [("/a", 1, 3), ("/b", 1, 2)]),
        ({"a": None}, {}, [("/a", None, ABSENT)]),
        ({"a": True}, {"a": 1}, [("/a", True, 1)]),
        ([1, 2], [1], [("/1", 2, ABSENT)]),
        ([1], [1, [2]], [("/1", ABSENT, [2])]),
        ({"a/b": {"~": 1}}, {"a/b": {"~": 2}}, [("/a~1b/~0", 1, 2)]),
        ({"a": [1]}, {"a": {"0": 1}}, [("/a", [1], {"0": 1})]),
        (1, 2, [("", 1, 2)]),
    ],
)
def test_each_difference_has_its_pointer_and_both_values(
    left: object, right: object, expected: list[tuple[str, object, object]]
) -> None:
    assert list(differences(left, right)) == [Difference(*one) for one in expected]
    first = first_difference(left, right)
    assert first == (Difference(*expected[0]) if expected else None)
