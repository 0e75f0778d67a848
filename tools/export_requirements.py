"""Write requirements/run.txt and requirements/test.txt from uv.lock: every package pinned, every file by hash.

Usage: python tools/export_requirements.py [--check]

With --check nothing is written; it fails when a file differs from the lock, or the lock from pyproject.toml.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
GROUPS = {"run": ["--no-default-groups", "--group", "build"], "test": ["--group", "dev"]}


def export(groups: list[str]) -> str:
    """Return the lock's packages for these groups; uv asks no index for that."""
    command = ["uv", "export", "--quiet", "--frozen", "--offline", "--no-header", "--no-annotate", "--no-emit-project"]
    done = subprocess.run(
        [sys.executable, "-m", *command, *groups], cwd=HERE, check=True, capture_output=True, text=True
    )
    return done.stdout


def main() -> int:
    """Write the files, or compare them."""
    check = "--check" in sys.argv[1:]
    stale = []
    for name, groups in GROUPS.items():
        path = HERE / "requirements" / f"{name}.txt"
        text = export(groups)
        if not check:
            path.write_text(text, "utf-8")
        elif path.read_text("utf-8") != text:
            stale.append(path.name)
    if stale:
        print(f"{', '.join(stale)} differ from uv.lock; run python tools/export_requirements.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
