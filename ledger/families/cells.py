"""Cells: rollouts of candidates on tasks, step by step, each step a fact about a recorded answer.

A cell is a candidate, a task and a sample ordinal, together with everything else that decides how its rollout goes. Its
id digests those, so another optimization that needs the same cell finds it done. No text is kept here: steps refer to
the recorded replies, and what they mean is derived from those again whenever it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.event import BlobRef, Command, Event, Fact, Family, Found, event
from ledger.money import NanoUSD
from ledger.prompt import Reply

Ended = Literal["final", "done", "cut"]
Reason = Literal["world_model_protocol", "judge_unreadable"]
CANDIDATE_ATTEMPTS = 2
WORLD_MODEL_ATTEMPTS = 3
MOST_CALLS_A_TURN = 16

_FENCE = re.compile(r"\s*```[A-Za-z0-9_-]*[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)


class Cell(Fact):
    """What decides a rollout. Endpoints are by digest; ``asked_at`` says where candidate, world model and judge are."""

    project: str
    build: str
    task: str
    lineage: str
    part: Literal["fit", "held-out"]
    candidate: str
    world_model: str
    embedder: str
    setup: str
    maximum_model_calls: int
    sample: int
    asked_at: tuple[str, ...]
    version: str

    @property
    def id(self) -> str:
        """The cell's name."""
        return f"cell-{digests.content_digest(canonical.encode(self))[3:35]}"


class StepOutOfOrder(Refusal, name="step-out-of-order", exit_code=84):
    """A step of a rollout comes before the one that it follows from."""

    def __init__(self, cell: str, step: int, taken: int) -> None:
        super().__init__(
            f"step {step} of a rollout can't follow step {taken}; nothing was recorded",
            where=f"cell {cell}",
            remedy="run the same command again; it goes on from what is recorded",
        )


class CellEvent(Event):
    """Something about one cell."""

    cell: str

    @property
    def stream(self) -> str:
        """One stream a cell."""
        return f"cell:{self.cell}"

    @property
    def key(self) -> str | None:
        """One of its kind a cell."""
        return self.cell


@event("cell-opened@1")
class CellOpened(CellEvent):
    """A rollout is owed."""

    facts: Cell


@event("candidate-turned@1")
class CandidateTurned(CellEvent):
    """A candidate's turn: how many calls it makes; with none it is the closing message, be it empty or cut."""

    turn: int
    attempt: int
    question: str
    reply: BlobRef
    calls: int
    shape: Literal["calls", "final", "cut-off", "empty", "unreadable"]

    @property
    def key(self) -> str | None:
        """One a turn."""
        return f"{self.cell}:{self.turn}"


@event("candidate-unreadable@1")
class CandidateUnreadable(CellEvent):
    """A candidate's reply that isn't one, asked for once more."""

    turn: int
    attempt: int
    question: str
    reply: BlobRef
    problem: str

    @property
    def key(self) -> str | None:
        """One an attempt."""
        return f"{self.cell}:{self.turn}:{self.attempt}"


@event("world-model-answered@1")
class WorldModelAnswered(CellEvent):
    """What the world model made of an action of a turn."""

    turn: int
    action: int
    attempt: int
    question: str
    reply: BlobRef
    error: bool
    done: bool

    @property
    def key(self) -> str | None:
        """One an action."""
        return f"{self.cell}:{self.turn}:{self.action}"


@event("world-model-unreadable@1")
class WorldModelUnreadable(CellEvent):
    """A world model's reply that breaks the protocol."""

    turn: int
    action: int
    attempt: int
    question: str
    reply: BlobRef
    reason: Literal["world_model_protocol"]
    problem: str

    @property
    def key(self) -> str | None:
        """One an attempt."""
        return f"{self.cell}:{self.turn}:{self.action}:{self.attempt}"


@event("cell-finished@1")
class CellFinished(CellEvent):
    """A rollout that was judged; its judgments name the cell. Tokens are the candidate's own, None where unknown."""

    ended: Ended
    model_calls: int
    actions: int
    input_tokens: int | None
    output_tokens: int | None


@event("cell-excluded@1")
class CellExcluded(CellEvent):
    """A rollout that can't count, since world model or judge gave no usable answer."""

    reason: Reason
    problem: str


StepEvent = (
    CandidateTurned | CandidateUnreadable | WorldModelAnswered | WorldModelUnreadable | CellFinished | CellExcluded
)


class Cells(msgspec.Struct):
    """The cells that are owed with the steps they took, in the order they were opened; and those that are closed."""

    owed: dict[str, int] = msgspec.field(default_factory=dict)
    finished: set[str] = msgspec.field(default_factory=set)
    excluded: dict[str, CellExcluded] = msgspec.field(default_factory=dict)

    def closed(self, cell: str) -> bool:
        """Tell whether nothing more is owed."""
        return cell in self.finished or cell in self.excluded

    def known(self, cell: str) -> bool:
        """Tell whether the cell was opened."""
        return cell in self.owed or self.closed(cell)


