"""Proving: the Merkle tree over a journal's events, compared with checkpoints that were kept elsewhere.

Leaves are hashed from the stored bytes, and a journal that doesn't hold is refused: a checkpoint vouches for events,
not for columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ledger import digests, refusals
from ledger.inspecting import Inspected, Lost
from ledger.merkle import Checkpoint, Frontier, Proof, path_of
from ledger.verify import Finding


def leaves(store: Inspected, upto: int) -> Iterator[bytes]:
    """Return the ids of the first events, made from their bytes; JournalDamaged at the first that isn't as recorded."""
    seq, head = 0, bytes(32)
    for rows in store.events(0, upto):
        if isinstance(rows, Lost):
            raise refusals.JournalDamaged(store.path, rows.after + 1, f"event {rows.after + 1} can't be read")
        for row in rows:
            seq += 1
            ident = digests.event_id(row[7]) if isinstance(row[7], bytes) else b""
            head = digests.chained(head, ident)
            if (row[0], row[1], row[2]) != (seq, ident, head):
                meaning = f"event {seq} is missing" if row[0] != seq else f"event {seq} is not what was recorded"
                raise refusals.JournalDamaged(store.path, seq, meaning)
            yield ident
    if seq != upto:
        raise refusals.JournalDamaged(store.path, seq + 1, f"event {seq + 1} is missing")


def checkpoint(store: Inspected) -> Checkpoint:
    """Return what the journal holds now."""
    size, _, _ = store.end()
    tree = Frontier()
    tree.extend(leaves(store, size))
    return Checkpoint(store.origin(), size, tree.root())


def prove(store: Inspected, seq: int, size: int) -> Proof:
    """Return the proof that an event is among the first so many."""
    path, root = path_of(seq - 1, leaves(store, size), size)
    return Proof(path, Checkpoint(store.origin(), size, root))


def compare(store: Inspected, kept: Sequence[tuple[str, Checkpoint]]) -> list[Finding]:
    """Return what each kept checkpoint, under the caller's name for it, shows against the journal."""
    findings: list[Finding] = []
    origin, (size, _, _) = store.origin(), store.end()
    within: list[tuple[str, Checkpoint]] = []
    for name, one in kept:
        if one.origin != origin:
            meaning = f"the checkpoint is of {one.origin}, and this journal was born as {origin}"
            findings.append(Finding("origin-differs", 0, name, meaning, "give the root that the checkpoint is of"))
        elif one.size > size:
            meaning = (
                f"the journal held {one.size} events and now holds {size}: events {size + 1} to {one.size} are gone"
            )
            findings.append(Finding("journal-truncated", size + 1, name, meaning, _REMEDY))
        else:
            within.append((name, one))
    findings += _rewritten(store, sorted(within, key=lambda item: item[1].size))
    return findings


_REMEDY = "what stands here is another journal from there on: restore a copy that the checkpoint fits"


def _rewritten(store: Inspected, kept: Sequence[tuple[str, Checkpoint]]) -> Iterator[Finding]:
    """Return the checkpoints whose roots the journal doesn't give, smallest first, reading it once."""
    tree, good = Frontier(), 0
    rest = leaves(store, max((one.size for _, one in kept), default=0))
    for name, one in kept:
        tree.extend(next(rest) for _ in range(one.size - tree.size))
        if tree.root() == one.root:
            good = one.size
            continue
        meaning = (
            f"events {good + 1} to {one.size} aren't those that the journal held: it was rewritten, or forked there"
        )
        yield Finding("journal-rewritten", good + 1, name, meaning, _REMEDY)


def first_difference(store: Inspected, other: Path) -> tuple[int, str] | None:
    """Return the first position at which a journal and a copy that was kept differ, and how; None when one goes on."""
    kept = Inspected(other)
    try:
        upto = min(store.end()[0], kept.end()[0])
        pairs = zip(leaves(store, upto), leaves(kept, upto), strict=True)
        for seq, (here, there) in enumerate(pairs, start=1):
            if here != there:
                return seq, f"event {seq} is {digests.named(here)} here and {digests.named(there)} in {other}"
        return None
    finally:
        kept.close()
