"""Importing: a bundle is verified whole, then its events are kept as what they are: another journal's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from commands.bundles.container import PROOF, Manifest, Opened
from commands.bundles.proving import Places, proven_root
from commands.naming import all_kinds
from commands.regular_file import open_regular
from commands.whole_file import FileUnreadable
from ledger import canonical, digests
from ledger.drafts import Foreign
from ledger.event import Blobs, Event
from ledger.families.imports import BundleImported, Carried, Counted
from ledger.legible import legible
from ledger.merkle import Checkpoint, NotACheckpoint
from ledger.recorded import ERASED_KIND, decode, references
from ledger.refusals import JournalDamaged

if TYPE_CHECKING:
    from ledger.journal import Journal

MOST_PROOF = 256 << 20
CHUNK_EVENTS = 512
CHUNK_BYTES = 8 << 20
JSON = "application/json"


class Verified(NamedTuple):
    """A bundle that is what it should be."""

    digest: str
    manifest: Manifest
    checkpoint: Checkpoint
    stored: bytes
    proof: bytes


class Imported(NamedTuple):
    """What came of a bundle: how many events were new, and of which origin they are."""

    verified: Verified
    fresh: int
    known: bool


@contextmanager
def opened(path: Path) -> Iterator[tuple[Opened, Verified]]:
    """Open a bundle that verifies; nothing is recorded or made for one that doesn't. Nothing of it is unpacked."""
    try:
        file = open_regular(path)
    except OSError as error:
        raise FileUnreadable(path, error.strerror or str(error)) from error
    with file:
        bundle = Opened(path, file)
        yield bundle, verify(bundle)


def bring_in(
    journal: Journal, bundle: Opened, verified: Verified, advance: Callable[[int], None] = lambda _: None
) -> Imported:
    """Record a bundle that was verified; what is there already is left alone. Nothing of it is run."""
    known = journal.find(BundleImported, verified.digest) is not None
    before = journal.position()[0]
    if not known:
        _record(journal, bundle, verified, advance)
        journal.refresh()
    return Imported(verified, journal.position()[0] - before, known)


def verify(bundle: Opened) -> Verified:
    """Return what a bundle is, once all of it was held against its digests; BundleRefused names what isn't."""
    manifest, stored = bundle.manifest()
    if canonical.encode(manifest) != stored:
        raise bundle.refused("its manifest isn't in canonical form")
    proof = bundle.read(PROOF, MOST_PROOF)
    if digests.content_digest(proof) != manifest.proof:
        raise bundle.refused("its proof isn't the one that the manifest names")
    try:
        places = msgspec.json.decode(proof, type=Places)
        checkpoint = Checkpoint.read(manifest.checkpoint)
        nodes = [bytes.fromhex(node) for node in places.nodes]
    except (msgspec.MsgspecError, NotACheckpoint, ValueError) as error:
        raise bundle.refused(f"its proof or its checkpoint can't be read ({error})") from error
    if canonical.encode(places) != proof:
        raise bundle.refused("its proof isn't in canonical form")
    read = _Events(bundle)
    leaves = list(read.ids())
    if len(leaves) != manifest.events:
        raise bundle.refused(f"it has {len(leaves)} events and should have {manifest.events}")
    if proven_root(checkpoint.size, places.positions, leaves, nodes) != checkpoint.root:
        raise bundle.refused("its events aren't those of the journal that its checkpoint is of")
    if not read.published(manifest):
        raise bundle.refused(f"it doesn't hold the run {manifest.run} that it is about")
    _hold(bundle, read, manifest)
    return Verified(digests.content_digest(stored), manifest, checkpoint, stored, proof)


class _Events:
    """What is remembered of a bundle's events while they are read."""

    def __init__(self, bundle: Opened) -> None:
        self.bundle = bundle
        self.kinds = all_kinds()
        self.named: set[str] = set()
        self.erased: set[str] = set()
        self.results: dict[str, tuple[str, str, str]] = {}

    def ids(self) -> Iterator[bytes]:
        """Yield each event's id, having looked at the event."""
        for number, stored in enumerate(self.bundle.events(), start=1):
            self._look_at(number, stored)
            yield digests.event_id(stored)

    def _look_at(self, number: int, stored: bytes) -> None:
        try:
            outer, named = legible(stored) or (None, [])
            if outer is None:
                raise self.bundle.refused(f"event {number} is no event in canonical form")
            event = decode(outer.kind, stored, number) if outer.kind in self.kinds else None
        except JournalDamaged as error:
            raise self.bundle.refused(f"event {number} can't be read ({error})") from error
        if event is None:
            raise self.bundle.refused(f"event {number} is of a kind that this release doesn't know: {outer.kind[:80]}")
        if (event.stream, event.key) != (outer.stream, outer.key) or outer.version < 1:
            raise self.bundle.refused(f"event {number} isn't in the stream, or under the key, that its facts give")
        self.named.update(named)
        if outer.kind == ERASED_KIND and outer.key is not None:
            self.erased.add(outer.key)
        if outer.kind == "report-published@1":
            facts = msgspec.to_builtins(event)
            self.results[facts["run"]] = (facts["project"], facts["policy"], facts["report"])

    def published(self, manifest: Manifest) -> bool:
        """Tell whether the run that the manifest names is published with the results that it names."""
        return self.results.get(manifest.run) == (manifest.project, manifest.policy, manifest.report)


def _hold(bundle: Opened, read: _Events, manifest: Manifest) -> None:
    """Refuse contents that are missing, too many or not what their digests say."""
    there = bundle.contents
    if missing := sorted(read.named - read.erased - there):
        raise bundle.refused(f"the content {missing[0]} is missing")
    if more := sorted(there - read.named):
        raise bundle.refused(f"no event names the content {more[0]}")
    if len(there) != manifest.contents:
        raise bundle.refused(f"it has {len(there)} contents and should have {manifest.contents}")
    for digest in there:
        bundle.content(digest)


def _record(journal: Journal, bundle: Opened, verified: Verified, advance: Callable[[int], None]) -> None:
    """Record the events, some at a time, and at last what they are about: until then the run isn't whole."""
    origin, digest = verified.checkpoint.origin, verified.digest

    def announce(fresh: int) -> tuple[Event, ...]:
        return (BundleImported(bundle=digest, origins=(Counted(origin=origin, events=fresh),)),) if fresh else ()

    for events, blobs in _chunks(bundle):
        journal.admit(Foreign(origin, events, announce), blobs)
        advance(len(events))
    about = Blobs()
    whole = BundleImported(
        bundle=digest,
        origins=(),
        carried=Carried(
            origin=origin,
            run=verified.manifest.run,
            project=verified.manifest.project,
            size=verified.checkpoint.size,
            root=verified.checkpoint.root.hex(),
        ),
        manifest=about.put(verified.stored, JSON),
        proof=about.put(verified.proof, JSON),
    )
    journal.admit(Foreign(origin, (), lambda _: (whole,)), about)


def _chunks(bundle: Opened) -> Iterator[tuple[list[bytes], Blobs]]:
    """Yield the events, some at a time, with their contents."""
    events: list[bytes] = []
    blobs, held, there = Blobs(), 0, bundle.contents
    for stored in bundle.events():
        for name in references(stored):
            digest = name.decode()
            if digest in there and digest not in blobs.contents:
                blobs.contents[digest] = bundle.content(digest)
                held += len(blobs.contents[digest])
        events.append(stored)
        if len(events) == CHUNK_EVENTS or held > CHUNK_BYTES:
            yield events, blobs
            events, blobs, held = [], Blobs(), 0
    if events:
        yield events, blobs
