"""A planted world: tasks of known strata, candidates of known worth, and a provider that follows the plan."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from commands.optimizing import planning, running
from commands.optimizing.planning import Plan, Request
from commands.optimizing.running import Finished
from commands.perform.outcome import Answered, Outcome
from commands.perform.replaying import Replaying
from commands.perform.scripted import Scripted
from commands.readings import Manifest, Member, Task
from ledger import canonical
from ledger.episode import Tool, Turn
from ledger.event import Blobs, Step
from ledger.families import budget, builds, calls, cells, judging, policies, providers, traces
from ledger.families.builds import BuildCompleted, CompleteBuild
from ledger.families.judging import DEFAULT_RUBRIC, JudgeSetUp, SetUpJudge, setup_id
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Endpoint, Model
from ledger.families.traces import RecordImport, Trace, importing
from ledger.journal import Journal
from ledger.money import NANO
from ledger.prompt import Question
from projections import hashing

FAMILIES = (
    providers.FAMILY,
    budget.FAMILY,
    traces.FAMILY,
    builds.FAMILY,
    judging.FAMILY,
    calls.FAMILY,
    calls.VECTORS,
    cells.FAMILY,
    policies.FAMILY,
)
STRATA = {
    "sorting": "Sort the rows of the ledger file {n} by amount and write them to sorted-{n}.txt",
    "counting": "Count the words in the essay chapter {n} and print the ten most frequent of them",
    "fetching": "Download https://example.org/releases/{n} and verify the sha256 checksum of the archive",
    "compiling": "Compile the C program prog{n}.c with warnings as errors and run its unit tests",
}
PROJECT = "planted"
DIMENSIONS = 64
TOOL = Tool(
    name="bash",
    description="Run a command.",
    parameters='{"properties":{"command":{"type":"string"}},"required":["command"],"type":"object"}',
)
ABLE = Capabilities(
    supports_completions=True,
    supports_tools=True,
    supports_structured_output=True,
    supports_temperature=True,
    maximum_output_tokens=16_384,
    input_price=NANO // 10,
    output_price=NANO // 10,
)
FREE = msgspec.structs.replace(ABLE, input_price=0, output_price=0)
PRICES = {"cheap": 1, "dear": 10, "middling": 5}

Worth = Callable[[str, str, int], int]  # (alias, stratum, number of the task) -> score in thousandths
Say = Callable[
    [Endpoint, Question, dict[str, Any]], str | bytes | dict[str, Any] | None
]  # another reply than the planned one


def equal_on_half(alias: str, stratum: str, number: int) -> int:
    """The cheap candidate equals the dear one on two strata and is bad at the others."""
    del number
    return 900 if alias != "cheap" or stratum in {"sorting", "counting"} else 200


def stratum_of(task: str) -> tuple[str, int]:
    for stratum, words in STRATA.items():
        if task.startswith(words.split()[0]):
            return stratum, int("".join(itertools.takewhile(str.isdigit, task[words.index("{n}") :])))
    raise LookupError(task)


class World:
    """A root with everything that an optimization needs, and the provider's script."""

    def __init__(
        self, root: Path, *, fit: int = 12, held_out: int = 8, worth: Worth = equal_on_half, process: str = "one"
    ) -> None:
        self.root = root
        self.worth = worth
        self.says: Say = lambda *_: None
        self.scripted = Scripted(self._answer)
        self.counts: dict[str, int] = {}
        self.pause: Callable[[int], float] | None = None
        self._clock = itertools.count(1_000_000)
        self.journal = self.opened(process, create=True)
        self._configure()
        self._build(fit, held_out)

    def opened(self, process: str, *, create: bool = False) -> Journal:
        return Journal.open(
            self.root, FAMILIES, actor="test", clock=lambda: next(self._clock), create=create, process=process
        )

    def reopened(self, process: str = "again") -> Journal:
        self.journal.close()
        self.journal = self.opened(process)
        return self.journal

    # What is asked for.

    def request(self, *candidates: str, incumbent: str = "dear", turns: int = 4) -> Request:
        return Request(PROJECT, candidates or ("cheap", "dear"), incumbent, None, None, turns)

    def plan(self, request: Request | None = None, journal: Journal | None = None) -> Plan:
        return planning.plan(journal or self.journal, request or self.request())

    def optimize(self, request: Request | None = None, *, concurrency: int = 8) -> Finished:
        return asyncio.run(self.optimizing(request, concurrency=concurrency))

    async def optimizing(
        self, request: Request | None = None, *, concurrency: int = 8, journal: Journal | None = None
    ) -> Finished:
        journal = journal or self.journal
        plan = self.plan(request, journal)
        return await running.optimize(
            journal, plan, self.scripted, concurrency=concurrency, worst=None, done=lambda: None
        )

    def replay(self, request: Request | None = None) -> Finished:
        return asyncio.run(running.replay(self.journal, self.plan(request), Replaying(self.journal)))

    @property
    def asked(self) -> int:
        return len(self.scripted.asked)

    # What the root holds.

    def _configure(self) -> None:
        models = [
            Model(alias=alias, connection="lab", model=f"model-{alias}", capabilities=_priced(price))
            for alias, price in PRICES.items()
        ]
        models += [
            Model(alias=alias, connection="lab", model=f"model-{alias}", capabilities=FREE)
            for alias in ("world", "judge")
        ]
        able = Capabilities(supports_embeddings=True, input_price=0)
        models.append(Model(alias="embed", connection="lab", model="model-embed", capabilities=able))
        command = ConfigureProviders(
            connections=(Connection(name="lab", provider="openai-compatible", base_url="http://127.0.0.1:9/v1"),),
            models=tuple(models),
            roles={"world_model": "world", "judge": "judge", "embedder": "embed"},
        )
        self._record(Step(providers.FAMILY, command), Step(budget.FAMILY, budget.SetBudget(ceiling=1_000 * NANO)))

    def _build(self, fit: int, held_out: int) -> None:
        blobs = Blobs()
        made = [_trace(number) for number in range(fit + held_out)]
        recorded = [importing(trace, blobs) for trace in made]
        held = set(range(fit, fit + held_out))
        members = tuple(
            Member(
                trace=one.trace,
                lineage=one.lineage,
                label=trace.label,
                part="held-out" if number in held else "fit",
                turns=len(trace.turns),
            )
            for number, (trace, one) in enumerate(zip(made, recorded, strict=True))
        )
        tasks = tuple(
            Task(
                id=member.trace,
                lineage=member.lineage,
                trace=member.trace,
                text=trace.task,
                stratum=stratum_of(trace.task)[0],
                part=member.part,
            )
            for trace, member in zip(made, members, strict=True)
        )
        manifest = Manifest(rule="planted", members=members, tasks=tasks, tools=(TOOL,))
        vectors = hashing.embed_many([trace.task for trace in made for _ in trace.turns], DIMENSIONS)
        state: providers.Providers = self.journal.state(providers.FAMILY)
        completed = BuildCompleted(
            project=PROJECT,
            build=f"build-{fit}-{held_out}",
            source="otlp",
            serving_rag="serving",
            fit_rag="fit",
            world_model="world",
            embedder=state.endpoint("embed").digest,
            model=state.endpoint("world").digest,
            manifest=blobs.put(canonical.encode(manifest)),
            vectors=blobs.put(vectors.tobytes()),
            dimensions=DIMENSIONS,
        )
        judge = state.endpoint("judge").digest
        set_up = JudgeSetUp(
            project=PROJECT,
            setup=setup_id(DEFAULT_RUBRIC, judge),
            rubric=blobs.put(canonical.encode(DEFAULT_RUBRIC)),
            alias="judge",
            judge=judge,
        )
        self._record(
            Step(traces.FAMILY, RecordImport(source="export", traces=tuple(recorded), excluded=())),
            Step(builds.FAMILY, CompleteBuild(completed=completed)),
            Step(judging.FAMILY, SetUpJudge(set_up=set_up)),
            blobs=blobs,
        )

    def _record(self, *steps: Step, blobs: Blobs | None = None) -> None:
        self.journal.submit(*steps, blobs=blobs).result()

    # What the provider says.

    async def _answer(self, endpoint: Endpoint, question: Question) -> Outcome:
        if self.pause is not None:
            await asyncio.sleep(self.pause(self.asked))
        asked = json.loads(question.body)["request"] if b'"request"' in question.body else {}
        self.counts[endpoint.alias] = self.counts.get(endpoint.alias, 0) + 1
        said = self.says(endpoint, question, asked)
        if isinstance(said, bytes):
            return Answered(said)
        if endpoint.alias == "embed":
            return Answered(_vectors(asked["input"]))
        return Answered(completion(endpoint, said if said is not None else self._planned(endpoint, asked)))

    def _planned(self, endpoint: Endpoint, asked: dict[str, Any]) -> str | dict[str, Any]:
        messages = asked["messages"]
        if endpoint.alias == "world":
            return json.dumps({"observation": "done, as asked", "error": False, "done": False})
        if endpoint.alias == "judge":
            return self._judged(json.loads(messages[1]["content"])["evidence"])
        if messages[-1]["role"] == "tool":
            return f"{endpoint.alias} is through"
        return call("bash", json.dumps({"command": f"{endpoint.alias} at work"}))

    def _judged(self, evidence: dict[str, Any]) -> str:
        alias = json.loads(evidence["turns"][0]["arguments"])["command"].split()[0]
        thousandths = self.worth(alias, *stratum_of(evidence["task"]))
        return json.dumps({"axes": {"task-success": {"score": thousandths / 1000, "rationale": "as planted"}}})


