"""Building: an export becomes recorded traces, a split, tasks, and two indexes over embedded steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from commands.ingesting.recording import Recorder
from commands.readings import Build, Manifest, Member, Part, Task, index_entries, read_build
from ledger import digests
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import builds, traces
from ledger.families.builds import BuildCompleted, BuildDiffers, CompleteBuild, artifact_id
from ledger.families.calls import TextEmbedded
from ledger.families.traces import Trace, TraceImported
from projections import split as splitting
from projections import tasks as choosing
from projections.retrieval import retrieval_text
from projections.tools import tools

if TYPE_CHECKING:
    from commands.ingesting.material import Material
    from commands.ingesting.tally import Tally
    from commands.perform.asking import Asking
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal

VERSION = 1  # of how an export becomes a build; part of every id
TEXTS_A_REQUEST = 512
encoded = msgspec.json.Encoder(order="sorted").encode

Wanted = tuple[int, int]  # fit and held-out tasks


class NothingToBuild(Refusal, name="nothing-to-build", exit_code=42):
    """No trace of the export has steps."""

    def __init__(self, where: str, tally: Tally) -> None:
        reasons = [f"{reason} ({left.count})" for reason, left in sorted(tally.left.items())]
        excluded = sum(left.count for left in tally.left.values())
        super().__init__(
            f"the export holds no trace that can be used ({excluded} excluded); nothing was recorded",
            where=f"{where}: " + ("; ".join(reasons) or "it is empty"),
            remedy="export spans with their contents: tool calls with arguments and results, and the prompt",
        )


class TooAlike(Refusal, name="corpus-too-alike", exit_code=43):
    """There is only one group of traces, so nothing can be held out."""

    def __init__(self, where: str, traces_: int) -> None:
        super().__init__(
            f"the {traces_} usable traces all have the same task or nearly so, and a build needs some to hold out;"
            " nothing was recorded",
            where=where,
            remedy="add traces of other tasks",
        )


class NoTaskTexts(Refusal, name="no-task-texts", exit_code=44):
    """Traces of one side don't say what their task was, so none can be simulated."""

    def __init__(self, where: str, part: Part) -> None:
        super().__init__(
            f"none of the {part} traces says what its task was; nothing was recorded",
            where=where,
            remedy="export the prompt with each trace (gen_ai.input.messages or gen_ai.prompt)",
        )


class Draft(msgspec.Struct):
    """A build before its texts are embedded: all that follows from traces alone."""

    traces: dict[str, Trace]
    manifest: Manifest
    split: splitting.Split
    attributes: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def unique_texts(self) -> tuple[str, ...]:
        """The texts to embed, each once, in order."""
        return tuple(dict.fromkeys(self.texts))


def draft_of(material: Material, wanted: Wanted) -> Draft:
    """Decide all that needs no embedding; NothingToBuild when no trace has steps."""
    if not material.traces:
        raise NothingToBuild(material.where, material.tally)
    return draft(material.traces, wanted, material.where)


def draft(traces_: Iterable[Trace], wanted: Wanted, where: str) -> Draft:
    """Decide all that needs no embedding; ``where`` is named by refusals."""
    ordered = dict(sorted((digests.content_digest(traces.encoded(trace)), trace) for trace in traces_))
    declared: dict[str, list[splitting.Declared]] = {}
    for trace in ordered.values():
        declared.setdefault(trace.lineage, []).append(splitting.Declared(trace.task_id, trace.conversation_id))
    sides = splitting.split({trace.lineage: trace.task for trace in reversed(ordered.values())}, declared)
    if len(sides.groups) < 2:  # noqa: PLR2004 - one to fit and one to hold out
        raise TooAlike(where, len(ordered))
    fit = frozenset(sides.fit)
    members = tuple(
        Member(
            trace=digest,
            lineage=trace.lineage,
            label=trace.label,
            part="fit" if trace.lineage in fit else "held-out",
            turns=len(trace.turns),
        )
        for digest, trace in ordered.items()
    )
    attributes = choosing.dividing_attributes(tuple(ordered.values()))
    chosen, rule = _tasks(where, _candidates(ordered, sides, attributes), wanted)
    manifest = Manifest(
        wanted=wanted,
        rule=f"{sides.rule}; {rule}",
        members=members,
        tasks=chosen,
        tools=tools(turn for trace in ordered.values() for turn in trace.turns),
    )
    texts = tuple(
        retrieval_text(trace.task, turn.tool, turn.arguments) for trace in ordered.values() for turn in trace.turns
    )
    return Draft(ordered, manifest, sides, attributes, texts)


def _candidates(
    ordered: dict[str, Trace], sides: splitting.Split, attributes: Sequence[str]
) -> dict[Part, list[tuple[str, choosing.Candidate]]]:
    """Return, for each side, a candidate a lineage that says what its task is, with its trace."""
    group_of, fit = sides.group_of, frozenset(sides.fit)
    there: dict[Part, list[tuple[str, choosing.Candidate]]] = {"fit": [], "held-out": []}
    seen: set[str] = set()
    for digest, trace in ordered.items():
        lineage = trace.lineage
        if trace.task and lineage not in seen:
            seen.add(lineage)
            one = choosing.Candidate(
                lineage=lineage,
                group=group_of[lineage],
                text=trace.task,
                stratum=choosing.stratum(trace, attributes),
                grams=splitting.trigrams(trace.task),
            )
            there["fit" if lineage in fit else "held-out"].append((digest, one))
    return there


