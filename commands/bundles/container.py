"""The container: an uncompressed ZIP archive whose bytes follow from what is in it, and nothing else."""

from __future__ import annotations

import errno
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Literal

import msgspec

from commands.bundles import form
from commands.whole_file import FileUnwritable, fresh
from ledger import digests
from ledger.errors import Refusal
from ledger.event import Fact

MANIFEST, EVENTS, PROOF = "manifest.json", "events.jsonl", "proof.json"
CONTENTS = "contents/"
VERIFIERS = ("verify_bundle.py", "verify_ledger.py")
MOST_MANIFEST = 1 << 20
MOST_EVENT = 4 << 20
MOST_CONTENT = 256 << 20
LONGEST_WORD = 200
_CONTENT = re.compile(r"contents/[0-9a-f]{64}")


class BundleRefused(Refusal, name="bundle-refused", exit_code=241):
    """A bundle isn't what it should be; nothing of it was brought in."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the bundle doesn't verify: {problem}; nothing was brought in",
            where=str(path),
            remedy="get the bundle again from where it was exported; `exp export` makes the same bytes again",
        )
        self.problem = problem


class Manifest(Fact):
    """What a bundle says of itself. ``checkpoint`` is of the journal that the run was in, up to the run's end."""

    checkpoint: str
    contents: int
    events: int
    format: Literal["exp-bundle/1"]
    policy: str
    project: str
    proof: str
    report: str
    run: str


class Writing:
    """An archive that is being written: members one after another, each as it is, and the file whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made = ExitStack()
        try:
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, "it is there already")
            self._fresh = self._made.enter_context(fresh(path))
        except OSError as error:
            raise FileUnwritable(path, error.strerror or str(error)) from error
        self._file = self._fresh.open("w+b")
        self._archive = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)

    def add(self, name: str, content: bytes) -> None:
        """Add a member."""
        self._archive.writestr(form.member(name), content)

    def finish(self) -> None:
        """Put the file in its place."""
        self._archive.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        with self._made:
            os.link(self._fresh, self.path)  # fails when somebody made the file meanwhile

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._made.close()


def packed(path: Path, members: Mapping[str, bytes], contents: Iterator[tuple[str, bytes]]) -> None:
    """Write an archive of members in this order, then contents by digest."""
    writing = Writing(path)
    try:
        for name, content in members.items():
            writing.add(name, content)
        for digest, content in contents:
            writing.add(CONTENTS + digest.removeprefix(digests.PREFIX), content)
        writing.finish()
    except OSError as error:
        writing.abandon()
        raise FileUnwritable(path, error.strerror or str(error)) from error
    except BaseException:
        writing.abandon()
        raise


class Opened:
    """A bundle that is being read: only members that a bundle may have, none compressed, none larger than the file."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(file)
            infos = self._archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, OverflowError) as error:
            raise BundleRefused(path, f"it is no archive that can be read ({error})") from error
        self._members = self._looked_at(infos, os.fstat(file.fileno()).st_size)
        self._hold_form(file)

    def _looked_at(self, infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            name = info.filename
            if name in members:
                raise self.refused(f"{name[:LONGEST_WORD]!r} is in it twice")
            if name not in {MANIFEST, EVENTS, PROOF, *VERIFIERS} and not _CONTENT.fullmatch(name):
                raise self.refused(f"{name[:LONGEST_WORD]!r} has no place in a bundle")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
                raise self.refused(f"{name} is compressed or encrypted")
            members[name] = info
        if sum(info.file_size for info in infos) > size:
            raise self.refused("its members are larger than the file")
        for name in (MANIFEST, EVENTS, PROOF):
            if name not in members:
                raise self.refused(f"it has no {name}")
        return members

    def _hold_form(self, file: IO[bytes]) -> None:
        """Refuse an archive that isn't, byte for byte, the one that `packed` makes of these members."""
        names = [info.filename for info in self._archive.infolist()]
        if names != [name for name in (MANIFEST, EVENTS, PROOF, *VERIFIERS) if name in self._members] + sorted(
            name for name in names if name.startswith(CONTENTS)
        ):
            raise self.refused("its members aren't in order")
        place, members = 0, []
        for read in self._archive.infolist():
            before, info = form.header(read)
            info.header_offset = place
            file.seek(place)
            if read.header_offset != place or file.read(len(before)) != before:
                raise self.refused(f"{read.filename} doesn't begin as it should, or where it should")
            place += len(before) + read.file_size
            members.append(info)
        file.seek(place)
        if file.read() != form.end(members, place):
            raise self.refused("its members have other dates, modes or notes, or there is more in it than they")

    def refused(self, problem: str) -> BundleRefused:
        """Return the refusal of this bundle."""
        return BundleRefused(self.path, problem)

    @property
    def contents(self) -> set[str]:
        """The digests of the contents that it has."""
        return {digests.PREFIX + name.removeprefix(CONTENTS) for name in self._members if name.startswith(CONTENTS)}

    def read(self, name: str, most: int) -> bytes:
        """Return a member whole; BundleRefused when it is larger than so many bytes, or damaged."""
        info = self._members[name]
        if info.file_size > most:
            raise self.refused(f"{name} has {info.file_size:,} bytes, and at most {most:,} are read")
        try:
            return self._archive.read(info)
        except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError) as error:
            raise self.refused(f"{name} can't be read ({error})") from error

    def content(self, digest: str) -> bytes:
        """Return a content that is what its digest says."""
        found = self.read(CONTENTS + digest.removeprefix(digests.PREFIX), MOST_CONTENT)
        if digests.content_digest(found) != digest:
            raise self.refused(f"the content {digest} isn't what its digest says")
        return found

    def events(self) -> Iterator[bytes]:
        """Yield the events' bytes, in order."""
        try:
            with self._archive.open(self._members[EVENTS]) as lines:
                while line := lines.readline(MOST_EVENT):
                    if not line.endswith(b"\n"):
                        raise self.refused("a line of its events has no end, or too many bytes")
                    yield line[:-1]
        except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError) as error:
            raise self.refused(f"{EVENTS} can't be read ({error})") from error

    def manifest(self) -> tuple[Manifest, bytes]:
        """Return what the bundle says of itself, and the bytes that say it."""
        stored = self.read(MANIFEST, MOST_MANIFEST)
        try:
            return msgspec.json.decode(stored, type=Manifest), stored
        except msgspec.MsgspecError as error:
            raise self.refused(f"its manifest can't be read ({error})") from error
