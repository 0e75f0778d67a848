"""Traces: what agents were recorded doing, in normal form, and what of an export was left out and why."""

from __future__ import annotations

import re

import msgspec

from ledger import canonical, digests
from ledger.episode import Episode, Turn
from ledger.event import BlobRef, Blobs, Command, Event, Fact, Family, Found, event

_WRITABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHORT = 32
_encode = msgspec.json.Encoder(order="sorted").encode


class Model(Fact, omit_defaults=True):
    """A model that a trace used: by the name that was asked for, and by the one that answered."""

    requested: str = ""
    served: str = ""
    provider: str = ""


class Usage(Fact, omit_defaults=True):
    """Tokens over all model calls of a trace. None where no call says."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Annotation(Fact, omit_defaults=True):
    """What someone noted about a trace: a number as decimal text, or a label.

    ``origin`` is human, model, code or unknown.
    """

    name: str
    value: str = ""
    label: str = ""
    origin: str = "unknown"
    comment: str = ""


class Trace(Fact, omit_defaults=True):
    """One recorded episode in normal form. ``source`` digests the spans it was read from, whatever their order.

    ``name`` is the id its producer gave it. ``attributes`` are the short texts its spans declare, by name. Whatever
    follows is empty or None when the spans don't say, and then isn't in the bytes: ``system`` is what the model was
    instructed, ``cost`` is in nano-dollars, ``errors`` are of model calls, ``reward`` is decimal text.
    """

    name: str
    source: str
    task: str
    turns: tuple[Turn, ...]
    final: str | None
    attributes: tuple[tuple[str, str], ...]
    task_id: str = ""
    conversation_id: str = ""
    system: str = ""
    models: tuple[Model, ...] = ()
    usage: Usage | None = None
    cost: int | None = None
    duration_us: int | None = None
    errors: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    reward: str = ""

    @property
    def lineage(self) -> str:
        """The source trace that everything made of this one comes from."""
        return lineage_of(self.name)

    @property
    def label(self) -> str:
        """The producer's id where a command line can carry it, a short digest otherwise."""
        return label_of(self.name)

    @property
    def episode(self) -> Episode:
        """The trace as a judge sees it."""
        return Episode(task=self.task, turns=self.turns, final=self.final, ended="recorded")


def lineage_of(name: str) -> str:
    """Return the lineage of the trace that its producer calls by this name."""
    return digests.content_digest(canonical.digest_input("lineage", name))


def label_of(name: str) -> str:
    """Return the name, or ``t-`` and digits of its digest when it has characters that a label key can't."""
    return name if _WRITABLE.fullmatch(name) else f"t-{lineage_of(name).removeprefix(digests.PREFIX)[:_SHORT]}"


def encoded(trace: Trace) -> bytes:
    """Return the bytes that a trace is stored as; its digest is theirs."""
    return _encode(trace)


def decoded(content: bytes) -> Trace:
    """Return the trace in stored bytes."""
    return _decode(content)


_decode = msgspec.json.Decoder(Trace).decode


@event("trace-imported@1")
class TraceImported(Event):
    """A trace in normal form, recorded once whatever export it is found in and whatever project uses it."""

    trace: str
    lineage: str
    content: BlobRef

    @property
    def stream(self) -> str:
        """All traces are in one stream."""
        return "traces"

    @property
    def key(self) -> str:
        """A trace is recorded once."""
        return self.trace


@event("input-excluded@1")
class InputExcluded(Event):
    """Something in an export that no trace could be made of, or that a trace is without, and why.

    ``source`` digests the export; ``count`` is more than one when the same happened too often to be listed. ``units``
    of the input are in no trace because of it, and ``reading`` names how the export was read, since another way may
    find something else in the same place.
    """

    source: str
    place: str
    reason: str
    detail: BlobRef | None
    count: int
    units: int = 0
    reading: str = ""

    @property
    def stream(self) -> str:
        """One stream an export."""
        return f"export:{self.source}"

    @property
    def key(self) -> str:
        """The same finding of the same reading of an export is recorded once."""
        of = f"{self.source}:{self.reading}" if self.reading else self.source
        return f"{of}:{self.place}:{self.reason}"


class Exclusion(Fact):
    """A finding before it is recorded; ``detail`` is text from the export or about it, without credentials.

    ``units`` is how many units of the input (lines, rows, spans) are in no trace because of it: 0 for a finding about
    something that is.
    """

    place: str
    reason: str
    detail: str = ""
    count: int = 1
    units: int = 0


class Importing(Fact):
    """A trace and the reference of its content."""

    trace: str
    lineage: str
    content: BlobRef


class RecordImport(Command):
    """Record the traces of an export and what was left out of it."""

    source: str
    traces: tuple[Importing, ...]
    excluded: tuple[InputExcluded, ...]


class Traces(msgspec.Struct):
    """Nothing is kept: the journal finds traces by their digest."""


def importing(trace: Trace, blobs: Blobs) -> Importing:
    """Return what is recorded of a trace, its content among the blobs."""
    content = blobs.put(encoded(trace), "application/json")
    return Importing(trace=content.blob, lineage=trace.lineage, content=content)


def excluding(source: str, exclusion: Exclusion, blobs: Blobs, reading: str = "") -> InputExcluded:
    """Return what is recorded of an exclusion, its detail among the blobs."""
    return InputExcluded(
        source=source,
        place=exclusion.place,
        reason=exclusion.reason,
        detail=blobs.put(exclusion.detail) if exclusion.detail else None,
        count=exclusion.count,
        units=exclusion.units,
        reading=reading,
    )


def decide(command: RecordImport, state: Traces, found: Found) -> tuple[Event, ...]:
    """Return an event for each trace and exclusion; those that are recorded are recognised by their keys."""
    del state, found
    imported = [TraceImported(trace=one.trace, lineage=one.lineage, content=one.content) for one in command.traces]
    return (*imported, *command.excluded)


def evolve(state: Traces, event: Event) -> Traces:
    """Return the state as it is."""
    del event
    return state


FAMILY = Family(
    name="traces", kinds=(), initial=Traces, decide=decide, evolve=evolve
)  # reads no kind: opening a journal doesn't read every trace
