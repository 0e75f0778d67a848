"""Attempts: how often and how long providers are asked for one request, which ones rest, and how long is waited.

Only one layer retries. By default that is the client; where the operator lets the gateway do it, its last failure tells
clients not to.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from commands.gateway.problems import Problem
from commands.gateway.upstream import UpstreamProblem, clock
from ledger.errors import Refusal
from ledger.families.providers import Endpoint

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
LONGEST_ASKED_FOR = 20.0
FAILURES_TO_REST, REST = 5, 10.0
TOO_MANY = 429
_AGAIN = frozenset({429, 502, 503, 504})
_ELSEWHERE_ONLY = frozenset({"credential_missing", "upstream_authentication", "insufficient_quota"})
_NOT_AGAIN = frozenset({"upstream_model_differs"})
T = TypeVar("T")


class RuleForNobody(Refusal, name="rule-for-nobody", exit_code=116):
    """A rule for the gateway names no model and no connection."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no model or connection {name!r} that a rule could be for",
            where="--retries, --upstream-timeout or --fallback",
            remedy=f"name one of {', '.join(known)}",
        )


class Rule(msgspec.Struct, frozen=True):
    """How patient the gateway is with one model: retries beside the first dispatch, seconds of silence."""

    retries: int
    timeout: float


class Rules(msgspec.Struct, frozen=True):
    """What the operator set: for all, for a connection, or for a model; the nearest counts. And who stands in for whom.

    The names None stands for all.
    """

    retries: Mapping[str | None, int] = {}
    timeouts: Mapping[str | None, float] = {}
    stand_ins: Mapping[str, tuple[str, ...]] = {}

    def of(self, endpoint: Endpoint) -> Rule:
        """Return the rule for a model."""
        return Rule(_nearest(self.retries, endpoint, 0), _nearest(self.timeouts, endpoint, 600.0))


def check_rules(rules: Rules, endpoints: Mapping[str, Endpoint]) -> None:
    """Refuse rules for what isn't configured."""
    named = {*endpoints, *(endpoint.connection.name for endpoint in endpoints.values())}
    for name in (*rules.retries, *rules.timeouts):
        if name is not None and name not in named:
            raise RuleForNobody(name, sorted(named))
    for alias, others in rules.stand_ins.items():
        for name in (alias, *others):
            if name not in endpoints:
                raise RuleForNobody(name, sorted(endpoints))


def _nearest(set_: Mapping[str | None, T], endpoint: Endpoint, otherwise: T) -> T:
    for name in (endpoint.alias, endpoint.connection.name, None):
        if name in set_:
            return set_[name]
    return otherwise


class Circuit(msgspec.Struct):
    """What a model's last calls came to. ``rests_until`` is on a clock that only grows."""

    failures: int = 0
    rests_until: float = 0.0
    trying: bool = False


class Circuits:
    """Which models rest: after some failures in a row others are asked for a while, and then one request tries it.

    A model that nothing stands in for is asked all the same: a refusal would help nobody.
    """

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self._now = now
        self._circuits: dict[str, Circuit] = {}

    def rests(self, alias: str) -> bool:
        """Tell whether a model isn't to be asked now."""
        circuit = self._circuits.get(alias)
        return (
            circuit is not None
            and circuit.failures >= FAILURES_TO_REST
            and (circuit.trying or self._now() < circuit.rests_until)
        )

    def asked(self, alias: str) -> None:
        """Note that a model is asked: where it rested, this is the one request that tries it."""
        circuit = self._circuits.get(alias)
        if circuit is not None and circuit.failures >= FAILURES_TO_REST:
            circuit.trying = True

    def answered(self, alias: str) -> None:
        """Note that a model answered, or said what is wrong with a request: it is well."""
        self._circuits.pop(alias, None)

    def ceased(self, alias: str) -> None:
        """Note that a call ended without telling anything about its model."""
        circuit = self._circuits.get(alias)
        if circuit is not None:
            circuit.trying = False

    def failed(self, alias: str, problem: Problem) -> None:
        """Note a failure. A provider that is there and is busy, or doesn't know the gateway, is not down."""
        if problem.status not in _AGAIN or problem.code in _ELSEWHERE_ONLY:
            self.answered(alias)
            return
        circuit = self._circuits.setdefault(alias, Circuit())
        circuit.trying = False
        if problem.status == TOO_MANY:
            return
        circuit.failures += 1
        if circuit.failures >= FAILURES_TO_REST:
            circuit.rests_until = self._now() + REST

    def resting(self) -> dict[str, dict[str, object]]:
        """Return, by alias, what health says of the models that rest or are being tried."""
        now = self._now()
        return {
            alias: {
                "state": "half-open" if circuit.trying or now >= circuit.rests_until else "open",
                "failures": circuit.failures,
                "seconds": max(0, math.ceil(circuit.rests_until - now)),
            }
            for alias, circuit in sorted(self._circuits.items())
            if circuit.failures >= FAILURES_TO_REST
        }


def may_go_elsewhere(problem: Problem) -> bool:
    """Tell whether another model may be asked after a failure."""
    if problem.code in _ELSEWHERE_ONLY:
        return True
    return isinstance(problem, UpstreamProblem) and problem.status in _AGAIN and problem.code not in _NOT_AGAIN


def pause(problem: Problem, tried: int, chance: Callable[[], float] = random.random) -> float | None:
    """Return the seconds until the same model may be asked again; None when it may not.

    ``tried`` dispatches went to it. What the provider asks for is waited, where that isn't too long.
    """
    if problem.code in _ELSEWHERE_ONLY or not may_go_elsewhere(problem):
        return None
    asked_for = _asked_for(problem)
    if asked_for is not None and asked_for > LONGEST_ASKED_FOR:
        return None
    doubled = min(FIRST_PAUSE * 2.0 ** (tried - 1), LONGEST_PAUSE)
    return max(doubled * (0.5 + chance() / 2), asked_for or 0.0)


def _asked_for(problem: Problem) -> float | None:
    """Return the seconds in Retry-After; a date is taken as too long to wait for."""
    for name, scale in (("retry-after-ms", 0.001), ("Retry-After", 1.0)):
        value = problem.headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            return math.inf
        return seconds if seconds >= 0 else 0.0
    return None


def unrepeated(problem: Problem) -> Problem:
    """Return the last failure of a gateway that retried: clients needn't."""
    problem.headers = {**problem.headers, "x-should-retry": "false"}
    return problem
