"""The form: all bytes of an archive beside what its members hold, which follow from names, sizes and checksums alone.

An archive that is read must have exactly these, so there is no place in it for anything else.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from zipfile import ZIP64_LIMIT, ZIP_FILECOUNT_LIMIT, ZipInfo

DATE = (1980, 1, 1, 0, 0, 0)
UNIX = 3
MODE = 0o100600 << 16
DOS_DATE = 1 << 5 | 1  # what 1980-01-01 is there
WIDE_VERSION = 45
MOST_16, MOST_32 = 0xFFFF, 0xFFFFFFFF
ROOM = 1.05  # with so much more a member's sizes would be too great for 31 bits


def member(name: str) -> ZipInfo:
    """Return a member that is to be written."""
    info = ZipInfo(name, DATE)
    info.create_system, info.external_attr = UNIX, MODE
    return info


def header(read: ZipInfo) -> tuple[bytes, ZipInfo]:
    """Return what stands before a member that was read, and the member as it must be listed at the end."""
    info = member(read.filename)
    info.CRC, info.file_size, info.compress_size = read.CRC, read.file_size, read.file_size
    return info.FileHeader(zip64=info.file_size * ROOM > ZIP64_LIMIT), info


def end(members: Iterable[ZipInfo], start: int) -> bytes:
    """Return what stands after the last member: the list of members, and where that is."""
    listed = [_listed(info) for info in members]
    count, size = len(listed), sum(map(len, listed))
    wide = b""
    if count > ZIP_FILECOUNT_LIMIT or max(start, size) > ZIP64_LIMIT:
        wide = struct.pack(
            "<4sQ2H2L4Q", b"PK\x06\x06", 44, WIDE_VERSION, WIDE_VERSION, 0, 0, count, count, size, start
        ) + struct.pack("<4sLQL", b"PK\x06\x07", 0, start + size, 1)
    count = min(count, MOST_16)
    last = (0, 0, count, count, min(size, MOST_32), min(start, MOST_32), 0)
    return b"".join(listed) + wide + struct.pack("<4s4H2LH", b"PK\x05\x06", *last)


def _listed(info: ZipInfo) -> bytes:
    size, place, wide = info.file_size, info.header_offset, []
    if size > ZIP64_LIMIT:
        wide += [size, size]
        size = MOST_32
    if place > ZIP64_LIMIT:
        wide.append(place)
        place = MOST_32
    extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    version = WIDE_VERSION if wide else info.extract_version
    made_by = max(version, info.create_version)
    name = info.filename.encode("ascii")
    facts = (b"PK\x01\x02", made_by, UNIX, version, 0, 0, zipfile.ZIP_STORED, 0, DOS_DATE, info.CRC, size, size)
    return struct.pack("<4s4B4H3L5H2L", *facts, len(name), len(extra), 0, 0, 0, MODE, place) + name + extra
