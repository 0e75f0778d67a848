"""Routing: which model answers a request, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from commands.gateway import problems
from commands.gateway.attempts import Circuits, Rules
from commands.gateway.requests import ChatRequest
from commands.gateway.wishes import Turned, Wishes, beginning
from ledger import digests
from ledger.families.providers import Endpoint
from ledger.families.serving import Considered, Neighbour

NAMED = "named"
FAILED = "routing-failed"
UNABLE = "candidate-unable"
UNHEALTHY = "candidate-unhealthy"
NOT_ALLOWED = "candidate-not-allowed"
KEPT = "session-kept"
FAILOVER = "failover"


class Decided(msgspec.Struct, frozen=True):
    """What a policy says about one request."""

    alias: str
    reason: str
    candidates: tuple[Considered, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


class Routed(msgspec.Struct, frozen=True):
    """A project's policy: its id, how it decides, and by alias the digest of the model that its evidence is about.

    An empty digest is evidence from elsewhere, which knows models by name only.
    """

    project: str
    policy: str
    incumbent: str
    evidence: dict[str, str]
    decide: Callable[[list[dict[str, Any]], list[dict[str, Any]], Turned | None], Decided]


class Lack(NamedTuple):
    """Why a candidate can't be asked, as a decision records it and as a client is told."""

    reason: str
    words: str


class Route(msgspec.Struct, frozen=True):
    """Where a request goes, and where else it may go when that fails."""

    endpoint: Endpoint
    reason: str
    policy: str | None = None
    candidates: tuple[Considered, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    session: str | None = None
    keeps: bool = False
    elsewhere: tuple[Endpoint, ...] = ()


class Directory:
    """The models that clients may name."""

    def __init__(
        self,
        endpoints: dict[str, Endpoint],
        routed: Routed | None,
        *,
        rules: Rules | None = None,
        kept: Callable[[str], str | None] = lambda _session: None,
    ) -> None:
        self.endpoints = endpoints
        self.rules = rules or Rules()
        self.circuits = Circuits()
        self._routed = routed
        self._kept = kept
        project = () if routed is None else (routed.project,)
        self.shadowed = project[0] if project and project[0] in endpoints else None  # an alias that nobody can name
        self.names = (*project, *(alias for alias in endpoints if alias not in project))

    def route(self, request: ChatRequest, wishes: Wishes, identity: str) -> Route:
        """Return where a request goes; a Problem when its model isn't known or can't do what is asked."""
        routed = self._routed
        if routed is not None and request.chat.model == routed.project:
            return self._by_policy(routed, request, wishes, identity)
        endpoint = self.named(request.chat.model, wishes)
        if not endpoint.capabilities.supports_completions:
            raise problems.other_interface(endpoint.alias, "/v1/embeddings")
        stand_ins = self._stand_ins(endpoint, request, wishes)
        return self.direct(endpoint, stand_ins)

    def named(self, name: str, wishes: Wishes) -> Endpoint:
        """Return the model of an alias; a Problem when there is none, or the request's own headers don't allow it."""
        endpoint = self.endpoints.get(name)
        if endpoint is None:
            raise problems.unknown_model(name, self.names)
        if not wishes.allows(name):
            raise problems.none_allowed(name)
        return endpoint

    def within(self, names: tuple[str, ...], model: str, wishes: Wishes) -> Wishes:
        """Return a request's wishes within what its key may ask for. A project that it may includes its models."""
        if self._routed is not None and model == self._routed.project:
            return wishes
        allowed = names if wishes.allowed is None else tuple(name for name in wishes.allowed if name in names)
        return msgspec.structs.replace(wishes, allowed=allowed)

    def direct(self, endpoint: Endpoint, stand_ins: tuple[Endpoint, ...] = ()) -> Route:
        """Return the way to a model that was named; to who stands in for it while it rests, if somebody does."""
        if self.circuits.rests(endpoint.alias):
            well = tuple(one for one in stand_ins if not self.circuits.rests(one.alias))
            if well:
                return Route(well[0], UNHEALTHY, elsewhere=well[1:])
        return Route(endpoint, NAMED, elsewhere=stand_ins)

    def _stand_ins(self, endpoint: Endpoint, request: ChatRequest, wishes: Wishes) -> tuple[Endpoint, ...]:
        named = self.rules.stand_ins.get(endpoint.alias, ())
        return tuple(
            self.endpoints[alias]
            for alias in named
            if wishes.allows(alias) and not unable(self.endpoints[alias], request)
        )

    def _by_policy(self, routed: Routed, request: ChatRequest, wishes: Wishes, identity: str) -> Route:
        session = _session_of(routed, request, wishes, identity)
        decided = self._decided(routed, request, wishes)
        kept = self._kept(session)
        if kept is not None and kept in routed.evidence:
            decided = Decided(kept, KEPT, decided.candidates, decided.neighbours)
        order = dict.fromkeys((decided.alias, routed.incumbent, *routed.evidence))
        lacks = {alias: self._lacks(routed, alias, request, wishes) for alias in order}
        able = [self.endpoints[alias] for alias, lack in lacks.items() if lack is None]
        able += [
            self.endpoints[alias] for alias, lack in lacks.items() if lack is not None and lack.reason == UNHEALTHY
        ]
        if not able:
            raise _nobody(routed, [lack for lack in lacks.values() if lack is not None], wishes)
        endpoint, *others = able
        lack = lacks[decided.alias]
        return Route(
            endpoint,
            lack.reason if lack is not None and endpoint.alias != decided.alias else decided.reason,
            routed.policy,
            decided.candidates,
            decided.neighbours,
            session=session,
            keeps=kept is None and lack is None,
            elsewhere=tuple(one for one in others if one.alias == routed.incumbent),
        )

    def _decided(self, routed: Routed, request: ChatRequest, wishes: Wishes) -> Decided:
        try:
            return routed.decide(request.plain["messages"], request.plain.get("tools") or [], wishes.dial)
        except Exception:  # noqa: BLE001 - whatever goes wrong in deciding, the incumbent answers
            return Decided(routed.incumbent, FAILED)

    def _lacks(self, routed: Routed, alias: str, request: ChatRequest, wishes: Wishes) -> Lack | None:
        """Return why a candidate can't be asked; None when it can."""
        endpoint = self.endpoints.get(alias)
        if endpoint is None:
            return Lack(UNABLE, f"{alias} isn't configured")
        if alias != routed.incumbent and routed.evidence.get(alias) not in {"", endpoint.digest}:
            return Lack(UNABLE, f"{alias} was configured anew since the policy was frozen")
        if words := unable(endpoint, request):
            return Lack(UNABLE, words)
        if not wishes.allows(alias):
            return Lack(NOT_ALLOWED, f"{alias} isn't among the allowed models")
        if self.circuits.rests(alias):
            return Lack(UNHEALTHY, f"{alias} failed too often in a row and isn't asked now")
        return None


def _nobody(routed: Routed, lacks: list[Lack], wishes: Wishes) -> problems.Problem:
    if wishes.allowed is not None and all(lack.reason == NOT_ALLOWED for lack in lacks):
        return problems.none_allowed(routed.project)
    words = "; ".join(lack.words for lack in lacks)
    return problems.Problem(
        400, f"no candidate of {routed.project} can answer this: {words}", code="unsupported_parameter"
    )


def _session_of(routed: Routed, request: ChatRequest, wishes: Wishes, identity: str) -> str:
    """Return the name of a request's session: of this client, under this policy."""
    said = wishes.session or beginning(request.plain["messages"])
    return digests.content_digest(f"{identity}\n{routed.project}\n{routed.policy}\n{said}".encode())


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
