"""Imports: which inputs were read to their end, for which project, and what each of them gave.

Traces and findings are recorded while an input is read; they count once its import is completed. A project's traces are
those of all its completed imports: where two hold traces of one name, the newest import's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.event import BlobRef, Command, Event, Fact, Family, Found, event

_RAW = 32  # bytes of a digest
_BEFORE = 8  # earlier imports of an input that may have recorded what is found again


class ImportsWanted(Refusal, name="imports-wanted", exit_code=97):
    """Something is to be made of what was imported for a project, and nothing was."""

    def __init__(self, project: str, known: Sequence[str]) -> None:
        there = f"; there are imports for {', '.join(known)}" if known else ""
        super().__init__(
            "no import for this project was completed; nothing was done",
            where=f"project {project}{there}",
            remedy=f"run `exp ingest FILE --project {project}` first; a build can name its files instead",
        )


class Taken(Fact):
    """How often a detector found something to leave out."""

    detector: str
    count: int


class InputRead(Fact):
    """An input that was read to its end: what it was called, in which format and why in that, and its plain bytes."""

    name: BlobRef
    format: str
    why: BlobRef
    digest: str
    size: int


@event("import-completed@1")
class ImportCompleted(Event):
    """Inputs were read to their end, together. An empty ``project`` is none.

    ``outcome`` digests what they gave: inputs that give what is imported already, in whatever files, aren't recorded
    again. ``source`` digests their plain bytes, and ``reading`` how they were read: formats, release of the reading,
    what was to be left out. ``traces`` holds 64 bytes a trace, its digest and its lineage's, in order of digest, and
    ``findings`` the keys of what was left out or found, which earlier imports of the same input may have recorded.
    ``units`` (lines, rows, spans) were either ``used`` or ``excluded``; ``refused`` traces had no steps, and
    ``repeated`` ones were there more than once.
    """

    project: str
    outcome: str
    source: str
    reading: str
    inputs: tuple[InputRead, ...]
    units: int
    used: int
    excluded: int
    refused: int
    repeated: int
    traces: BlobRef
    findings: BlobRef
    detectors: tuple[str, ...]
    redactions: tuple[Taken, ...]

    @property
    def stream(self) -> str:
        """One stream a project."""
        return f"ingests:{self.project}"

    @property
    def key(self) -> str:
        """What gives the same is imported once a project."""
        return f"{self.project}:{self.outcome}"

    @property
    def trace_count(self) -> int:
        """How many traces it gave."""
        return self.traces.size // (2 * _RAW)


class CompleteImport(Command):
    """Make an import count."""

    completed: ImportCompleted

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """Whether it does already."""
        return ((ImportCompleted.kind, self.completed.key),)


class Ingests(msgspec.Struct):
    """The completed imports of each project, in order."""

    completed: dict[str, list[ImportCompleted]] = msgspec.field(default_factory=dict)

    def before(self, project: str, reading: str, names: Sequence[str]) -> list[str]:
        """Return the sources of a project's newest imports that were read this way from inputs of these names."""
        found = [
            one.source
            for one in reversed(self.completed.get(project, ()))
            if one.reading == reading and [read.name.blob for read in one.inputs] == list(names)
        ]
        return list(dict.fromkeys(found))[:_BEFORE]

    @property
    def projects(self) -> tuple[str, ...]:
        """The projects that something was imported for."""
        return tuple(sorted(filter(None, self.completed)))

    def of(self, project: str) -> tuple[ImportCompleted, ...]:
        """Return a project's imports; ImportsWanted when there are none."""
        if project not in self.completed:
            raise ImportsWanted(project, self.projects)
        return tuple(self.completed[project])


def decide(command: CompleteImport, state: Ingests, found: Found) -> tuple[Event, ...]:
    """Return the import, unless one that gave the same is completed."""
    del state
    completed = command.completed
    return () if found(ImportCompleted.kind, completed.key) is not None else (completed,)


def evolve(state: Ingests, event: ImportCompleted) -> Ingests:
    """Fold one event."""
    state.completed.setdefault(event.project, []).append(event)
    return state


FAMILY = Family(name="ingests", kinds=(ImportCompleted,), initial=Ingests, decide=decide, evolve=evolve)


def packed(traces: Iterable[tuple[str, str]]) -> bytes:
    """Return the list of traces as it is recorded, given the digest of each and of its lineage."""
    return b"".join(sorted(digests.raw(trace) + digests.raw(lineage) for trace, lineage in traces))


def unpacked(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the digest of each trace, and of its lineage."""
    for at in range(0, len(content), 2 * _RAW):
        yield digests.named(content[at : at + _RAW]), digests.named(content[at + _RAW : at + 2 * _RAW])


def members(contents: Iterable[bytes]) -> list[str]:
    """Return a project's traces by digest, given the lists of its imports in order: the newest of each lineage."""
    newest: dict[str, str] = {}
    for content in contents:
        newest.update((lineage, trace) for trace, lineage in unpacked(content))
    return sorted(newest.values())


def source_of(imports: Sequence[ImportCompleted]) -> str:
    """Return what names the input of a build from imports: that of the only one, else a digest of all."""
    return name_of(one.source for one in imports)


def name_of(sources: Iterable[str]) -> str:
    """Return the only source, or a digest of all."""
    listed = sorted(set(sources))
    return listed[0] if len(listed) == 1 else digests.content_digest(canonical.digest_input("imports", listed))
