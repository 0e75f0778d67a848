"""Record the shipped corpus: run every task of shell_sessions.txt in an empty folder and keep what the shell said.

Usage: python tools/record_corpus.py [OUT]     (default: fixtures/traces/shell-sessions.otel.jsonl)

One OTLP envelope (``resourceSpans``) a line, one trace an envelope, in the GenAI semantic conventions: an
``invoke_agent`` span with the task, and an ``execute_tool`` span for each command. Times are ordinals, since when a
command ran says nothing about what it does. A session whose output names this machine, its user, its folders or a date
is refused, so a command that would print them has no place among the tasks.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SESSIONS = HERE / "shell_sessions.txt"
CORPUS = HERE.parent / "fixtures" / "traces" / "shell-sessions.otel.jsonl"
TOOL = "bash"
SECONDS = 20
DATE = re.compile(r"\b(?:19|20)\d\d-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b")


class Session(NamedTuple):
    """A task and the commands that were run for it."""

    family: str
    task: str
    commands: tuple[str, ...]


class Ran(NamedTuple):
    """A command, what the terminal showed, and the exit status."""

    command: str
    output: str
    status: int


def read_sessions(text: str) -> list[Session]:
    """Parse the file of tasks."""
    sessions: list[Session] = []
    family = ""
    for line in text.splitlines():
        if not line or line.startswith("# "):
            continue
        if line.startswith("== "):
            family = line[3:]
        elif line.startswith("$ "):
            last = sessions.pop()
            sessions.append(last._replace(commands=(*last.commands, line[2:])))
        else:
            sessions.append(Session(family, line, ()))
    return sessions


def environment(home: Path) -> dict[str, str]:
    """Return the little that a command needs; nothing of the caller's."""
    git = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()}
    return {"PATH": os.defpath + ":/usr/local/bin", "HOME": str(home), "LC_ALL": "C.UTF-8", "TZ": "UTC", **git}


_IDENTITY = {"NAME": "agent", "EMAIL": "agent@example.org", "DATE": "2000-01-01T00:00:00Z"}


def run(session: Session) -> list[Ran]:
    """Run the commands one after another in one empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        work, home = Path(folder, "work"), Path(folder, "home")
        work.mkdir()
        home.mkdir()
        return [_run(command, work, home) for command in session.commands]


def _run(command: str, work: Path, home: Path) -> Ran:
    done = subprocess.run(
        ["bash", "--norc", "-c", command],
        cwd=work,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return Ran(command, done.stdout.decode("utf-8", "replace"), done.returncode)


def betrays(ran: Ran) -> str | None:
    """Return what in the output belongs to this machine or this day; None when nothing does."""
    for name in (tempfile.gettempdir() + "/", str(Path.home()) + "/", socket.gethostname(), f" {getpass.getuser()} "):
        if name in ran.output:
            return name
    found = DATE.search(ran.output)
    return found.group() if found else None


def attribute(key: str, value: str | int) -> dict[str, Any]:
    """Return an attribute in OTLP JSON, where integers are text."""
    shape = {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
    return {"key": key, "value": shape}


def compact(value: object) -> str:
    """Return JSON on one line, as attributes hold it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spans(session: Session, ran: list[Ran]) -> list[dict[str, Any]]:
    """Return the trace of a session: the agent's span, and one below it for each command."""
    trace = hashlib.sha256(session.task.encode()).hexdigest()
    root = trace[32:48]
    asked = [{"role": "user", "parts": [{"type": "text", "content": session.task}]}]
    result = [
        {
            "traceId": trace[:32],
            "spanId": root,
            "name": "invoke_agent shell-session",
            "kind": 1,
            "startTimeUnixNano": "1",
            "endTimeUnixNano": str(2 * len(ran) + 2),
            "attributes": [
                attribute("gen_ai.operation.name", "invoke_agent"),
                attribute("gen_ai.agent.name", "shell-session"),
                attribute("gen_ai.input.messages", compact(asked)),
                attribute("task.category", session.family),
            ],
            "status": {},
        },
    ]
    result.extend(_tool_span(trace, root, index, one) for index, one in enumerate(ran))
    return result


def _tool_span(trace: str, root: str, index: int, ran: Ran) -> dict[str, Any]:
    return {
        "traceId": trace[:32],
        "spanId": hashlib.sha256(f"{trace}{index}".encode()).hexdigest()[:16],
        "parentSpanId": root,
        "name": f"execute_tool {TOOL}",
        "kind": 1,
        "startTimeUnixNano": str(2 * index + 2),
        "endTimeUnixNano": str(2 * index + 3),
        "attributes": [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", TOOL),
            attribute("gen_ai.tool.type", "function"),
            attribute("gen_ai.tool.call.id", f"call_{index + 1}"),
            attribute("gen_ai.tool.call.arguments", compact({"command": ran.command})),
            attribute("gen_ai.tool.call.result", ran.output),
            attribute("process.exit.code", ran.status),
            *([attribute("error.type", f"exit_status_{ran.status}")] if ran.status else []),
        ],
        "status": {"code": 2, "message": f"exit status {ran.status}"} if ran.status else {"code": 1},
    }


def envelope(session: Session, ran: list[Ran]) -> dict[str, Any]:
    """Return one line of the corpus."""
    resource = {"attributes": [attribute("service.name", "shell-sessions")]}
    scope = {"name": "record_corpus", "version": "1"}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans(session, ran)}]}]}


def main() -> int:
    """Record all sessions; refuse to write anything when one of them betrays the machine."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS
    lines, refused = [], 0
    for session in read_sessions(SESSIONS.read_text("utf-8")):
        ran = run(session)
        for one in ran:
            if name := betrays(one):
                refused += 1
                print(f"{session.task!r}: {one.command!r} prints {name!r}", file=sys.stderr)
        lines.append(compact(envelope(session, ran)))
    if refused:
        return 1
    target.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(lines)} sessions recorded in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
