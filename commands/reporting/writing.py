"""Writing a page to a file: whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ledger.errors import Refusal


class PageUnwritable(Refusal, name="page-unwritable", exit_code=237):
    """The page of a report can't be written to the file that was named."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the page can't be written: {problem}; what was there before is untouched",
            where=str(path),
            remedy="name a file in a directory that is there and can be written to",
        )


def write(path: Path, text: str) -> None:
    """Put a text in a file's place in one step, readable by its owner alone: a page holds what traces hold."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except (OSError, ValueError) as error:
        raise PageUnwritable(path, getattr(error, "strerror", None) or str(error)) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise PageUnwritable(path, error.strerror or str(error)) from error
