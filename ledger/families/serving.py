"""Serving: requests that reached the gateway, what they may cost, where they went, and how each one ended.

A request is accepted with the worst that it may cost, before anything is asked; it ends once: answered, failed,
abandoned or lost. State holds the requests that are open and sums over the rest, never a map of all requests: whoever
needs one that is over looks it up by its key.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ledger import allowances, consumption, digests
from ledger.allowances import FREE, OVERALL, Account, Limits, Wanted
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


class GatewayKeyRevoked(Refusal, name="gateway-key-revoked", exit_code=121):
    """A key that was taken back is shown, or was about to be used."""

    def __init__(self, identity: str) -> None:
        super().__init__(
            f"this key of {identity} was revoked",
            where="the gateway's journal",
            remedy="show another key; for the gateway's own, delete its key file and a new one is made",
        )


class ModelNotAllowed(Refusal, name="gateway-model-not-allowed", exit_code=220):
    """A key may not ask for this model."""

    def __init__(self, identity: str, model: str) -> None:
        super().__init__(
            f"the key {identity} may not ask for {model}",
            where="the gateway's journal",
            remedy="ask for a model that the key is for; `exp gateway limits` shows them",
        )


class GatewayKeyNameTaken(Refusal, name="gateway-key-name-taken", exit_code=221):
    """A key of that name was issued before."""

    def __init__(self, identity: str) -> None:
        super().__init__(
            f"a key named {identity} was issued before, and what it did goes by that name",
            where="the gateway's journal",
            remedy=f"choose another name, or give {identity} a new key with `exp gateway key rotate {identity}`",
        )


class GatewayKeyUnknown(Refusal, name="gateway-key-unknown", exit_code=222):
    """No valid key has that name."""

    def __init__(self, identity: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"there is no valid key named {identity}",
            where="the gateway's journal",
            remedy=f"there is {', '.join(known)}" if known else "issue one with `exp gateway key issue`",
        )


NOT_ADMITTED = (
    allowances.RateExceeded,
    allowances.BudgetSpent,
    allowances.PriceUnknown,
    GatewayKeyRevoked,
    ModelNotAllowed,
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


@event("gateway-key-revoked@1")
class GatewayKeyTakenBack(Event):
    """A key is not valid any more, or not from a moment on: the other one of its name is."""

    identity: str
    digest: str
    since: int

    @property
    def stream(self) -> str:
        """One stream for all keys."""
        return "gateway-keys"


@event("gateway-limits-set@1")
class GatewayLimitsSet(Event):
    """What a key may do from now on; without a name, what all keys together may."""

    identity: str
    limits: Limits

    @property
    def stream(self) -> str:
        """One stream for all keys."""
        return "gateway-keys"


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
    """A request that may be answered, with its reservation. Without content, ``body`` is None.

    ``when`` is the time that minutes, days and months are told from, and ``tokens`` the most that it may take.
    """

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
    when: int = 0
    tokens: int = 0

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
    identity: str = ""
    when: int = 0
    tokens: int = 0

    @property
    def day(self) -> int:
        """The day that it counts in; 0 where that wasn't recorded."""
        return self.when // allowances.DAY


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
    revoked: dict[str, int] = {}
    accounts: dict[str, Account] = {}
    usage: consumption.Days = {}
    now: int = 0

    def valid(self, digest: str, when: int) -> bool:
        """Tell whether a key may be shown at a time."""
        since = self.revoked.get(digest)
        return digest in self.keys and (since is None or max(when, self.now) < since)

    def account(self, identity: str) -> Account:
        """Return what a key, or all together, may take and took: to be read."""
        return self.accounts.get(identity) or Account()


class IssueGatewayKey(Command):
    """Record that a key exists: the gateway's own, whose name nobody chose, or one that ``limits`` are set for."""

    identity: str
    digest: str
    limits: Limits | None = None


class RevokeGatewayKey(Command):
    """Take back the keys of a name."""

    identity: str
    when: int


class RotateGatewayKey(Command):
    """Give a name a new key; those that it had are valid until ``until``."""

    identity: str
    digest: str
    when: int
    until: int


class SetGatewayLimits(Command):
    """Say what a key may do; without a name, what all keys together may."""

    identity: str
    limits: Limits


class AcceptRequest(Command):
    """Accept a request, reserve its worst case, and say where it goes. ``shown`` is the digest of the client's key."""

    accepted: RequestAccepted
    decided: RouteDecided
    kept: SessionKept | None = None
    shown: str = ""

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
    when: int = 0


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
        return _accepted(command, state, found)
    if isinstance(command, RetryDispatch):
        return _again(command, state)
    if isinstance(command, RefuseRequest):
        return () if found(RequestRefused.kind, command.refused.request) is not None else (command.refused,)
    if isinstance(command, EndRequest):
        return (command.ending,) if command.ending.request in state.open else ()
    return _about_keys(command, state)


