"""Imports: parts of other journals that were brought in as bundles."""

from __future__ import annotations

import msgspec

from ledger.event import BlobRef, Command, Event, Fact, Family, Found, event


class Counted(Fact):
    """How many events came from an origin, in the order in which they stand before the announcement."""

    origin: str
    events: int


class Carried(Fact):
    """What a bundle is about: a run, and the size and root of its journal when it ended."""

    origin: str
    run: str
    project: str
    size: int
    root: str


@event("bundle-imported@1")
class BundleImported(Event):
    """Events of another origin stand right before this one. The last part of a bundle also says what it is about.

    ``bundle`` digests the bundle's manifest, which ``manifest`` keeps together with the proof in ``proof``.
    """

    bundle: str
    origins: tuple[Counted, ...]
    carried: Carried | None = None
    manifest: BlobRef | None = None
    proof: BlobRef | None = None

    @property
    def stream(self) -> str:
        """All imports are in one stream."""
        return "imports"

    @property
    def key(self) -> str | None:
        """A bundle is brought in once; the parts before its last have no key."""
        return None if self.carried is None else self.bundle


class Imports(msgspec.Struct):
    """The bundles that were brought in whole, by their digests."""

    whole: dict[str, BundleImported] = msgspec.field(default_factory=dict)


def decide(command: Command, state: Imports, found: Found) -> tuple[Event, ...]:
    """Return nothing: an import is announced together with the events that it brings, and not otherwise."""
    del command, state, found
    return ()


def evolve(state: Imports, event: Event) -> Imports:
    """Fold one event."""
    if isinstance(event, BundleImported) and event.carried is not None:
        state.whole[event.bundle] = event
    return state


FAMILY = Family(name="imports", kinds=(BundleImported,), initial=Imports, decide=decide, evolve=evolve)
