"""Provider entries: what ``exp config providers`` is given, read strictly, with every gap found at once.

pydantic checks the shape here, at the edge; what comes out are the facts of ``ledger.families.providers``. A gap never
repeats a value: somebody may have pasted a key where its name belongs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ledger.families.providers import Capabilities, Connection, Model
from ledger.money import NanoUSD, nano_usd
from ledger.redaction import redact_key_shapes

OPENAI_BASE_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
GREATEST_PRICE = 1_000_000  # dollars a million tokens
GREATEST_TOKENS = 1_000_000_000
_NO_VARIABLE = "must be the name of an environment variable, not a credential"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Entries(msgspec.Struct):
    """What was given: the facts, the gaps, and the names of entries that couldn't be read."""

    connections: list[Connection]
    models: list[Model]
    gaps: list[str]
    unread: set[str]


class NotAnEntry(ValueError):
    """The text isn't an entry; the message is the gap, without the flag."""


def _amount(value: object) -> NanoUSD:
    """Return nano-dollars of a JSON number."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        message = "must be a number of dollars"
        raise ValueError(message)  # noqa: TRY004 - pydantic gathers these only
    if value > GREATEST_PRICE:
        message = "must be at most 1,000,000 dollars"
        raise ValueError(message)
    try:
        amount = nano_usd(str(value))
    except ValueError:
        message = "must be a number of dollars with at most nine decimal places"
        raise ValueError(message) from None
    if amount < 0:
        message = "must not be negative"
        raise ValueError(message)
    return amount


def _variable(value: object) -> object:
    if isinstance(value, str) and not _VARIABLE.fullmatch(value):
        raise ValueError(_NO_VARIABLE)
    return value


def _printable(value: object) -> object:
    if isinstance(value, str) and (not value.isprintable() or value != value.strip()):
        message = "must be printable, without blanks around it"
        raise ValueError(message)
    return value


Tokens = Annotated[int, Field(gt=0, le=GREATEST_TOKENS)]
Price = Annotated[int | None, BeforeValidator(lambda value: None if value is None else _amount(value))]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", max_length=64)]
Text = Annotated[str, BeforeValidator(_printable), Field(min_length=1, max_length=512)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CapabilitiesEntry(_Entry):
    """What a model can do and costs, in the words of the configuration: dollars a million tokens."""

    supports_completions: bool = False
    supports_tools: bool = False
    supports_structured_output: bool = False
    supports_temperature: bool = False
    supports_embeddings: bool = False
    supports_reasoning: bool = False
    reasoning_effort: Annotated[str, Field(pattern="^[a-z]+$", max_length=32)] | None = None
    maximum_output_tokens: Tokens | None = None
    context_window_tokens: Tokens | None = None
    input_cost_per_million_tokens_usd: Price = None
    output_cost_per_million_tokens_usd: Price = None
    cached_input_cost_per_million_tokens_usd: Price = None
    cache_write_cost_per_million_tokens_usd: Price = None

    def fact(self) -> Capabilities:
        """Return the fact."""
        values = self.model_dump()
        return Capabilities(**{name.replace("_cost_per_million_tokens_usd", "_price"): values[name] for name in values})


class ConnectionEntry(_Entry):
    """Where models are asked."""

    name: Name
    provider: Literal["openai", "openai-compatible", "embedded"]
    base_url: Text | None = None
    api_key_env: Annotated[str, BeforeValidator(_variable)] | None = None
    api_key_file: Text | None = None


class ModelEntry(_Entry):
    """A model under an alias."""

    alias: Name
    connection: Name
    model: Text
    served_model_id: Text | None = None
    capabilities: CapabilitiesEntry | None = None


class Reading:
    """Reads the entries of one command line."""

    def __init__(self, environment: Mapping[str, str], known: Mapping[str, Connection]) -> None:
        self._environment = environment
        self._known = dict(known)
        self._entries = Entries([], [], [], set())

    def entries(self, connections: Sequence[str], models: Sequence[str]) -> Entries:
        """Return what the texts say."""
        for place, text in enumerate(connections, 1):
            self._read("--connection-json", place, text, self._connection)
        for place, text in enumerate(models, 1):
            self._read("--model-json", place, text, self._model)
        self._find_contradictions()
        return self._entries

    def _read(self, flag: str, place: int, text: str, take: Callable[[dict[str, Any]], list[str]]) -> None:
        label = f"{flag} {place}"
        keys: dict[tuple[Any, ...], str] = {}
        try:
            entry = _decoded(text)
            keys = dict(_keys(entry))
            name = entry.get("alias") if flag == "--model-json" else entry.get("name")
            if isinstance(name, str) and name.isprintable() and len(name) <= 64:  # noqa: PLR2004 - as names are limited
                label = f"{flag} {redact_key_shapes(name)[0]}"
                self._entries.unread.add(name)
            problems = list(keys.values()) or take(entry)
            if keys:  # what else is wrong is told along with it
                (ModelEntry if flag == "--model-json" else ConnectionEntry).model_validate(entry)
        except NotAnEntry as error:
            problems = [str(error)]
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)
            problems = [*keys.values(), *(_problem(one) for one in found if one["loc"] not in keys)]
        if problems:
            self._entries.gaps += [f"{label}: {problem}" for problem in problems]
        elif isinstance(name, str):
            self._entries.unread.discard(name)

    def _connection(self, entry: dict[str, Any]) -> list[str]:
        given = ConnectionEntry.model_validate(entry)
        problems = []
        if given.api_key_env and given.api_key_file:
            problems.append("give api_key_env or api_key_file, not both")
        base_url = given.base_url
        if given.provider == "embedded":
            if base_url or given.api_key_env or given.api_key_file:
                problems.append("the embedded provider has no base_url and no credential")
        elif given.provider == "openai":
            base_url = base_url or self._environment.get("OPENAI_BASE_URL", "").strip() or OPENAI_BASE_URL
        elif base_url is None:
            problems.append('openai-compatible needs "base_url":"https://..."')
        connection = Connection(
            name=given.name,
            provider=given.provider,
            base_url=base_url,
            api_key_env=self._key_variable(given),
            api_key_file=str(Path(given.api_key_file).expanduser().absolute()) if given.api_key_file else None,
        )
        if base_url is not None:
            problems += self._url_problems(base_url, connection)
        if not problems:
            self._entries.connections.append(connection)
            self._known[connection.name] = connection
        return problems

    def _key_variable(self, given: ConnectionEntry) -> str | None:
        if given.api_key_env is None and given.api_key_file is None and given.provider == "openai":
            return OPENAI_KEY
        return given.api_key_env

    def _url_problems(self, base_url: str, connection: Connection) -> list[str]:
        try:
            parts = urlsplit(base_url)
            port = parts.port
        except ValueError:
            return ["base_url is no address"]
        if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
            return ["base_url must be http:// or https://, with a host"]
        if "?" in base_url or "#" in base_url:
            return ["base_url must have no query and no fragment; a credential is named with api_key_env"]
        if parts.username is not None or parts.password is not None:
            return ["base_url holds a credential; name it with api_key_env instead"]
        if any(mark in base_url for mark in "\"'<> \\") or not (base_url.isascii() and base_url.isprintable()):
            return ["base_url has characters that an address can't hold"]
        secret = self._environment.get(connection.api_key_env or "", "")
        if (secret and secret in base_url) or redact_key_shapes(base_url)[1]:
            return ["base_url holds the value of its credential; it is named with api_key_env and sent as a header"]
        return []

    def _model(self, entry: dict[str, Any]) -> list[str]:
        given = ModelEntry.model_validate(entry)
        able = given.capabilities.fact() if given.capabilities else self._own(given)
        if able.reasoning_effort is not None and not able.supports_reasoning:
            return ['capabilities.reasoning_effort needs "supports_reasoning":true']
        self._entries.models.append(
            Model(
                alias=given.alias,
                connection=given.connection,
                model=given.model,
                served_model_id=given.served_model_id,
                capabilities=able,
            )
        )
        return []

    def _own(self, given: ModelEntry) -> Capabilities:
        """Return what is known of a model that nothing is said of: the embedded provider's are ours to know."""
        connection = self._known.get(given.connection)
        return (
            embedded_capabilities(given.model) if connection and connection.provider == "embedded" else Capabilities()
        )

    def _find_contradictions(self) -> None:
        named = {connection.name: connection for connection in self._entries.connections}
        self._entries.gaps += [
            f"--connection-json {connection.name}: given twice, differently"
            for connection in self._entries.connections
            if named[connection.name] != connection
        ]
        aliased = {model.alias: model for model in self._entries.models}
        self._entries.gaps += [
            f"--model-json {model.alias}: given twice, differently"
            for model in self._entries.models
            if aliased[model.alias] != model
        ]


