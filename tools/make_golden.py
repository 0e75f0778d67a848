"""Make the golden journals in fixtures/journals/: for each thing that is published, a small journal that publishes it.

Usage: python tools/make_golden.py [--dirty]

Beside each journal stands what made it, its checkpoint, and what a replay of it must say. They are made once a release,
from a clean clone (--dirty makes them from any), and replayed for ever after.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from ledger import __version__, digests  # noqa: E402 - the project comes first
from ledger.inspecting import Inspected, Lost  # noqa: E402 - as above
from ledger.proving import checkpoint  # noqa: E402 - as above
from ledger.store import NAME  # noqa: E402 - as above
from tests.proof.stage import CORPUS, Stage, model, witnessing  # noqa: E402 - as above

GOLDEN = HERE / "fixtures" / "journals"
PUBLISHED = ("build-completed", "calibration-published", "policy-frozen", "report-published", "route-decided")
QUESTIONS = ("Count the lines of notes.txt and print the number.", "List the files of the folder by size.")
TRACES = 48
WANTS_LABELS = 12
WAIT_SECONDS = 60


def commit(*, dirty: bool) -> str:
    """Return the commit that is checked out; refuse when the product isn't as it is committed."""
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", "ledger", "projections", "commands", "fixtures/traces")
    if changed and not dirty:
        sys.exit(f"these differ from the commit that would be named; commit them, or give --dirty:\n{changed}")
    return f"{head} and changes" if changed else head


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make(folder: Path) -> Iterator[tuple[str, Stage]]:
    """Take the path in a folder; yield each golden journal's name when its root is as it is to be kept."""
    traces = folder / "traces.jsonl"
    with CORPUS.open(encoding="utf-8") as whole:
        traces.write_text("".join(itertools.islice(whole, TRACES)), "utf-8")
    with witnessing() as witness:
        stage = Stage(folder, witness.url, traces=traces)
        stage.configure(model("medium", "embedded-medium", "0.4"))
        _take(stage, *stage.build)
        yield "build", stage
        _take(stage, *stage.setup)
        proposed = _take(stage, *stage.calibrate, status=WANTS_LABELS)
        _take(stage, *stage.labelled(proposed.stdout + proposed.stderr))
        yield "calibration", stage
        _take(stage, *stage.optimize())
        yield "policy", stage
        with serving(stage) as ask:
            for question in QUESTIONS:
                ask(question)
        yield "gateway", stage
        _take(stage, *stage.optimize("small", "large", "medium"))
        yield "report", stage


def _take(stage: Stage, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = stage.exp(*words)
    if done.returncode != status:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class _Asking:
    """A gateway that listens, and how to ask it."""

    def __init__(self, key: str, url: str) -> None:
        self.key = key
        self.url = url

    def __call__(self, question: str) -> None:
        """Ask for one completion."""
        body = json.dumps({"model": "shell", "messages": [{"role": "user", "content": question}]}).encode()
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Idempotency-Key": question,
        }
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", body, headers)  # noqa: S310 - our own address
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:  # noqa: S310 - as above
            json.load(response)


@contextlib.contextmanager
def serving(stage: Stage) -> Iterator[_Asking]:
    """Run the gateway on the stage's root for a while."""
    words = stage.command("run", "shell", "--port", "0")
    server = subprocess.Popen(words, env=stage.environment, cwd=stage.folder, stdout=subprocess.PIPE, text=True)
    try:
        key = ""
        for line in server.stdout or ():
            if line.startswith("Gateway key file: "):
                key = Path(line.split(": ", 1)[1].strip()).read_text("utf-8").strip()
            elif line.startswith("Uvicorn running on "):
                yield _Asking(key, line.split()[3])
                break
        else:
            sys.exit("the gateway didn't start")
    finally:
        server.terminate()
        server.wait(WAIT_SECONDS)


def described(root: Path, stage: Stage, made_by: str) -> dict[str, Any]:
    """Return what is to stand beside a journal."""
    replayed = json.loads(stage.exp("replay", "--json").stdout)
    store = Inspected(root / NAME)
    try:
        now = checkpoint(store)
        published = [
            {"seq": row[0], "kind": row[3], "digest": digests.content_digest(body_of(row[7]))}
            for rows in store.events(0, now.size)
            if not isinstance(rows, Lost)
            for row in rows
            if row[3].partition("@")[0] in PUBLISHED
        ]
    finally:
        store.close()
    replayed.pop("journal")
    return {
        "made_by": f"tools/make_golden.py of exp {__version__}",
        "commit": made_by,
        "checkpoint": now.text(),
        "published": published,
        "replayed": replayed,
    }


def body_of(stored: bytes) -> bytes:
    """Return the canonical bytes of an event's body."""
    return json.dumps(json.loads(stored)["body"], sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def main() -> int:
    """Make all of them, in place of those that are there."""
    made_by, started = commit(dirty="--dirty" in sys.argv[1:]), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "journals")
        fresh.mkdir()
        for name, stage in make(Path(folder)):
            facts = described(stage.root, stage, made_by)
            verdicts = [one for each in facts["replayed"].values() for one in each]
            differing = [one["id"] for one in verdicts if one["status"] != "identical"]
            if differing and "--dirty" not in sys.argv[1:]:
                sys.exit(f"{name}: a replay says that {', '.join(differing)} can't be reproduced")
            shutil.copyfile(stage.root / NAME, fresh / f"{name}.db")
            (fresh / f"{name}.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", "utf-8")
            print(f"{name}: {len(facts['published'])} published, {(fresh / f'{name}.db').stat().st_size:,} bytes")
        shutil.rmtree(GOLDEN, ignore_errors=True)
        shutil.copytree(fresh, GOLDEN)
    print(f"made in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
