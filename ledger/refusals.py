"""What the journal declines to do, by name: each takes the facts and says what happened, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledger.errors import Refusal

SHOWN = 20
SHOWN_OF_A_NAME = 80


def sequence(seqs: Sequence[int]) -> str:
    """Return ``event 7`` or ``events 7, 9, 12``; a long list is cut and counted."""
    if not seqs:
        return "no event"
    rest = len(seqs) - SHOWN
    shown = ", ".join(map(str, seqs[:SHOWN])) + (f" and {rest} more" if rest > 0 else "")
    return f"event{'s' if len(seqs) > 1 else ''} {shown}"


class JournalWanted(Refusal, name="journal-wanted", exit_code=30):
    """There is no journal in the root."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "there is no journal here yet; nothing was done",
            where=str(path),
            remedy="give --root of an existing project, or start one with `exp config providers`",
        )


class NotAJournal(Refusal, name="not-a-journal", exit_code=31):
    """The file is something else: ``found`` says what, such as ``an empty file`` or ``a directory``."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"expected a journal and found {found}; it was left as it is",
            where=str(path),
            remedy="restore the file from a copy, or choose another --root",
        )


class JournalTooNew(Refusal, name="journal-too-new", exit_code=32):
    """The journal was written by a later release, in a format that this one doesn't know."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"the journal has format {found} and this release reads up to format {known}; it was left as it is",
            where=str(path),
            remedy="install the release that wrote it, or a later one",
        )


class JournalTooOld(Refusal, name="journal-too-old", exit_code=104):
    """The journal has an older format than this release writes, and is never changed in place."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"the journal has format {found} and this release writes format {known}; it was left as it is",
            where=str(path),
            remedy="use the release that wrote it, or restore the file from a copy",
        )


class JournalUnwritable(Refusal, name="journal-unwritable", exit_code=33):
    """The operating system refuses to let this process write the journal."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the journal can't be written: {reason}",
            where=str(path),
            remedy="make the root writable for you, or copy it to a place that is",
        )


class NoRoom(Refusal, name="no-room", exit_code=34):
    """The disk is full; what was acknowledged before is safe."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "the disk is full, so the newest events could not be recorded; everything acknowledged before is safe",
            where=str(path),
            remedy="free some space and run the same command again",
        )


class StorageFailed(Refusal, name="storage-failed", exit_code=35):
    """Reading or writing failed, and failed again after the journal was opened anew."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the disk or file system failed: {reason}; everything acknowledged before is safe if the medium is",
            where=str(path),
            remedy="look at the machine's disks, then run `exp check --full` and the same command again",
        )


class ContentNotGiven(LookupError):
    """An event names content that neither travels with it nor is recorded: a mistake in the program."""

    def __init__(self, kind: str, digest: str) -> None:
        super().__init__(f"{kind} names the content {digest}, which was not given with it and is not recorded")


class FamilyNotOpened(LookupError):
    """A command of a family that the journal wasn't opened with: a mistake in the program."""

    def __init__(self, family: str) -> None:
        super().__init__(f"the journal was not opened with the family {family}, so its state isn't kept")


class KeyConflict(Refusal, name="key-conflict", exit_code=36):
    """The key is recorded already, with other facts."""

    def __init__(self, kind: str, key: str, seq: int) -> None:
        super().__init__(
            f"event {seq} already records {kind} under this key with other facts; nothing was recorded",
            where=f"key {key}",
            remedy="the same key must mean the same facts: use another key, or the recorded ones",
        )


class UnknownKind(Refusal, name="unknown-kind", exit_code=37):
    """An event of a kind that this release doesn't know was to be read."""

    def __init__(self, kind: str, seq: int) -> None:
        super().__init__(
            f"event {seq} is of kind {kind}, which this release doesn't know; nothing was done",
            where="ledger.db",
            remedy="use the release that wrote it, or a later one: what the event says might matter",
        )


class ContentUnusable(Refusal, name="content-unusable", exit_code=38):
    """A blob that events refer to is gone or isn't what its digest says."""

    def __init__(self, digest: str, how: str, seqs: Sequence[int]) -> None:
        super().__init__(
            f"the content {digest} is {how}; it belongs to {sequence(seqs)}",
            where="ledger.db, blobs",
            remedy="restore the root from a copy; `exp check --full` lists everything that is damaged",
        )
        self.seqs = tuple(seqs)


