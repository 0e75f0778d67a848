"""Verify a bundle without the program that wrote it: Python's standard library and blake3, nothing else.

Usage: python verify_bundle.py BUNDLE [CHECKPOINT]

Prints the run and the checkpoint that the bundle proves, and exits with 0, or says what is wrong and exits with 1. With
a file that holds a checkpoint which was kept, the bundle's must be the same. docs/format.md has the format.
"""

import base64
import json
import re
import sys
import zipfile
from typing import Any

from blake3 import blake3

MEMBERS = {"manifest.json", "events.jsonl", "proof.json", "verify_bundle.py", "verify_ledger.py"}


def verify(path: str) -> dict[str, Any]:
    """Return the bundle's manifest; AssertionError says what is wrong."""
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    contents = {name[9:] for name in names if re.fullmatch("contents/[0-9a-f]{64}", name)}
    assert len(names) == len(set(names)), "a member is there twice"
    assert all(name in MEMBERS or name[9:] in contents for name in names), "a member has no place in a bundle"
    assert all(info.compress_type == 0 for info in archive.infolist()), "a member is compressed"
    manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
    assert manifest["format"] == "exp-bundle/1", "the format is another"
    proof = archive.read("proof.json")
    assert "b3:" + blake3(proof).hexdigest() == manifest["proof"], "the proof is another"
    proof = json.loads(proof)
    leaves: list[bytes] = []
    named: set[str] = set()
    erased: set[str] = set()
    published: list[list[str]] = []
    with archive.open("events.jsonl") as lines:
        for line in lines:
            event = json.loads(line)
            leaves.append(blake3(b"\x00" + line.removesuffix(b"\n")).digest())
            named.update(found.decode() for found in re.findall(rb'"blob":"b3:([0-9a-f]{64})"', line))
            if event["kind"] == "content-erased@1":
                erased.add(event["key"][3:])
            if event["kind"] == "report-published@1":
                published.append([event["body"][name] for name in ("run", "project", "policy", "report")])
    assert len(leaves) == manifest["events"] == len(proof["positions"]), "events are missing or too many"
    assert [manifest[name] for name in ("run", "project", "policy", "report")] in published, "it lacks its own run"
    _, size, root = manifest["checkpoint"].split("\n")[:3]
    nodes = [bytes.fromhex(node) for node in proof["nodes"]]
    assert root_of(int(size), proof["positions"], leaves, nodes) == base64.b64decode(root), "the proof doesn't hold"
    assert named - erased <= contents, "a content is missing"
    assert contents <= named and len(contents) == manifest["contents"], "a content is too many"
    for name in contents:
        assert blake3(archive.read("contents/" + name)).hexdigest() == name, f"the content {name} was changed"
    return manifest


def root_of(size: int, positions: list[int], leaves: list[bytes], nodes: list[bytes]) -> bytes:
    """Return the root that leaves at rising positions (1, 2, ...) and the hashes beside them give."""
    assert all(one < other for one, other in zip([0, *positions], [*positions, size + 1])), "positions don't rise"
    known, beside = dict(zip(positions, leaves)), iter(nodes)

    def root(low: int, high: int, inside: list[int]) -> bytes:
        if not inside:
            return next(beside)
        if high - low == 1:
            return known[high]
        middle = low + (1 << (high - low - 1).bit_length() - 1)
        left = root(low, middle, [place for place in inside if place <= middle])
        right = root(middle, high, [place for place in inside if place > middle])
        return bytes(blake3(b"\x01" + left + right).digest())

    made = root(0, size, positions)
    assert next(beside, None) is None, "the proof has too many hashes"
    return made


def main() -> int:
    """Verify what the command line names."""
    try:
        manifest = verify(sys.argv[1])
        if sys.argv[2:]:
            with open(sys.argv[2], encoding="utf-8") as kept:
                assert kept.read().split("\n")[:3] == manifest["checkpoint"].split("\n")[:3], "the checkpoint differs"
    except Exception as wrong:
        print(f"{sys.argv[1]}: {type(wrong).__name__}: {wrong}", file=sys.stderr)
        return 1
    print(manifest["run"])
    print(manifest["checkpoint"], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
