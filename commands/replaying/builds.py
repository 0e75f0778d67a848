"""A build, derived again from its traces and the recorded vectors of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from commands.building import Draft, Models, completed, draft, embed
from commands.perform.asking import Asking, Run
from commands.readings import recorded_build
from commands.replaying.verdicts import Subject, Verdict
from ledger import digests, questions
from ledger.event import Blobs
from ledger.families.builds import BuildCompleted
from ledger.families.calls import TextEmbedded
from ledger.families.traces import TraceImported

if TYPE_CHECKING:
    from commands.perform.replaying import Replaying
    from commands.replaying.endpoints import Endpoints
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal
    from ledger.recorded import Recorded


async def replay_build(journal: Journal, endpoints: Endpoints, perform: Replaying, record: Recorded) -> Verdict:
    """Return whether traces and vectors give the build that an event published."""
    known = record.event
    if not isinstance(known, BuildCompleted):
        raise TypeError(record)
    subject = Subject("build", known.build, known.project)
    build = recorded_build(journal, known)
    named = [member.trace for member in build.manifest.members]
    imported = journal.find_many(TraceImported, named)
    if missing := [trace for trace in named if trace not in imported]:
        return subject.differs(f"its trace {missing[0]} was never imported", [record.seq])
    made = draft([build.trace(trace) for trace in named], build.manifest.wanted, str(journal.path))
    asking = Asking(journal, perform, Run(id=known.build, ceiling=0, purpose="build"))
    embedder = _asked(journal, endpoints.all("embedder", known.embedder), made)
    vectors = await embed(asking, embedder, made)
    derived, blobs = completed(known.project, known.source, made, vectors, Models(known.embedder, known.model))

    def origins(pointer: str) -> Sequence[int]:
        part, _, rest = pointer.removeprefix("/").partition("/")
        if part == "vectors" and rest.isdigit() and int(rest) < len(made.texts):
            question = questions.embedding_question(embedder, made.texts[int(rest)]).digest
            found = journal.find(TextEmbedded, f"{question}:0")
            return [found.seq] if found else [record.seq]
        return sorted(one.seq for one in imported.values())

    return subject.compared(_shown(known, journal.blob), _shown(derived, _reading(blobs)), origins)


def _asked(journal: Journal, embedders: Sequence[Endpoint], made: Draft) -> Endpoint:
    """Return the embedder at the address where the build's texts were asked about, the newest when none was."""
    for endpoint in embedders:
        for text in made.texts[:1]:
            if journal.find(TextEmbedded, f"{questions.embedding_question(endpoint, text).digest}:0"):
                return endpoint
    return embedders[0]


def _reading(blobs: Blobs) -> Any:  # noqa: ANN401 - as the journal's own reader
    return blobs.contents.__getitem__


def _shown(build: BuildCompleted, read: Any) -> dict[str, Any]:  # noqa: ANN401 - a reader of contents
    """Return all that a build says, with its manifest in full and a digest for each vector."""
    vectors, size = read(build.vectors.blob), build.dimensions
    facts: dict[str, Any] = msgspec.to_builtins(build)
    return facts | {
        "manifest": msgspec.json.decode(read(build.manifest.blob)),
        "vectors": [digests.content_digest(vectors[at : at + size]) for at in range(0, len(vectors), size) if size],
    }
