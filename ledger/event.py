"""Events: the base of every fact, and the registry from kind to type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform

import msgspec

from ledger import digests

KINDS: dict[str, type[Event]] = {}
OLDER: dict[str, type[Older]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every value that is part of an event's body."""


class BlobRef(Fact):
    """Recorded text or bytes by digest, so that content can be erased while its proof stays."""

    blob: str
    size: int
    media: str


class Event(Fact):
    """One fact. Subclasses are decorated with :func:`event` and name their stream; answers also name their key."""

    kind: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]  # the kind, and older versions of it that are read as this type, newest first

    @property
    def stream(self) -> str:
        """The subject's stream, such as ``project:terminal-tasks``."""
        raise NotImplementedError

    @property
    def key(self) -> str | None:
        """What may be recorded once: unique together with the kind. None when repeats are allowed."""
        return None


E = TypeVar("E", bound=type[Event])


def event(kind: str) -> Callable[[E], E]:
    """Register an event type under its released kind, past tense with schema version: ``judgment-recorded@1``."""

    def register(cls: E) -> E:
        if kind in KINDS:
            message = f"kind {kind} is taken"
            raise TypeError(message)
        cls.kind = kind
        cls.kinds = (kind,)
        KINDS[kind] = cls
        return cls

    return register


class Older(Fact):
    """The shape of a released kind that has a newer version: what was recorded so is read as the newer type."""

    def upcast(self) -> Event:
        """Return the same fact as the newest version says it: pure, and as total as reading."""
        raise NotImplementedError


O = TypeVar("O", bound=type[Older])  # noqa: E741 - as E above


def older(kind: str, newest: type[Event]) -> Callable[[O], O]:
    """Register the shape of an older version, ``judgment-recorded@1``, of a kind that is recorded as ``newest`` now.

    Give older versions from the newest to the oldest.
    """

    def register(cls: O) -> O:
        name, _, version = kind.partition("@")
        base, _, known = newest.kinds[-1].partition("@")
        if kind in KINDS or kind in OLDER or name != base or int(version) >= int(known):
            message = f"kind {kind} is no older version of {newest.kind}"
            raise TypeError(message)
        newest.kinds = (*newest.kinds, kind)
        OLDER[kind] = cls
        return cls

    return register


def versions_of(kind: str) -> tuple[str, ...]:
    """Return the kind and the older versions that are read as it, newest first."""
    known = KINDS.get(kind)
    return known.kinds if known is not None else (kind,)


class Blobs:
    """Collects the contents that travel with the events naming them."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, content: str | bytes, media: str = "text/plain") -> BlobRef:
        """Hold content for the commit and return its reference. Text must be valid Unicode (no lone surrogates)."""
        data = content.encode() if isinstance(content, str) else content
        digest = digests.content_digest(data)
        self.contents[digest] = data
        return BlobRef(blob=digest, size=len(data), media=media)


class Found(Protocol):
    """What the writer found under the keys that a command asked to be looked up."""

    def __call__(self, kind: str, key: str) -> Event | None: ...


class Command(Fact):
    """An intention, imperative: ``FreezePolicy``. Facts only, so that deciding is pure."""

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """(kind, key) pairs the writer looks up, under the lock, before deciding."""
        return ()


class Family(msgspec.Struct, frozen=True):
    """One subject. ``decide(command, state, found)`` may raise a Refusal; ``evolve(state, event)`` never refuses.

    ``version`` is that of the fold: it goes up whenever the same events fold to another state, so that no snapshot of
    the earlier fold is used.
    """

    name: str
    kinds: tuple[type[Event], ...]
    initial: Callable[[], Any]
    decide: Callable[[Any, Any, Found], tuple[Event, ...]]
    evolve: Callable[[Any, Any], Any]
    version: int = 1


class Step(msgspec.Struct, frozen=True):
    """A command for its family; steps submitted together are recorded together or not at all."""

    family: Family
    command: Command


States = Mapping[str, Any]
Steps = Iterable[Step]
