"""Exporting: a run becomes a file, the same bytes whenever and wherever it is exported."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from commands.bundles.choosing import Chosen, chosen
from commands.bundles.container import EVENTS, MANIFEST, PROOF, VERIFIERS, Manifest, packed
from commands.bundles.proving import Places, nodes_beside
from ledger import canonical, digests
from ledger.families import imports
from ledger.families.policies import PolicyFrozen, ReportPublished
from ledger.merkle import root_of

if TYPE_CHECKING:
    from ledger.journal import Journal


class Exported(NamedTuple):
    """What a bundle holds."""

    bundle: str
    manifest: Manifest


def export(root: Path, name: str, origin: str | None, out: Path) -> Exported:
    """Write the bundle of a run."""
    journal, made = chosen(root, name, origin)
    with journal:
        contents = dict.fromkeys(digest for digest, _ in made.contents())
        places, checkpoint = _imported(root, made, origin) if origin else _proven(journal, made)
        proof = canonical.encode(places)
        policy, report = cast("PolicyFrozen", made.policy.event), cast("ReportPublished", made.published.event)
        manifest = Manifest(
            checkpoint=checkpoint,
            contents=len(contents),
            events=len(made.records),
            format="exp-bundle/1",
            policy=policy.policy,
            project=policy.project,
            proof=digests.content_digest(proof),
            report=report.report,
            run=policy.run,
        )
        stored = canonical.encode(manifest)
        events = b"".join(record.bytes + b"\n" for record in made.ordered)
        members = {MANIFEST: stored, EVENTS: events, PROOF: proof, **dict(verifiers())}
        packed(out, members, made.contents())
    return Exported(digests.content_digest(stored), manifest)


def _proven(journal: Journal, made: Chosen) -> tuple[Places, str]:
    """Return the proof that the journal, as it was when the run ended, holds the events; and its checkpoint then."""
    leaves = list(journal.ids(made.last))
    positions = sorted(made.records)
    nodes = tuple(node.hex() for node in nodes_beside(leaves, positions))
    root = base64.b64encode(root_of(leaves)).decode()
    return Places(nodes=nodes, positions=tuple(positions)), f"{journal.origin}\n{made.last}\n{root}\n"


def _imported(root: Path, made: Chosen, origin: str | None) -> tuple[Places, str]:
    """Return the proof and the checkpoint that came with an imported run."""
    from commands.opening import open_journal  # noqa: PLC0415 - only for what was imported

    with open_journal(root, "export", imports.FAMILY) as own:
        for event in own.state(imports.FAMILY).whole.values():
            about, manifest, proof = event.carried, event.manifest, event.proof
            if about is not None and manifest and proof and (about.origin, about.run) == (origin, made.started.run):
                known = msgspec.json.decode(own.blob(manifest.blob), type=Manifest)
                return msgspec.json.decode(own.blob(proof.blob), type=Places), known.checkpoint
    raise LookupError(made.started.run)


def verifiers() -> Iterator[tuple[str, bytes]]:
    """Yield the programs that check without this one: from the installed package, or from the source tree."""
    here = Path(__file__).resolve().parent
    for name in VERIFIERS:
        for place in (here / "verifiers" / name, here.parent.parent / "tools" / name):
            if place.is_file():
                yield name, place.read_bytes()
                break
