"""Telling: an event on one line, an event in full, and the contents that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from commands.naming import facts
from commands.render.plain import one_line
from ledger import digests
from ledger.errors import Refusal
from ledger.families.contents import ContentErased
from ledger.recorded import references

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.recorded import Recorded

SHORT = 8
FACTS = 6
LONGEST_FACT = 48
EXCERPT = 240
_START = datetime(1970, 1, 1, tzinfo=UTC)
_DIGEST = re.compile(r"b3:[0-9a-f]{64}")
_ARTIFACT = re.compile(r"([a-z-]+-[0-9a-f]{8})[0-9a-f]{24}")


def moment(at: int) -> str:
    """Return a recorded time in words: UTC, microseconds."""
    return f"{(_START + timedelta(microseconds=at)).strftime('%Y-%m-%dT%H:%M:%S.%f')}Z"


def microseconds(time: datetime) -> int:
    """Return a time as events record it; one without a zone is UTC."""
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (zoned - _START) // timedelta(microseconds=1)


def short(digest: str) -> str:
    """Return the digits of a digest that are enough in most journals."""
    return digest.removeprefix(digests.PREFIX)[:SHORT]


def line(record: Recorded) -> str:
    """Return an event on one line: position, id, time, kind, stream, and a few of its facts."""
    said = " ".join(f"{name}={_brief(value)}" for name, value in _few(record))
    where = one_line(_shortened(record.stream))
    at = moment(record.at)[:-8] + "Z"
    return f"{record.seq:>6} {short(digests.named(record.id))} {at} {one_line(record.kind)} {where} {said}".rstrip()


def _few(record: Recorded) -> list[tuple[str, Any]]:
    """Return the facts that say most on one line: those that aren't told by the stream already."""
    told = [
        (name, value)
        for name, value in facts(record).items()
        if (isinstance(value, str | int) or is_reference(value)) and not _told(value, record.stream)
    ]
    return told[:FACTS]


def _told(value: object, stream: str) -> bool:
    return value == "" or (isinstance(value, str) and len(value) >= SHORT // 2 and value in stream)


def is_reference(value: object) -> bool:
    """Tell whether a fact names a content."""
    return isinstance(value, dict) and value.keys() == {"blob", "size", "media"}


def _brief(value: Any) -> str:  # noqa: ANN401 - a fact of any kind
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return f"{short(value['blob'])}({value['size']} bytes)"
    text = one_line(_shortened(str(value)))
    text = text if len(text) <= LONGEST_FACT else f"{text[: LONGEST_FACT - 3]}..."
    return f"'{text}'" if " " in text else text


def _shortened(text: str) -> str:
    return _ARTIFACT.sub(r"\1", _DIGEST.sub(lambda found: short(found[0]), text))


def envelope(record: Recorded) -> dict[str, Any]:
    """Return an event with its place and everything in its bytes."""
    return {
        "seq": record.seq,
        "id": digests.named(record.id),
        "kind": record.kind,
        "at": moment(record.at),
        "actor": record.actor,
        "stream": record.stream,
        "version": record.version,
        "key": record.key,
        "cause": record.cause,
        "origin": record.origin,
        "body": facts(record),
    }


def contents(journal: Journal, record: Recorded) -> list[dict[str, Any]]:
    """Return the contents that an event names, by pointer: where each is in the body, and what is there of it."""
    return [
        {"at": pointer, **content(journal, value["blob"]), "media": value["media"]}
        for pointer, value in _pointed(facts(record), "")
    ]


def content(journal: Journal, digest: str) -> dict[str, Any]:
    """Return what is there of a content: its beginning as a text, or why there is none."""
    try:
        data = journal.blob(digest)
    except Refusal as refusal:
        erased = journal.find(ContentErased, digest)
        state = refusal.name.removeprefix("content-")
        return {"digest": digest, "state": state, "erased_by": erased.seq if erased else None, "excerpt": None}
    return {"digest": digest, "state": "held", "size": len(data), "excerpt": excerpt(data)}


def excerpt(data: bytes) -> str | None:
    """Return the beginning of a text on one line; None for what is no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    flat = one_line(text)
    return flat if len(flat) <= EXCERPT else f"{flat[:EXCERPT]}..."


def _pointed(value: Any, pointer: str) -> Iterator[tuple[str, Mapping[str, Any]]]:  # noqa: ANN401 - any JSON value
    if is_reference(value):
        yield pointer, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _pointed(item, f"{pointer}/{name}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _pointed(item, f"{pointer}/{place}")


def named_contents(record: Recorded) -> list[str]:
    """Return the digests of the contents that an event names, each once, in order."""
    return list(dict.fromkeys(found.decode() for found in references(record.bytes)))
