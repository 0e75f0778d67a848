"""Bundles: a run is carried away, verified where it arrives, and used there as what it is: another journal's."""

from __future__ import annotations

import ast
import base64
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands.bundles import exporting, importing
from commands.main import run
from ledger.digests import content_digest, event_id
from ledger.families import builds
from ledger.journal import Journal
from ledger.merkle import root_of
from ledger.verify import verify
from tests.proof.forging import Forger
from tests.proof.laboratory import Facts, Laboratory, trace

HERE, THERE = "test/here", "test/there"
VERIFIER = Path(exporting.__file__).parents[2] / "tools" / "verify_bundle.py"
Members = dict[str, bytes]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("taken") / "root", origin=THERE).taken()


@pytest.fixture(scope="module")
def bundle(taken: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundle") / "run.zip"
    assert run(["export", taken.run, str(out), "--root", str(taken.root)]) == 0
    return out


Exp = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def exp(capsys: pytest.CaptureFixture[str]) -> Exp:
    def ran(*arguments: object) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = run([*map(str, arguments), "--json"])
        said = capsys.readouterr()
        return status, json.loads(said.out or said.err)

    return ran


def here(root: Path) -> Path:
    """Make a journal with something of its own in it."""
    lab = Laboratory(root, Facts(project="own"), origin=HERE)
    lab.configure()
    lab.journal.close()
    return root


def count(root: Path) -> int:
    return len(Forger(root).events)


# Carrying away.


def test_the_same_run_gives_the_same_bytes_later_elsewhere_and_from_an_import(
    taken: Laboratory, bundle: Path, tmp_path: Path, exp: Exp
) -> None:
    moved = tmp_path / "moved" / "root"
    shutil.copytree(taken.root, moved)
    later = Laboratory(moved, Facts(candidates=("dear", "middling"), labels={0: 0}), origin=THERE)
    later.prepared()
    later.optimize()
    later.journal.close()
    again = tmp_path / "again.zip"
    assert exp("export", taken.run, again, "--root", moved)[0] == 0
    assert again.read_bytes() == bundle.read_bytes()
    assert exp("import", bundle, "--root", here(tmp_path / "here"))[0] == 0
    once_more = tmp_path / "once-more.zip"
    assert exp("export", taken.run, once_more, "--root", tmp_path / "here", "--origin", THERE)[0] == 0
    assert once_more.read_bytes() == bundle.read_bytes()


def test_a_bundle_holds_what_the_run_needs_and_nothing_of_others(taken: Laboratory, tmp_path: Path, exp: Exp) -> None:
    root = tmp_path / "root"
    private = "the salary of everybody, by name"
    others = tuple(trace(number, name=f"other-{number}", final=private) for number in range(8))
    first = Laboratory(root, Facts(project="other", traces=others), origin=THERE)
    first.prepared()
    first.optimize()
    first.facts = Facts()
    first.taken()
    out = tmp_path / "run.zip"
    assert exp("export", first.run, out, "--root", root)[0] == 0
    assert private.encode() in b"".join(Forger(root).contents.values())
    assert private.encode() not in out.read_bytes()
    arrived = tmp_path / "arrived"
    assert exp("import", out, "--root", arrived)[0] == 0
    assert exp("replay", "--origin", THERE, "--root", arrived)[0] == 0


def test_where_only_an_import_is_each_command_says_how_to_name_it(
    bundle: Path, taken: Laboratory, tmp_path: Path, exp: Exp
) -> None:
    root = tmp_path / "root"
    _, said = exp("import", bundle, "--root", root)
    assert said["notes"] == [f"`exp replay --origin {THERE} --root {root}` computes it again"]
    status, said = exp("replay", "--root", root)
    assert status == 0
    assert said["notes"][-1] == f"what was imported is computed again with --origin {THERE}"
    assert "notes" not in exp("replay", "--root", root, "--origin", THERE)[1]
    for arguments in (("diff", root, taken.root), ("diff", taken.run, taken.root, "--root", root)):
        status, said = exp(*arguments)
        assert (status, said["error"]["name"]) == (214, "nothing-published-as")
        assert "''" not in said["error"]["what"]
        assert "--origin NAME" in said["error"]["remedy"]


def test_what_does_not_replay_is_not_carried_away(taken: Laboratory, tmp_path: Path, exp: Exp) -> None:
    root = tmp_path / "root"
    shutil.copytree(taken.root, root)
    forger = Forger(root)
    forger.body("optimization-started@1")["inputs"]["tolerance"] = 1
    forger.write()
    status, said = exp("export", taken.run, tmp_path / "x.zip", "--root", root)
    assert (status, said["error"]["name"]) == (242, "run-does-not-replay")
    assert not list(tmp_path.glob("x.zip*"))


def test_a_file_that_is_there_is_never_written_over(taken: Laboratory, tmp_path: Path, exp: Exp) -> None:
    out = tmp_path / "mine"
    out.write_text("mine")
    status, said = exp("export", taken.run, out, "--root", taken.root)
    assert (status, said["error"]["name"]) == (240, "file-unwritable")
    assert out.read_text() == "mine"
    status, said = exp("export", taken.run, tmp_path / "no" / "where", "--root", taken.root)
    assert (status, said["error"]["name"]) == (240, "file-unwritable")


def test_only_runs_are_carried_away(taken: Laboratory, tmp_path: Path, exp: Exp) -> None:
    status, said = exp("export", "build-", tmp_path / "x", "--root", taken.root)
    assert (status, said["error"]["name"]) == (214, "nothing-published-as")


# The verifier inside.


def test_the_verifier_inside_needs_nothing_but_blake3(bundle: Path, tmp_path: Path) -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(VERIFIER.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - sys.stdlib_module_names == {"blake3"}
    assert len(VERIFIER.read_text().splitlines()) < 150
    with zipfile.ZipFile(bundle) as archive:
        assert archive.read("verify_bundle.py") == VERIFIER.read_bytes()
        checkpoint = json.loads(archive.read("manifest.json"))["checkpoint"]
    kept = tmp_path / "kept"
    kept.write_text(checkpoint)
    done = standalone(bundle, kept)
    assert (done.returncode, done.stdout.partition("\n")[2]) == (0, checkpoint)
    kept.write_text(checkpoint.replace("test/there", "test/where"))
    assert standalone(bundle, kept).returncode == 1


def standalone(*arguments: Path) -> subprocess.CompletedProcess[str]:
    """Run the verifier as a stranger would: by itself, away from this project."""
    words = [sys.executable, "-I", str(VERIFIER), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")


# Bringing in.


def test_an_import_keeps_every_id_and_changes_nothing_of_ones_own(
    taken: Laboratory, bundle: Path, tmp_path: Path, exp: Exp
) -> None:
    root = here(tmp_path / "here")
    own = count(root)
    status, said = exp("import", bundle, "--root", root)
    assert (status, said["origin"], said["run"]) == (0, THERE, taken.run)
    forged = Forger(root)
    theirs = [json.dumps(event[5]) for event in forged.events if event[0] != 1]
    assert set(theirs) <= {json.dumps(event[5]) for event in Forger(taken.root).events}
    assert said["added"] == len(forged.events) - own == len(theirs) + 2
    assert verify(root / "ledger.db", full=True) == []
    assert exp("replay", "--root", root)[1]["notes"][0].startswith("nothing is published")
    lab = Laboratory(root, origin=HERE)
    assert "lab" not in lab.journal.state(builds.FAMILY).latest
    lab.journal.close()


def test_an_imported_run_replays_and_compares_with_ones_own(
    taken: Laboratory, bundle: Path, tmp_path: Path, exp: Exp
) -> None:
    other = Laboratory(tmp_path / "here", replace(Facts(), scores={"cheap": 650, "dear": 900}), origin=HERE).taken()
    assert exp("import", bundle, "--root", other.root)[0] == 0
    status, said = exp("replay", "--origin", THERE, "--root", other.root)
    assert status == 0
    assert [one["id"] for one in said["run"]] == [taken.run]
    assert exp("replay", "--root", other.root)[0] == 0
    assert other.run == taken.run  # the same inputs, so the same name in both journals
    status, said = exp("diff", taken.run, f"{taken.run}@{THERE}", "--root", other.root)
    assert status == 1
    assert "inputs" not in said
    assert {(row["role"], row["pointer"]) for row in said["answers"]} == {("judge", "/text")}
    assert len(said["scores"]) == 6
    assert exp("diff", f"{taken.run}@{THERE}", taken.root, "--root", other.root)[0] == 0


def test_bringing_in_twice_adds_nothing(bundle: Path, tmp_path: Path, exp: Exp) -> None:
    root = here(tmp_path / "here")
    exp("import", bundle, "--root", root)
    before = count(root)
    status, said = exp("import", "bundle", bundle, "--root", root)
    assert (status, said["added"], count(root)) == (0, 0, before)
    assert said["notes"]


def test_an_import_that_was_interrupted_is_finished_by_the_same_command(
    bundle: Path, tmp_path: Path, exp: Exp, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = here(tmp_path / "here")
    monkeypatch.setattr(importing, "CHUNK_EVENTS", 40)
    admitted, left = Journal.admit, [3]

    def dying(journal: Journal, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return admitted(journal, *arguments)

    monkeypatch.setattr(Journal, "admit", dying)
    assert run(["import", str(bundle), "--root", str(root)]) == 130
    monkeypatch.setattr(Journal, "admit", admitted)
    assert verify(root / "ledger.db", full=True) == []
    assert 0 < sum(event[0] != 1 for event in Forger(root).events) < 200
    assert exp("import", bundle, "--root", root)[0] == 0
    assert verify(root / "ledger.db", full=True) == []
    assert exp("replay", "--origin", THERE, "--root", root)[0] == 0
    assert count(root) > 240


def test_a_bundle_of_this_very_journal_adds_nothing(taken: Laboratory, bundle: Path, tmp_path: Path, exp: Exp) -> None:
    root = tmp_path / "root"
    shutil.copytree(taken.root, root)
    before = count(root)
    status, said = exp("import", bundle, "--root", root)
    assert (status, said["added"]) == (0, 1)  # that it was imported, and nothing else
    assert [event[1] for event in Forger(root).events[before:]] == ["bundle-imported@1"]
    assert verify(root / "ledger.db", full=True) == []


def test_nobody_adds_to_a_journal_in_its_own_name(bundle: Path, tmp_path: Path, exp: Exp) -> None:
    restored = Laboratory(tmp_path / "old", Facts(project="own"), origin=THERE)  # born under the bundle's origin
    restored.configure()
    restored.journal.close()
    before = count(restored.root)
    status, said = exp("import", bundle, "--root", restored.root)
    assert (status, said["error"]["name"]) == (114, "origin-forked")
    assert count(restored.root) == before


def test_two_bundles_of_one_origin_that_contradict_each_other_are_refused(
    bundle: Path, tmp_path: Path, exp: Exp
) -> None:
    forked = Laboratory(tmp_path / "forked", Facts(labels={0: 0}), origin=THERE).taken()
    out = tmp_path / "forked.zip"
    assert exp("export", forked.run, out, "--root", forked.root)[0] == 0
    root = here(tmp_path / "here")
    assert exp("import", bundle, "--root", root)[0] == 0
    before = count(root)
    status, said = exp("import", out, "--root", root)
    assert (status, said["error"]["name"]) == (114, "origin-forked")
    assert verify(root / "ledger.db", full=True) == []
    assert count(root) == before


# What doesn't verify.


def taken_apart(bundle: Path) -> Members:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put_together(path: Path, members: Members, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in sorted(members.items(), key=lambda item: item[0] * item[0].startswith("contents/")):
            archive.writestr(member(name), content, compression)
    return path


def member(name: str, *, date: int = 1980, mode: int = 0o100600, system: int = 3) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (date, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = system, mode << 16
    return info


def with_lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        lines = change(members["events.jsonl"].splitlines())
        members["events.jsonl"] = b"".join(line + b"\n" for line in lines)

    return changed


def in_manifest(**facts: object) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        manifest = json.loads(members["manifest.json"]) | facts
        members["manifest.json"] = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()

    return changed


def in_proof(change: Callable[[dict[str, Any]], None]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        proof = json.loads(members["proof.json"])
        change(proof)
        members["proof.json"] = json.dumps(proof, sort_keys=True, separators=(",", ":")).encode()
        in_manifest(proof=content_digest(members["proof.json"]))(members)

    return changed


def content_of(members: Members) -> str:
    return next(name for name in members if name.startswith("contents/"))


def change_content(members: Members) -> None:
    members[content_of(members)] += b" "


def drop_content(members: Members) -> None:
    del members[content_of(members)]


def add_content(members: Members) -> None:
    members["contents/" + "ab" * 32] = b"more"


def rename_to(name: str) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        members[name] = b"#!/bin/sh"

    return changed


def drop(name: str) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        del members[name]

    return changed


def other_checkpoint(members: Members) -> None:
    checkpoint = json.loads(members["manifest.json"])["checkpoint"]
    in_manifest(checkpoint=checkpoint.replace("\n2", "\n3"))(members)


CHANGES: dict[str, Callable[[Members], None]] = {
    "an event's fact": with_lines(lambda lines: [lines[0].replace(b"127.0.0.1", b"127.0.0.2"), *lines[1:]]),
    "an event's time": with_lines(lambda lines: [lines[0].replace(b'"at":1', b'"at":2'), *lines[1:]]),
    "an event less": with_lines(lambda lines: lines[:5] + lines[6:]),
    "an event twice": with_lines(lambda lines: [lines[0], *lines]),
    "two events changed over": with_lines(lambda lines: [lines[1], lines[0], *lines[2:]]),
    "no event": with_lines(lambda _: []),
    "an event that isn't canonical": with_lines(lambda lines: [lines[0].replace(b'":', b'": ', 1), *lines[1:]]),
    "an event that is none": with_lines(lambda lines: [b"{}", *lines[1:]]),
    "an event of an unknown kind": with_lines(
        lambda lines: [lines[0].replace(b"-configured@1", b"-confused@1"), *lines[1:]]
    ),
    "a content changed": change_content,
    "a content less": drop_content,
    "a content more": add_content,
    "another run's name": in_manifest(run="optimize-0"),
    "another report": in_manifest(report="report-0"),
    "another count of events": in_manifest(events=1),
    "another count of contents": in_manifest(contents=1),
    "another format": in_manifest(format="exp-bundle/2"),
    "a fact more in the manifest": in_manifest(more=1),
    "another checkpoint": other_checkpoint,
    "no checkpoint": in_manifest(checkpoint="x"),
    "another hash in the proof": in_proof(lambda proof: proof["nodes"].__setitem__(0, "00" * 32)),
    "a hash less": in_proof(lambda proof: proof["nodes"].pop()),
    "a hash more": in_proof(lambda proof: proof["nodes"].append("00" * 32)),
    "another position": in_proof(lambda proof: proof["positions"].__setitem__(0, 10**15)),
    "a proof that isn't the manifest's": lambda members: members.update({"proof.json": members["proof.json"] + b" "}),
    "a member that climbs out": rename_to("../evil.sh"),
    "a member at the root": rename_to("/evil.sh"),
    "a member beside": rename_to("evil.sh"),
    "a content that climbs out": rename_to("contents/../evil.sh"),
    "a content with more behind it": rename_to("contents/" + "ab" * 32 + "/../../evil.sh"),
    "no manifest": drop("manifest.json"),
    "no events": drop("events.jsonl"),
    "no proof": drop("proof.json"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_bundle_that_was_changed_is_refused_whole(name: str, bundle: Path, tmp_path: Path, exp: Exp) -> None:
    members = taken_apart(bundle)
    CHANGES[name](members)
    changed = put_together(tmp_path / "changed.zip", members)
    root = here(tmp_path / "here")
    before = count(root)
    files = sorted(path for path in tmp_path.rglob("*") if "ledger.db-" not in path.name)
    status, said = exp("import", changed, "--root", root)
    assert (status, said["error"]["name"]) == (241, "bundle-refused")
    assert count(root) == before
    assert sorted(path for path in tmp_path.rglob("*") if "ledger.db-" not in path.name) == files
    assert standalone(changed).returncode == (0 if name == "a fact more in the manifest" else 1)


def made_up(members: Members, lines: list[bytes]) -> None:
    """Put events in a bundle with a proof, a checkpoint and counts that hold for them: what a forger can do."""
    members["events.jsonl"] = b"".join(line + b"\n" for line in lines)
    positions = list(range(1, len(lines) + 1))
    members["proof.json"] = json.dumps({"nodes": [], "positions": positions}, separators=(",", ":")).encode()
    root = base64.b64encode(root_of([event_id(line) for line in lines])).decode()
    in_manifest(
        checkpoint=f"{THERE}\n{len(lines)}\n{root}\n",
        contents=sum(name.startswith("contents/") for name in members),
        events=len(lines),
        proof=content_digest(members["proof.json"]),
    )(members)


def no_change(members: Members, lines: list[bytes]) -> None:
    """Leave everything as it is."""


def space(members: Members, lines: list[bytes]) -> None:
    lines[0] = lines[0].replace(b'":', b'": ', 1)


def nest(members: Members, lines: list[bytes]) -> None:
    lines[0] = lines[0].replace(b'"body":{', b'"body":{"0":' + b"[" * 5_000 + b"]" * 5_000 + b",", 1)


def repeat(members: Members, lines: list[bytes]) -> None:
    lines[0] = lines[0].replace(b'{"actor":', b'{"actor":"x","actor":', 1)


def other_kind(members: Members, lines: list[bytes]) -> None:
    lines[0] = lines[0].replace(b"-configured@1", b"-confused@1")


def other_stream(members: Members, lines: list[bytes]) -> None:
    lines[0] = lines[0].replace(b'"stream":"connection:lab"', b'"stream":"connection:other"')


def other_key(members: Members, lines: list[bytes]) -> None:
    lines[0] = lines[0].replace(b'"key":null', b'"key":"x"')


def no_version(members: Members, lines: list[bytes]) -> None:
    lines[0] = lines[0].replace(b'"version":1}', b'"version":0}')


def lost_content(members: Members, lines: list[bytes]) -> None:
    drop_content(members)


def strange_content(members: Members, lines: list[bytes]) -> None:
    members["contents/" + content_digest(b"more").removeprefix("b3:")] = b"more"


def other_result(members: Members, lines: list[bytes]) -> None:
    in_manifest(policy="policy-0")(members)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (no_change, ""),
        (space, "canonical"),
        (nest, "canonical"),
        (repeat, "canonical"),
        (other_kind, "kind that this release doesn't know"),
        (other_stream, "stream"),
        (other_key, "key"),
        (no_version, "stream"),
        (lost_content, "is missing"),
        (strange_content, "no event names"),
        (other_result, "doesn't hold the run"),
    ],
)
def test_facts_that_no_journal_of_ours_holds_are_refused_although_their_proof_holds(
    change: Callable[[Members, list[bytes]], None], problem: str, bundle: Path, tmp_path: Path, exp: Exp
) -> None:
    members = taken_apart(bundle)
    lines = members["events.jsonl"].splitlines()
    change(members, lines)
    assert problem == "" or lines != members["events.jsonl"].splitlines() or members != taken_apart(bundle)
    made_up(members, lines)
    path = put_together(tmp_path / "made-up.zip", members)
    status, said = exp("import", path, "--root", here(tmp_path / "here"))
    assert (status, problem in str(said)) == (241 if problem else 0, True)
    if change in {no_change, lost_content, strange_content, other_result}:  # the rest takes knowing what kinds say
        assert standalone(path).returncode == int(change is not no_change)


def test_what_is_compressed_is_refused_before_it_is_inflated(bundle: Path, tmp_path: Path, exp: Exp) -> None:
    members = taken_apart(bundle)
    members["contents/" + "cd" * 32] = bytes(50_000_000)
    bomb = put_together(tmp_path / "bomb.zip", members, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1_000_000
    status, said = exp("import", bomb, "--root", here(tmp_path / "here"))
    assert status == 241
    assert "is compressed" in said["error"]["what"]


def formed(path: Path, members: Members, first: zipfile.ZipInfo, comment: bytes = b"") -> bytes:
    """Return an archive of the same members, of which the first is made otherwise."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(first if name == first.filename else member(name), content)
        archive.comment = comment
    return path.read_bytes()


def noted(info: zipfile.ZipInfo, **facts: bytes) -> zipfile.ZipInfo:
    for name, value in facts.items():
        setattr(info, name, value)
    return info


def with_a_gap(sound: bytes) -> bytes:
    """Put bytes between the last member and the list of members, which is found all the same."""
    place = sound.rindex(b"PK\x05\x06")
    start = int.from_bytes(sound[place + 16 : place + 20], "little")
    return b"".join(
        (sound[:start], b"gap", sound[start : place + 16], (start + 3).to_bytes(4, "little"), sound[place + 20 :])
    )


FORMS: dict[str, Callable[[Path, Members, bytes], bytes]] = {
    "another date": lambda path, members, _: formed(path, members, member("manifest.json", date=1990)),
    "another mode": lambda path, members, _: formed(path, members, member("manifest.json", mode=0o100644)),
    "another system": lambda path, members, _: formed(path, members, member("manifest.json", system=0)),
    "a note on a member": lambda path, members, _: formed(path, members, noted(member("manifest.json"), comment=b"x")),
    "a field on a member": lambda path, members, _: formed(
        path, members, noted(member("manifest.json"), extra=b"\x99\x99\x00\x00")
    ),
    "a note on the whole": lambda path, members, _: formed(path, members, member("manifest.json"), b"note"),
    "members out of order": lambda path, members, _: formed(
        path, dict([*list(members.items())[:-2], *reversed(list(members.items())[-2:])]), member("manifest.json")
    ),
    "the events before the manifest": lambda path, members, _: formed(
        path, {"events.jsonl": b"", **members} | {"events.jsonl": members["events.jsonl"]}, member("x")
    ),
    "bytes behind": lambda _path, _members, sound: sound + b"zz",
    "bytes before": lambda _path, _members, sound: b"zz" + sound,
    "a gap": lambda _path, _members, sound: with_a_gap(sound),
    "a header that says something else": lambda _path, _members, sound: sound[:10] + b"\x01" + sound[11:],
}


@pytest.mark.parametrize("name", FORMS)
def test_an_archive_of_another_form_is_refused_whole(name: str, bundle: Path, tmp_path: Path, exp: Exp) -> None:
    members, path = taken_apart(bundle), tmp_path / "x.zip"
    assert formed(path, members, member("manifest.json")) == bundle.read_bytes()
    path.write_bytes(FORMS[name](path, members, bundle.read_bytes()))
    assert taken_apart(path) == members
    root = tmp_path / "fresh"
    status, said = exp("import", path, "--root", root)
    assert (status, said["error"]["name"]) == (241, "bundle-refused")
    assert not root.exists()


def test_members_that_share_bytes_are_refused(bundle: Path, tmp_path: Path, exp: Exp) -> None:
    data = bytearray(bundle.read_bytes())
    end = data.rindex(b"PK\x05\x06")
    start = int.from_bytes(data[end + 16 : end + 20], "little")
    entry = data.index(b"contents/", start) - 46
    size = data[entry + 20 : entry + 24]
    data[entry + 20 : entry + 28] = (int.from_bytes(size, "little") + 400_000).to_bytes(4, "little") * 2
    changed = tmp_path / "shared.zip"
    changed.write_bytes(data)
    status, said = exp("import", changed, "--root", here(tmp_path / "here"))
    assert status == 241
    assert "larger than the file" in said["error"]["what"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + bytes(18), b"SQLite format 3\x00" + bytes(99)])
def test_a_file_that_is_no_bundle_is_refused(content: bytes, tmp_path: Path, exp: Exp) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert exp("import", path, "--root", here(tmp_path / "here"))[0] == 241


def test_a_refused_bundle_makes_no_journal(bundle: Path, tmp_path: Path, exp: Exp) -> None:
    (tmp_path / "bad.zip").write_bytes(bundle.read_bytes()[:-1])
    assert exp("import", tmp_path / "bad.zip", "--root", tmp_path / "fresh")[0] == 241
    assert exp("import", tmp_path / "none.zip", "--root", tmp_path / "fresh")[0] == 243
    assert not (tmp_path / "fresh").exists()
    assert exp("import", bundle, "--root", tmp_path / "fresh")[0] == 0


def test_a_name_of_a_process_that_was_killed_is_in_nobodys_way(
    taken: Laboratory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 7)  # as in a container, where each process may be the seventh
    for stale in ("run.zip.7.new", "d.html.7.new", ".out.jsonl.7", "copy.db.partial-7"):
        (tmp_path / stale).write_bytes(b"half")
    root = str(taken.root)
    assert run(["export", taken.run, str(tmp_path / "run.zip"), "--root", root]) == 0
    assert run(["diff", taken.run, taken.run, "--html", str(tmp_path / "d.html"), "--root", root]) == 0
    assert run(["ingest", "export", "--output", str(tmp_path / "out.jsonl"), "--root", root]) == 0
    assert run(["backup", str(tmp_path / "copy.db"), "--root", root]) == 0
    assert len(list(tmp_path.iterdir())) == 8
    assert (tmp_path / "copy.db.partial-7").read_bytes() == b"half"


def test_a_cut_file_is_refused(bundle: Path, tmp_path: Path, exp: Exp) -> None:
    path = tmp_path / "cut.zip"
    path.write_bytes(bundle.read_bytes()[:-1])
    assert exp("import", path, "--root", here(tmp_path / "here"))[0] == 241


def test_what_is_no_file_is_named(tmp_path: Path, exp: Exp) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "pipe"):
        status, said = exp("import", path, "--root", here(tmp_path / "here"))
        assert (status, said["error"]["name"]) == (243, "file-unreadable")
