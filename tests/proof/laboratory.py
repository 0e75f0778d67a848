"""A laboratory: tiny worlds that take the whole path in one process, each alike but for what a trial changes."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from commands import building, calibrating
from commands.judging import read_judge
from commands.labels import Given, label_key
from commands.optimizing import planning, running
from commands.optimizing.running import Finished
from commands.perform.asking import Asking, Run
from commands.perform.outcome import Answered, Outcome
from commands.perform.scripted import Scripted
from commands.readings import read_build
from ledger.episode import Turn
from ledger.event import Blobs, Step
from ledger.families import budget, builds, calls, cells, imports, judging, policies, providers, traces
from ledger.families.judging import DEFAULT_RUBRIC, JudgeSetUp, Rubric, SetUpJudge, rubric_bytes, setup_id
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Endpoint, Model
from ledger.families.traces import Exclusion, RecordImport, Trace
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
    imports.FAMILY,
)
TASKS = (
    "Sort the rows of ledger seven by amount, the largest first",
    "Count how often each word occurs in the essay",
    "Download the archive and verify its checksum",
    "Compile prog.c with warnings as errors, then test",
    "Rename all photographs by the day they were taken on",
    "Find which process listens on port 8080 and end it",
    "Translate the menu into French, prices unchanged",
    "Draw a chart of rainfall by month from rain.csv",
)
SCORES = {"cheap": 700, "dear": 900, "middling": 800}
ABLE = Capabilities(
    supports_completions=True,
    supports_tools=True,
    supports_structured_output=True,
    supports_temperature=True,
    maximum_output_tokens=16_384,
    input_price=0,
    output_price=0,
)


def trace(number: int, **changed: Any) -> Trace:
    """Return one of the recorded traces."""
    word = TASKS[number].split()[0].lower()
    turn = Turn(tool="bash", arguments=json.dumps({"command": word}), observation=f"{word}: done", error=False)
    facts = {"name": f"trace-{number}", "source": f"s{number}", "task": TASKS[number], "turns": (turn,), "final": "ok"}
    return Trace(**{**facts, "attributes": (), **changed})


def priced(price: int, **changed: Any) -> Capabilities:
    """Return what a candidate at this price can do."""
    facts = {name: getattr(ABLE, name) for name in ABLE.__struct_fields__}
    return Capabilities(**{**facts, "input_price": price * NANO, "output_price": price * NANO, **changed})


Say = Callable[[str, dict[str, Any]], dict[str, Any] | str | None]  # alias, request -> another reply than the usual one


def nothing_else(alias: str, request: dict[str, Any]) -> None:
    """Answer as usual."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a world is made of; a trial replaces one."""

    project: str = "lab"
    traces: tuple[Trace, ...] = tuple(trace(number) for number in range(len(TASKS)))
    excluded: tuple[Exclusion, ...] = ()
    wanted: tuple[int, int] = (4, 2)
    rubric: Rubric = DEFAULT_RUBRIC
    models: Mapping[str, tuple[str, Capabilities]] = field(
        default_factory=lambda: {
            "cheap": ("model-cheap", priced(1)),
            "dear": ("model-dear", priced(10)),
            "middling": ("model-middling", priced(5)),
            "world": ("model-world", ABLE),
            "judge": ("model-judge", ABLE),
            "embed": ("model-embed", Capabilities(supports_embeddings=True, input_price=0)),
        }
    )
    served: Mapping[str, str] = field(default_factory=dict)
    candidates: tuple[str, ...] = ("cheap", "dear")
    incumbent: str = "dear"
    turns: int = 3
    labels: Mapping[int, int] = field(default_factory=dict)  # by place in the sample, in millionths
    asked: int = 1  # how often the judge is asked about each sampled trace
    budget: int = 1_000 * NANO
    says: Say = nothing_else
    scores: Mapping[str, int] = field(default_factory=lambda: dict(SCORES))
    starts_at: int = 1_000_000
    concurrency: int = 4


