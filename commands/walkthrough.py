"""The quickstart's walk: the same commands that a user types, run one after another on the shipped corpus.

Each step is a process of its own, as it would be by hand; its result is read as JSON, and what it added is counted in
the journal, not taken from its words.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from commands.opening import open_journal
from ledger.errors import Refusal
from ledger.families.calls import CallReleased, CallReserved
from ledger.families.serving import RouteDecided
from ledger.store import NAME

PROJECT = "quickstart"
CORPUS = "shell-sessions.otel.jsonl"
CANDIDATES = ("embedded-small", "embedded-medium", "embedded-large")
INCUMBENT = "embedded-large"
ROLES = {"world-model": "embedded-world-model", "judge": "embedded-judge", "embedder": "embedded-embedder"}
SAMPLE = 8
WANTS_LABELS = 12
IDEMPOTENCY_KEY = "quickstart-request"
QUESTION = "Count the lines of notes.txt and print the number."
IDS = ("build", "fit-rag", "serving-rag", "world-model", "setup", "calibration", "policy", "report")
ROWS = ("candidate", "held-out", "routed")
REPLAYED = "verified completed optimization"
_LABEL = re.compile(r"--label ([A-Za-z0-9_:-]+)=SCORE")
_STOP_SECONDS = 20


class StepFailed(Refusal, name="quickstart-step-failed", exit_code=86):
    """A step of the quickstart ended otherwise than it should."""

    def __init__(self, title: str, command: str, status: int, said: str) -> None:
        super().__init__(
            f"the step {title!r} ended with status {status}; it said: {said.strip() or 'nothing'}",
            where=command,
            remedy="run that command by itself; the steps before it are recorded and won't be repeated",
        )


class CorpusMissing(Refusal, name="corpus-missing", exit_code=87):
    """The shipped corpus isn't where it was installed."""

    def __init__(self, places: Sequence[Path]) -> None:
        super().__init__(
            f"the shipped corpus {CORPUS} is missing",
            where=" or ".join(map(str, places)),
            remedy="install exp again",
        )


class AnswersDiffer(Refusal, name="quickstart-answers-differ", exit_code=88):
    """The same request with the same Idempotency-Key got two answers, or a replay other ids."""

    def __init__(self, what: str, first: str, second: str) -> None:
        super().__init__(
            f"{what}: first {first or 'nothing'}, then {second or 'nothing'}",
            where=f"project {PROJECT}",
            remedy="run `exp check --full`; this should never happen",
        )


class Done(NamedTuple):
    """A step that was taken: its command as typed, how long it took, and what it added to the journal."""

    title: str
    command: str
    milliseconds: int
    calls: int
    events: int


class Plan(NamedTuple):
    """A step to take: the arguments of ``exp``, and the exit status that it should end with."""

    title: str
    arguments: tuple[str, ...]
    status: int = 0


def corpus() -> Path:
    """Return the shipped corpus: inside the installed package, or in the source tree."""
    here = Path(__file__).resolve().parent
    places = (here / "corpus" / CORPUS, here.parent / "fixtures" / "traces" / CORPUS)
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise CorpusMissing(places)
    return found


def outcomes(traces: Path) -> dict[str, int]:
    """Return the exit status of each recorded session's last command: what the quickstart labels by."""
    statuses: dict[str, int] = {}
    for line in traces.read_text("utf-8").splitlines():
        span = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][-1]
        named = {one["key"]: one["value"] for one in span["attributes"]}
        statuses[span["traceId"]] = int(named["process.exit.code"]["intValue"])
    return statuses


