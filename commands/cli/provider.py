"""``exp provider serve``: the embedded provider as an OpenAI-compatible server on loopback."""

from __future__ import annotations

import ipaddress

import click

from ledger.errors import Refusal


class AddressTaken(Refusal, name="provider-address-taken", exit_code=70):
    """The address to serve on can't be had."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {reason}",
            where=f"--host {host} --port {port}",
            remedy="choose another --port, or 0 for any free one",
        )


class NotLoopback(Refusal, name="provider-not-loopback", exit_code=71):
    """The stand-in accepts any key, so it must not be reachable from elsewhere."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} is no loopback address, and the stand-in accepts any key",
            where=f"--host {host}",
            remedy="use --host 127.0.0.1",
        )


class Serves(click.ParamType[tuple[str, str]]):
    """``NAME=ID``: asked for NAME, the server reports ID as the model that answered."""

    name = "name=id"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first ``=``; both sides must be there."""
        name, _, served = str(value).partition("=")
        if not name or not served:
            self.fail(f"{value!r} is not of the form NAME=ID", param, ctx)
        return name, served


def _loopback(host: str) -> str:
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise NotLoopback(host) from None
    if not address.is_loopback:
        raise NotLoopback(host)
    return host


@click.command(help="Serve the embedded provider on loopback: chat completions, responses, embeddings and models.")
@click.option("--port", type=click.IntRange(0, 65535), required=True, help="Port to listen on; 0 takes any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Loopback address to listen on.")
@click.option("--serves", type=Serves(), multiple=True, help="Report ID as the served model when asked for NAME.")
@click.option("--latency-ms", type=click.IntRange(0, 600_000), default=0, help="Wait this long before each answer.")
@click.option("--turns", type=click.IntRange(1, 100), help="Make every episode take exactly this many model calls.")
@click.option(
    "--ends",
    type=click.Choice(["final", "done"]),
    default="final",
    show_default=True,
    help="With --turns: the last call is a closing message, or one that the world model calls done.",
)
@click.option("--fault", "written", multiple=True, help="KIND[:every=N][:first=N][:after=N][:role=ROLE], repeatable.")
@click.option(
    "--fresh-ids", is_flag=True, help="Give every answer an id of its own; equal requests get equal ids without."
)
def command(  # noqa: PLR0913 - one argument an option
    *,
    port: int,
    host: str,
    serves: tuple[tuple[str, str], ...],
    latency_ms: int,
    turns: int | None,
    ends: str,
    written: tuple[str, ...],
    fresh_ids: bool,
) -> None:
    """Bind, say where, and answer until told to stop."""
    from commands.embedded import faults, server  # noqa: PLC0415 - brings uvicorn, which --help doesn't need
    from commands.embedded.answer import Knobs  # noqa: PLC0415 - as above

    try:
        wanted = tuple(map(faults.parse, written))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--fault") from error
    host = _loopback(host)
    try:
        bound = server.listening(host, port)
    except OSError as error:
        raise AddressTaken(host, port, error.strerror or str(error)) from error
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Stand-in provider on http://{shown}:{bound.getsockname()[1]}/v1 (any bearer key; no model behind it)")
    knobs = Knobs(serves=dict(serves), turns=turns, ends=ends)
    server.server(server.Settings(knobs, latency_ms, wanted, fresh_ids)).run(sockets=[bound])
