"""Reading inputs: files of any size, plain or compressed, to traces and to what is in none, in bounded memory."""

from __future__ import annotations

import errno
import gc
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import msgspec
from blake3 import blake3

from commands.ingesting.spool import Spool
from commands.regular_file import open_regular
from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.families.traces import Exclusion, Trace
from projections.normal_form import lines
from projections.normal_form.export import Account, Made, Totals, rows, trace_of
from projections.normal_form.lines import Cleaner, Documents, Redact
from projections.normal_form.sources import Source, detect, source

if TYPE_CHECKING:
    from projections.normal_form.lines import Document

AUTO = "auto"
STANDARD_INPUT = "-"
BUFFER_BYTES = 1 << 20
PACKED_BYTES = 1 << 10  # of zstd that are unpacked at once: what they become is at most 32 MB
WINDOW_BYTES = 128 << 20  # of zstd's memory; its own greatest level asks for as much
FREE_BYTES = 64 << 20  # what compressed input may become whatever its size
MOST_EXPANSION = 200  # times its size, beyond that; exports come to 10 to 60
MOST_LAYERS = 2
DETECTED_BY = 50  # documents
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
ZIP = b"PK\x03\x04"
TAR, TAR_AT = b"ustar", 257
WIDE = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff", b"\0\0\0{", b"\0\0\0[", b"{\0", b"[\0", b"\0{", b"\0[")
HEAD_BYTES = 4096
FEW_EMPTY = 64  # lines; beyond that they aren't looked at one by one
SELDOM = (50_000, 20, 50)  # of Python's collector
HASHED_BYTES = 1 << 18  # of lines at once
LEDGER = "ledger.db"


class ExportUnreadable(Refusal, name="export-unreadable", exit_code=41):
    """An input can't be read to its end."""

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(
            f"the export can't be read: {problem}; nothing was recorded",
            where=str(path) or "an empty path",
            remedy="give the path of a readable file of traces, plain or compressed with gzip or zstd",
        )


class InputExpands(Refusal, name="input-expands", exit_code=94):
    """A compressed input becomes far more than exports do: it is made to exhaust who reads it."""

    def __init__(self, path: str, read: int, produced: int) -> None:
        super().__init__(
            f"{read:,} compressed bytes became more than {produced:,}; nothing was recorded",
            where=path,
            remedy="if it really is an export, unpack it and give the plain file",
        )


class InputIsALedger(Refusal, name="input-is-a-ledger", exit_code=98):
    """A journal was named where traces were expected: merely opening it would drop the locks on it."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "the input is a ledger, and no export of traces; nothing was read",
            where=str(path),
            remedy=f"run `exp ingest export --root {path.parent}` and import what that writes",
        )


class Input(msgspec.Struct, frozen=True):
    """Something to read: its name in places and refusals, how it is opened, and its size where that is known."""

    name: str
    open: Callable[[], IO[bytes]]
    size: int | None = None


class Found(msgspec.Struct):
    """What an input turned out to be. ``digest`` is of its plain bytes: the same whether it was compressed or not."""

    name: str
    source: str = ""
    why: str = ""
    digest: str = ""
    size: int = 0


def inputs(
    paths: Iterable[str | Path], skipped: Callable[[Path, str], None] = lambda _path, _reason: None
) -> list[Input]:
    """Return what the paths name, each file once: files, those below directories in order of names, standard input.

    A link that is named is followed. Below a directory, links to what is outside of it, files that aren't regular,
    ledgers and names that begin with a dot are ``skipped``, with the reason. InputIsALedger for one that is named.
    """
    found: dict[str, Input] = {}
    for path in paths:
        if str(path) == STANDARD_INPUT:
            found.setdefault("", Input("standard input", _standard_input))
        elif os.path.isdir(path):  # noqa: PTH112 - a path with a NUL is no directory, and no error yet
            for one in _below(Path(path), skipped):
                found.setdefault(os.path.realpath(one), _file(one, str(one.relative_to(path))))
        else:
            real = os.path.realpath(path) if "\0" not in str(path) else str(path)
            if Path(real).name.startswith(LEDGER):
                raise InputIsALedger(Path(path))
            found.setdefault(real, _file(Path(path), str(path)))
    return list(found.values())


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    return sys.stdin.buffer


def _file(path: Path, name: str) -> Input:
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        size = None
    return Input(name, lambda: open_regular(path), size)


def _below(folder: Path, skipped: Callable[[Path, str], None]) -> Iterator[Path]:
    whole = folder.resolve()
    for place, folders, names in os.walk(folder):
        if LEDGER in names:
            skipped(Path(place), "it is a ledger")
            folders.clear()
            continue
        folders.sort()
        for name in [*folders]:
            if name.startswith(".") or Path(place, name).is_symlink():
                folders.remove(name)
                skipped(Path(place, name), "it is hidden" if name.startswith(".") else "it is a link to a directory")
        for name in sorted(names):
            path = Path(place, name)
            if reason := _unfit(path, whole):
                skipped(path, reason)
            else:
                yield path


def _unfit(path: Path, whole: Path) -> str:
    """Return why something below a directory isn't read; nothing for a file that is."""
    if path.name.startswith("."):
        return "it is hidden"
    try:
        if not path.resolve().is_relative_to(whole):
            return "it is a link to what is outside"
        return "" if path.is_file() and stat.S_ISREG(path.stat().st_mode) else "it is no regular file"
    except (OSError, RuntimeError):
        return "it can't be looked at"


class _Counted(io.RawIOBase):
    """What an input gives, counted and told to whoever shows progress."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], None]) -> None:
        self._file = file
        self._progress = progress
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # narrower than the base's
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        self.count += len(piece)
        self._progress(len(piece))
        return len(piece)


class _Unpacked(io.RawIOBase):
    """What a compressed input becomes; InputExpands when that is far more than it can be."""

    def __init__(self, file: IO[bytes], name: str, packed: _Counted) -> None:
        self._file = file
        self._name = name
        self._packed = packed
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # narrower than the base's
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        self._count += len(piece)
        if self._count > FREE_BYTES and self._count > MOST_EXPANSION * self._packed.count:
            raise InputExpands(self._name, self._packed.count, self._count)
        return len(piece)


class Reading:
    """Inputs, read once: iterate over what they hold, then look at ``totals`` and ``found``.

    Each trace comes once, each exclusion where it is met; the order follows from the traces' names and not from the
    order of lines. Rows of one trace belong together whichever input they are in. Until a refusal, and until the
    iteration has ended, nothing is known to be whole: whoever records what comes has to say at the end that it counts.
    """

    def __init__(
        self,
        given: Sequence[Input],
        redact: Redact,
        *,
        source_name: str = AUTO,
        scratch: Path | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._inputs = given
        self._wanted = source_name
        self._progress = progress
        self._cleaner = Cleaner(redact)
        self._account = Account()
        self._spool = Spool(scratch)
        self._sources: list[Source] = []
        self.found: list[Found] = []

    @property
    def totals(self) -> Totals:
        """What became of every unit, complete at the end of the iteration."""
        self._account.totals.redactions = self._cleaner.redactions
        return self._account.totals

    @property
    def digest(self) -> str:
        """The digest of all that was read: an input's own when there is one, else of theirs in any order."""
        listed = sorted(one.digest for one in self.found)
        return listed[0] if len(listed) == 1 else digests.content_digest(canonical.digest_input("inputs", listed))

    def __iter__(self) -> Iterator[Trace | Exclusion]:
        """Read everything, then yield what it holds. A refusal leaves nothing behind."""
        for one in self.made():
            if isinstance(one, Exclusion):
                yield one
            elif one.trace is not None:
                yield one.trace

    def made(self) -> Iterator[Made | Exclusion]:
        """Read everything, then yield what it holds, each trace with the places of its rows."""
        with _seldom_collected():
            try:
                for one in self._inputs:
                    yield from self._account.exclusions(self._rows(one))
                for number, name, given in self._spool.groups():
                    made = trace_of(name, given, self._sources[number], self._cleaner)
                    self._account.trace(len(given), made)
                    if made.exclusions:
                        yield from self._account.exclusions(made.exclusions)
                    yield made
                yield from self._account.rest()
            finally:
                self._spool.close()

    def _rows(self, given: Input) -> Iterator[Exclusion]:
        """Keep the rows of an input; yield what of it can't be read."""
        found = Found(given.name)
        self.found.append(found)
        prefix = f"{given.name}: " if len(self._inputs) > 1 else ""
        with _opened(given, self._progress) as file:
            stream = _Hashed(file)
            documents, found.source, found.why = self._documents(stream, given.name)
            if found.source:
                number = self._number(found.source)
                totals, keep = self._account.totals, self._spool.add
                for one in rows(documents, self._sources[number]):
                    if isinstance(one, Exclusion):
                        totals.units += one.units
                        yield msgspec.structs.replace(one, place=prefix + one.place) if prefix else one
                        continue
                    totals.units += 1
                    keep(number, msgspec.structs.replace(one, place=prefix + one.place) if prefix else one)
            else:
                yield from self._unreadable(documents)
            found.digest, found.size = stream.whole

    def _unreadable(self, documents: Iterable[Document | Exclusion]) -> Iterator[Exclusion]:
        """Yield what an input holds that has nothing that can be read."""
        for one in documents:
            if isinstance(one, Exclusion):
                self._account.totals.units += one.units
                yield one

    def _number(self, name: str) -> int:
        for number, known in enumerate(self._sources):
            if known.name == name:
                return number
        self._sources.append(source(name))
        return len(self._sources) - 1

    def _documents(self, stream: _Hashed, name: str) -> tuple[Iterator[Document | Exclusion], str, str]:
        """Return an input's documents, their source, and why it is that one; no source for an empty input."""
        from projections.normal_form.protobuf import is_protobuf  # noqa: PLC0415 - beside its only caller

        if is_protobuf(stream.head):
            from projections.normal_form.protobuf import documents as of_protobuf  # noqa: PLC0415 - few inputs need it

            return iter(of_protobuf(stream, self._cleaner)), self._known("otlp"), "it is OTLP protobuf"
        documents = iter(Documents(stream.lines(), self._cleaner))
        if self._wanted != AUTO:
            return documents, self._wanted, "it was named"
        first = list(islice(documents, DETECTED_BY))
        values = [one[1] for one in first if not isinstance(one, Exclusion)]
        found, why = detect(values, name) if values else ("", "")
        return chain(first, documents), found, why

    def _known(self, name: str) -> str:
        return name if self._wanted == AUTO else self._wanted


class _Hashed:
    """A plain stream, hashed as it is read."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._hash = blake3()
        self._lines: list[bytes] = []  # that were given, and aren't hashed yet
        self._size = 0

    @property
    def head(self) -> bytes:
        """What the stream begins with."""
        return self._file.peek(HEAD_BYTES)[:HEAD_BYTES]

    @property
    def whole(self) -> tuple[str, int]:
        """The digest of what was read, and its size."""
        self._hash_lines()
        return digests.named(self._hash.digest()), self._size

    def read(self, size: int) -> bytes:
        """Return that many bytes, fewer only at the end."""
        piece = self._file.read(size)
        self._hash.update(piece)
        self._size += len(piece)
        return piece

    def lines(self) -> Iterator[bytes]:
        """Yield lines, a longer one in pieces, and after some empty ones all that follow as one."""
        held = empty = 0
        for line in iter(partial(self._file.readline, lines.LINE_BYTES), b""):
            self._lines.append(line)
            held += len(line)
            if held >= HASHED_BYTES:
                self._hash_lines()
                held = 0
            yield line
            empty = empty + 1 if line == b"\n" else 0
            if empty == FEW_EMPTY:
                empty = 0
                yield from self._empty_lines()

    def _empty_lines(self) -> Iterator[bytes]:
        while run := len(head := self._file.peek()) - len(head.lstrip(b"\n")):
            self._lines.append(self._file.read(run))
            self._hash_lines()
            yield head[:run]

    def _hash_lines(self) -> None:
        piece = b"".join(self._lines)
        self._lines.clear()
        self._hash.update(piece)
        self._size += len(piece)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for cycles seldom: values of JSON have none, and looking for them takes longer than reading them."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _opened(given: Input, progress: Callable[[int], None]) -> Iterator[io.BufferedReader]:
    """Open an input as plain bytes, whatever it is compressed with; what stands in the way is refused by name."""
    try:
        with given.open() as raw:
            counted = _Counted(raw, progress)
            yield _unpacked(io.BufferedReader(counted, BUFFER_BYTES), counted, given.name)
    except OSError as error:
        raise ExportUnreadable(given.name, error.strerror or str(error)) from error
    except (EOFError, zlib.error) as error:
        raise ExportUnreadable(given.name, f"its compression is broken ({error})") from error


def _unpacked(file: io.BufferedReader, counted: _Counted, name: str) -> io.BufferedReader:
    for _ in range(MOST_LAYERS):
        head = file.peek(len(ZSTD))
        if head.startswith(GZIP):
            inner = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
        elif head.startswith(ZSTD):
            inner = cast("IO[bytes]", _Frames(file))
        else:
            break
        file = io.BufferedReader(_Unpacked(inner, name, counted), BUFFER_BYTES)
    head = file.peek(len(ZSTD))
    if head.startswith((GZIP, ZSTD)):
        raise ExportUnreadable(name, "it is compressed more than twice")
    if head.startswith(ZIP):
        raise ExportUnreadable(name, "it is a zip archive, and what it holds has to be unpacked first")
    if file.peek(TAR_AT + len(TAR))[TAR_AT:].startswith(TAR):
        raise ExportUnreadable(name, "it is a tar archive, and what it holds has to be unpacked first")
    if head.startswith(WIDE):
        raise ExportUnreadable(name, "it is UTF-16 or UTF-32, and has to be written as UTF-8 first")
    return file


class _Frames:
    """What a zstd stream holds, some at a time; one that is cut ends as an error and not as if it was whole."""

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard  # noqa: PLC0415 - few inputs need it

        self._zstd = zstandard
        self._file = file
        self._frame: Any = None
        self._packed = b""
        self._plain = memoryview(b"")

    def read(self, size: int) -> bytes:
        while not self._plain and self._more():
            pass
        given, self._plain = self._plain[:size], self._plain[size:]
        return bytes(given)

    def _more(self) -> bool:
        """Unpack a little more; tell whether there is any."""
        self._packed = self._packed or self._file.read(PACKED_BYTES)
        if not self._packed:
            if self._frame is not None:
                raise EOFError("it ends within a frame")
            return False
        some, self._packed = self._packed[:PACKED_BYTES], self._packed[PACKED_BYTES:]
        self._frame = self._frame or self._zstd.ZstdDecompressor(max_window_size=WINDOW_BYTES).decompressobj()
        try:
            self._plain = memoryview(self._frame.decompress(some))
        except self._zstd.ZstdError as error:
            raise EOFError(str(error)) from error
        if self._frame.eof:
            self._packed = self._frame.unused_data + self._packed
            self._frame = None
        return True
