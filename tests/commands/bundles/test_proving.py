"""One proof for many events: it gives the root of the whole tree, and of no other."""

from __future__ import annotations

from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from commands.bundles.proving import nodes_beside, proven_root
from ledger.merkle import root_of


def leaves_of(size: int) -> list[bytes]:
    return [blake3(str(number).encode()).digest() for number in range(size)]


@st.composite
def chosen(draw: st.DrawFn) -> tuple[int, list[int]]:
    size = draw(st.integers(1, 70))
    return size, sorted(draw(st.sets(st.integers(1, size))))


@settings(max_examples=100, deadline=None)
@given(chosen())
def test_any_choice_of_leaves_gives_the_root_of_all(one: tuple[int, list[int]]) -> None:
    size, positions = one
    leaves = leaves_of(size)
    nodes = nodes_beside(leaves, positions)
    mine = [leaves[place - 1] for place in positions]
    assert proven_root(size, positions, mine, nodes) == root_of(leaves)
    assert len(nodes) <= max(1, len(positions)) * max(1, size.bit_length())


@settings(max_examples=100, deadline=None)
@given(chosen(), st.integers(0, 10_000))
def test_no_other_leaf_place_or_hash_gives_that_root(one: tuple[int, list[int]], number: int) -> None:
    size, positions = one
    leaves = leaves_of(size)
    nodes = nodes_beside(leaves, positions)
    mine = [leaves[place - 1] for place in positions]
    root = root_of(leaves)
    other = bytes(32)
    if mine:
        at = number % len(mine)
        assert proven_root(size, positions, [*mine[:at], other, *mine[at + 1 :]], nodes) != root
        assert proven_root(size, positions[:at] + positions[at + 1 :], mine[:at] + mine[at + 1 :], nodes) != root
    if nodes:
        at = number % len(nodes)
        assert proven_root(size, positions, mine, [*nodes[:at], other, *nodes[at + 1 :]]) != root
        assert proven_root(size, positions, mine, nodes[:-1]) is None
    assert proven_root(size, positions, mine, [*nodes, other]) is None


def test_a_leaf_beside_the_tree_is_never_proven_by_the_tree() -> None:
    leaves, stranger = leaves_of(4), bytes(32)
    for outside in ([0], [5], [-1]):
        assert proven_root(4, outside, [stranger], [root_of(leaves)]) is None
    beside = nodes_beside(leaves, [2])
    assert proven_root(4, [2, 2], [leaves[1], stranger], beside) is None
    assert proven_root(4, [2], [leaves[1], stranger], beside) is None
    assert proven_root(4, [2, 1], [leaves[1], stranger], nodes_beside(leaves, [1, 2])) is None


def test_places_that_are_no_places_prove_nothing() -> None:
    leaves = leaves_of(4)
    assert proven_root(4, [2, 1], leaves[:2], []) is None
    assert proven_root(4, [0], leaves[:1], []) is None
    assert proven_root(4, [5], leaves[:1], []) is None
    assert proven_root(4, [1, 1], leaves[:2], []) is None
    assert proven_root(4, [1], [], []) is None
    assert proven_root(0, [], [], []) == root_of([])