def _tasks(
    where: str, there: dict[Part, list[tuple[str, choosing.Candidate]]], wanted: Wanted
) -> tuple[tuple[Task, ...], str]:
    """Return the tasks of both sides, and the rule they were chosen by."""
    for part, some in there.items():
        if not some:
            raise NoTaskTexts(where, part)
    counts = choosing.counts(wanted, (len(there["fit"]), len(there["held-out"])))
    made = []
    for (part, some), count in zip(there.items(), (counts.fit, counts.held_out), strict=True):
        trace_of = {one.lineage: digest for digest, one in some}
        made += [
            Task(
                id=artifact_id("task", one.lineage, one.text),
                lineage=one.lineage,
                trace=trace_of[one.lineage],
                text=one.text,
                stratum=one.stratum,
                part=part,
            )
            for one in choosing.choose([one for _, one in some], count)
        ]
    return tuple(made), counts.rule


def record_inputs(journal: Journal, project: str, material: Material) -> None:
    """Record what was read now as an import of the project; what is recorded already isn't again."""
    if material.read is not None:
        Recorder(journal, project, material.read.redaction).record(material.read)


async def embed(
    asking: Asking, endpoint: Endpoint, made: Draft, advance: Callable[[int], None] = lambda _: None
) -> dict[str, bytes]:
    """Return the vector of each text."""
    texts = made.unique_texts
    vectors: dict[str, bytes] = {}
    for first in range(0, len(texts), TEXTS_A_REQUEST):
        some = texts[first : first + TEXTS_A_REQUEST]
        vectors.update(zip(some, await asking.embed(endpoint, some), strict=True))
        advance(len(some))
    return vectors


class Models(msgspec.Struct, frozen=True):
    """The digests of the models that a build is made with."""

    embedder: str
    world_model: str


def completed(
    project: str, source: str, made: Draft, vectors: dict[str, bytes], models: Models
) -> tuple[BuildCompleted, Blobs]:
    """Return the build by its ids, with its contents."""
    blobs = Blobs()
    rows = [vectors[text] for text in made.texts]
    manifest = blobs.put(encoded(made.manifest), "application/json")
    ids = named(made.manifest, rows, models)
    build = BuildCompleted(
        project=project,
        build=ids.build,
        source=source,
        serving_rag=ids.serving_rag,
        fit_rag=ids.fit_rag,
        world_model=ids.world_model,
        embedder=models.embedder,
        model=models.world_model,
        manifest=manifest,
        vectors=blobs.put(b"".join(rows), "application/x-int8"),
        dimensions=len(rows[0]) if rows else 0,
    )
    return build, blobs


class Ids(msgspec.Struct, frozen=True):
    """The ids of a build's artifacts."""

    serving_rag: str
    fit_rag: str
    world_model: str
    build: str


def named(manifest: Manifest, vectors: Sequence[bytes], models: Models) -> Ids:
    """Return the ids: they digest the manifest, the models, and the vectors in the manifest's order of steps."""
    parts = [member.part for member in manifest.members for _ in range(member.turns)]
    rows = [
        (entry.digest, digests.content_digest(vector))
        for entry, vector in zip(index_entries(manifest), vectors, strict=True)
    ]
    fit_rows = [row for row, part in zip(rows, parts, strict=True) if part == "fit"]
    serving_rag = artifact_id("serving-rag", VERSION, models.embedder, rows)
    fit_rag = artifact_id("fit-rag", VERSION, models.embedder, fit_rows)
    world_model = artifact_id("world-model", VERSION, models.world_model, fit_rag, manifest.tools)
    content = digests.content_digest(encoded(manifest))
    return Ids(serving_rag, fit_rag, world_model, artifact_id("build", VERSION, content, serving_rag, world_model))


def verify_build(journal: Journal, project: str) -> Build:
    """Return the project's build after deriving it again from the recorded traces and vectors.

    BuildDiffers names what can't be derived; the journal's own refusals name events and contents that are damaged.
    """
    build = read_build(journal, project)
    known, manifest = build.completed, build.manifest
    seq = next(record.seq for record in journal.events(BuildCompleted, stream=known.stream) if record.event == known)
    recorded = journal.find_many(TraceImported, [member.trace for member in manifest.members])
    if len(recorded) != len(manifest.members):
        raise BuildDiffers(seq, "list of traces")
    made = draft([build.trace(member.trace) for member in manifest.members], manifest.wanted, str(journal.path))
    if made.manifest != manifest:
        raise BuildDiffers(seq, "split, tasks or tools")
    vectors, size = journal.blob(known.vectors.blob), known.dimensions
    rows = [vectors[at : at + size] for at in range(0, len(vectors), size)] if size else []
    embedded = {
        record.event.embedded.vector.blob
        for record in journal.events(TextEmbedded)
        if isinstance(record.event, TextEmbedded)
    }
    if len(rows) != len(made.texts) or any(digests.content_digest(row) not in embedded for row in rows):
        raise BuildDiffers(seq, "vectors")
    ids = named(manifest, rows, Models(known.embedder, known.model))
    if ids != Ids(known.serving_rag, known.fit_rag, known.world_model, known.build):
        raise BuildDiffers(seq, "ids")
    return build


async def complete(journal: Journal, build: BuildCompleted, blobs: Blobs) -> None:
    """Record the build, unless its project uses it already."""
    known = journal.state(builds.FAMILY).latest.get(build.project)
    if known is None or known.build != build.build:
        await journal.record(Step(builds.FAMILY, CompleteBuild(completed=build)), blobs=blobs)
