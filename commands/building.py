"""Building: an export becomes recorded traces, a split, tasks, and two indexes over embedded steps."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import msgspec
from blake3 import blake3

from commands.readings import Manifest, Member, Part, Task, index_entries
from ledger import digests
from ledger.errors import Refusal
from ledger.event import Blobs, Step
from ledger.families import builds, traces
from ledger.families.builds import BuildCompleted, CompleteBuild, artifact_id
from ledger.families.traces import Exclusion, RecordImport, Trace, TraceImported
from projections import split as splitting
from projections import tasks as choosing
from projections.normal_form import Export, read_export
from projections.retrieval import retrieval_text
from projections.tools import tools

if TYPE_CHECKING:
    from commands.perform.asking import Asking
    from ledger.families.providers import Endpoint
    from ledger.journal import Journal
    from projections.normal_form.lines import Line, Redact

VERSION = 1  # of how an export becomes a build; part of every id
LINE_BYTES = 64 << 20
TOGETHER = 256
TEXTS_A_REQUEST = 512
GZIP = b"\x1f\x8b"
_encode = msgspec.json.Encoder(order="sorted").encode


class ExportUnreadable(Refusal, name="export-unreadable", exit_code=41):
    """The file of traces can't be read to its end."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the export can't be read: {problem}; nothing was recorded",
            where=str(path),
            remedy="give the path of a readable file of OTLP JSON, plain or gzipped",
        )


class NothingToBuild(Refusal, name="nothing-to-build", exit_code=42):
    """No trace of the export has steps."""

    def __init__(self, path: Path, refused: int, reasons: Sequence[str]) -> None:
        super().__init__(
            f"the export holds no trace that can be used ({refused} refused); nothing was recorded",
            where=f"{path}: " + ("; ".join(reasons) or "it is empty"),
            remedy="export spans with their contents: tool calls with arguments and results, and the prompt",
        )


class TooAlike(Refusal, name="corpus-too-alike", exit_code=43):
    """There is only one group of traces, so nothing can be held out."""

    def __init__(self, path: Path, traces_: int) -> None:
        super().__init__(
            f"the {traces_} usable traces all have the same task or nearly so, and a build needs some to hold out;"
            " nothing was recorded",
            where=str(path),
            remedy="add traces of other tasks",
        )


class NoTaskTexts(Refusal, name="no-task-texts", exit_code=44):
    """Traces of one side don't say what their task was, so none can be simulated."""

    def __init__(self, path: Path, part: Part, traces_: int) -> None:
        super().__init__(
            f"none of the {traces_} {part} traces says what its task was; nothing was recorded",
            where=str(path),
            remedy="export the prompt with each trace (gen_ai.input.messages or gen_ai.prompt)",
        )


