"""Builds: which traces, split, tasks and indexes a project's simulated environment consists of."""

from __future__ import annotations

import msgspec

from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.event import BlobRef, Command, Event, Family, Found, event


class BuildWanted(Refusal, name="build-wanted", exit_code=40):
    """A command needs a project's build and there is none."""

    def __init__(self, project: str, known: tuple[str, ...]) -> None:
        super().__init__(
            "nothing is built for this project; nothing was called",
            where=f"project {project}" + (f"; built are {', '.join(known)}" if known else ""),
            remedy=f"run `exp build {project} TRACES` first",
        )


class BuildDiffers(Refusal, name="build-differs", exit_code=45):
    """What a build recorded isn't what its traces and vectors give."""

    def __init__(self, seq: int, part: str) -> None:
        super().__init__(
            f"event {seq} records a build whose {part} can't be derived from the journal",
            where=f"ledger.db, event {seq}",
            remedy="run `exp check --full`; restore the root from a copy, or build again in a new root",
        )
        self.seq = seq


def artifact_id(kind: str, *inputs: object) -> str:
    """Return the id of something built: its kind and the digest of what decides it, never of when or where."""
    named = digests.content_digest(canonical.digest_input(kind, *inputs))
    return f"{kind}-{named.removeprefix(digests.PREFIX)[:32]}"


@event("build-completed@1")
class BuildCompleted(Event):
    """A build by its ids, with its manifest (traces, split, tasks, tools) and the vectors of its serving index.

    ``embedder`` and ``model`` are endpoint digests. Rows of ``vectors`` are int8, in the manifest's order of steps.
    """

    project: str
    build: str
    source: str
    serving_rag: str
    fit_rag: str
    world_model: str
    embedder: str
    model: str
    manifest: BlobRef
    vectors: BlobRef
    dimensions: int

    @property
    def stream(self) -> str:
        """One stream a project."""
        return f"project:{self.project}"


class CompleteBuild(Command):
    """Make a build the one that its project uses."""

    completed: BuildCompleted


class Builds(msgspec.Struct):
    """The newest build of each project."""

    latest: dict[str, BuildCompleted] = msgspec.field(default_factory=dict)

    def of(self, project: str) -> BuildCompleted:
        """Return the build that a project uses; BuildWanted when there is none."""
        if project not in self.latest:
            raise BuildWanted(project, tuple(sorted(self.latest)))
        return self.latest[project]


def decide(command: CompleteBuild, state: Builds, found: Found) -> tuple[Event, ...]:
    """Return the build, unless its project uses it already: wherever and whenever its traces were read again."""
    del found
    known = state.latest.get(command.completed.project)
    return () if known is not None and known.build == command.completed.build else (command.completed,)


def evolve(state: Builds, event: BuildCompleted) -> Builds:
    """Fold one event."""
    state.latest[event.project] = event
    return state


FAMILY = Family(name="builds", kinds=(BuildCompleted,), initial=Builds, decide=decide, evolve=evolve)
