"""Readings that several commands share: a project's build, read from the journal."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from ledger.episode import Episode, Tool
from ledger.event import Fact
from ledger.families import builds, traces
from ledger.families.builds import BuildCompleted
from ledger.families.traces import Trace

if TYPE_CHECKING:
    from ledger.journal import Journal
    from projections.retrieval import Entry, Example, Index

Part = Literal["fit", "held-out"]


class Task(Fact):
    """A task that rollouts are made of: the lineage and trace it comes from, and its side of the split."""

    id: str
    lineage: str
    trace: str
    text: str
    stratum: str
    part: Part


class Member(Fact):
    """A trace of a build: its digest, lineage and label, its side of the split, and how many turns it has."""

    trace: str
    lineage: str
    label: str
    part: Part
    turns: int


class Manifest(Fact):
    """What a build consists of, and how many fit and held-out tasks were wanted.

    Members are in order of digest; the rows of an index are their turns in this order.
    """

    rule: str
    members: tuple[Member, ...]
    tasks: tuple[Task, ...]
    tools: tuple[Tool, ...]
    wanted: tuple[int, int] = (50, 20)


class Build:
    """A project's build. Traces and indexes are read when they are asked for."""

    def __init__(self, journal: Journal, completed: BuildCompleted, manifest: Manifest) -> None:
        self.completed = completed
        self.manifest = manifest
        self.id = completed.build
        self.project = completed.project
        self.tasks = manifest.tasks
        self.tools = manifest.tools
        self.world_model_id = completed.world_model
        self.fit_rag_id = completed.fit_rag
        self.serving_rag_id = completed.serving_rag
        self._journal = journal
        self._read: dict[str, Trace] = {}
        self._representatives: dict[str, Member] = {}
        for member in manifest.members:
            self._representatives.setdefault(member.lineage, member)
        self._members = {member.trace: member for member in manifest.members}

    @property
    def fit_lineages(self) -> tuple[str, ...]:
        """The lineages that may be learned from, in order of digest."""
        return self._lineages("fit")

    @property
    def held_out_lineages(self) -> tuple[str, ...]:
        """The lineages that are only measured on, in order of digest."""
        return self._lineages("held-out")

    def _lineages(self, part: Part) -> tuple[str, ...]:
        return tuple(sorted({member.lineage for member in self.manifest.members if member.part == part}))

    def trace(self, digest: str) -> Trace:
        """Return a recorded trace by its digest; its content is verified."""
        if digest not in self._read:
            self._read[digest] = traces.decoded(self._journal.blob(digest))
        return self._read[digest]

    def episode(self, digest: str) -> Episode:
        """Return a recorded trace as a judge sees it."""
        return self.trace(digest).episode

    def representative(self, lineage: str) -> str:
        """Return the digest of the trace that stands for a lineage."""
        return self._representatives[lineage].trace

    def trace_id(self, trace_or_lineage: str) -> str:
        """Return the label, within ``[A-Za-z0-9_-]``, of a trace or of the one that stands for a lineage."""
        member = self._members.get(trace_or_lineage) or self._representatives[trace_or_lineage]
        return member.label

    @cached_property
    def serving_index(self) -> Index:
        """The index over every trace."""
        return self._index(None)

    @cached_property
    def fit_index(self) -> Index:
        """The index over the fit lineages, the only one that a simulation retrieves from."""
        return self._index("fit")

    def _index(self, part: Part | None) -> Index:
        import numpy as np  # noqa: PLC0415 - the gateway reads a build without its vectors

        from projections.retrieval import Index  # noqa: PLC0415 - as above

        rows = np.frombuffer(self._journal.blob(self.completed.vectors.blob), dtype=np.int8)
        matrix = rows.reshape(sum(member.turns for member in self.manifest.members), self.completed.dimensions)
        kept = [part in (None, member.part) for member in self.manifest.members for _ in range(member.turns)]
        entries = [entry for entry, keep in zip(index_entries(self.manifest), kept, strict=True) if keep]
        return Index(entries, matrix[np.array(kept, dtype=bool)], self._example)

    def _example(self, entry: Entry) -> Example:
        from projections.retrieval import Example  # noqa: PLC0415 - as above

        trace = self.trace(entry.trace)
        turn = trace.turns[entry.turn]
        return Example(
            lineage=entry.lineage,
            digest=entry.digest,
            task=trace.task,
            tool=turn.tool,
            arguments=turn.arguments,
            observation=turn.observation,
            error=turn.error,
            score=0,
        )


def index_entries(manifest: Manifest) -> list[Entry]:
    """Return the places of a manifest's steps, in the order of the index's rows."""
    from projections.retrieval import Entry  # noqa: PLC0415 - as above

    return [Entry(member.lineage, member.trace, turn) for member in manifest.members for turn in range(member.turns)]


_manifests = msgspec.json.Decoder(Manifest)


def read_build(journal: Journal, project: str) -> Build:
    """Return the build that a project uses; BuildWanted when there is none.

    The journal must have been opened with ``ledger.families.builds.FAMILY``.
    """
    return recorded_build(journal, journal.state(builds.FAMILY).of(project))


def recorded_build(journal: Journal, completed: BuildCompleted) -> Build:
    """Return a build that is recorded, whether or not its project still uses it."""
    return Build(journal, completed, _manifests.decode(journal.blob(completed.manifest.blob)))
