"""The form of an archive: what stands between members is what the standard library writes, for the largest too."""

from __future__ import annotations

import io
import zipfile

import pytest

from commands.bundles import form


def made(names: list[str], content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(form.member(name), content)
    return file.getvalue()


def formed(stored: bytes) -> bytes:
    """Return an archive's bytes, of which only its members' contents were taken."""
    result = bytearray()
    members = []
    archive = zipfile.ZipFile(io.BytesIO(stored))
    for read in archive.infolist():
        before, info = form.header(read)
        info.header_offset = len(result)
        members.append(info)
        result += before + archive.read(read)
    return bytes(result) + form.end(members, len(result))


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 0), (3, 1_000), (65_535, 0), (65_536, 0)])
def test_few_and_many_members_are_listed_as_the_standard_library_lists_them(count: int, size: int) -> None:
    stored = made([f"contents/{number}" for number in range(count)], bytes(size))
    assert formed(stored) == stored


@pytest.mark.parametrize("limit", [100, 900, 1_000, 1_100, 3_000, 5_000])
def test_what_is_too_large_for_31_bits_is_listed_as_the_standard_library_lists_it(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is set lower, so that a small archive passes it."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    monkeypatch.setattr(form, "ZIP64_LIMIT", limit)
    stored = made(["a", "b", "c"], bytes(980))
    assert formed(stored) == stored
