"""exp run: serve the routed models on loopback."""

from __future__ import annotations

import os
from math import isnan
from pathlib import Path
from typing import Any

import click

from commands.cli.options import Count, json_option, non_interactive_option, project_name, root_option
from commands.render.result import Result

HOST, PORT = "127.0.0.1", 8000
DAY = 24 * 3600
YEAR = 366 * DAY
# A routing decision is one small product: a second thread's waiting costs several times what it saves.
_THREADS = "OPENBLAS_NUM_THREADS"


class Seconds(click.FloatRange):
    """A time in seconds that a timer can be set to: finite, and a day at most."""

    def __init__(self, *, zero: bool) -> None:
        super().__init__(min=0, max=86_400, min_open=not zero)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's signature
        """Return the seconds; a usage error for what isn't in the range, and for what is no number."""
        seconds: float = super().convert(value, param, ctx)
        if isnan(seconds):  # neither below nor above anything
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


class ForName(click.ParamType[Any]):
    """A value for all, or as NAME=VALUE for a connection or a model."""

    def __init__(self, value: click.ParamType[Any], metavar: str, *, named: bool = False) -> None:
        self.name = f"ALIAS={metavar}" if named else f"[NAME=]{metavar}"
        self._value, self._named = value, named

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return how the value is written."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str | None, Any]:  # noqa: ANN401 - click's signature
        """Return the name, None for all, and the value; a usage error for what isn't one."""
        name, mark, given = str(value).rpartition("=")
        if (mark and not name) or (self._named and not (mark and given)):
            self.fail(f"{value!r} is no {self.name}", param, ctx)
        return (name if mark else None), self._value.convert(given, param, ctx)


@click.command(short_help="Serve the routed models on loopback.")
@click.argument("project", type=project_name, required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes any free port.")
@click.option("--ghost", is_flag=True, help="Record spend but no content; refuses Idempotency-Key.")
@click.option(
    "--graceful-timeout",
    type=Seconds(zero=True),
    default=30.0,
    show_default=True,
    help="Seconds that requests in flight may take after a SIGTERM.",
)
@click.option(
    "--upstream-timeout",
    "timeouts",
    type=ForName(Seconds(zero=False), "SECONDS"),
    multiple=True,
    help="Seconds that a provider may be silent: 600 unless set for all, a connection or a model.",
)
@click.option(
    "--retries",
    type=ForName(click.IntRange(0, 10), "N"),
    multiple=True,
    help="Dispatches after a failed one, before a byte of an answer: none unless set. Clients are told not to retry.",
)
@click.option(
    "--fallback",
    "stand_ins",
    type=ForName(click.STRING, "ALIAS", named=True),
    multiple=True,
    help="Who is asked when a model that a client named fails or rests; may be given several times.",
)
@click.option("--host", default=HOST, show_default=True, help="The address to listen on; others reach it then.")
@click.option(
    "--access-log",
    metavar="FILE|-",
    help="Append a JSON line for each request, without content, to a file of its owner's only, or print it.",
)
@click.option(
    "--idempotency-retention",
    type=Count(1, YEAR),
    default=DAY,
    show_default=True,
    metavar="SECONDS",
    help="How long answers are repeated to their Idempotency-Key.",
)
@root_option
@json_option
@non_interactive_option
def command(  # noqa: PLR0913 - one argument an option
    project: str | None,
    port: int,
    *,
    graceful_timeout: float,
    timeouts: tuple[tuple[str | None, float], ...],
    retries: tuple[tuple[str | None, int], ...],
    stand_ins: tuple[tuple[str, str], ...],
    host: str,
    access_log: str | None,
    idempotency_retention: int,
    root: Path,
    ghost: bool,
    as_json: bool,
    non_interactive: bool,
) -> None:
    """Serve PROJECT's routed model, and every configured model under its alias, on 127.0.0.1, or on --host.

    The API is OpenAI's: GET /v1/models, POST /v1/chat/completions, plain and streamed, and POST /v1/embeddings. Every
    request needs a key as a bearer token, the printed file's or one of `exp gateway key issue`, and is recorded before
    it is answered. Without PROJECT the aliases are served alone. A name that is PROJECT's and an alias too means
    the project. Spend is limited by `exp gateway limits`. It stops on SIGTERM or SIGINT, after what is in flight.
    """
    os.environ.setdefault(_THREADS, "1")  # before numpy is loaded
    from commands.gateway.attempts import Rules  # noqa: PLC0415 - as below
    from commands.gateway.server import Said, Settings, serve  # noqa: PLC0415 - the server is loaded to serve

    del non_interactive  # nothing is ever asked for here
    result = Result(as_json)

    def listening(url: str) -> None:
        if as_json:
            result.line("url", url)
        else:
            result.text(f"Uvicorn running on {url}")
        result.finish()

    def shadowed(name: str) -> None:
        words = f"{name} is the project and the alias of a model: requests for it are routed, none names that model"
        click.echo(words, err=True)

    others: dict[str, tuple[str, ...]] = {}
    for alias, other in stand_ins:
        others[alias] = (*others.get(alias, ()), other)
    rules = Rules(retries=dict(retries), timeouts=dict(timeouts), stand_ins=others)
    settings = Settings(root, project, port, ghost, graceful_timeout, rules, host, access_log, idempotency_retention)
    serve(settings, Said(lambda path: result.line("Gateway key file", str(path)), listening, shadowed))
