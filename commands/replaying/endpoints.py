"""Endpoints: every model that was ever configured, as it was then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.errors import Refusal
from ledger.families.providers import Connection, ConnectionConfigured, Endpoint, ModelConfigured

if TYPE_CHECKING:
    from ledger.journal import Journal


class ModelNotRecorded(Refusal, name="model-not-recorded", exit_code=211):
    """A result rests on a model whose configuration the journal doesn't hold."""

    def __init__(self, what: str, digest: str, base_url: str | None) -> None:
        at = f" at {base_url}" if base_url else ""
        super().__init__(
            f"no recorded configuration makes the {what} that was asked ({digest}{at})",
            where="the events model-configured and connection-configured of ledger.db",
            remedy="run `exp check --full`; an imported bundle brings its models along, so import it again",
        )


class Endpoints:
    """Models with each connection that their name ever stood for, the newest first."""

    def __init__(self, journal: Journal) -> None:
        connections: dict[str, list[Connection]] = {}
        models: list[ModelConfigured] = []
        for record in journal.events(ConnectionConfigured, ModelConfigured):
            event = record.event
            if isinstance(event, ConnectionConfigured):
                connections.setdefault(event.connection.name, []).insert(0, event.connection)
            elif isinstance(event, ModelConfigured):
                models.insert(0, event)
        self._by_digest: dict[str, list[Endpoint]] = {}
        for configured in models:
            for connection in connections.get(configured.model.connection, ()):
                endpoint = Endpoint(model=configured.model, connection=connection)
                self._by_digest.setdefault(endpoint.digest, []).append(endpoint)

    def all(self, what: str, digest: str) -> list[Endpoint]:
        """Return every endpoint of a digest, the newest first; ModelNotRecorded when there is none."""
        found = self._by_digest.get(digest)
        if not found:
            raise ModelNotRecorded(what, digest, None)
        return found

    def one(self, what: str, digest: str, base_url: str, *, alias: str | None = None) -> list[Endpoint]:
        """Return those that were asked at an address, under an alias if one is given; ModelNotRecorded if none."""
        found = [
            endpoint
            for endpoint in self._by_digest.get(digest, ())
            if base_url_of(endpoint) == base_url and alias in {None, endpoint.alias}
        ]
        if not found:
            raise ModelNotRecorded(what, digest, base_url)
        return found


def base_url_of(endpoint: Endpoint) -> str:
    """Return where a model is asked, as questions say it."""
    from ledger.questions import base_url  # noqa: PLC0415 - questions are not needed to list what is configured

    return base_url(endpoint)
