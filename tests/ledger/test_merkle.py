"""Merkle trees and checkpoints."""

from __future__ import annotations

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from ledger.merkle import AuditPath, Checkpoint, Frontier, NotACheckpoint, Proof, parent, path_of, root_of

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


@given(LEAVES.filter(bool), st.data())
def test_a_path_leads_from_its_leaf_to_the_root_and_from_no_other(leaves: list[bytes], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(leaves) - 1))
    looked_at = iter(leaves + leaves)
    path, root = path_of(place, looked_at, len(leaves))
    assert root == root_of(leaves)
    assert list(looked_at) == leaves, "each leaf is looked at once, and no other"
    assert path.root(leaves[place], len(leaves)) == root
    assert path.root(bytes(31) + b"!", len(leaves)) != root
    assert AuditPath(place, (*path.hashes, bytes(32))).root(leaves[place], len(leaves)) is None
    if path.hashes:
        assert AuditPath(place, path.hashes[:-1]).root(leaves[place], len(leaves)) is None
    for outside in (-1, len(leaves)):
        assert AuditPath(outside, path.hashes).root(leaves[place], len(leaves)) is None


def test_the_paths_of_seven_leaves_are_those_of_rfc_6962() -> None:
    """Section 2.1.3 shows the paths of the leaves 0, 3, 4 and 6."""
    leaves = [bytes([number]) * 32 for number in range(7)]
    a, b, c, d, e, f, j = leaves
    g, h, i = parent(a, b), parent(c, d), parent(e, f)
    k, m = parent(g, h), parent(i, j)
    for place, hashes in ((0, (b, h, m)), (3, (c, g, m)), (4, (f, j, k)), (6, (i, k))):
        assert path_of(place, leaves, 7)[0] == (place, hashes)


def test_a_proof_is_text_that_ends_with_its_checkpoint() -> None:
    checkpoint = Checkpoint("example.org/log", 2, bytes(32), "\n— example.org/log c2lnbmF0dXJl\n")
    assert Proof(AuditPath(1, (bytes(range(32)),)), checkpoint).text() == (
        "c2sp.org/tlog-proof@v1\nindex 1\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n"
        "example.org/log\n2\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— example.org/log c2lnbmF0dXJl\n"
    )


def test_a_checkpoint_is_three_lines_and_reads_back() -> None:
    checkpoint = Checkpoint("example.org/log", 7, bytes(range(32)))
    text = "example.org/log\n7\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
    assert checkpoint.text() == text
    assert Checkpoint.read(text) == checkpoint
    signed = text + "extension\n\n— example.org/log c2lnbmF0dXJl\n"
    assert Checkpoint.read(signed)[:3] == checkpoint[:3]
    assert Checkpoint.read(signed).text() == signed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        "a\n1\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "a\n99999999999999999999\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "a\n1\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=é\n",
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
