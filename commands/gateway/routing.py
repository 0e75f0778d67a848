"""Routing: which model answers a request, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from commands.gateway import problems
from commands.gateway.requests import ChatRequest
from ledger.families.providers import Endpoint
from ledger.families.serving import Considered, Neighbour

NAMED = "named"
FAILED = "routing-failed"
UNABLE = "candidate-unable"


class Decided(msgspec.Struct, frozen=True):
    """What a policy says about one request."""

    alias: str
    reason: str
    candidates: tuple[Considered, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


class Routed(msgspec.Struct, frozen=True):
    """A project's policy: its id, how it decides, and by alias the digest of the model that its evidence is about."""

    project: str
    policy: str
    incumbent: str
    evidence: dict[str, str]
    decide: Callable[[list[dict[str, Any]], list[dict[str, Any]]], Decided]


class Route(msgspec.Struct, frozen=True):
    """Where a request goes."""

    endpoint: Endpoint
    reason: str
    policy: str | None = None
    candidates: tuple[Considered, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


class Directory:
    """The models that clients may name."""

    def __init__(self, endpoints: dict[str, Endpoint], routed: Routed | None) -> None:
        self._endpoints = endpoints
        self._routed = routed
        project = () if routed is None else (routed.project,)
        self.shadowed = project[0] if project and project[0] in endpoints else None  # an alias that nobody can name
        self.names = (*project, *(alias for alias in endpoints if alias not in project))

    def route(self, request: ChatRequest) -> Route:
        """Return where a request goes; a Problem when its model isn't known or can't do what is asked."""
        name = request.chat.model
        routed = self._routed
        if routed is not None and name == routed.project:
            return self._by_policy(routed, request)
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            raise problems.unknown_model(name, self.names)
        return Route(endpoint, NAMED)

    def _by_policy(self, routed: Routed, request: ChatRequest) -> Route:
        try:
            decided = routed.decide(request.plain["messages"], request.plain.get("tools") or [])
        except Exception:  # noqa: BLE001 - whatever goes wrong in deciding, the incumbent answers
            decided = Decided(routed.incumbent, FAILED)
        lacking: dict[str, str] = {}
        for alias in dict.fromkeys((decided.alias, routed.incumbent, *routed.evidence)):
            endpoint = self._endpoints.get(alias)
            if endpoint is None:
                lacking[alias] = f"{alias} isn't configured"
            elif alias != routed.incumbent and routed.evidence.get(alias) != endpoint.digest:
                lacking[alias] = f"{alias} was configured anew since the policy was frozen"
            elif words := unable(endpoint, request):
                lacking[alias] = words
            else:
                reason = decided.reason if alias == decided.alias else UNABLE
                return Route(endpoint, reason, routed.policy, decided.candidates, decided.neighbours)
        raise problems.Problem(
            400,
            f"no candidate of {routed.project} can answer this: {'; '.join(lacking.values())}",
            code="unsupported_parameter",
        )


def unable(endpoint: Endpoint, request: ChatRequest) -> str | None:
    """Return what a model can't do of what is asked; None when it can do all."""
    able, chat = endpoint.capabilities, request.chat
    if (chat.tools or chat.functions) and not able.supports_tools:
        return f"{endpoint.alias} takes no tools"
    shaped = chat.response_format is not None and chat.response_format.get("type") == "json_schema"
    if shaped and not able.supports_structured_output:
        return f"{endpoint.alias} takes no json_schema"
    if chat.temperature is not None and chat.temperature != 1 and not able.supports_temperature:
        return f"{endpoint.alias} takes no temperature"
    return None