def call(name: str, arguments: str) -> dict[str, Any]:
    """Return the message of a turn that makes one call."""
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": function}]}


def completion(endpoint: Endpoint, said: str | dict[str, Any]) -> bytes:
    """Return a chat completion."""
    message = {"role": "assistant", "content": said} if isinstance(said, str) else said
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"id": "c", "model": endpoint.model.model, "choices": [choice], "usage": usage}).encode()


def _vectors(texts: str | Sequence[str]) -> bytes:
    listed = [texts] if isinstance(texts, str) else texts
    rows = hashing.embed_many(list(listed), DIMENSIONS).astype("<f4")
    data = [
        {"index": index, "embedding": base64.b64encode(np.ascontiguousarray(row).tobytes()).decode()}
        for index, row in enumerate(rows)
    ]
    return json.dumps({"data": data, "model": "model-embed", "usage": {"prompt_tokens": 1}}).encode()


def _priced(price: int) -> Capabilities:
    return msgspec.structs.replace(ABLE, input_price=price * NANO // 10, output_price=price * NANO // 10)


def _trace(number: int) -> Trace:
    stratum = list(STRATA)[number % len(STRATA)]
    task = STRATA[stratum].format(n=number)
    turn = Turn(tool="bash", arguments=json.dumps({"command": stratum}), observation=f"{stratum} {number}", error=False)
    return Trace(name=f"trace-{number}", source=f"s{number}", task=task, turns=(turn,), final="ok", attributes=())