def embedded_capabilities(model: str) -> Capabilities:
    """Return what a model of the embedded provider can do and costs."""
    from commands.embedded.cast import EMBEDDER, PRICES  # noqa: PLC0415 - needed for its models only

    price = PRICES.get(model)
    reading, writing = (nano_usd(price.input), nano_usd(price.output)) if price else (0, 0)
    if model == EMBEDDER:
        return Capabilities(supports_embeddings=True, input_price=reading, context_window_tokens=8_192)
    return Capabilities(
        supports_completions=True,
        supports_tools=True,
        supports_structured_output=True,
        supports_temperature=True,
        maximum_output_tokens=32_000,
        context_window_tokens=1_050_000,
        input_price=reading,
        output_price=writing,
    )


def _decoded(text: str) -> dict[str, Any]:
    """Return the JSON object of a text, its numbers exact; NotAnEntry for anything else."""
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_once)
    except NotAnEntry:
        raise
    except (ValueError, RecursionError, ArithmeticError):
        raise NotAnEntry("not JSON") from None
    if not isinstance(value, dict):
        raise NotAnEntry("not a JSON object")
    return value


def _keys(value: object, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield where something of a key's shape is, and the gap that it makes; the key itself is never repeated."""
    if isinstance(value, str):
        if redact_key_shapes(value)[1]:
            said = _NO_VARIABLE if where == ("api_key_env",) else "holds what looks like a credential; name it instead"
            yield where, f"{_place(where)}: {said}"
    elif isinstance(value, dict):
        for name, item in value.items():
            if redact_key_shapes(name)[1]:
                yield (*where, name), f"{_place((*where, name))}: a field's name looks like a credential"
            yield from _keys(item, (*where, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _keys(item, (*where, number))


def _place(where: Sequence[Any]) -> str:
    """Return a field's place in words, without what looks like a key."""
    return redact_key_shapes(".".join(str(part) for part in where))[0]


def _no_number(name: str) -> Decimal:
    raise NotAnEntry(f"{name} is no number in JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise NotAnEntry("a field is given twice")
    return dict(pairs)


def _problem(error: Mapping[str, Any]) -> str:
    """Return a problem in words: where, and what is expected there."""
    where = _place(error["loc"])
    kind = error["type"]
    said = {"extra_forbidden": "no such field", "missing": "is missing"}.get(kind)
    if said is None:
        said = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {said}"
