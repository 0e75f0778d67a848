"""``exp config providers``: record connections, models and their roles, or show them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commands.cli.options import json_option, non_interactive_option, root_option
from commands.render.result import Result

if TYPE_CHECKING:
    from ledger.families.providers import ConfigureProviders, Providers, Role
    from ledger.journal import Journal


@click.command(help="Record connections, models and their roles.")
@root_option
@click.option(
    "--connection-json",
    "connections",
    multiple=True,
    metavar="JSON",
    help="A connection: name, provider (openai, openai-compatible, embedded), base_url, api_key_env or api_key_file.",
)
@click.option(
    "--model-json",
    "models",
    multiple=True,
    metavar="JSON",
    help="A model: alias, connection, model, served_model_id, capabilities.",
)
@click.option("--world-model", metavar="ALIAS", help="The model that simulates environments.")
@click.option("--judge", metavar="ALIAS", help="The model that scores.")
@click.option("--embedder", metavar="ALIAS", help="The model that embeds texts for retrieval.")
@click.option("--replace", is_flag=True, help="Record a new configuration under names that are taken.")
@non_interactive_option
@json_option
def command(  # noqa: PLR0913 - one parameter an option
    root: Path,
    connections: tuple[str, ...],
    models: tuple[str, ...],
    world_model: str | None,
    judge: str | None,
    embedder: str | None,
    *,
    replace: bool,
    non_interactive: bool,
    as_json: bool,
) -> None:
    """Read the entries, record what is new, render the view, and show the configuration in force."""
    del non_interactive  # nothing is ever asked for here
    from commands.opening import open_journal  # noqa: PLC0415 - the journal is opened by commands that need it
    from ledger.event import Step  # noqa: PLC0415 - as above
    from ledger.families import providers  # noqa: PLC0415 - as above
    from ledger.root_name import is_there  # noqa: PLC0415 - as above
    from ledger.store import NAME  # noqa: PLC0415 - as above

    given = {"world_model": world_model, "judge": judge, "embedder": embedder}
    roles = {role: alias for role in providers.ROLES if (alias := given[role]) is not None}
    if not is_there(root, NAME):  # what can't be recorded shouldn't leave a root behind
        _read(connections, models, roles, providers.Providers(), replace=replace)
    with open_journal(root, "config providers", providers.FAMILY, create=True) as journal:
        intention = _read(connections, models, roles, journal.state(providers.FAMILY), replace=replace)
        recorded = journal.submit(Step(providers.FAMILY, intention)).result()
        _show(journal, len(recorded), as_json=as_json)


def _read(
    connections: tuple[str, ...],
    models: tuple[str, ...],
    roles: dict[Role, str],
    state: Providers,
    *,
    replace: bool,
) -> ConfigureProviders:
    """Return what is to be recorded; ConfigurationGaps with everything that is missing or doesn't fit."""
    from commands.provider_entries import Reading  # noqa: PLC0415 - pydantic takes longer to load than the rest
    from ledger.families import providers  # noqa: PLC0415 - as above

    entries = Reading(os.environ, state.connections).entries(connections, models)
    intention = providers.ConfigureProviders(
        connections=tuple(entries.connections), models=tuple(entries.models), roles=roles, replace=replace
    )
    after = providers.merged(intention, state)
    if gaps := (*entries.gaps, *providers.gaps(after, frozenset(entries.unread))):
        raise providers.ConfigurationGaps(gaps)
    return intention


def _show(journal: Journal, recorded: int, *, as_json: bool) -> None:
    from commands import models_view  # noqa: PLC0415 - as above
    from ledger.families import providers  # noqa: PLC0415 - as above

    result = Result(as_json)
    condition = models_view.keep(journal)  # before anything is printed: it may not be writable
    state: Providers = journal.state(providers.FAMILY)
    for name in sorted(state.connections):
        connection = state.connections[name]
        key = connection.api_key_env or connection.api_key_file or "none"
        facts = {"name": name, "provider": connection.provider, "base_url": connection.base_url or "embedded:"}
        result.item("connection", {**facts, "credential": key})
    for alias in sorted(state.models):
        model = state.models[alias]
        served = {"served": model.served_model_id} if model.served_model_id else {}
        result.item("model", {"alias": alias, "connection": model.connection, "model": model.model, **served})
    for role in providers.ROLES:
        result.line(role, state.roles.get(role))
    result.line("view", str(journal.path.parent / models_view.NAME))
    if condition == "edited":
        message = f"{models_view.NAME} was edited by hand; edits have no effect, so it was rendered again"
        click.echo(f"exp: {message} (yours is now {models_view.EDITED})", err=True)
    result.line("view_found", condition)
    seq, head = journal.position()
    result.line("recorded", f"{recorded} events" if recorded else "nothing new")
    result.line("journal", f"{seq} {head}")
    result.finish()