class Laboratory:
    """A root in which the path was taken."""

    def __init__(self, root: Path, facts: Facts | None = None, *, origin: str | None = None) -> None:
        self.root = root
        self.facts = facts or Facts()
        self.scripted = Scripted(self._answer)
        self._origin = origin
        self._clock = itertools.count(self.facts.starts_at, 7)
        self.journal = self.opened(create=True)

    def opened(self, *, create: bool = False, reading: str | None = None) -> Journal:
        return Journal.open(
            self.root,
            FAMILIES,
            actor="lab",
            clock=lambda: next(self._clock),
            create=create,
            process="lab",
            origin=self._origin,
            reading=reading,
        )

    def prepared(self) -> Laboratory:
        """Configure, build, set a judge up and calibrate it."""
        self.configure()
        self.build()
        self.set_up()
        self.calibrate()
        return self

    def taken(self) -> Laboratory:
        """Take the whole path."""
        self.prepared()
        self.finished = self.optimize()
        self.journal.close()
        return self

    @property
    def run(self) -> str:
        """The name of the optimization that was taken."""
        return self.plan.run

    def configure(self) -> None:
        models = tuple(
            Model(
                alias=alias,
                connection="lab",
                model=name,
                served_model_id=self.facts.served.get(alias),
                capabilities=able,
            )
            for alias, (name, able) in self.facts.models.items()
        )
        url = "http://127.0.0.1:9/v1"
        command = ConfigureProviders(
            connections=(Connection(name="lab", provider="openai-compatible", base_url=url),),
            models=models,
            roles={"world_model": "world", "judge": "judge", "embedder": "embed"},
            replace=True,
        )
        self.record(Step(providers.FAMILY, command), Step(budget.FAMILY, budget.SetBudget(ceiling=self.facts.budget)))

    def build(self) -> None:
        facts, journal = self.facts, self.journal
        made = building.draft(facts.traces, facts.wanted, "the lab")
        blobs = Blobs()
        imported = RecordImport(
            source="b3:export",
            traces=tuple(traces.importing(one, blobs) for one in facts.traces),
            excluded=tuple(traces.excluding("b3:export", one, blobs) for one in facts.excluded),
        )
        self.record(Step(traces.FAMILY, imported), blobs=blobs)
        configured: providers.Providers = journal.state(providers.FAMILY)
        embedder = configured.endpoint("embed")

        async def build() -> None:
            asking = Asking(journal, self.scripted, Run(id="build", ceiling=None, purpose="build"))
            vectors = await building.embed(asking, embedder, made)
            models = building.Models(embedder.digest, configured.endpoint("world").digest)
            await building.complete(journal, *building.completed(facts.project, "b3:export", made, vectors, models))

        asyncio.run(build())

    def set_up(self) -> None:
        judge = self.journal.state(providers.FAMILY).endpoint("judge").digest
        blobs = Blobs()
        set_up = JudgeSetUp(
            project=self.facts.project,
            setup=setup_id(self.facts.rubric, judge),
            rubric=blobs.put(rubric_bytes(self.facts.rubric), "application/json"),
            alias="judge",
            judge=judge,
        )
        self.record(Step(judging.FAMILY, SetUpJudge(set_up=set_up)), blobs=blobs)

    def calibrate(self) -> None:
        """Have the judge propose for two traces, label them, and publish."""
        journal, project = self.journal, self.facts.project
        judge = read_judge(journal, project)
        sampled = calibrating.sampled_from(read_build(journal, project), 2)
        owed = [calibrating.Owed(item, sample) for item in sampled for sample in range(self.facts.asked)]

        async def propose() -> None:
            asking = Asking(journal, self.scripted, Run(id="calibrate", ceiling=None, purpose="calibrate"))
            await calibrating.propose(asking, judge, owed, lambda: None)

        asyncio.run(propose())
        bench = calibrating.Bench(project, judge, sampled, calibrating.read_proposals(journal, judge, sampled))
        blobs = Blobs()
        axis = self.facts.rubric.axes[0].name
        given = {
            label_key(item.key, axis): Given(self.facts.labels.get(place, 1_000_000), "as planted")
            for place, item in enumerate(sampled)
        }
        labels = calibrating.labelled(bench, journal.state(judging.FAMILY), given, blobs)
        made = calibrating.calibrated(bench, labels)
        self.record(calibrating.publishing(bench, made, tuple(labels.values()), approved=True), blobs=blobs)

    def optimize(self) -> Finished:
        facts = self.facts
        request = planning.Request(facts.project, facts.candidates, facts.incumbent, None, None, facts.turns)
        self.plan = planning.plan(self.journal, request)
        return asyncio.run(
            running.optimize(
                self.journal,
                self.plan,
                self.scripted,
                concurrency=facts.concurrency,
                worst=None,
                done=lambda: None,
            )
        )

    def record(self, *steps: Step, blobs: Blobs | None = None) -> None:
        self.journal.submit(*steps, blobs=blobs).result()

    # What the provider says.

    async def _answer(self, endpoint: Endpoint, question: Question) -> Outcome:
        alias = endpoint.alias
        request = json.loads(question.body)["request"]
        if alias == "embed":
            return Answered(_vectors(request), latency_us=1_000)
        said = self.facts.says(alias, request)
        served = self.facts.served.get(alias, request["model"])
        return Answered(_completion(served, self._usual(alias, request) if said is None else said), latency_us=5_000)

    def _usual(self, alias: str, request: dict[str, Any]) -> str | dict[str, Any]:
        messages = request["messages"]
        if alias == "world":
            return json.dumps({"observation": "done, as asked", "error": False, "done": False})
        if alias == "judge":
            return self._judged(json.loads(messages[-1]["content"]))
        if messages[-1]["role"] == "tool":
            return f"{alias} is through"
        return call("bash", {"command": f"{alias} at work"})

    def _judged(self, asked: dict[str, Any]) -> str:
        turns = asked["evidence"]["turns"]
        command = json.loads(turns[0]["arguments"]).get("command", "") if turns else ""
        thousandths = self.facts.scores.get(str(command).split(" ")[0], 600)
        axes = {
            axis["name"]: {"score": thousandths / 1000, "rationale": "as planted"} for axis in asked["rubric"]["axes"]
        }
        return json.dumps({"axes": axes})


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a turn that makes one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": function}]}


def _completion(served: str, said: str | dict[str, Any]) -> bytes:
    message = {"role": "assistant", "content": said} if isinstance(said, str) else said
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"id": "c", "model": served, "choices": [choice], "usage": usage}).encode()


def _vectors(request: dict[str, Any]) -> bytes:
    texts = request["input"]
    listed = [texts] if isinstance(texts, str) else texts
    rows = hashing.embed_many(list(listed), 32).astype("<f4")
    data = [
        {"index": index, "embedding": base64.b64encode(np.ascontiguousarray(row).tobytes()).decode()}
        for index, row in enumerate(rows)
    ]
    return json.dumps({"data": data, "model": request["model"], "usage": {"prompt_tokens": 1}}).encode()
