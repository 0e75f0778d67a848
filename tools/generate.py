"""Write the generated files: schema/*.json, and the pages of docs/ that cog fills.

Usage: python tools/generate.py [--check]

With --check nothing is written; it fails when a file is missing, stale, or has no source any more.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from cogapp import Cog  # noqa: E402 - the project comes first

from tools import reference  # noqa: E402 - as above

PAGES = ("docs/cli.md", "docs/errors.md")


def generate_schemas(*, check: bool) -> list[str]:
    """Write schema/, or return what differs there."""
    folder = HERE / "schema"
    wanted = reference.schemas()
    stale = []
    for name, text in wanted.items():
        path = folder / name
        if not check:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            stale.append(f"schema/{name}")
    for path in folder.glob("*.json"):
        if path.name not in wanted:
            stale.append(f"schema/{path.name}")
            if not check:
                path.unlink()
    return stale if check else []


def generate_kinds(*, check: bool) -> list[str]:
    """Write the list of kinds, by which a journal of a later release is known, or say that it differs."""
    path = HERE / "ledger" / "kinds.py"
    text = reference.kinds()
    if check:
        return [] if path.read_text("utf-8") == text else ["ledger/kinds.py"]
    path.write_text(text, "utf-8")
    return []


def generate_pages(*, check: bool) -> list[str]:
    """Have cog fill the pages, or return those that differ."""
    stale = []
    for page in PAGES:
        mode = ["--check"] if check else ["-r"]
        if Cog().main(["cog", *mode, "-I", str(HERE), str(HERE / page)]):
            stale.append(page)
    return stale


def main() -> int:
    """Write all, or compare all."""
    check = "--check" in sys.argv[1:]
    stale = generate_kinds(check=check) + generate_schemas(check=check) + generate_pages(check=check)
    for name in stale:
        print(f"{name} is stale; run python tools/generate.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
