"""``exp checkpoint``: how much the journal holds, to be kept elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from commands.cli.options import json_option, root_option


@click.command(short_help="Say what the journal holds, to be kept elsewhere.")
@root_option
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Write the checkpoint to this file instead, which must not be there yet.",
)
@json_option
def command(root: Path, output: Path | None, *, as_json: bool) -> None:
    """Print the journal's origin, how many events it holds, and the root of the Merkle tree over them.

    Keep it where whoever can change the journal can't: `exp verify-checkpoint` then shows whether the journal only
    grew. The text is a C2SP checkpoint; signatures may be added below it.
    """
    import base64  # noqa: PLC0415 - loaded when the command runs

    from commands.proving import inspected, write_new  # noqa: PLC0415 - as above
    from commands.render.json_text import json_text  # noqa: PLC0415 - as above
    from ledger.proving import checkpoint  # noqa: PLC0415 - as above

    store = inspected(root)
    try:
        now = checkpoint(store)
    finally:
        store.close()
    if output is not None:
        write_new(output, now.text())
    if as_json:
        facts = {"origin": now.origin, "size": now.size, "root": base64.b64encode(now.root).decode()}
        click.echo(json_text({**facts, "written": None if output is None else str(output)}, indent=2))
    elif output is None:
        click.echo(now.text(), nl=False)
