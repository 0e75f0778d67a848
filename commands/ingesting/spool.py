"""Rows, kept until all rows of their traces are known: in memory while they are few, in a scratch file beyond that.

The scratch file has no name, so that nothing is left of it however the process ends, and nobody but its owner reads it.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO

import msgspec
from blake3 import blake3

from projections.normal_form.sources import Row

PARTS = 256
HELD_BYTES = 32 << 20
TOGETHER_BYTES = 4 << 20  # of rows that become values at once; these take some ten times as much
KNOWN_TRACES = 4_096  # whose part isn't worked out again for each row
_HEAD = struct.Struct(">HBI")  # number of the source, share of the part that the trace is in, and length of the row

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Row).decode


@lru_cache(KNOWN_TRACES)
def _part(trace: str) -> tuple[int, int]:
    """Return the number of a trace's part, and its share of that."""
    digest = blake3(trace.encode()).digest()
    return digest[0], digest[1]


class Spool:
    """Rows by trace. Groups come in an order that only the traces' names decide."""

    def __init__(self, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._file: IO[bytes] | None = None
        self._parts: list[bytearray] = [bytearray() for _ in range(PARTS)]
        self._extents: list[list[tuple[int, int]]] = [[] for _ in range(PARTS)]
        self._held = 0

    def add(self, source: int, row: Row) -> None:
        """Keep a row of that source."""
        entry = _encode(row)
        number, share = _part(row.trace)
        part = self._parts[number]
        part += _HEAD.pack(source, share, len(entry))
        part += entry
        self._held += len(entry) + _HEAD.size
        if self._held >= HELD_BYTES:
            self._write()

    def _write(self) -> None:
        """Move what is held to the scratch file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._scratch, buffering=0)  # noqa: SIM115 - closed with the spool
        at = self._file.seek(0, 2)
        for number, part in enumerate(self._parts):
            if part:
                self._file.write(part)
                self._extents[number].append((at, len(part)))
                at += len(part)
                self._parts[number] = bytearray()
        self._held = 0

    def groups(self) -> Iterator[tuple[int, str, list[Row]]]:
        """Yield the rows of each trace, with the number of their source."""
        for number in range(PARTS):
            size = len(self._parts[number]) + sum(length for _, length in self._extents[number])
            passes = -(-size // TOGETHER_BYTES)
            for one in range(passes):
                found: dict[tuple[int, str], list[Row]] = {}
                for source, share, entry in self._entries(number):
                    if share % passes == one:
                        row = _decode(entry)
                        found.setdefault((source, row.trace), []).append(row)
                for key in sorted(found):
                    yield *key, found.pop(key)

    def _entries(self, number: int) -> Iterator[tuple[int, int, memoryview]]:
        """Yield the bytes of each row of a part, with the number of its source and the share of its trace."""
        pieces: list[bytes | bytearray] = []
        for at, length in self._extents[number]:
            if self._file is not None:
                self._file.seek(at)
                pieces.append(self._file.read(length))
        pieces.append(self._parts[number])
        for piece in pieces:
            view = memoryview(piece)
            at = 0
            while at < len(view):
                source, share, length = _HEAD.unpack_from(view, at)
                at += _HEAD.size
                yield source, share, view[at : at + length]
                at += length

    def close(self) -> None:
        """Forget everything."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._parts = [bytearray() for _ in range(PARTS)]
        self._extents = [[] for _ in range(PARTS)]
