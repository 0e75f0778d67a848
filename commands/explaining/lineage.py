"""Lineage: what a value comes from, event by event, down to the traces that were imported.

The rules below lead from an event to those that it rests on. They go from a result towards what was recorded first, so
no path comes back to where it was: policy, tasks, cells, judgments, rollouts, steps, calls, traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from commands.naming import ARTIFACTS, Named, artifacts, base, facts
from ledger import digests
from ledger.errors import Refusal
from ledger.families import calls, cells, ingests, judging, outcomes, policies, serving, traces

if TYPE_CHECKING:
    from ledger.event import Event
    from ledger.journal import Journal
    from ledger.recorded import Recorded

_ENDS = (cells.CellFinished, cells.CellExcluded)
_STEPS = (cells.CandidateTurned, cells.CandidateUnreadable, cells.WorldModelAnswered, cells.WorldModelUnreadable)
_TRACE = "trace:"


class Node(msgspec.Struct, frozen=True):
    """A place in the lineage: an event, or something that several events are about (a task, a cell, a rollout)."""

    what: str
    name: str
    record: Recorded | None = None
    problem: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Nodes at the same place are one."""
        return (self.what, str(self.record.seq) if self.what == "event" and self.record else self.name)


class Lineage:
    """What each node rests on, looked up when it is asked for."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._cells: dict[str, dict[str, list[str]]] = {}
        self._rules: dict[str, Callable[[Recorded, dict[str, Any]], Iterable[Node | None]]] = {
            "policy-frozen": self._policy,
            "report-published": self._report,
            "optimization-started": self._optimization,
            "router-fitting-started": self._fitting,
            "calibration-published": self._calibration,
            "build-completed": self._build,
            "judge-set-up": self._judge_set_up,
            "route-decided": self._route,
            "judgment-recorded": self._judgment,
            "label-recorded": self._label,
            "cell-opened": self._cell_opened,
            "call-answered": self._answered,
            "call-reserved": self._reserved,
            "text-embedded": self._embedded,
            "model-configured": self._model_configured,
            "trace-imported": self._trace_imported,
            **dict.fromkeys((base(kind.kind) for kind in (*_STEPS,)), self._step),
            **dict.fromkeys((base(kind.kind) for kind in _ENDS), self._end),
            **dict.fromkeys(("call-failed", "call-released", "call-lost"), self._unanswered),
            **dict.fromkeys((base(kind.kind) for kind in serving.ENDINGS), self._request_end),
            **dict.fromkeys(("attempt-failed", "request-rerouted", "session-kept"), self._request_end),
        }

    def of(self, named: Named) -> Node:
        """Return where the lineage of something that a person named begins."""
        record = named.record
        if record is None:
            return Node("content", named.content or named.name)
        if record.kind == cells.CellOpened.kind:
            return Node("cell", facts(record)["cell"], record)
        if record.kind == serving.RequestAccepted.kind:
            request = facts(record)["request"]
            decided = self._journal.find(serving.RouteDecided, request)
            return self._event(decided or record)
        return self._event(record)

    def parents(self, node: Node) -> list[Node]:
        """Return what a node rests on directly."""
        if node.problem is not None:
            return []
        if node.what == "event" and node.record is not None:
            rule = self._rules.get(base(node.record.kind), self._nothing)
            return [one for one in rule(node.record, facts(node.record)) if one is not None]
        looks: dict[str, Callable[[Node], Iterable[Node | None]]] = {
            "task": self._task,
            "cell": self._cell,
            "rollout": self._rollout,
            "content": self._content,
        }
        return [one for one in looks[node.what](node) if one is not None]

    # Nodes.

    def _event(self, record: Recorded) -> Node:
        return Node("event", _name(record), record)

    def _found(self, kind: type[Event], key: str, what: str = "") -> Node | None:
        record = self._journal.find(kind, key)
        if record is not None:
            return self._event(record)
        return Node("missing", key, problem=f"no {what or base(kind.kind)} is recorded under {key}")

    def _artifact(self, name: str | None) -> Node | None:
        record = self._artifacts.get(name or "")
        return None if record is None else self._event(record)

    @cached_property
    def _artifacts(self) -> dict[str, Recorded]:
        return artifacts(self._journal)

    def _before(self, stream: str, seq: int) -> Node | None:
        """Return what a stream said last before a position."""
        records = [record for record in self._journal.events(stream=stream) if record.seq < seq]
        return self._event(records[-1]) if records else None

    def _read(self, body: dict[str, Any], field: str) -> tuple[Any, Node | None]:
        """Return the JSON value of a content; when it can't be had, nothing and a node that says why."""
        digest = body[field]["blob"]
        try:
            return msgspec.json.decode(self._journal.blob(digest)), None
        except Refusal as refusal:
            return {}, Node("missing", digest, problem=refusal.what)

    # Rules: results.

    def _nothing(self, record: Recorded, body: dict[str, Any]) -> Iterable[Node | None]:
        del record, body
        return ()

    def _policy(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        content, missing = self._read(body, "content")
        yield missing
        if self._journal.find(outcomes.RouterFittingStarted, body["run"]) is not None:
            yield self._found(outcomes.RouterFittingStarted, body["run"])
            return
        yield self._found(policies.OptimizationStarted, body["run"])
        yield from (self._task_node(body["run"], row["task"]) for row in content.get("rows", ()))

    def _fitting(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        inputs = body["inputs"]
        for part in ("tables", "held_out"):
            for table in inputs[part]:
                key = outcomes.table_key(inputs["project"], table, held_out=part == "held_out")
                yield self._found(outcomes.OutcomesImported, key)

    def _report(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        yield self._found(policies.PolicyFrozen, body["run"])
        held = [task for task, there in self._tasks(body["run"]).items() if self._part(there[0]) == "held-out"]
        yield from (self._task_node(body["run"], task) for task in held)

    def _optimization(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        inputs = body["inputs"]
        yield self._artifact(inputs["build"])
        yield self._artifact(inputs["setup"])
        yield from (self._before(f"model:{rival['alias']}", record.seq) for rival in inputs["rivals"])

    def _calibration(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        yield self._artifact(body["setup"])
        subjects = set(body["subjects"])
        for subject in body["subjects"]:
            yield from self._judgments(subject, body["setup"])
        for label in self._journal.events(stream=f"labels:{body['project']}"):
            said = facts(label)
            if label.seq < record.seq and said.get("subject") in subjects and said.get("setup") == body["setup"]:
                yield self._event(label)

    def _judgments(self, subject: str, setup: str | None = None) -> Iterator[Node]:
        for record in self._journal.events(judging.JudgmentRecorded, stream=f"judgment:{subject}"):
            if setup is None or facts(record)["setup"] == setup:
                yield self._event(record)

    def _build(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        manifest, missing = self._read(body, "manifest")
        yield missing
        yield from (self._trace(member["trace"]) for member in manifest.get("members", ()))

    def _judge_set_up(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        yield self._before(f"model:{body['alias']}", record.seq)

    def _model_configured(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        yield self._before(f"connection:{body['model']['connection']}", record.seq)

    # Rules: requests.

    def _request_end(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        yield self._found(serving.RouteDecided, body["request"])

    def _route(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        for accepted in self._journal.events(serving.RequestAccepted, stream=record.stream):
            yield self._event(accepted)
        policy = self._artifact(body.get("policy"))
        yield policy or self._before(f"model:{body['alias']}", record.seq)
        if policy is not None and policy.record is not None:
            run = facts(policy.record)["run"]
            yield from (self._task_node(run, neighbour["task"]) for neighbour in body.get("neighbours", ()))

    # Rules: tasks, cells, rollouts.

    def _task_node(self, run: str, task: str) -> Node:
        return Node("task", f"{task} of {run}")

    def _tasks(self, run: str) -> dict[str, list[str]]:
        """Return the cells of a run by task."""
        if run not in self._cells:
            started = self._journal.find(policies.OptimizationStarted, run)
            by_task: dict[str, list[str]] = {}
            for cell in facts(started)["cells"] if started is not None else ():
                opened = self._journal.find(cells.CellOpened, cell)
                if opened is not None:
                    by_task.setdefault(facts(opened)["facts"]["task"], []).append(cell)
            self._cells[run] = by_task
        return self._cells[run]

    def _part(self, cell: str) -> str | None:
        opened = self._journal.find(cells.CellOpened, cell)
        return None if opened is None else facts(opened)["facts"]["part"]

    def _task(self, node: Node) -> Iterator[Node | None]:
        task, _, run = node.name.partition(" of ")
        for cell in self._tasks(run).get(task, ()):
            yield Node("cell", cell, self._closed(cell))

    def _closed(self, cell: str) -> Recorded | None:
        """Return what ended a cell, or that it was opened."""
        for kind in (*_ENDS, cells.CellOpened):
            if (record := self._journal.find(kind, cell)) is not None:
                return record
        return None

    def _cell(self, node: Node) -> Iterator[Node | None]:
        judged = list(self._judgments(node.name))
        yield from judged
        if not judged:
            yield Node("rollout", node.name, self._closed(node.name))

    def _rollout(self, node: Node) -> Iterator[Node | None]:
        for record in self._journal.events(cells.CellOpened, *_STEPS, stream=f"cell:{node.name}"):
            yield self._event(record)

    def _end(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        yield Node("rollout", body["cell"], record)

    def _cell_opened(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        cell = body["facts"]
        build = self._artifact(cell["build"])
        yield build
        if build is not None and build.record is not None:
            manifest, missing = self._read(facts(build.record), "manifest")
            yield missing
            yield from (self._trace(one["trace"]) for one in manifest.get("tasks", ()) if one["id"] == cell["task"])

    def _step(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        yield self._call(body)

    def _judgment(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        subject = body["subject"]
        yield self._of_subject(subject)
        yield self._call(body)
        setup = self._artifact(body["setup"])
        yield setup if setup is None or setup.record is None or setup.record.seq < record.seq else None

    def _label(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        yield self._of_subject(body["subject"])

    def _of_subject(self, subject: str) -> Node | None:
        if subject.startswith(_TRACE):
            return self._trace(subject.removeprefix(_TRACE))
        return Node("rollout", subject, self._closed(subject))

    # Rules: calls and traces.

    def _call(self, body: dict[str, Any]) -> Node | None:
        return self._found(calls.CallAnswered, f"{body['question']}:{body['attempt']}", "answer")

    def _answered(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        yield self._found(calls.CallReserved, f"{body['question']}:{body['attempt']}:{body['dispatch']}", "reservation")

    _unanswered = _answered

    def _reserved(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        yield self._before(f"model:{body['alias']}", record.seq)

    def _embedded(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        del record
        yield self._found(calls.CallAnswered, f"{body['call']}:{body['attempt']}", "answer")

    def _trace(self, digest: str) -> Node | None:
        return self._found(traces.TraceImported, digest, "trace")

    def _trace_imported(self, record: Recorded, body: dict[str, Any]) -> Iterator[Node | None]:
        """Lead to the completed imports that hold the trace, by the names of the files they read."""
        del body
        trace = digests.raw(record.key or "")
        yield from (node for node, listed in self._imports if trace in listed)

    @cached_property
    def _imports(self) -> list[tuple[Node, frozenset[bytes]]]:
        """Every completed import with the traces that it lists."""
        found = []
        for record in self._journal.events(ingests.ImportCompleted):
            event = record.event
            if isinstance(event, ingests.ImportCompleted):
                found.append((Node("event", self._files(event), record), self._listed(event)))
        return found

    def _files(self, event: ingests.ImportCompleted) -> str:
        try:
            names = [self._journal.blob(one.name.blob).decode(errors="replace") for one in event.inputs]
        except Refusal as refusal:
            return refusal.what
        return ", ".join(names)

    def _listed(self, event: ingests.ImportCompleted) -> frozenset[bytes]:
        try:
            entries = self._journal.blob(event.traces.blob)
        except Refusal:
            return frozenset()
        return frozenset(entries[at : at + 32] for at in range(0, len(entries), 64))

    def _content(self, node: Node) -> Iterator[Node | None]:
        for seq in self._journal.referring(node.name):
            if (record := self._journal.at(seq)) is not None:
                yield self._event(record)


def _name(record: Recorded) -> str:
    """Return what an event is about: the most telling of its facts."""
    body = facts(record)
    own = base(record.kind).partition("-")[0]
    for field in (
        *ARTIFACTS.get(base(record.kind), ())[:1],
        own,
        "policy",
        "cell",
        "request",
        "question",
        "trace",
        "run",
        "alias",
    ):
        value = body.get(field)
        if isinstance(value, str):
            return value
        if isinstance(value, dict) and isinstance(value.get("alias") or value.get("name"), str):
            return str(value.get("alias") or value.get("name"))
    return record.stream
