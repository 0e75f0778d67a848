"""Roots for tests of building: the embedded provider in this process, and exports made for what they show."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from commands.main import run
from ledger.event import Event, Step
from ledger.families import builds, calls, ingests, providers, traces
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Model
from ledger.journal import Journal
from tests.projections.spans_double import lines, session

FAMILIES = (providers.FAMILY, calls.FAMILY, calls.VECTORS, builds.FAMILY, ingests.FAMILY, traces.FAMILY)
VERBS = ("Count", "Sort", "Zip", "Find", "Print")
THINGS = ("lines of the poem", "photos by date", "users without shell", "broken links", "old log files", "primes")


def spans(count: int = 30) -> list[dict[str, Any]]:
    made = []
    for number in range(count):
        task = f"{VERBS[number % 5]} the {THINGS[number % 6]} in folder {number * 7919}"
        steps = [(f"step {step} of {task}", f"{step}\n" if step else "") for step in range(1 + number % 3)]
        errors = [0] if number % 5 == 0 else []
        made += session(f"{number + 1:032x}", task, steps, errors=errors, topic=THINGS[number % 2])
    return made


def export(path: Path, count: int = 30, *, reverse: bool = False) -> Path:
    content = lines(spans(count))
    path.write_bytes(b"".join(reversed(content) if reverse else content))
    return path


def opened(root: Path) -> Journal:
    ticks = itertools.count(1)
    return Journal.open(root, FAMILIES, actor="test", clock=lambda: next(ticks), create=True)


def configured(root: Path, *, price: int | None = 20_000_000, url: str | None = None) -> Path:
    connection = Connection(name="here", provider="openai-compatible" if url else "embedded", base_url=url)
    embeds = Capabilities(supports_embeddings=True, input_price=price)
    says = Capabilities(
        supports_completions=True,
        maximum_output_tokens=16_384,
        input_price=0,
        output_price=0,
    )
    command = ConfigureProviders(
        connections=(connection,),
        models=(
            Model(alias="embed", connection="here", model="embedded-embedder", capabilities=embeds),
            Model(alias="world", connection="here", model="embedded-world-model", capabilities=says),
        ),
        roles={"world_model": "world", "judge": "world", "embedder": "embed"},
    )
    with opened(root) as journal:
        journal.submit(Step(providers.FAMILY, command)).result()
    return root


def built(
    capsys: pytest.CaptureFixture[str], root: Path, path: Path, *flags: str, project: str = "shop"
) -> tuple[int, dict[str, Any], str]:
    """Run ``exp build``; return its exit code, its JSON result and what it said on stderr."""
    capsys.readouterr()
    code = run(["build", project, str(path), "--source", "otlp", "--root", str(root), "--yes", "--json", *flags])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else {}, said.err


def events(root: Path, *kinds: type[Event]) -> list[str]:
    with opened(root) as journal:
        return [record.kind for record in journal.events(*kinds)]


def ids(result: dict[str, Any]) -> Sequence[str]:
    return [result[key] for key in ("serving-rag", "fit-rag", "world-model", "build")]