class Source:
    """The file of an export: its lines, and the digest of its plain bytes once all lines were read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hash = blake3()

    @property
    def digest(self) -> str:
        """The digest of what was read: the same whether it was compressed or not."""
        return digests.named(self._hash.digest())

    def lines(self) -> Iterator[Line]:
        """Yield each line, or None for one that is too long to be read; ExportUnreadable when reading fails."""
        try:
            with self.path.open("rb") as file:
                zipped = file.read(2) == GZIP
                file.seek(0)
                yield from self._lines(cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if zipped else file)
        except OSError as error:
            raise ExportUnreadable(self.path, error.strerror or str(error)) from error
        except (EOFError, zlib.error) as error:
            raise ExportUnreadable(self.path, f"its compression is broken ({error})") from error

    def _lines(self, file: IO[bytes]) -> Iterator[Line]:
        while line := file.readline(LINE_BYTES):
            self._hash.update(line)
            if len(line) < LINE_BYTES or line.endswith(b"\n"):
                yield line
                continue
            while rest := file.readline(LINE_BYTES):
                self._hash.update(rest)
                if rest.endswith(b"\n"):
                    break
            yield None


class Draft(msgspec.Struct):
    """A build before its texts are embedded: all that follows from the export alone."""

    source: str
    export: Export
    traces: dict[str, Trace]
    manifest: Manifest
    split: splitting.Split
    attributes: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def unique_texts(self) -> tuple[str, ...]:
        """The texts to embed, each once, in order."""
        return tuple(dict.fromkeys(self.texts))


def draft(path: Path, wanted: tuple[int, int], redact: Redact) -> Draft:
    """Read an export and decide all that needs no embedding; nothing is recorded."""
    source = Source(path)
    export = read_export(source.lines(), redact)
    if not export.traces:
        raise NothingToBuild(path, export.refused, sorted({one.reason for one in export.exclusions}))
    by_digest = {digests.content_digest(traces.encoded(trace)): trace for trace in export.traces}
    ordered = dict(sorted(by_digest.items()))
    lineages = {trace.lineage: trace.task for trace in ordered.values()}
    sides = splitting.split(lineages)
    if len(sides.groups) < 2:  # noqa: PLR2004 - one to fit and one to hold out
        raise TooAlike(path, len(ordered))
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
    chosen, rule = _tasks(path, ordered, sides, attributes, wanted)
    manifest = Manifest(
        rule=f"{splitting.RULE}; {rule}",
        members=members,
        tasks=chosen,
        tools=tools(turn for trace in ordered.values() for turn in trace.turns),
    )
    texts = tuple(
        retrieval_text(trace.task, turn.tool, turn.arguments) for trace in ordered.values() for turn in trace.turns
    )
    return Draft(source.digest, export, ordered, manifest, sides, attributes, texts)


def _tasks(
    path: Path,
    ordered: dict[str, Trace],
    sides: splitting.Split,
    attributes: Sequence[str],
    wanted: tuple[int, int],
) -> tuple[tuple[Task, ...], str]:
    """Return the tasks of both sides, and the rule they were chosen by."""
    group_of = sides.group_of
    candidates: dict[str, choosing.Candidate] = {}
    digest_of: dict[str, str] = {}
    for digest, trace in ordered.items():
        lineage = trace.lineage
        if trace.task and lineage not in candidates:
            digest_of[lineage] = digest
            candidates[lineage] = choosing.Candidate(
                lineage=lineage,
                group=group_of[lineage],
                text=trace.task,
                stratum=choosing.stratum(trace, attributes),
                grams=splitting.trigrams(trace.task),
            )
    there: dict[Part, list[choosing.Candidate]] = {
        part: [candidates[lineage] for lineage in lineages if lineage in candidates] for part, lineages in _sides(sides)
    }
    for part, some in there.items():
        if not some:
            raise NoTaskTexts(path, part, len(ordered))
    counts = choosing.counts(wanted, (len(there["fit"]), len(there["held-out"])))
    made = []
    for part, count in zip(there, (counts.fit, counts.held_out), strict=True):
        made += [
            Task(
                id=artifact_id("task", one.lineage, one.text),
                lineage=one.lineage,
                trace=digest_of[one.lineage],
                text=one.text,
                stratum=one.stratum,
                part=part,
            )
            for one in choosing.choose(there[part], count)
        ]
    return tuple(made), counts.rule


def _sides(sides: splitting.Split) -> tuple[tuple[Part, tuple[str, ...]], ...]:
    return ("fit", sides.fit), ("held-out", sides.held_out)


async def record_import(journal: Journal, made: Draft) -> None:
    """Record the traces and exclusions that aren't recorded yet, some at a time."""
    known = journal.find_many(TraceImported, tuple(made.traces))
    fresh = [trace for digest, trace in made.traces.items() if digest not in known]
    excluded = made.export.exclusions
    for first in range(0, max(len(fresh), len(excluded)), TOGETHER):
        blobs = Blobs()
        command = RecordImport(
            source=made.source,
            traces=tuple(traces.importing(trace, blobs) for trace in fresh[first : first + TOGETHER]),
            excluded=tuple(traces.excluding(made.source, one, blobs) for one in excluded[first : first + TOGETHER]),
        )
        await journal.record(Step(traces.FAMILY, command), blobs=blobs)


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


def completed(project: str, made: Draft, vectors: dict[str, bytes], models: Models, blobs: Blobs) -> BuildCompleted:
    """Return the build by its ids; they digest its inputs and the vectors, in the manifest's order."""
    entries = index_entries(made.manifest)
    named = {text: digests.content_digest(vector) for text, vector in vectors.items()}
    rows = [(entry.digest, named[text]) for entry, text in zip(entries, made.texts, strict=True)]
    fit = frozenset(made.split.fit)
    fit_rows = [row for row, entry in zip(rows, entries, strict=True) if entry.lineage in fit]
    serving_rag = artifact_id("serving-rag", VERSION, models.embedder, rows)
    fit_rag = artifact_id("fit-rag", VERSION, models.embedder, fit_rows)
    manifest = blobs.put(_encode(made.manifest), "application/json")
    world_model = artifact_id("world-model", VERSION, models.world_model, fit_rag, made.manifest.tools)
    return BuildCompleted(
        project=project,
        build=artifact_id("build", VERSION, manifest.blob, serving_rag, fit_rag, world_model),
        source=made.source,
        serving_rag=serving_rag,
        fit_rag=fit_rag,
        world_model=world_model,
        embedder=models.embedder,
        model=models.world_model,
        manifest=manifest,
        vectors=blobs.put(b"".join(vectors[text] for text in made.texts), "application/x-int8"),
        dimensions=len(next(iter(vectors.values()), b"")),
    )


async def complete(journal: Journal, build: BuildCompleted, blobs: Blobs) -> None:
    """Record the build, unless its project uses it already."""
    known = journal.state(builds.FAMILY).latest.get(build.project)
    if known is None or known.build != build.build:
        await journal.record(Step(builds.FAMILY, CompleteBuild(completed=build)), blobs=blobs)


def excluded_by_reason(exclusions: Sequence[Exclusion]) -> list[tuple[str, int, str]]:
    """Return reasons with how often and where first."""
    found: dict[str, tuple[int, str]] = {}
    for one in exclusions:
        count, place = found.get(one.reason, (0, one.place))
        found[one.reason] = count + one.count, place
    return [(reason, *found[reason]) for reason in sorted(found)]