class JournalDamaged(Refusal, name="journal-damaged", exit_code=39):
    """An event isn't what was recorded."""

    def __init__(self, path: Path, seq: int, finding: str) -> None:
        super().__init__(
            finding,
            where=f"{path}, event {seq}",
            remedy=f"run `exp check --from {max(seq - 1, 0)}` and restore the root from a copy;"
            f" nothing from event {seq} on can be trusted",
        )
        self.seq = seq


def event_changed(path: Path, seq: int) -> JournalDamaged:
    """Return the refusal of an event whose bytes aren't those that its id was made from."""
    return JournalDamaged(path, seq, f"event {seq} is not what was recorded")


class ContentErased(Refusal, name="content-erased", exit_code=60):
    """A blob was erased on purpose, so what depends on it can't be reproduced."""

    def __init__(self, digest: str, erased_by: int, seqs: Sequence[int]) -> None:
        super().__init__(
            f"not reproducible: erased. The content {digest} was erased by event {erased_by};"
            f" it belonged to {sequence(seqs)}",
            where="ledger.db, blobs",
            remedy="nothing brings it back; the chain still proves what its digest was",
        )
        self.seqs = tuple(seqs)


class JournalClosed(Refusal, name="journal-closed", exit_code=61):
    """Something was to be recorded after the journal was closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "the journal is closed, so nothing more is recorded",
            where=str(path),
            remedy="run the same command again; it goes on from what is recorded",
        )


class JournalReplaced(Refusal, name="journal-replaced", exit_code=62):
    """The file that was opened is no longer the one at its path."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "the journal was moved, removed or replaced while it was open; nothing more was recorded",
            where=str(path),
            remedy="keep one root in one place while commands run, then run the same command again",
        )


class JournalBusy(Refusal, name="journal-busy", exit_code=63):
    """Something that doesn't take the lock beside the journal keeps it from being written."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "another program holds the journal open for writing and doesn't let go",
            where=str(path),
            remedy="close the database browser or backup program that uses ledger.db, and run the same command again",
        )


class NoSuchEvent(Refusal, name="no-such-event", exit_code=64):
    """A position beyond the end of the journal was given."""

    def __init__(self, position: int, last: int) -> None:
        super().__init__(
            f"there is no event {position}; the journal ends with event {last}",
            where="--from",
            remedy=f"give a position from 0 to {last}",
        )


class RootUnusable(Refusal, name="root-unusable", exit_code=90):
    """No journal can be kept under the name that was given for the root."""

    def __init__(self, root: Path, problem: str) -> None:
        super().__init__(
            f"the root's name can't be used: {problem}; nothing was done",
            where=f"--root {str(root)[:SHOWN_OF_A_NAME]}" + ("..." if len(str(root)) > SHOWN_OF_A_NAME else ""),
            remedy="give --root a shorter name, of characters that this locale can encode",
        )


class OriginUnknown(Refusal, name="origin-unknown", exit_code=112):
    """A name, or the beginning of one, means no origin that anything was imported of, or several."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"the journal has no origin, or more than one, that {name[:SHOWN_OF_A_NAME]!r} means",
            where=f"its origins: {', '.join(known)}",
            remedy="name one of these, or import a bundle of that origin with `exp import`",
        )


class OriginNotOurs(Refusal, name="origin-not-ours", exit_code=113):
    """Something is to be recorded in the name of another journal."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "imported events are only read; nothing was recorded",
            where=str(path),
            remedy="run the command without naming an origin",
        )


class OriginForked(Refusal, name="origin-forked", exit_code=114):
    """Two events claim the same place in the same origin: one of the two journals isn't what its origin recorded."""

    def __init__(self, path: Path, origin: str, stream: str, version: int) -> None:
        super().__init__(
            f"another event is recorded as version {version} of {stream} of origin {origin}; nothing was imported",
            where=str(path),
            remedy="find out which of the two is the origin's own: compare both with a checkpoint kept elsewhere",
        )
