"""Episodes: what an agent was asked, did and saw, whether recorded in a trace or simulated in a rollout."""

from __future__ import annotations

from ledger.event import Fact


class Tool(Fact):
    """A function an agent may call; ``parameters`` is a JSON Schema as canonical JSON text."""

    name: str
    description: str
    parameters: str


class Turn(Fact, omit_defaults=True):
    """One action and what came back. ``tool`` is empty for a plain message; ``arguments`` is JSON text as recorded.

    ``said`` is what the assistant wrote beside the call, and ``call_id`` what its producer called it. ``paired`` is how
    the observation was found: "parent" or "order" (of calls without an id, or of results without one), and empty for
    the id. What is empty isn't in the bytes.
    """

    tool: str
    arguments: str
    observation: str
    error: bool
    call_id: str = ""
    said: str = ""
    paired: str = ""


class Episode(Fact):
    """A task with its turns; ``final`` is the closing message; ``ended`` is recorded, final, done or cut."""

    task: str
    turns: tuple[Turn, ...]
    final: str | None
    ended: str
