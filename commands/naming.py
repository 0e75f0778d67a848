"""Naming: what a person may type to mean an event, a content or an artifact, by any unique beginning of its id."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from commands.opening import read_journal
from ledger import digests, families
from ledger.errors import Refusal
from ledger.event import KINDS, Event, Family
from ledger.families.contents import ContentErased
from ledger.families.traces import TraceImported, lineage_of
from ledger.refusals import SHOWN
from ledger.store import OWN

if TYPE_CHECKING:
    from ledger.journal import Journal
    from ledger.recorded import Recorded

LEAST_DIGITS = 4
MOST_POSITION = 15  # decimal digits; more can only be the beginning of a digest
_DIGITS = re.compile(r"[0-9a-f]{4,64}")
# Which facts of which events are names of artifacts. What is made later than an event of the same name counts.
ARTIFACTS = {
    "build-completed": ("build", "serving_rag", "fit_rag", "world_model"),
    "judge-set-up": ("setup",),
    "calibration-published": ("calibration",),
    "optimization-started": ("run",),
    "policy-frozen": ("policy",),
    "report-published": ("report",),
}
_STREAMS = ("cell:", "request:")


class IdUnknown(Refusal, name="id-unknown", exit_code=108):
    """Nothing that is recorded goes by the name that was given."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"nothing is recorded under {given!r}",
            where="the journal: events, contents, artifacts, requests and traces",
            remedy=f"give an event's number, at least {LEAST_DIGITS} digits of a digest, the beginning of an id such "
            "as policy-..., a request's id or a trace's name; `exp log` lists events",
        )


class IdAmbiguous(Refusal, name="id-ambiguous", exit_code=109):
    """The beginning of an id fits more than one thing; each is named."""

    def __init__(self, given: str, matches: Sequence[str], *, more: bool) -> None:
        super().__init__(
            f"{given!r} is the beginning of {'at least ' if more else ''}{len(matches)} ids",
            where="the journal",
            remedy="\n".join(("give more of the one that is meant:", *matches)),
        )
        self.matches = tuple(matches)


class Named(NamedTuple):
    """What a name means: an event, or a content of which ``erased`` says what removed it. ``name`` is the whole id."""

    name: str
    record: Recorded | None = None
    content: str | None = None
    erased: Recorded | None = None


def find(journal: Journal, given: str) -> Named:
    """Return what is meant; IdUnknown when nothing is, IdAmbiguous when several things could be."""
    text = given.strip()
    if text.isascii() and text.isdigit() and len(text) <= MOST_POSITION:
        record = journal.at(int(text))
        if record is not None:
            return Named(digests.named(record.id), record)
    for look in (_by_digest, _by_artifact, _by_stream, _by_trace):
        found = look(journal, text)
        if len(found) > 1:
            more = len(found) > SHOWN
            raise IdAmbiguous(given, [_described(one) for one in found[:SHOWN]], more=more)
        if found:
            return found[0]
    raise IdUnknown(given)


@contextlib.contextmanager
def located(root: Path, given: str, *families_: Family) -> Iterator[tuple[Journal, Named]]:
    """Open the root's journal and find what is meant: its own, or else what was imported from another origin.

    The journal reads the origin that it was found in, so that whatever it rests on is of the same origin.
    """
    with read_journal(root, *families_) as journal:
        try:
            named = find(journal, given)
        except IdUnknown:
            elsewhere = _elsewhere(root, given, journal)
            if elsewhere is None:
                raise
        else:
            if named.record is None or named.record.origin == OWN:
                yield journal, named
                return
            elsewhere = journal.origins()[named.record.origin]
    with read_journal(root, *families_, reading=elsewhere) as journal:
        yield journal, find(journal, given)


def _elsewhere(root: Path, given: str, journal: Journal) -> str | None:
    """Return the first other origin in which something goes by the name."""
    for number, name in journal.origins().items():
        if number == OWN:
            continue
        with read_journal(root, reading=name) as other, contextlib.suppress(IdUnknown):
            find(other, given)
            return name
    return None


def facts(record: Recorded) -> dict[str, Any]:
    """Return the facts of an event as they are written, also of a kind that this release doesn't know."""
    read: dict[str, Any] = msgspec.json.decode(record.envelope.body)
    return read


def base(kind: str) -> str:
    """Return a kind without the version of its schema."""
    return kind.partition("@")[0]


def all_kinds() -> dict[str, type[Event]]:
    """Return every kind of event that this release knows."""
    for module in pkgutil.iter_modules(families.__path__):
        importlib.import_module(f"{families.__name__}.{module.name}")
    return KINDS


def kinds_of(names: Iterable[str]) -> list[type[Event]]:
    """Return the types of kinds, of every version where none is given."""
    wanted = set(names)
    return [kind for name, kind in all_kinds().items() if name in wanted or base(name) in wanted]


def _described(named: Named) -> str:
    if named.record is not None:
        return f"{named.name} (event {named.record.seq}, {named.record.kind})"
    return f"{named.name} ({'an erased content' if named.erased else 'a content'})"


def _by_digest(journal: Journal, text: str) -> list[Named]:
    digits = text.removeprefix(digests.PREFIX)
    if not _DIGITS.fullmatch(digits):
        return []
    seqs, contents = journal.starting_with(digits, SHOWN + 1)
    records = [record for seq in seqs if (record := journal.at(seq)) is not None]
    found = [Named(digests.named(record.id), record) for record in records]
    found += [Named(content, content=content) for content in contents]
    there = set(contents)
    for record in journal.events(ContentErased):
        key = record.key or ""
        if key.startswith(digests.PREFIX + digits) and key not in there:
            found.append(Named(key, content=key, erased=record))
    return found


def artifacts(journal: Journal) -> dict[str, Recorded]:
    """Return by their ids all artifacts, each with the newest event that names it as its own."""
    found: dict[str, Recorded] = {}
    for record in journal.events(*kinds_of(ARTIFACTS)):
        body = facts(record)
        found.update((body[field], record) for field in ARTIFACTS[base(record.kind)])
    return found


def _by_artifact(journal: Journal, text: str) -> list[Named]:
    known = artifacts(journal) if text else {}
    if text in known:
        return [Named(text, known[text])]
    return [Named(name, record) for name, record in known.items() if name.startswith(text)]


def _by_stream(journal: Journal, text: str) -> list[Named]:
    found: list[Named] = []
    if not text:
        return []
    for kind in _STREAMS:
        whole = kind + text
        names = journal.streams(whole, SHOWN + 1)
        names = [whole] if whole in names else names
        found += [Named(name.removeprefix(kind), _first(journal, name)) for name in names]
    return found


def _first(journal: Journal, stream: str) -> Recorded:
    return next(iter(journal.events(stream=stream)))


def _by_trace(journal: Journal, text: str) -> list[Named]:
    """Find a trace by the name that its producer gave it, in full: names are content, only their digests are facts."""
    lineage = lineage_of(text)
    return [Named(text, record, content=body["content"]["blob"]) for record, body in _imported(journal, lineage)]


def _imported(journal: Journal, lineage: str) -> Iterator[tuple[Recorded, dict[str, Any]]]:
    for record in journal.events(TraceImported):
        body = facts(record)
        if body["lineage"] == lineage:
            yield record, body
