"""``exp prove``: that one event is in the journal, for someone who doesn't have the journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, root_option

if TYPE_CHECKING:
    from ledger.inspecting import Inspected
    from ledger.merkle import Proof


@click.command(short_help="Prove that an event is in the journal.")
@click.argument("id_", metavar="ID")
@root_option
@click.option(
    "--checkpoint",
    "kept",
    type=click.Path(path_type=Path),
    default=None,
    help="Prove it against this checkpoint, which was kept, instead of the journal as it is now.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Write the proof to this file instead, which must not be there yet.",
)
@json_option
def command(id_: str, root: Path, kept: Path | None, output: Path | None, *, as_json: bool) -> None:
    """Print a proof that the event which ID means is in the journal: a C2SP tlog-proof.

    With the event's bytes (`exp cat ID`) and a checkpoint anyone can verify it, as docs/format.md says, without the
    journal. Any unique beginning of an id will do.
    """
    from commands.naming import IdUnknown, find  # noqa: PLC0415 - loaded when the command runs
    from commands.opening import read_journal  # noqa: PLC0415 - as above
    from commands.proving import inspected, write_new  # noqa: PLC0415 - as above
    from commands.render.json_text import json_text  # noqa: PLC0415 - as above

    with read_journal(root) as journal:
        record = find(journal, id_).record
    if record is None:
        raise IdUnknown(id_)
    store = inspected(root)
    try:
        proof = _now(store, record.seq) if kept is None else _against(store, record.seq, kept)
    finally:
        store.close()
    if output is not None:
        write_new(output, proof.text())
    if as_json:
        facts = {"event": record.seq, "index": proof.path.place, "hashes": [one.hex() for one in proof.path.hashes]}
        checkpoint = {"origin": proof.checkpoint.origin, "size": proof.checkpoint.size}
        checkpoint["root"] = proof.checkpoint.root.hex()
        click.echo(json_text({**facts, "checkpoint": checkpoint}, indent=2))
    elif output is None:
        click.echo(proof.text(), nl=False)


def _now(store: Inspected, seq: int) -> Proof:
    from ledger.proving import prove  # noqa: PLC0415 - loaded when the command runs

    return prove(store, seq, store.end()[0])


def _against(store: Inspected, seq: int, kept: Path) -> Proof:
    from commands.proving import CheckpointUnfit, EventTooNew, read_checkpoint  # noqa: PLC0415 - as above
    from ledger.proving import compare, prove  # noqa: PLC0415 - as above

    checkpoint = read_checkpoint(kept)
    for finding in compare(store, [(str(kept), checkpoint)]):
        raise CheckpointUnfit(kept, finding.meaning)
    if seq > checkpoint.size:
        raise EventTooNew(kept, seq, checkpoint.size)
    return prove(store, seq, checkpoint.size)._replace(checkpoint=checkpoint)
