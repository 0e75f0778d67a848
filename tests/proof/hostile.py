"""Text that would act wherever it is shown as it is, and a path taken with it in every place that takes text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from commands.embedded.answer import answer
from tests.projections.spans_double import session
from tests.proof.stage import Reply

# Colours, a window's title, a bell, C1 controls, a carriage return, marks of direction, markup, and format strings.
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\x85\u202eevil\u2066\u061c\u200f\x1bP1$r\x1b\\\r<script>alert(1)</script>"
    "<img src=x onerror=alert(2)>{0}{x!r}%s%n%(x)d${IFS}`id`'\"&lt;"
)
ESCAPES = "\x1b[2J\x07\u202e\x9b1m"
MARKED = "<script>alert(1)</script>%s%n"
TASKS = (
    "Sort the rows of the ledger by their amounts and write them to a new file",
    "Count every word of the essay, then print the ten most frequent",
    "Download the newest release and verify its checksum twice",
    "Compile the C program with all warnings as errors",
    "Find broken links below /srv/www and list where they lead",
    "Zip photographs from last summer, one archive a week",
    "Which users have no shell? Answer with their names only",
    "Rotate old logs; keep seven days",
    "Print all primes under one thousand in a single column",
    "Set the clock's zone to UTC and show today's date",
)
KEPT = "%s%n%(x)d${IFS}"  # what says that the text came through as text
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MARKUP = re.compile(r"<script>alert|<img src=x", re.IGNORECASE)


def traces(path: Path) -> Path:
    """Write an export whose every text is hostile."""
    spans: list[dict[str, Any]] = []
    for number, words in enumerate(TASKS):
        task = f"{ESCAPES}{words}{MARKED} " * 2
        steps = [(f"{words} {step} {HOSTILE}", f"{HOSTILE} {step}") for step in range(1 + number % 2)]
        spans += session(
            f"{ESCAPES}{number:032x}{MARKED}", task, steps, errors=[0] if number % 5 == 0 else (), topic=HOSTILE
        )
    for span in spans:
        span["name"] = HOSTILE
    broken = [f'{{"traceId": "{number}{HOSTILE}'.encode() for number in range(3)]
    path.write_bytes(b"".join(json.dumps(span).encode() + b"\n" for span in spans) + b"\n".join(broken))
    return path


def rubric(path: Path) -> Path:
    """Write a rubric whose every text is hostile."""
    anchors = [{"score": 0, "meaning": HOSTILE}, {"score": 1, "meaning": f"all {HOSTILE}"}]
    axis = {"name": "task-success", "question": HOSTILE, "low": 0, "high": 1, "anchors": anchors}
    path.write_text(json.dumps({"axes": [axis]}))
    return path


def provider(api: str, body: dict[str, Any]) -> Reply:
    """Answer as the stand-in does, with hostile text in every field that holds text."""
    status, said = answer(api, body)
    if status != 200:
        return status, {"error": {"message": HOSTILE, "type": HOSTILE, "code": HOSTILE}}
    if api == "embeddings":
        return status, said
    said["system_fingerprint"] = f"exp-stand-in {HOSTILE}"
    said["id"] = HOSTILE
    for choice in said["choices"]:
        message = choice["message"]
        if isinstance(message.get("content"), str):
            message["content"] = _worded(message["content"])
        for call in message.get("tool_calls") or ():
            call["id"] = HOSTILE
    return status, said


def _worded(content: str) -> str:
    """Return a reply that can still be read, its texts hostile."""
    try:
        read = json.loads(content)
    except ValueError:
        return f"{content} {HOSTILE}"
    if "observation" in read:
        read["observation"] += HOSTILE
    for axis in read.get("axes", {}).values():
        axis["rationale"] = f"{axis['rationale']} {HOSTILE}"
    return json.dumps(read)


def refusing(api: str, body: dict[str, Any]) -> Reply:
    """Answer every question with an error."""
    del api, body
    return 400, {"error": {"message": HOSTILE, "type": HOSTILE, "code": HOSTILE, "param": HOSTILE}}
