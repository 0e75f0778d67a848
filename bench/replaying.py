"""What computing a run again, comparing it and carrying it away take, on the root that the path left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.measuring import EXP, Bar, measure


def run(root: Path, folder: Path) -> list[Bar]:
    """Replay, compare with a copy, export and import; RuntimeError when one of them ends otherwise than it should."""
    copy = folder / "copy"
    shutil.copytree(root, copy)
    bundle = folder / "run.zip"
    words = {
        "exp replay": ("replay", "--root", str(root)),
        "exp diff": ("diff", str(root), str(copy)),
        "exp export": ("export", "optimize-", str(bundle), "--root", str(root)),
        "exp import": ("import", str(bundle), "--root", str(folder / "arrived")),
    }
    most = {"exp replay": (1, "22"), "exp diff": (2, ""), "exp export": (None, ""), "exp import": (None, "")}
    bars = []
    for name, arguments in words.items():
        measured = measure([*EXP, *arguments], dict(os.environ), folder)
        if measured.status:
            raise RuntimeError(f"{name} ended with {measured.status}: {measured.stdout}")
        bars.append(Bar(f"{name} of the optimization", measured.cpu, most[name][0], "CPU s", most[name][1]))
    bars.append(Bar("bundle", bundle.stat().st_size / 1e6, None, "MB"))
    return bars
