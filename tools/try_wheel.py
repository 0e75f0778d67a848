"""Build the wheel, unpack it, and take the quickstart from it in an empty directory.

Usage: python tools/try_wheel.py

The packages it depends on are those of the running interpreter; its own code comes from the wheel alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def main() -> int:
    """Return 0 when the wheel does what the tree does."""
    with tempfile.TemporaryDirectory() as folder:
        made, unpacked, empty = (Path(folder, name) for name in ("made", "unpacked", "empty"))
        empty.mkdir()
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
        subprocess.run(build, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
        zipfile.ZipFile(next(made.glob("*.whl"))).extractall(unpacked)
        environment = {**os.environ, "PYTHONPATH": str(unpacked)}
        look = "import commands.main as m; print(m.__file__)"
        python = [sys.executable, "-P"]
        place = subprocess.run([*python, "-c", look], cwd=empty, env=environment, check=True, capture_output=True)
        if not Path(place.stdout.decode().strip()).is_relative_to(unpacked.resolve()):
            print(f"the code came from {place.stdout.decode().strip()}, not from the wheel", file=sys.stderr)
            return 1
        walk = [*python, "-m", "commands.main", "quickstart", "--json"]
        done = subprocess.run(walk, cwd=empty, env=environment, check=False, stdout=subprocess.PIPE)
        if done.returncode:
            return done.returncode
        said = json.loads(done.stdout)
        print(f"quickstart from the wheel: {said['policy']}, {said['replay']}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
