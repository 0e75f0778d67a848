"""Contents: what was erased on purpose, and why. The event stays for ever; the writer removes the bytes with it."""

from __future__ import annotations

from ledger.event import BlobRef, Command, Event, Family, Found, event


@event("content-erased@1")
class ContentErased(Event):
    """The bytes of a blob are gone; every event that names it still proves what its digest was.

    ``reason`` is one of a program's own words; ``why`` is what the person said who asked for it.
    """

    content: str
    reason: str
    why: BlobRef | None = None

    @property
    def stream(self) -> str:
        return f"content:{self.content}"

    @property
    def key(self) -> str:
        return self.content


class EraseContent(Command):
    """Erase a content by its digest. ``reason`` is one of a program's own words, not free text."""

    content: str
    reason: str
    why: BlobRef | None = None

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        return ((ContentErased.kind, self.content),)


def decide(command: EraseContent, state: None, found: Found) -> tuple[Event, ...]:
    """Erase once: a second time, whatever its reason, changes nothing."""
    del state
    if found(ContentErased.kind, command.content) is not None:
        return ()
    return (ContentErased(content=command.content, reason=command.reason, why=command.why),)


# It keeps nothing: what was erased is looked up by its digest.
FAMILY = Family(name="contents", kinds=(), initial=lambda: None, decide=decide, evolve=lambda state, _: state)
