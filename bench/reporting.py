"""What looking at a run takes, on the root that the path left: its page, its tables, its JSON."""

from __future__ import annotations

import os
from pathlib import Path

from bench.measuring import EXP, Bar, measure

PROJECT = "bench"


def run(root: Path, folder: Path) -> list[Bar]:
    """Report in each form; RuntimeError when one ends otherwise than it should."""
    page = folder / "report.html"
    forms = {"--html": ("--html", str(page)), "tables": (), "--json": ("--json",)}
    most = {"--html": 3.0, "tables": None, "--json": None}
    bars = []
    for name, words in forms.items():
        measured = measure([*EXP, "report", PROJECT, "--root", str(root), *words], dict(os.environ), folder)
        if measured.status:
            raise RuntimeError(f"exp report, {name}, ended with {measured.status}: {measured.stdout}")
        bars.append(Bar(f"exp report, {name}", measured.cpu, most[name], "CPU s"))
    bars.append(Bar("exp report, the page", page.stat().st_size / 1e6, 2, "MB"))
    return bars
