"""Snapshots: what the events up to a position folded to, a file a family, so that opening folds only what came after.

They are beside the ledger and prove nothing: each may be deleted at any time, and one that is damaged, of another
journal, of another release or of another version of its family's fold is as good as none. ``differences`` folds again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from blake3 import blake3

from ledger import __version__
from ledger.digests import content_digest
from ledger.errors import Refusal
from ledger.event import Family
from ledger.folding import fold_up_to
from ledger.locks import is_free
from ledger.store import OWN, Store

FOLDER = "snapshots"
MAGIC = b"exp-ledger snapshot 1\n"
HASH_BYTES = 32
WORTH = 4_096  # events: folding fewer takes no time that anyone would notice
BYTES_AN_EVENT = 32  # a big state is written less often, so that writing stays cheap beside folding
REMEDY = "delete the file: it is made again when it is needed"

_encode = msgspec.msgpack.Encoder().encode
_shapes: dict[type, str] = {}
_in_order = msgspec.msgpack.Encoder(order="deterministic").encode


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """What a file says: the fold, the shape of its state, the position and its head, and the state in msgpack."""

    release: str
    family: str
    version: int
    shape: str
    seq: int
    head: bytes
    state: bytes


class Difference(NamedTuple):
    """What is wrong with a snapshot: what that is called, which file, what it means, what to do."""

    name: str
    place: str
    meaning: str
    remedy: str


_snapshots = msgspec.msgpack.Decoder(Snapshot)


def _read(path: Path) -> Snapshot | None:
    """Return what a file says; None when it isn't whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(MAGIC) + HASH_BYTES
    if content[: len(MAGIC)] != MAGIC or content[len(MAGIC) : start] != blake3(content[start:]).digest():
        return None
    try:
        return _snapshots.decode(content[start:])
    except msgspec.DecodeError:
        return None


def _decoder(family: Family) -> msgspec.msgpack.Decoder[Any] | None:
    """Return what reads the family's state; None for a state that can't be written down."""
    try:
        return msgspec.msgpack.Decoder(type(family.initial()))
    except TypeError:
        return None


def _shape(state: type) -> str:
    """Return a digest of a state's fields and their types: a field that is new would else be read as its default."""
    known = _shapes.get(state)
    if known is None:
        known = _shapes[state] = content_digest(repr(msgspec.inspect.type_info(state)).encode())
    return known


def _fold_of(family: Family) -> tuple[str, str, int, str]:
    return __version__, family.name, family.version, _shape(type(family.initial()))


def _is_of(snapshot: Snapshot, family: Family) -> bool:
    return (snapshot.release, snapshot.family, snapshot.version, snapshot.shape) == _fold_of(family)


class Snapshots:
    """The snapshots of one root, as one process reads and writes them; a process without a name only reads."""

    def __init__(self, root: Path, process: str) -> None:
        self._root = root
        self._folder = root / FOLDER
        self._process = process
        self._size = 0

    def load(self, store: Store, family: Family, upto: int) -> tuple[int, Any]:
        """Return a position and the family's state there: of a snapshot of this very journal, or else of its start."""
        snapshot = _read(self._folder / family.name) if family.kinds and store.reading == OWN else None
        if snapshot is not None and _is_of(snapshot, family) and 0 < snapshot.seq <= upto:
            decoder = _decoder(family)
            if decoder is not None and store.head(snapshot.seq) == snapshot.head:
                with contextlib.suppress(msgspec.DecodeError):
                    return snapshot.seq, decoder.decode(snapshot.state)
        return 0, family.initial()

    def due(self) -> int:
        """Return after how many more events it is worth to write again."""
        return max(WORTH, self._size // BYTES_AN_EVENT)

    def save(self, families: Sequence[Family], states: Mapping[str, Any], seq: int, head: bytes) -> None:
        """Write each family's state, whole or not at all. That it can't be written harms nothing and is not said."""
        if not self._process:
            return
        self._size = 0
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for family in families:
                if family.kinds and _decoder(family) is not None:
                    self._save(family, states[family.name], seq, head)

    def _save(self, family: Family, state: object, seq: int, head: bytes) -> None:
        try:
            stored = _encode(state)
        except (OverflowError, TypeError, UnicodeEncodeError):  # a sum past 64 bits: folded again each time
            return
        self._size += len(stored)
        content = _encode(Snapshot(*_fold_of(family), seq, head, stored))
        fresh = self._folder / f"{family.name}.{self._process}"
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:  # not synced: one that a power cut tears is found to be torn
            file.write(MAGIC + blake3(content).digest() + content)
        fresh.replace(self._folder / family.name)

    def sweep(self) -> None:
        """Remove what processes that are gone were in the middle of writing."""
        for path in _files(self._root):
            if path.suffix and is_free(self._root, path.suffix[1:]):
                path.unlink(missing_ok=True)


def _files(root: Path) -> list[Path]:
    folder = root / FOLDER
    return sorted(folder.iterdir()) if folder.is_dir() else []


def differences(path: Path, families: Sequence[Family]) -> Iterator[Difference]:
    """Return what is wrong with a journal's snapshots; each usable one is compared with a fresh fold of the events.

    One of another release or fold is never used, so there is nothing wrong with it.
    """
    store = Store(path)
    try:
        by_name = {family.name: family for family in families}
        for file in _files(path.parent):
            if not file.suffix:  # else it is being written
                yield from _judged(store, file, by_name.get(file.name))
    finally:
        store.close()


def _judged(store: Store, file: Path, family: Family | None) -> Iterator[Difference]:
    place, snapshot = f"{FOLDER}/{file.name}", _read(file)
    if snapshot is None:
        yield Difference("snapshot-damaged", place, f"{place} isn't a whole snapshot; it is ignored", REMEDY)
    elif family is None or snapshot.family != file.name:
        yield Difference("snapshot-unknown", place, f"{place} belongs to nothing here; it is ignored", REMEDY)
    elif _is_of(snapshot, family):
        if store.head(snapshot.seq) != snapshot.head:
            meaning = f"{place} was made from another journal, or before this one was changed; it is ignored"
            yield Difference("snapshot-foreign", place, meaning, REMEDY)
        elif (problem := _compared(store, snapshot, family)) is not None:
            yield Difference("snapshot-differs", place, f"{place} {problem}", REMEDY)


def _compared(store: Store, snapshot: Snapshot, family: Family) -> str | None:
    """Return how a snapshot differs from a fresh fold; None when it doesn't."""
    states = {family.name: family.initial()}
    try:
        fold_up_to(store, [family], states, {family.name: 0}, snapshot.seq)
    except Refusal as refusal:
        return f"can't be compared with the events that it was made from: {refusal.what}"
    decoder = _decoder(family)
    with contextlib.suppress(msgspec.DecodeError):
        if decoder is not None and _in_order(decoder.decode(snapshot.state)) == _in_order(states[family.name]):
            return None
    return f"isn't what the events up to {snapshot.seq} fold to; what was decided on it may be wrong"


def positions(root: Path) -> dict[str, int]:
    """Return up to which event each whole snapshot goes."""
    read = ((file.name, _read(file)) for file in _files(root) if not file.suffix)
    return {name: snapshot.seq for name, snapshot in read if snapshot is not None}
