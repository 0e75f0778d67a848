"""Roots for tests of judging: a project that is built from traces as they are given, judged in this process."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from commands.main import run
from commands.perform.outcome import Answered, Outcome
from commands.perform.scripted import Scripted
from commands.readings import Manifest, Member
from ledger import canonical
from ledger.episode import Turn
from ledger.event import Blobs, Step
from ledger.families import builds, calls, judging, providers, traces
from ledger.families.providers import Capabilities, Connection, Endpoint, Model
from ledger.families.traces import Trace
from ledger.journal import Journal
from ledger.prompt import Question

FAMILIES = (builds.FAMILY, calls.FAMILY, judging.FAMILY, providers.FAMILY, traces.FAMILY)
Script = Callable[[Endpoint, Question], Outcome | Awaitable[Outcome]]
PROJECT = "shop"
JUDGE = Model(
    alias="judge",
    connection="here",
    model="embedded-judge",
    capabilities=Capabilities(
        supports_completions=True,
        supports_structured_output=True,
        supports_temperature=True,
        maximum_output_tokens=16_384,
        input_price=200_000_000,
        output_price=1_200_000_000,
    ),
)


def trace(name: str, *, task: str | None = None, observation: str = "done") -> Trace:
    turns = (Turn(tool="shell", arguments='{"command":"cat /tmp/notes"}', observation=observation, error=False),)
    return Trace(
        name=name,
        source=f"b3:{'0' * 64}",
        task=task or f"Read /tmp/notes for {name!r}.",
        turns=turns,
        final="Here they are.",
        attributes=(),
    )


def opened(root: Path) -> Journal:
    ticks = itertools.count(1)
    return Journal.open(root, FAMILIES, actor="test", clock=lambda: next(ticks), create=True)


def built(root: Path, recorded: Sequence[Trace], *, held_out: int = 0, model: Model = JUDGE) -> None:
    """Configure a judge and record a build of these traces; the last ones are held out."""
    embedder = Model(
        alias="embed", connection="here", model="embedded-embedder", capabilities=Capabilities(supports_embeddings=True)
    )
    intention = providers.ConfigureProviders(
        connections=(Connection(name="here", provider="embedded"),),
        models=(model, embedder),
        roles={"world_model": "judge", "judge": "judge", "embedder": "embed"},
    )
    blobs = Blobs()
    contents = [blobs.put(traces.encoded(one)) for one in recorded]
    digests = [content.blob for content in contents]
    importing = traces.RecordImport(
        source="test",
        traces=tuple(
            traces.Importing(trace=content.blob, lineage=one.lineage, content=content)
            for content, one in zip(contents, recorded, strict=True)
        ),
        excluded=(),
    )
    fit = len(recorded) - held_out
    members = [
        Member(
            trace=digest,
            lineage=one.lineage,
            label=one.label,
            part="fit" if place < fit else "held-out",
            turns=len(one.turns),
        )
        for place, (digest, one) in enumerate(zip(digests, recorded, strict=True))
    ]
    members.sort(key=lambda member: member.trace)
    manifest = Manifest(wanted=(50, 20), rule="as given", members=tuple(members), tasks=(), tools=())
    completed = builds.BuildCompleted(
        project=PROJECT,
        build="build-test",
        source="test",
        serving_rag="rag-test",
        fit_rag="rag-test",
        world_model="world-model-test",
        embedder="b3:0",
        model="b3:0",
        manifest=blobs.put(canonical.encode(manifest), "application/json"),
        vectors=blobs.put(b"", "application/octet-stream"),
        dimensions=0,
    )
    with opened(root) as journal:
        configure(journal, intention)
        completing = Step(builds.FAMILY, builds.CompleteBuild(completed=completed))
        journal.submit(Step(traces.FAMILY, importing), completing, blobs=blobs).result()


def configure(journal: Journal, intention: providers.ConfigureProviders) -> None:
    journal.submit(Step(providers.FAMILY, intention)).result()


def reconfigure(root: Path, model: Model) -> None:
    """Configure the judge's alias anew."""
    with opened(root) as journal:
        configure(journal, providers.ConfigureProviders(models=(model,), replace=True))


def count(root: Path) -> int:
    with opened(root) as journal:
        return journal.position()[0]


def kinds(root: Path) -> list[str]:
    with opened(root) as journal:
        return [record.kind for record in journal.events()]


class Said:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def values(self, key: str) -> list[str]:
        return [line.partition(": ")[2] for line in self.out.splitlines() if line.startswith(f"{key}: ")]

    def flags(self) -> list[str]:
        return [line.strip() for line in self.err.splitlines() if line.strip().startswith("--")]


class Shell:
    """Runs commands in this process, on one root."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys

    def run(self, *arguments: str) -> Said:
        self._capsys.readouterr()
        code = run([*arguments, "--root", str(self.root), "--non-interactive"])
        printed = self._capsys.readouterr()
        return Said(code, printed.out, printed.err)

    def set_up(self, *more: str) -> Said:
        return self.run("config", "judge", "setup", PROJECT, "--approve", *more)

    def calibrate(self, *more: str, size: int = 10) -> Said:
        return self.run("config", "judge", "calibrate", PROJECT, "--sample-size", str(size), "--yes", *more)


def labelled(said: Said, score: str = "1", why: str | None = "As I see it.") -> list[str]:
    """Return flags that give every wanted label this score, with a rationale unless it is None."""
    flags = []
    for flag in said.flags():
        key = flag.removeprefix("--label ").removesuffix("=SCORE")
        flags += ["--label", f"{key}={score}"]
        flags += ["--judgment", f"{key}={why}"] if why is not None else []
    return flags


def reply(text: str | None) -> Answered:
    """Return an answer of a judge with this text."""
    message = {"role": "assistant", "content": text}
    body = {
        "model": JUDGE.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }
    return Answered(json.dumps(body).encode())


def judged(score: str, why: str = "It shows.", axis: str = "task-success") -> Answered:
    """Return a judge's answer with this score, as it is written."""
    return reply(f'{{"axes":{{"{axis}":{{"score":{score},"rationale":{json.dumps(why)}}}}}}}')


def evidence(question: Question) -> Any:  # what the judge was shown
    return msgspec.json.decode(msgspec.json.decode(question.body)["request"]["messages"][1]["content"])


class Stage(Scripted):
    """A scripted world in place of the live one."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return self if len(arguments) == 1 else super().__call__(*arguments)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def staged(monkeypatch: pytest.MonkeyPatch, script: Script) -> Stage:
    """Let a script answer instead of the world."""
    stage = Stage(script)
    monkeypatch.setattr("commands.perform.live.Live", stage)
    return stage
