"""Providers: which models there are, where each is asked, what each can do and costs, and which role each has."""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger import canonical, digests
from ledger.errors import Refusal
from ledger.event import Command, Event, Fact, Family, Found, event
from ledger.money import NanoUSD
from ledger.redaction import redact_key_shapes

Provider = Literal["openai", "openai-compatible", "embedded"]
Role = Literal["world_model", "judge", "embedder"]
ROLES: tuple[Role, ...] = ("world_model", "judge", "embedder")
LEAST_JUDGE_OUTPUT = 16_384


class Capabilities(Fact):
    """What a model can do and costs. Prices are nano-dollars a million tokens: None is unknown, 0 is self-hosted."""

    supports_completions: bool = False
    supports_tools: bool = False
    supports_structured_output: bool = False
    supports_temperature: bool = False
    supports_embeddings: bool = False
    supports_reasoning: bool = False
    reasoning_effort: str | None = None
    maximum_output_tokens: int | None = None
    context_window_tokens: int | None = None
    input_price: NanoUSD | None = None
    output_price: NanoUSD | None = None
    cached_input_price: NanoUSD | None = None
    cache_write_price: NanoUSD | None = None


PRICES = frozenset({"input_price", "output_price", "cached_input_price", "cache_write_price"})


class Connection(Fact):
    """Where models are asked: the resolved base URL, and the name (never the value) of the credential."""

    name: str
    provider: Provider
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None


class Model(Fact):
    """A model under the alias that commands use."""

    alias: str
    connection: str
    model: str
    served_model_id: str | None = None
    capabilities: Capabilities = Capabilities()


class Endpoint(Fact):
    """A model together with its connection: all that is needed to ask it."""

    model: Model
    connection: Connection

    @property
    def alias(self) -> str:
        """The name commands use."""
        return self.model.alias

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do and costs."""
        return self.model.capabilities

    @property
    def digest(self) -> str:
        """Names what decides the model's answers; it leaves out aliases, prices, credentials and where it is asked."""
        able = {
            name: value for name, value in msgspec.to_builtins(self.model.capabilities).items() if name not in PRICES
        }
        return digests.content_digest(
            canonical.digest_input(self.connection.provider, self.model.model, self.model.served_model_id, able)
        )


class UnknownAlias(Refusal, name="unknown-alias", exit_code=23):
    """A command names a model that isn't configured."""

    def __init__(self, alias: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"there is no model {alias!r}",
            where=f"the configured models: {', '.join(known) or 'none'}",
            remedy="name a configured model, or add this one with `exp config providers --model-json ...`",
        )


class RoleNotConfigured(Refusal, name="role-not-configured", exit_code=24):
    """A command needs a role that no model has."""

    def __init__(self, role: Role) -> None:
        flag = f"--{role.replace('_', '-')}"
        super().__init__(
            f"no model is configured as {role.replace('_', ' ')}",
            where="the provider configuration",
            remedy=f"run `exp config providers {flag} ALIAS`",
        )


class ConfigurationGaps(Refusal, name="configuration-gaps", exit_code=20):
    """The configuration lacks or contradicts something; every gap is listed."""

    def __init__(self, gaps: tuple[str, ...]) -> None:
        count = len(gaps)
        super().__init__(
            f"the provider configuration has {count} gap{'s' * (count != 1)}; nothing was recorded",
            where="exp config providers",
            remedy=redact_key_shapes("\n".join(gaps))[0],
        )


