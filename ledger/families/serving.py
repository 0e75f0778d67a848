"""Serving: requests that reached the gateway, what they may cost, where they went, and how each one ended.

A request is accepted with the worst that it may cost, before anything is asked; it ends once: answered, failed,
abandoned or lost. State holds the requests that are open and sums over the rest, never a map of all requests: whoever
needs one that is over looks it up by its key.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger import digests
from ledger.errors import Refusal
from ledger.event import BlobRef, Command, Event, Fact, Family, Found, event
from ledger.money import NanoUSD
from ledger.prompt import Usage

CHAT = "chat.completions"
EMBEDDINGS = "embeddings"


class RequestAlreadyAccepted(Refusal, name="request-already-accepted", exit_code=73):
    """Another request holds the same idempotency key, attempt for attempt."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"request {holder} holds this idempotency key",
            where="the gateway's journal",
            remedy="wait for that request and send its answer",
        )


class SessionKeptElsewhere(Refusal, name="session-kept-elsewhere", exit_code=115):
    """Another request of the same session was first, and went to another model."""

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"this session is kept with the model {alias}",
            where="the gateway's journal",
            remedy="send the request to that model",
        )


class Claim(Fact):
    """A request's hold on an idempotency key: the nth attempt under it, and what its body was."""

    scope: str
    attempt: int
    fingerprint: str
    keep_until: int
    upstream_key: str

    @property
    def key(self) -> str:
        """The lookup key of this attempt."""
        return claim_key(self.scope, self.attempt)


class Counted(Fact):
    """Tokens as the provider counted them; None where it said nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @classmethod
    def of(cls, usage: Usage) -> Counted:
        """Return the counts of a reply's usage."""
        return cls(**msgspec.structs.asdict(usage))


class Considered(Fact):
    """A candidate that a decision weighed: its score and, by the same neighbours, the incumbent's, in millionths."""

    alias: str
    verdict: str
    score: int | None = None
    incumbent: int | None = None
    cost: NanoUSD | None = None


class Neighbour(Fact):
    """A fit task that a decision leaned on, and how near it was."""

    task: str
    similarity: int


@event("gateway-key-issued@1")
class GatewayKeyIssued(Event):
    """A key that clients may show; the key itself is only in its file."""

    identity: str
    digest: str

    @property
    def stream(self) -> str:
        """One stream for all keys."""
        return "gateway-keys"

    @property
    def key(self) -> str:
        """A key is issued once."""
        return self.digest


class RequestEvent(Event):
    """Base of what happens to one request."""

    request: str

    @property
    def stream(self) -> str:
        """One stream a request."""
        return f"request:{self.request}"

    @property
    def key(self) -> str | None:
        """Each of these happens to a request at most once."""
        return self.request


@event("request-accepted@1")
class RequestAccepted(RequestEvent):
    """A request that may be answered, with its reservation. Without content, ``body`` is None."""

    route: str
    identity: str
    model: str
    alias: str
    streamed: bool
    ghost: bool
    process: str
    worst_case: NanoUSD | None
    correlation: str | None = None
    body: BlobRef | None = None
    claim: Claim | None = None

    @property
    def key(self) -> str:
        """The claim on an idempotency key, or the request itself."""
        return self.request if self.claim is None else self.claim.key


@event("request-refused@1")
class RequestRefused(RequestEvent):
    """A request from a known client that wasn't accepted: nothing was asked, and nothing of it is kept."""

    route: str
    identity: str
    status: int
    code: str


