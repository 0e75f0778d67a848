"""Accounting: what a request may cost at most, and what its answer did cost."""

from __future__ import annotations

import msgspec

from commands.gateway import problems
from commands.gateway.requests import ChatRequest, Request
from ledger.canonical import GREATEST_INTEGER
from ledger.estimates import actual_cost, worst_case
from ledger.families.providers import Endpoint
from ledger.families.serving import Counted
from ledger.money import NanoUSD
from ledger.prompt import Usage
from ledger.replies import read_usage


def reservation(endpoint: Endpoint, request: Request, sent: bytes) -> NanoUSD | None:
    """Return the most that a request may cost: a byte counts as a token. None when a price or a limit is unknown."""
    if not isinstance(request, ChatRequest):
        return worst_case(endpoint, len(sent), 0)
    able = endpoint.capabilities
    limit = _output_limit(endpoint, request)
    if limit is None:
        if able.output_price != 0:
            return None
        limit = 0
    worst = worst_case(endpoint, len(sent), limit * (request.chat.n or 1))
    if worst is not None and worst > GREATEST_INTEGER:
        raise problems.unreadable("so many tokens can't be paid for", "max_completion_tokens")
    return worst


def most_tokens(endpoint: Endpoint, request: Request, sent: bytes) -> int:
    """Return the most tokens that a request may take, as far as that is known: a byte counts as one."""
    if not isinstance(request, ChatRequest):
        return len(sent)
    most = len(sent) + (_output_limit(endpoint, request) or 0) * (request.chat.n or 1)
    return min(most, GREATEST_INTEGER)


def _output_limit(endpoint: Endpoint, request: ChatRequest) -> int | None:
    able = endpoint.capabilities
    return request.output_limit or able.maximum_output_tokens or able.context_window_tokens


def counted(usage: bytes | None) -> Usage:
    """Return the counts in a reply's usage, as its bytes."""
    if usage is None:
        return Usage()
    try:
        return read_usage(msgspec.json.decode(usage))
    except (ValueError, RecursionError):
        return Usage()


def settled(endpoint: Endpoint, usage: bytes | None) -> tuple[Counted, NanoUSD | None]:
    """Return the counts to record and what they cost; None when that can't be known."""
    counts = counted(usage)
    recorded = Counted.of(counts)
    cost = actual_cost(endpoint.capabilities, counts)
    if any((count or 0) > GREATEST_INTEGER for count in (*msgspec.structs.astuple(recorded), cost)):
        return Counted(), None
    return recorded, cost