class ConfigurationDiffers(Refusal, name="configuration-differs", exit_code=22):
    """Something else is recorded under the same names, and replacing it wasn't asked for."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        super().__init__(
            f"recorded differently under the same name: {'; '.join(differences)}",
            where="exp config providers; nothing was recorded",
            remedy="add --replace to record the new configuration, or use another name",
        )


@event("connection-configured@1")
class ConnectionConfigured(Event):
    """A connection, as it is from now on."""

    connection: Connection

    @property
    def stream(self) -> str:
        """One stream a connection."""
        return f"connection:{self.connection.name}"


@event("model-configured@1")
class ModelConfigured(Event):
    """A model, as it is from now on."""

    model: Model

    @property
    def stream(self) -> str:
        """One stream an alias."""
        return f"model:{self.model.alias}"


@event("role-assigned@1")
class RoleAssigned(Event):
    """Which model has a role from now on."""

    role: Role
    alias: str

    @property
    def stream(self) -> str:
        """One stream a role."""
        return f"role:{self.role}"


class Providers(msgspec.Struct):
    """The configuration in force."""

    connections: dict[str, Connection] = msgspec.field(default_factory=dict)
    models: dict[str, Model] = msgspec.field(default_factory=dict)
    roles: dict[Role, str] = msgspec.field(default_factory=dict)

    def endpoint(self, alias: str) -> Endpoint:
        """Return the model of an alias with its connection; UnknownAlias when there is none."""
        model = self.models.get(alias)
        if model is None:
            raise UnknownAlias(alias, tuple(sorted(self.models)))
        return Endpoint(model=model, connection=self.connections[model.connection])

    def role(self, role: Role) -> str:
        """Return the alias that has a role; RoleNotConfigured when none has."""
        if role not in self.roles:
            raise RoleNotConfigured(role)
        return self.roles[role]

    @property
    def world_model(self) -> str:
        """The alias that simulates environments."""
        return self.role("world_model")

    @property
    def judge(self) -> str:
        """The alias that scores."""
        return self.role("judge")

    @property
    def embedder(self) -> str:
        """The alias that embeds texts for retrieval."""
        return self.role("embedder")


class ConfigureProviders(Command):
    """Record connections, models and roles; what is recorded already is left alone."""

    connections: tuple[Connection, ...] = ()
    models: tuple[Model, ...] = ()
    roles: dict[Role, str] = msgspec.field(default_factory=dict)
    replace: bool = False


def evolve(state: Providers, event: Event) -> Providers:
    """Fold one event."""
    if isinstance(event, ConnectionConfigured):
        state.connections[event.connection.name] = event.connection
    elif isinstance(event, ModelConfigured):
        state.models[event.model.alias] = event.model
    elif isinstance(event, RoleAssigned):
        state.roles[event.role] = event.alias
    return state


def decide(command: ConfigureProviders, state: Providers, found: Found) -> tuple[Event, ...]:
    """Return what is new; refuse when that contradicts what is recorded, or leaves the whole incomplete."""
    del found
    if missing := gaps(merged(command, state)):
        raise ConfigurationGaps(missing)
    if not command.replace and (differences := _differences(command, state)):
        raise ConfigurationDiffers(differences)
    return changes(command, state)


def changes(command: ConfigureProviders, state: Providers) -> tuple[Event, ...]:
    """Return what a command would change."""
    events: list[Event] = [
        ConnectionConfigured(connection=connection)
        for connection in command.connections
        if state.connections.get(connection.name) != connection
    ]
    events += [ModelConfigured(model=model) for model in command.models if state.models.get(model.alias) != model]
    events += [
        RoleAssigned(role=role, alias=command.roles[role])
        for role in ROLES
        if role in command.roles and state.roles.get(role) != command.roles[role]
    ]
    return tuple(events)


def merged(command: ConfigureProviders, state: Providers) -> Providers:
    """Return the configuration as a command would leave it."""
    after = Providers(dict(state.connections), dict(state.models), dict(state.roles))
    for change in changes(command, state):
        evolve(after, change)
    return after


def gaps(state: Providers, unread: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return everything that is missing or doesn't fit, each with the flag that would repair it.

    ``unread`` names entries that were given and couldn't be read: what refers to them lacks nothing else.
    """
    found = [
        f"model {model.alias} names connection {model.connection!r}, which isn't configured: "
        f'--connection-json \'{{"name":"{model.connection}","provider":...}}\''
        for model in state.models.values()
        if model.connection not in state.connections and model.connection not in unread
    ]
    for role in ROLES:
        flag = f"--{role.replace('_', '-')}"
        alias = state.roles.get(role)
        if alias is None:
            found.append(f"no {role.replace('_', ' ')}: {flag} ALIAS")
        elif alias in unread:
            continue
        elif alias not in state.models:
            found.append(f'{flag} {alias} names no model: --model-json \'{{"alias":"{alias}",...}}\'')
        else:
            found += _unfit(role, state.models[alias])
    return tuple(found)


def _unfit(role: Role, model: Model) -> list[str]:
    able = model.capabilities
    repair = f'--model-json \'{{"alias":"{model.alias}",...,"capabilities":{{'
    needed = "supports_embeddings" if role == "embedder" else "supports_completions"
    found = []
    if not getattr(able, needed):
        found.append(f'{role.replace("_", " ")} {model.alias} lacks {needed}: {repair}"{needed}":true}}}}\'')
    if role == "judge" and (able.maximum_output_tokens or 0) < LEAST_JUDGE_OUTPUT:
        limit = "unknown" if able.maximum_output_tokens is None else f"{able.maximum_output_tokens:,}"
        found.append(
            f"judge {model.alias} has an output limit of {limit} tokens and needs {LEAST_JUDGE_OUTPUT:,}: "
            f'{repair}"maximum_output_tokens":{LEAST_JUDGE_OUTPUT}}}}}\', or --judge with another alias'
        )
    return found


def _differences(command: ConfigureProviders, state: Providers) -> tuple[str, ...]:
    found = []
    for connection in command.connections:
        recorded = state.connections.get(connection.name)
        if recorded is not None and recorded != connection:
            found.append(f"connection {connection.name} ({_changed(recorded, connection)})")
    for model in command.models:
        known = state.models.get(model.alias)
        if known is not None and known != model:
            found.append(f"model {model.alias} ({_changed(known, model)})")
    found += [
        f"{role.replace('_', ' ')} (is {state.roles[role]}, given {alias})"
        for role, alias in command.roles.items()
        if state.roles.get(role, alias) != alias
    ]
    return tuple(found)


def _changed(recorded: Fact, given: Fact) -> str:
    """Return the names of the fields that differ, never their values: somebody may have pasted a key."""
    before, after = msgspec.to_builtins(recorded), msgspec.to_builtins(given)
    names: list[str] = []
    for name, value in before.items():
        if isinstance(value, dict):
            names += [inner for inner in value if value[inner] != after[name][inner]]
        elif value != after[name]:
            names.append(name)
    return ", ".join(names)


FAMILY = Family(
    name="providers",
    kinds=(ConnectionConfigured, ModelConfigured, RoleAssigned),
    initial=Providers,
    decide=decide,
    evolve=evolve,
)
