"""Erasing: once, with a reason, and for ever."""

from __future__ import annotations

from ledger.event import BlobRef
from ledger.families import contents
from ledger.families.contents import ContentErased, EraseContent

DIGEST = f"b3:{'1' * 64}"
WHY = BlobRef(blob=f"b3:{'2' * 64}", size=4, media="text/plain")


def test_a_content_is_erased_with_its_reasons() -> None:
    command = EraseContent(content=DIGEST, reason="asked-for", why=WHY)
    (event,) = contents.decide(command, None, lambda *_: None)
    assert event == ContentErased(content=DIGEST, reason="asked-for", why=WHY)
    assert event.key == DIGEST
    assert event.stream == f"content:{DIGEST}"


def test_a_second_time_changes_nothing_whatever_its_reason() -> None:
    first = ContentErased(content=DIGEST, reason="asked-for")
    asked: list[tuple[str, str]] = []

    def found(kind: str, key: str) -> ContentErased:
        asked.append((kind, key))
        return first

    command = EraseContent(content=DIGEST, reason="another", why=WHY)
    assert contents.decide(command, None, found) == ()
    assert tuple(asked) == command.looks_up == ((ContentErased.kind, DIGEST),)
