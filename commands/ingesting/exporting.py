"""Exporting: recorded traces as lines of OTLP JSON, to a file that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from commands.render.json_text import harmless
from commands.whole_file import fresh
from ledger.errors import Refusal
from ledger.families import traces
from projections.normal_form.written import written

if TYPE_CHECKING:
    from ledger.journal import Journal

_encode = msgspec.json.Encoder(order="sorted").encode


class ExportNotWritten(Refusal, name="export-not-written", exit_code=200):
    """The file that traces were to be written to can't be, or is there already."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the export can't be written: {problem}",
            where=str(path) if path.name else "a path without a file's name",
            remedy="give the path of a file that isn't there yet, in a directory that you may write to",
        )


def lines_of(journal: Journal, digests: Sequence[str], advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield a line for each trace; the journal refuses by name what is erased or damaged."""
    for digest in digests:
        yield harmless(_encode(written(traces.decoded(journal.blob(digest)))).decode()).encode() + b"\n"
        advance(1)


def write_new(path: Path, lines: Iterable[bytes]) -> int:
    """Write a file that isn't there yet, readable by its owner, and return its size."""
    size = 0
    try:
        with fresh(path) as made:
            with made.open("wb") as file:
                for line in lines:
                    size += file.write(line)
                file.flush()
                os.fsync(file.fileno())
            os.link(made, path)
    except OSError as error:
        raise ExportNotWritten(path, error.strerror or str(error)) from error
    return size