class Walk:
    """Takes the steps, keeping what each printed and added."""

    def __init__(self, root: Path, advance: Callable[[], None]) -> None:
        self.root = root
        self.done: list[Done] = []
        self.ids: dict[str, str] = {}
        self.said: dict[str, Any] = {}
        self.report: dict[str, list[dict[str, Any]]] = {}
        self.notes: list[str] = []
        self.fingerprint = ""
        self._advance = advance
        self._traces = corpus()

    def take_all(self) -> None:
        """Take every step, in order."""
        for plan in self._configuration():
            self._take(plan)
        self._calibrate()
        self._optimize()
        self._serve()

    @staticmethod
    def steps() -> int:
        """Return how many steps there are."""
        return 9

    def _configuration(self) -> Iterator[Plan]:
        models = [json.dumps({"alias": name, "connection": "embedded", "model": name}) for name in _models()]
        yield Plan(
            "providers",
            (
                *("config", "providers", "--connection-json", '{"name": "embedded", "provider": "embedded"}'),
                *(part for model in models for part in ("--model-json", model)),
                *(part for role, alias in ROLES.items() for part in (f"--{role}", alias)),
            ),
        )
        yield Plan("budget", ("config", "budget", "50"))
        sizes = ("--fit-tasks", "20", "--held-out-tasks", "8")
        yield Plan(
            "build",
            ("build", PROJECT, str(self._traces), "--source", "otlp", "--yes", "--max-build-cost-usd", "1", *sizes),
        )
        yield Plan("judge setup", ("config", "judge", "setup", PROJECT, "--approve"))

    def _calibrate(self) -> None:
        calibrate = ("config", "judge", "calibrate", PROJECT, "--sample-size", str(SAMPLE), "--yes")
        proposed = self._take(Plan("judge proposes", calibrate, WANTS_LABELS), also=0)
        labels: list[str] = []
        statuses = outcomes(self._traces)
        for key in dict.fromkeys(_LABEL.findall(_remedy(proposed.stderr))):
            status = statuses[key.partition(":")[0]]
            labels += ["--label", f"{key}={int(status == 0)}"]
            labels += ["--judgment", f"{key}=The last command of the session left with status {status}."]
        self._take(Plan("calibrate", (*calibrate, "--approve", *labels)))

    def _optimize(self) -> None:
        optimize = (
            *("optimize", "router", PROJECT),
            *(part for name in CANDIDATES for part in ("--candidate", name)),
            *("--incumbent", INCUMBENT, "--maximum-provider-cost-usd", "50"),
            *("--maximum-judgments", "84", "--maximum-model-calls", "4", "--yes"),
        )
        self._take(Plan("optimize", optimize))
        first = dict(self.ids)
        self._take(Plan("optimize again", optimize))
        for name in ("policy", "report"):
            if first.get(name) != self.ids.get(name):
                raise AnswersDiffer(f"the {name} id of the replay", first.get(name, ""), self.ids.get(name, ""))
        if self.done[-1].calls or self.said.get("replay") != REPLAYED:
            said = f"{self.done[-1].calls} calls, {self.said.get('replay', 'no replay')}"
            raise AnswersDiffer("the second optimization", f"0 calls, {REPLAYED}", said)
        self.report = {name: self.said.get(name) or [] for name in ROWS}
        notes = self.said.get("degenerate") or []
        self.notes = notes if isinstance(notes, list) else [notes]

    def _serve(self) -> None:
        started, before = time.monotonic(), self._position()
        command = ("run", PROJECT, "--port", "0")
        server = subprocess.Popen(  # noqa: S603 - this program, with arguments of its own
            _executable(self.root, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            if server.stdout is None:  # never: it was asked for
                raise StepFailed("serve", _shown(self.root, command), 0, "")
            key, url = _listening(server.stdout)
            if not url:
                _, said = server.communicate()
                raise StepFailed("serve", _shown(self.root, command), server.returncode, said)
            first, second = (_ask(url, key) for _ in range(2))
        finally:
            _stop(server)
        self._note("serve, two requests", command, started, before)
        if first.get("id") != second.get("id") or not first.get("id"):
            raise AnswersDiffer("the response id", str(first.get("id", "")), str(second.get("id", "")))
        self.ids["first response"], self.ids["second response"] = str(first["id"]), str(second["id"])
        self.fingerprint = str(first.get("system_fingerprint") or "")

    def _take(self, plan: Plan, *, also: int | None = None) -> subprocess.CompletedProcess[str]:
        started, before = time.monotonic(), self._position()
        arguments = (*plan.arguments, *(("--non-interactive",) if plan.title != "budget" else ()))
        ran = subprocess.run(  # noqa: S603 - this program, with arguments of its own
            _executable(self.root, (*arguments, "--json")), capture_output=True, text=True, check=False
        )
        if ran.returncode not in {plan.status, plan.status if also is None else also}:
            raise StepFailed(plan.title, _shown(self.root, arguments), ran.returncode, ran.stderr)
        self._note(plan.title, arguments, started, before)
        if ran.returncode == 0:
            self._keep_ids(ran.stdout)
        return ran

    def _keep_ids(self, stdout: str) -> None:
        self.said = json.loads(stdout or "{}")
        self.ids.update({name: self.said[name] for name in IDS if isinstance(self.said.get(name), str)})

    def _note(self, title: str, arguments: Sequence[str], started: float, before: int) -> None:
        elapsed = round(1000 * (time.monotonic() - started))
        calls, events = self._added(before)
        self.done.append(Done(title, _shown(self.root, arguments), elapsed, calls, events))
        self._advance()

    def _position(self) -> int:
        if not (self.root / NAME).exists():
            return 0
        with open_journal(self.root, "quickstart") as journal:
            return journal.position()[0]

    def _added(self, before: int) -> tuple[int, int]:
        """Return the provider calls and the events since a position."""
        with open_journal(self.root, "quickstart") as journal:
            calls = sum(1 for _ in journal.events(CallReserved, RouteDecided, after=before))
            calls -= sum(1 for _ in journal.events(CallReleased, after=before))
            return calls, journal.position()[0] - before


def _models() -> tuple[str, ...]:
    return (*ROLES.values(), *CANDIDATES)


def _executable(root: Path, arguments: Sequence[str]) -> list[str]:
    # -P: a folder named "commands" where the user happens to be must not be taken for this package.
    return [sys.executable, "-P", "-m", "commands.main", *arguments, "--root", str(root)]


def _shown(root: Path, arguments: Sequence[str]) -> str:
    """Return the command as one would type it."""
    words = ["exp", *arguments, "--root", str(root)]
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./-]+", word) else f"'{word}'" for word in words)


def _remedy(stderr: str) -> str:
    """Return the remedy of an error printed as JSON; empty when there was none."""
    for line in stderr.splitlines():
        if line.startswith('{"error"'):
            return str(json.loads(line)["error"]["remedy"])
    return ""


def _listening(stdout: IO[str]) -> tuple[str, str]:
    """Return the gateway's key and address, once it says them; empty text when it ended before."""
    key = ""
    for line in stdout:
        if line.startswith("Gateway key file: "):
            key = Path(line.split(": ", 1)[1].strip()).read_text("utf-8").strip()
        elif line.startswith("Uvicorn running on "):
            return key, line.split()[3]
    return key, ""


def _ask(url: str, key: str) -> dict[str, Any]:
    """Ask the gateway for one completion and return its body."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        body = json.dumps({"model": PROJECT, "messages": [{"role": "user", "content": QUESTION}]})
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Idempotency-Key": IDEMPOTENCY_KEY,
        }
        connection.request("POST", "/v1/chat/completions", body, headers)
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
        if response.status != http.HTTPStatus.OK:
            raise StepFailed("request", f"POST {url}/v1/chat/completions", response.status, text)
        answer: dict[str, Any] = json.loads(text)
        return answer
    finally:
        connection.close()


def _stop(server: subprocess.Popen[str]) -> None:
    server.terminate()
    try:
        server.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()