@event("route-decided@1")
class RouteDecided(RequestEvent):
    """Which model answers a request and why; ``sent`` is the digest of the body that goes to it."""

    alias: str
    reason: str
    api: str
    base_url: str
    sent: str
    policy: str | None = None
    candidates: tuple[Considered, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    session: str | None = None
    dial: str | None = None
    allowed: tuple[str, ...] | None = None


@event("session-kept@1")
class SessionKept(Event):
    """Which model a session's requests go to from now on, so that its provider's prompt cache pays."""

    session: str
    alias: str
    request: str

    @property
    def stream(self) -> str:
        """One stream a session."""
        return f"session:{self.session[3:35]}"

    @property
    def key(self) -> str:
        """A session is kept once. Its digest covers the policy: another policy decides anew."""
        return self.session


@event("attempt-failed@1")
class AttemptFailed(RequestEvent):
    """A dispatch brought no answer and is followed by another, whose worst case comes on top.

    A cost of None is unknown: the dispatch's worst case stays counted.
    """

    dispatch: int
    reason: str
    worst_case: NanoUSD | None
    alias: str = ""
    status: int | None = None
    cost: NanoUSD | None = None
    pause_us: int = 0

    @property
    def key(self) -> str:
        """One a dispatch."""
        return f"{self.request}:{self.dispatch}"


@event("request-rerouted@1")
class RequestRerouted(RequestEvent):
    """The next dispatch goes to another model, and may cost this much."""

    dispatch: int
    alias: str
    reason: str
    api: str
    base_url: str
    sent: str
    worst_case: NanoUSD | None

    @property
    def key(self) -> str:
        """One a dispatch."""
        return f"{self.request}:{self.dispatch}"


@event("request-answered@1")
class RequestAnswered(RequestEvent):
    """A request's answer: the exact bytes that its client gets, unless content isn't kept.

    A cost of None is unknown: the worst case stays counted. ``alias`` is the model that answered after all, and
    ``decision`` the event that says why.
    """

    response: BlobRef | None
    usage: Counted
    cost: NanoUSD | None
    served_model: str | None
    as_pinned: bool
    redacted: bool
    latency_us: int
    first_byte_us: int
    alias: str | None = None
    decision: str | None = None


@event("request-failed@1")
class RequestFailed(RequestEvent):
    """A request got an error, kept word for word; a stream that broke also keeps what had left by then."""

    status: int
    code: str
    error: BlobRef | None
    retry_after: str | None = None
    partial: BlobRef | None = None
    upstream_status: int | None = None
    usage: Counted = Counted()
    cost: NanoUSD | None = None
    latency_us: int = 0


@event("request-abandoned@1")
class RequestAbandoned(RequestEvent):
    """A request ended because its client left or the gateway was told to stop."""

    reason: Literal["client-left", "stopped"]
    partial: BlobRef | None = None
    usage: Counted = Counted()
    cost: NanoUSD | None = None
    latency_us: int = 0


@event("request-lost@1")
class RequestLost(RequestEvent):
    """The process that had this request is gone. Nobody knows whether it was answered: its worst case stays counted."""

    process: str


Ended = RequestAnswered | RequestFailed | RequestAbandoned | RequestLost
ENDINGS: tuple[type[RequestEvent], ...] = (RequestAnswered, RequestFailed, RequestAbandoned, RequestLost)


class Open(msgspec.Struct):
    """A request that hasn't ended."""

    process: str
    alias: str
    worst_case: NanoUSD | None
    dispatches: int = 1


class Tally(msgspec.Struct):
    """What one alias has answered and cost."""

    requests: int = 0
    answered: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: NanoUSD = 0


class Serving(msgspec.Struct):
    """Requests in flight, and sums over those that are over. Money is in three parts that never overlap."""

    open: dict[str, Open] = {}
    keys: dict[str, str] = {}
    aliases: dict[str, Tally] = {}
    settled: NanoUSD = 0
    reserved: NanoUSD = 0
    ambiguous: NanoUSD = 0
    unpriced: int = 0


class IssueGatewayKey(Command):
    """Record that a key exists."""

    identity: str
    digest: str


class AcceptRequest(Command):
    """Accept a request, reserve its worst case, and say where it goes."""

    accepted: RequestAccepted
    decided: RouteDecided
    kept: SessionKept | None = None

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """Whoever accepted under the same key, and the model that the session is kept with."""
        claimed = (RequestAccepted.kind, self.accepted.key)
        return (claimed,) if self.kept is None else (claimed, (SessionKept.kind, self.kept.session))


class RefuseRequest(Command):
    """Record that a request wasn't accepted."""

    refused: RequestRefused

    @property
    def looks_up(self) -> tuple[tuple[str, str], ...]:
        """Whether that is recorded already."""
        return ((RequestRefused.kind, self.refused.request),)


class RetryDispatch(Command):
    """Record a dispatch without an answer, and where the next one goes, before it leaves."""

    failed: AttemptFailed
    rerouted: RequestRerouted | None = None


class EndRequest(Command):
    """End a request, whichever way."""

    ending: Ended


def claim_key(scope: str, attempt: int) -> str:
    """Return the key under which the nth attempt of an idempotency key was accepted."""
    return f"{scope}:{attempt}"


def scope_of(identity: str, route: str, idempotency_key: str) -> str:
    """Return the digest that an idempotency key is known by: from another client or on another route, it is another."""
    return digests.content_digest(f"{identity}\n{route}\n{idempotency_key}".encode())


def decide(command: Command, state: Serving, found: Found) -> tuple[Event, ...]:
    """Return what is new. Ending a request that is over, or was never accepted, changes nothing."""
    if isinstance(command, AcceptRequest):
        return _accepted(command, found)
    if isinstance(command, RetryDispatch):
        return _again(command, state)
    if isinstance(command, RefuseRequest):
        return () if found(RequestRefused.kind, command.refused.request) is not None else (command.refused,)
    if isinstance(command, EndRequest):
        return (command.ending,) if command.ending.request in state.open else ()
    if isinstance(command, IssueGatewayKey) and command.digest not in state.keys:
        return (GatewayKeyIssued(identity=command.identity, digest=command.digest),)
    return ()


def _accepted(command: AcceptRequest, found: Found) -> tuple[Event, ...]:
    holder = found(RequestAccepted.kind, command.accepted.key)
    if holder is None:
        return command.accepted, command.decided, *_kept(command.kept, found)
    if not isinstance(holder, RequestAccepted) or holder.request != command.accepted.request:
        raise RequestAlreadyAccepted(getattr(holder, "request", "another"))
    return ()


def _kept(kept: SessionKept | None, found: Found) -> tuple[SessionKept, ...]:
    if kept is None:
        return ()
    before = found(SessionKept.kind, kept.session)
    if not isinstance(before, SessionKept):
        return (kept,)
    if before.alias != kept.alias:
        raise SessionKeptElsewhere(before.alias)
    return ()


def _again(command: RetryDispatch, state: Serving) -> tuple[Event, ...]:
    holder = state.open.get(command.failed.request)
    if holder is None or holder.dispatches != command.failed.dispatch + 1:
        return ()
    return (command.failed,) if command.rerouted is None else (command.failed, command.rerouted)


def evolve(state: Serving, event: Event) -> Serving:
    """Fold one event."""
    if isinstance(event, RequestAccepted):
        state.open[event.request] = Open(event.process, event.alias, event.worst_case)
        state.reserved += event.worst_case or 0
        _tally(state, event.alias).requests += 1
    elif isinstance(event, AttemptFailed):
        _retried(state, event)
    elif isinstance(event, RequestRerouted):
        _rerouted(state, event)
    elif isinstance(event, ENDINGS):
        _ended(state, event)
    elif isinstance(event, GatewayKeyIssued):
        state.keys[event.digest] = event.identity
    return state


def _tally(state: Serving, alias: str) -> Tally:
    tally = state.aliases.get(alias)
    if tally is None:
        tally = state.aliases[alias] = Tally()
    return tally


def _retried(state: Serving, event: AttemptFailed) -> None:
    """Count what the failed dispatch cost, or its worst case as ambiguous; the reservation goes on for the next one."""
    holder = state.open.get(event.request)
    if holder is None:
        return
    holder.dispatches += 1
    if event.cost is None:
        state.ambiguous += event.worst_case or 0
        state.unpriced += event.worst_case is None
    else:
        state.settled += event.cost
        _tally(state, holder.alias).cost += event.cost


def _rerouted(state: Serving, event: RequestRerouted) -> None:
    """Reserve what the next dispatch may cost instead of what the last one might."""
    holder = state.open.get(event.request)
    if holder is None:
        return
    state.reserved += (event.worst_case or 0) - (holder.worst_case or 0)
    _tally(state, holder.alias).requests -= 1
    _tally(state, event.alias).requests += 1
    holder.alias, holder.worst_case = event.alias, event.worst_case


def _ended(state: Serving, event: RequestEvent) -> None:
    holder = state.open.pop(event.request, None)
    if holder is None:
        return
    state.reserved -= holder.worst_case or 0
    cost = None if isinstance(event, RequestLost) else event.cost  # type: ignore[attr-defined]  # every other ending has one
    tally = _tally(state, holder.alias)
    if cost is None:
        state.ambiguous += holder.worst_case or 0
        state.unpriced += holder.worst_case is None
    else:
        state.settled += cost
        tally.cost += cost
    if isinstance(event, RequestAnswered):
        tally.answered += 1
        tally.input_tokens += event.usage.input_tokens or 0
        tally.output_tokens += event.usage.output_tokens or 0


FAMILY = Family(
    name="serving",
    version=2,
    kinds=(
        GatewayKeyIssued,
        RequestAccepted,
        RequestRefused,
        RouteDecided,
        SessionKept,
        AttemptFailed,
        RequestRerouted,
        RequestAnswered,
        RequestFailed,
        RequestAbandoned,
        RequestLost,
    ),
    initial=Serving,
    decide=decide,
    evolve=evolve,
)
