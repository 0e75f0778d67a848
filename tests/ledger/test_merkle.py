"""Merkle trees and checkpoints."""

from __future__ import annotations

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from ledger.merkle import Checkpoint, Frontier, NotACheckpoint, parent, root_of

LEAVES = st.lists(st.binary(min_size=32, max_size=32), max_size=40)


@given(LEAVES, LEAVES)
def test_a_frontier_has_the_root_of_all_its_leaves(first: list[bytes], more: list[bytes]) -> None:
    frontier = Frontier()
    frontier.extend(first)
    assert (frontier.size, frontier.root()) == (len(first), root_of(first))
    frontier.extend(more)
    assert (frontier.size, frontier.root()) == (len(first + more), root_of(first + more))
    assert len(frontier.peaks) == frontier.size.bit_count()


def test_seven_leaves_are_hashed_in_the_shape_of_rfc_6962() -> None:
    a, b, c, d, e, f, g = (bytes([number]) * 32 for number in range(7))
    expected = parent(parent(parent(a, b), parent(c, d)), parent(parent(e, f), g))
    assert root_of([a, b, c, d, e, f, g]) == expected
    assert parent(a, b) == blake3(b"\x01" + a + b).digest()


def test_the_root_of_no_leaves_is_the_hash_of_nothing() -> None:
    assert Frontier().root() == root_of([]) == blake3(b"").digest()


def test_a_checkpoint_is_three_lines_and_reads_back() -> None:
    checkpoint = Checkpoint("example.org/log", 7, bytes(range(32)))
    text = "example.org/log\n7\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
    assert checkpoint.text() == text
    assert Checkpoint.read(text) == checkpoint
    assert Checkpoint.read(text + "\n— example.org/log c2lnbmF0dXJl\n") == checkpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        "\n1\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "a\n01\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "a\n-1\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "a\n²\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "a\n1\nAAEC\n",
        "a\n1\n!AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NotACheckpoint):
        Checkpoint.read(text)
