"""Journals for tests: a clock that counts, a process with a name."""

from __future__ import annotations

import itertools
from pathlib import Path

from ledger.families import calls
from ledger.journal import Journal
from ledger.prompt import Prompt, Question
from ledger.questions import question
from tests.commands.perform.provider import endpoint


def journal(root: Path, process: str = "this", *families: object) -> Journal:
    ticks = itertools.count(1)
    return Journal.open(
        root, (calls.FAMILY, calls.VECTORS), actor="test", clock=lambda: next(ticks), create=True, process=process
    )


def asking_about(words: str, *, output_limit: int = 100) -> Question:
    return question(endpoint(), Prompt(({"role": "user", "content": words},)), sample=0, output_limit=output_limit)


def kinds(opened: Journal) -> list[str]:
    return [record.kind for record in opened.events()]