def _about_keys(command: Command, state: Serving) -> tuple[Event, ...]:
    if isinstance(command, IssueGatewayKey):
        return _issued(command, state)
    if isinstance(command, RevokeGatewayKey):
        taken_back = _taken_back(state, command.identity, command.when, command.when)
        if not taken_back:
            raise GatewayKeyUnknown(command.identity, valid_names(state, command.when))
        return taken_back
    if isinstance(command, RotateGatewayKey):
        check_known(command.identity, state, command.when)
        taken_back = _taken_back(state, command.identity, command.when, command.until)
        return GatewayKeyIssued(identity=command.identity, digest=command.digest), *taken_back
    if isinstance(command, SetGatewayLimits):
        if command.identity != OVERALL:
            check_known(command.identity, state, state.now)
        same = state.account(command.identity).limits == command.limits
        return () if same else (GatewayLimitsSet(identity=command.identity, limits=command.limits),)
    return ()


def _issued(command: IssueGatewayKey, state: Serving) -> tuple[Event, ...]:
    if command.limits is None:
        if command.digest in state.revoked:
            raise GatewayKeyRevoked(command.identity)
        known = command.digest in state.keys
        return () if known else (GatewayKeyIssued(identity=command.identity, digest=command.digest),)
    check_name(command.identity, state)
    issued = GatewayKeyIssued(identity=command.identity, digest=command.digest)
    if command.limits == FREE:
        return (issued,)
    return issued, GatewayLimitsSet(identity=command.identity, limits=command.limits)


def _taken_back(state: Serving, identity: str, when: int, since: int) -> tuple[GatewayKeyTakenBack, ...]:
    """Return the end of each key of a name that would be valid longer."""
    return tuple(
        GatewayKeyTakenBack(identity=identity, digest=digest, since=since)
        for digest, name in state.keys.items()
        if name == identity and state.valid(digest, when) and state.revoked.get(digest, since + 1) > since
    )


def check_name(identity: str, state: Serving) -> None:
    """Refuse a name for which a key was issued before."""
    if identity in state.keys.values():
        raise GatewayKeyNameTaken(identity)


def check_known(identity: str, state: Serving, when: int) -> None:
    """Refuse a name for which no key was ever issued."""
    if identity not in state.keys.values():
        raise GatewayKeyUnknown(identity, valid_names(state, when))


def valid_names(state: Serving, when: int) -> tuple[str, ...]:
    """Return the names that a key may be shown for."""
    return tuple(sorted({name for digest, name in state.keys.items() if state.valid(digest, when)}))


def _wanted(accepted: RequestAccepted, state: Serving) -> Wanted:
    when = max(accepted.when, state.now)
    return Wanted(accepted.identity, accepted.alias, when, accepted.tokens, accepted.worst_case)


def _admit(command: AcceptRequest, state: Serving) -> None:
    """Refuse a request whose key is no more, or that doesn't fit into what its key, or all together, may take."""
    accepted = command.accepted
    if command.shown and not state.valid(command.shown, accepted.when):
        raise GatewayKeyRevoked(accepted.identity)
    account = state.account(accepted.identity)
    aliases = account.limits.aliases
    if aliases is not None and accepted.model not in aliases:
        raise ModelNotAllowed(accepted.identity, accepted.model)
    wanted = _wanted(accepted, state)
    allowances.check(account, wanted, accepted.identity)
    allowances.check(state.account(OVERALL), wanted, OVERALL)


def _accepted(command: AcceptRequest, state: Serving, found: Found) -> tuple[Event, ...]:
    holder = found(RequestAccepted.kind, command.accepted.key)
    if holder is None:
        _admit(command, state)
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
    _check_more(command, state, holder)
    return (command.failed,) if command.rerouted is None else (command.failed, command.rerouted)


def _check_more(command: RetryDispatch, state: Serving, holder: Open) -> None:
    """Refuse another dispatch that doesn't fit under the budgets: the failed one may have been charged for."""
    failed, rerouted = command.failed, command.rerouted
    more = failed.worst_case if failed.cost is None else failed.cost
    if more is not None and rerouted is not None:
        more = None if rerouted.worst_case is None else more + rerouted.worst_case - (holder.worst_case or 0)
    alias = failed.alias if rerouted is None else rerouted.alias
    wanted = Wanted(holder.identity, alias, holder.when, 0, more)
    now = max(command.when, state.now)
    allowances.check_more(state.account(holder.identity), wanted, now, holder.identity)
    allowances.check_more(state.account(OVERALL), wanted, now, OVERALL)


def evolve(state: Serving, event: Event) -> Serving:
    """Fold one event."""
    if isinstance(event, RequestAccepted):
        _opened(state, event)
    elif isinstance(event, AttemptFailed):
        _retried(state, event)
    elif isinstance(event, RequestRerouted):
        _rerouted(state, event)
    elif isinstance(event, ENDINGS):
        _ended(state, event)
    else:
        _fold_key(state, event)
    return state


