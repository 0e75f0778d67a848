"""The interpreters to replay on: every supported one that is here and has what the product needs.

``REPLAY_PYTHONS`` names more, separated as in PATH: the gate makes an environment for each interpreter that it finds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
SUPPORTED = ("3.11", "3.12", "3.13")
_PROBE = (
    "import sys, apsw, blake3, click, msgspec, numpy; print('.'.join(map(str, sys.version_info[:2])), sys.executable)"
)


def interpreters() -> dict[str, str]:
    """Return the executable of each supported version that can run the product."""
    named = [name for name in os.environ.get("REPLAY_PYTHONS", "").split(os.pathsep) if name]
    found: dict[str, str] = {}
    for candidate in (sys.executable, *named, *filter(None, (shutil.which(f"python{one}") for one in SUPPORTED))):
        done = subprocess.run([candidate, "-P", "-c", _PROBE], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            version, _, executable = done.stdout.strip().partition(" ")
            found.setdefault(version, executable)
    return found