class OpenCells(Command):
    """Say which rollouts are owed."""

    cells: tuple[Cell, ...]


class TakeStep(Command):
    """Record what an answer means for a rollout: ``step`` counts the steps that the cell took before."""

    step: int
    taken: StepEvent

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """A step is taken once."""
        return ((self.taken.kind, self.taken.key or ""),)


def decide(command: OpenCells | TakeStep, state: Cells, found: Found) -> tuple[Event, ...]:
    """Return what is new. A step that is recorded with other facts is returned too: the journal refuses it by name."""
    if isinstance(command, OpenCells):
        return tuple(CellOpened(cell=cell.id, facts=cell) for cell in command.cells if not state.known(cell.id))
    taken = command.taken
    recorded = found(taken.kind, taken.key or "")
    if recorded is not None:
        return () if recorded == taken else (taken,)
    steps = state.owed.get(taken.cell)
    if steps != command.step:
        raise StepOutOfOrder(taken.cell, command.step, -1 if steps is None else steps)
    return (taken,)


def evolve(state: Cells, event: Event) -> Cells:
    """Fold one event."""
    if isinstance(event, CellOpened):
        state.owed.setdefault(event.cell, 0)
    elif isinstance(event, CellFinished):
        state.owed.pop(event.cell, None)
        state.finished.add(event.cell)
    elif isinstance(event, CellExcluded):
        state.owed.pop(event.cell, None)
        state.excluded[event.cell] = event
    elif isinstance(event, CellEvent) and event.cell in state.owed:
        state.owed[event.cell] += 1
    return state


def wanted(state: Cells) -> Iterable[str]:
    """Return the cells that are still owed, in the order they were opened."""
    return state.owed.keys()


FAMILY = Family(
    name="cells",
    kinds=(
        CellOpened,
        CandidateTurned,
        CandidateUnreadable,
        WorldModelAnswered,
        WorldModelUnreadable,
        CellFinished,
        CellExcluded,
    ),
    initial=Cells,
    decide=decide,
    evolve=evolve,
)


# What a reply means.


class Action(Fact):
    """A call that a candidate makes."""

    tool: str
    arguments: str


class Said(Fact):
    """A candidate's turn, read. Whatever it is, it is the candidate's behaviour."""

    text: str | None
    actions: tuple[Action, ...]
    shape: Literal["calls", "final", "cut-off", "empty", "unreadable"]


UNREADABLE = Said(text=None, actions=(), shape="unreadable")


def read_turn(reply: Reply) -> Said:
    """Read a candidate's reply."""
    actions = tuple(Action(tool=call.name, arguments=call.arguments) for call in reply.tool_calls)
    if actions:
        return Said(text=reply.text, actions=actions, shape="calls")
    if not (reply.text or "").strip():
        return Said(text=reply.text, actions=(), shape="empty")
    cut = reply.finish_reason == "length"
    return Said(text=reply.text, actions=(), shape="cut-off" if cut else "final")


class Simulated(Fact):
    """What an action led to."""

    observation: str
    error: bool
    done: bool


class Misspoken(Fact):
    """Why a reply breaks the world model's protocol."""

    problem: str


class _Protocol(msgspec.Struct):
    observation: str
    error: bool
    done: bool


_protocol = msgspec.json.Decoder(_Protocol, strict=True)


def read_simulation(text: str | None) -> Simulated | Misspoken:
    """Read a world model's reply: one JSON object, in a code fence or not."""
    if text is None or not text.strip():
        return Misspoken(problem="the reply is empty")
    fenced = _FENCE.fullmatch(text)
    try:
        read = _protocol.decode(fenced[1] if fenced else text)
    except msgspec.ValidationError as error:
        return Misspoken(problem=f"the reply isn't of the shape that was asked for: {error}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Misspoken(problem="the reply isn't one JSON object")
    return Simulated(observation=read.observation, error=read.error, done=read.done)


# What came of a cell.


class Outcome(Fact):
    """A closed cell as readings see it. ``score`` is in millionths of its rubric's range; None means it is excluded.

    ``cost`` is what the candidate's own tokens cost, None when unknown; ``evidence`` digests what was said and seen.
    """

    task: str
    lineage: str
    part: Literal["fit", "held-out"]
    alias: str
    sample: int
    score: int | None
    reason: Reason | None
    problem: str
    ended: Ended | None
    cost: NanoUSD | None
    model_calls: int
    evidence: str
