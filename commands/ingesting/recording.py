"""Recording: what an input gives is recorded while it is read, and counts once it was read to its end."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

import msgspec
from blake3 import blake3

from commands.ingesting.tally import Tally
from ledger import canonical, digests
from ledger.event import Blobs, Step
from ledger.families import ingests, traces
from ledger.families.ingests import CompleteImport, ImportCompleted, InputRead, Taken
from ledger.families.traces import Exclusion, Importing, InputExcluded, RecordImport, Trace, TraceImported

if TYPE_CHECKING:
    from concurrent.futures import Future

    from commands.ingesting.reading import Found
    from ledger.detectors import Redaction
    from ledger.journal import Journal, Recorded
    from projections.normal_form.export import Totals

VERSION = 2  # of how inputs are read; part of what names a reading
TOGETHER = 256  # traces, or exclusions, that are recorded at once,
BYTES_TOGETHER = 4 << 20  # and bytes of traces at most
NO_FORMAT = "none"  # of an empty input
AHEAD = 2  # groups that wait for the disk while the next one is read


class Readable(Protocol):
    """Inputs that are being read. All but the iteration is known once that has ended."""

    @property
    def found(self) -> Sequence[Found]: ...
    @property
    def digest(self) -> str: ...
    @property
    def totals(self) -> Totals: ...
    def __iter__(self) -> Iterator[Trace | Exclusion]: ...


class Read(msgspec.Struct):
    """What an input gave: its import, as it is or would be recorded, and the sums over it."""

    completed: ImportCompleted
    tally: Tally
    fresh: bool


def reading_id(formats: Iterable[str], redaction: Redaction) -> str:
    """Return what names a way of reading: another one may find something else in the same place."""
    listed = sorted(set(formats))
    return digests.content_digest(canonical.digest_input("reading", VERSION, listed, redaction.identity))


class Recorder:
    """Records one input for one project; without a journal, or when it is ``dry``, it only counts."""

    def __init__(self, journal: Journal | None, project: str, redaction: Redaction, *, dry: bool = False) -> None:
        self._journal = journal
        self._dry = dry or journal is None
        self._project = project
        self._redaction = redaction
        self._start = 0 if journal is None else journal.position()[0]
        self._tally = Tally()
        self._traces: list[tuple[str, str]] = []
        self._exclusions: dict[tuple[str, str], Exclusion] = {}
        self._group: list[Importing] = []
        self._blobs = Blobs()
        self._bytes = 0
        self._waiting: deque[Future[tuple[Recorded, ...]]] = deque()

    def record(self, reading: Readable) -> Read:
        """Read to the end, and record what is new; the import counts when this returns."""
        for found in reading:
            if isinstance(found, Trace):
                self._take(found)
            else:
                self._leave(found)
        self._flush()
        blobs = Blobs()
        completed = self._completed(reading, blobs)
        known = self._journal is not None and self._journal.find(ImportCompleted, completed.key) is not None
        if not self._dry:
            if not known:
                completed = self._record_findings(completed, blobs)
                self._submit(Step(ingests.FAMILY, CompleteImport(completed=completed)), blobs)
            while self._waiting:
                self._settle()
        return Read(completed, self._tally, not known)

    def _clean(self, text: str) -> str:
        return self._redaction(text.encode(errors="replace").decode())[0]

    def _leave(self, found: Exclusion) -> None:
        """Keep an exclusion; two of one reason in one place are one."""
        self._tally.leave(found.reason, found.units, found.count, found.place)
        before = self._exclusions.get((found.place, found.reason))
        if before is not None:
            found = msgspec.structs.replace(before, count=before.count + found.count, units=before.units + found.units)
        self._exclusions[found.place, found.reason] = found

    def _take(self, trace: Trace) -> None:
        self._tally.take(trace)
        one = traces.importing(trace, self._blobs)
        self._traces.append((one.trace, one.lineage))
        if self._dry:
            self._tally.new += self._journal is None or self._journal.find(TraceImported, one.trace) is None
            self._blobs = Blobs()
            return
        self._group.append(one)
        self._bytes += one.content.size
        if len(self._group) == TOGETHER or self._bytes >= BYTES_TOGETHER:
            self._flush()

    def _flush(self) -> None:
        if self._group:
            # The command's source names no trace; it is that of the exclusions, which aren't in this group.
            command = RecordImport(source="", traces=tuple(self._group), excluded=())
            self._submit(Step(traces.FAMILY, command), self._blobs)
        self._group, self._blobs, self._bytes = [], Blobs(), 0

    def _submit(self, step: Step, blobs: Blobs) -> None:
        if self._journal is not None:
            self._waiting.append(self._journal.submit(step, blobs=blobs))
        if len(self._waiting) > AHEAD:
            self._settle()

    def _settle(self) -> None:
        for record in self._waiting.popleft().result():
            self._tally.new += record.kind == TraceImported.kind and record.seq > self._start

    def _record_findings(self, completed: ImportCompleted, blobs: Blobs) -> ImportCompleted:
        """Record what no earlier import of the same input found in the same place; return the import with all keys."""
        keys: list[str] = []
        found = map(self._finding(completed), self._exclusions.values())
        while some := tuple(itertools.islice(found, TOGETHER)):
            contents = Blobs()
            keys += [one.key for one, _ in some]
            for _, own in some:
                contents.contents.update(own.contents)
            excluded = tuple(one for one, _ in some)
            self._submit(Step(traces.FAMILY, RecordImport(source="", traces=(), excluded=excluded)), contents)
        listed = blobs.put(canonical.encode(keys), "application/json")
        return msgspec.structs.replace(completed, findings=listed)

    def _finding(self, completed: ImportCompleted) -> Callable[[Exclusion], tuple[InputExcluded, Blobs]]:
        """Return what gives the event of a finding: the recorded one where the input held the same before."""
        journal, sources = self._journal, [completed.source]
        if journal is not None:
            names = [one.name.blob for one in completed.inputs]
            sources += journal.state(ingests.FAMILY).before(self._project, completed.reading, names)

        def finding(exclusion: Exclusion) -> tuple[InputExcluded, Blobs]:
            blobs = Blobs()
            made = [traces.excluding(source, exclusion, blobs, completed.reading) for source in sources]
            for one in made[1:]:
                record = None if journal is None else journal.find(InputExcluded, one.key)
                if record is not None and record.event == one:
                    return one, blobs
            return made[0], blobs

        return finding

    def _completed(self, reading: Readable, blobs: Blobs) -> ImportCompleted:
        tally, totals = self._tally, reading.totals
        tally.units, tally.used, tally.refused, tally.repeated = (
            totals.units,
            totals.used,
            totals.refused,
            totals.duplicate,
        )
        names = [self._clean(PurePath(one.name).name) for one in reading.found]
        tally.redactions.update(self._redaction.counts)
        listed = ingests.packed(self._traces)
        formats = [one.source for one in reading.found]
        read = reading_id(formats, self._redaction)
        return ImportCompleted(
            project=self._project,
            outcome=self._outcome(reading, read, listed),
            source=reading.digest,
            reading=read,
            inputs=tuple(
                InputRead(
                    name=blobs.put(name),
                    format=one.source or NO_FORMAT,
                    why=blobs.put(one.why),
                    digest=one.digest,
                    size=one.size,
                )
                for one, name in zip(reading.found, names, strict=True)
            ),
            units=tally.units,
            used=tally.used,
            excluded=tally.excluded,
            refused=tally.refused,
            repeated=tally.repeated,
            traces=blobs.put(listed, "application/x-digests"),
            findings=blobs.put("[]", "application/json"),
            detectors=self._redaction.names,
            redactions=tuple(
                Taken(detector=detector, count=count) for detector, count in sorted(tally.redactions.items())
            ),
        )

    def _outcome(self, reading: Readable, read: str, listed: bytes) -> str:
        """Return the digest of what the input gave. Places are in this input alone, so they come with its name."""
        formats = sorted({one.source for one in reading.found})
        hashed = blake3(canonical.encode([VERSION, formats, reading.totals.units, reading.totals.used]))
        hashed.update(listed)
        if self._exclusions:
            hashed.update(reading.digest.encode())
            hashed.update(read.encode())
        return digests.named(hashed.digest())
