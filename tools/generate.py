"""Write the generated files: schema/*.json, and the pages of docs/ that cog fills.

Usage: python tools/generate.py [--check | --release VERSION]

With --check nothing is written; it fails when a file is missing, stale, or has no source any more, and when
a released schema was changed or is no longer accepted. With --release the schemas are kept as those of a release.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from cogapp import Cog  # noqa: E402 - the project comes first

from tools import reference, released  # noqa: E402 - as above

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
    if sys.argv[1:2] == ["--release"]:
        return keep(sys.argv[2:])
    stale = generate_kinds(check=check) + generate_schemas(check=check) + generate_pages(check=check)
    for name in stale:
        print(f"{name} is stale; run python tools/generate.py", file=sys.stderr)
    wrong = list(released.problems(HERE / "schema")) if check else []
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if stale or wrong else 0


def keep(versions: list[str]) -> int:
    """Keep the schemas as those of a release; they must be today's."""
    if len(versions) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", versions[0]):
        print("usage: python tools/generate.py --release 1.2.3", file=sys.stderr)
        return 2
    stale = generate_kinds(check=True) + generate_schemas(check=True)
    problem = f"{stale[0]} is stale" if stale else released.release(HERE / "schema", versions[0])
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