def _fold_key(state: Serving, event: Event) -> None:
    if isinstance(event, GatewayKeyIssued):
        state.keys[event.digest] = event.identity
    elif isinstance(event, GatewayKeyTakenBack):
        state.revoked[event.digest] = event.since
    elif isinstance(event, GatewayLimitsSet):
        _account(state, event.identity).limits = event.limits


def _account(state: Serving, identity: str) -> Account:
    account = state.accounts.get(identity)
    if account is None:
        account = state.accounts[identity] = Account()
    return account


def _used(state: Serving, holder: Open) -> consumption.Used:
    return consumption.used(state.usage, holder.day, holder.identity, holder.alias)


def _opened(state: Serving, event: RequestAccepted) -> None:
    when = 0
    if event.when:
        when = state.now = max(state.now, event.when)
    holder = Open(event.process, event.alias, event.worst_case, identity=event.identity, when=when, tokens=event.tokens)
    state.open[event.request] = holder
    worst = event.worst_case or 0
    state.reserved += worst
    _tally(state, event.alias).requests += 1
    _used(state, holder).requests += 1
    if when:
        _account(state, event.identity).reserve(when, event.tokens, worst)
        _account(state, OVERALL).reserve(when, event.tokens, worst)


def _settle(state: Serving, holder: Open, reserved: NanoUSD, taken: NanoUSD) -> None:
    """Replace money that a request has reserved by what was taken."""
    if holder.when:
        _account(state, holder.identity).settle(holder.when, reserved, taken)
        _account(state, OVERALL).settle(holder.when, reserved, taken)


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
    _charge(state, holder, event.cost, event.worst_case)
    _settle(state, holder, 0, (event.worst_case or 0) if event.cost is None else event.cost)


def _rerouted(state: Serving, event: RequestRerouted) -> None:
    """Reserve what the next dispatch may cost instead of what the last one might."""
    holder = state.open.get(event.request)
    if holder is None:
        return
    before, after = holder.worst_case or 0, event.worst_case or 0
    state.reserved += after - before
    _settle(state, holder, before - after, 0)
    _tally(state, holder.alias).requests -= 1
    _used(state, holder).requests -= 1
    holder.alias, holder.worst_case = event.alias, event.worst_case
    _tally(state, holder.alias).requests += 1
    _used(state, holder).requests += 1


def _charge(state: Serving, holder: Open, cost: NanoUSD | None, worst: NanoUSD | None) -> None:
    """Add what a dispatch cost; where that isn't known, its worst case as ambiguous."""
    used = _used(state, holder)
    if cost is None:
        state.ambiguous += worst or 0
        used.ambiguous += worst or 0
        state.unpriced += worst is None
        used.unpriced += worst is None
    else:
        state.settled += cost
        used.cost += cost
        _tally(state, holder.alias).cost += cost


def _ended(state: Serving, event: RequestEvent) -> None:
    holder = state.open.pop(event.request, None)
    if holder is None:
        return
    worst = holder.worst_case or 0
    state.reserved -= worst
    cost = None if isinstance(event, RequestLost) else event.cost  # type: ignore[attr-defined]  # every other ending has one
    _charge(state, holder, cost, holder.worst_case)
    _settle(state, holder, worst, worst if cost is None else cost)
    _count_ending(state, holder, event)


def _count_ending(state: Serving, holder: Open, event: RequestEvent) -> None:
    used, usage = _used(state, holder), getattr(event, "usage", None) or Counted()
    if isinstance(event, RequestAnswered):
        tally = _tally(state, holder.alias)
        tally.answered += 1
        tally.input_tokens += usage.input_tokens or 0
        tally.output_tokens += usage.output_tokens or 0
        used.answered += 1
    elif isinstance(event, RequestFailed):
        used.failed += 1
    elif isinstance(event, RequestAbandoned):
        used.abandoned += 1
    else:
        used.lost += 1
    used.input_tokens += usage.input_tokens or 0
    used.output_tokens += usage.output_tokens or 0
    used.cached_input_tokens += usage.cached_input_tokens or 0
    used.reasoning_tokens += usage.reasoning_tokens or 0
    _settle_tokens(state, holder, event, usage)


def _settle_tokens(state: Serving, holder: Open, event: RequestEvent, usage: Counted) -> None:
    """Give back the tokens that weren't taken; where nobody counted, a request that cost nothing took none."""
    if not holder.when:
        return
    taken = holder.tokens
    if usage.input_tokens is not None or usage.output_tokens is not None:
        taken = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    elif isinstance(event, RequestFailed) and event.cost == 0:
        taken = 0
    _account(state, holder.identity).settle_tokens(holder.when, holder.tokens, taken)
    _account(state, OVERALL).settle_tokens(holder.when, holder.tokens, taken)


FAMILY = Family(
    name="serving",
    kinds=(
        GatewayKeyIssued,
        GatewayKeyTakenBack,
        GatewayLimitsSet,
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
    version=3,
)
