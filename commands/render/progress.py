"""Progress of work with a known total: one line on stderr, redrawn, and only when a terminal shows it."""

from __future__ import annotations

import sys
import time
from typing import Self

WIDTH = 30
REDRAW_SECONDS = 0.1


class Progress:
    """A bar that is drawn at most ten times a second and leaves its last state behind."""

    def __init__(self, total: int, label: str) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self._shown = sys.stderr.isatty() and total > 0
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._draw(force=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, count: int = 1) -> None:
        """Count work as done."""
        self.done += count
        self._draw(force=False)

    def close(self) -> None:
        """Draw the last state and leave the line."""
        if self._shown:
            self._draw(force=True)
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._shown = False

    def _draw(self, *, force: bool) -> None:
        if not self._shown:
            return
        now = time.monotonic()
        if not force and now - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = now
        filled = WIDTH * min(self.done, self.total) // self.total
        bar = "#" * filled + "." * (WIDTH - filled)
        sys.stderr.write(f"\r{self.label} [{bar}] {self.done}/{self.total}")
        sys.stderr.flush()
