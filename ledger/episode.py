"""Episodes: what an agent was asked, did and saw, whether recorded in a trace or simulated in a rollout."""

from __future__ import annotations

from ledger.event import Fact


class Tool(Fact):
    """A function an agent may call; ``parameters`` is a JSON Schema as canonical JSON text."""

    name: str
    description: str
    parameters: str


class Turn(Fact):
    """One action and what came back. ``tool`` is empty for a plain message; ``arguments`` is JSON text as recorded."""

    tool: str
    arguments: str
    observation: str
    error: bool


class Episode(Fact):
    """A task with its turns; ``final`` is the closing message; ``ended`` is recorded, final, done or cut."""

    task: str
    turns: tuple[Turn, ...]
    final: str | None
    ended: str
