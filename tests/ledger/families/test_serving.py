from __future__ import annotations

import itertools
from typing import Any

import pytest

from ledger.event import Command, Event, Found
from ledger.families import serving
from ledger.families.serving import (
    AcceptRequest,
    AttemptFailed,
    Claim,
    Counted,
    Ended,
    EndRequest,
    IssueGatewayKey,
    RefuseRequest,
    RequestAbandoned,
    RequestAccepted,
    RequestAlreadyAccepted,
    RequestAnswered,
    RequestFailed,
    RequestLost,
    RequestRefused,
    RetryDispatch,
    RouteDecided,
    Serving,
)

WORST = 1_000


class Book:
    """The family over a list of events, as a journal would run it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.state = Serving()

    def found(self, command: Command) -> Found:
        by_key = {(event.kind, event.key): event for event in self.events}
        wanted = {pair: by_key.get(pair) for pair in command.looks_up}
        return lambda kind, key: wanted[kind, key]

    def do(self, command: Command) -> tuple[Event, ...]:
        events = serving.decide(command, self.state, self.found(command))
        for event in events:
            self.events.append(event)
            self.state = serving.evolve(self.state, event)
        return events


def accept(request: str = "r-1", claim: Claim | None = None, worst: int | None = WORST) -> AcceptRequest:
    return AcceptRequest(
        accepted=RequestAccepted(
            request=request,
            route=serving.CHAT,
            identity="key-1",
            model="plain",
            alias="plain",
            streamed=False,
            ghost=False,
            process="p",
            worst_case=worst,
            claim=claim,
        ),
        decided=RouteDecided(
            request=request, alias="plain", reason="named", api="chat.completions", base_url="http://x", sent="b3:0"
        ),
    )


def claim(attempt: int = 0) -> Claim:
    return Claim(scope="b3:scope", attempt=attempt, fingerprint="b3:body", keep_until=10, upstream_key="exp-1")


def answered(cost: int | None = 300) -> RequestAnswered:
    return RequestAnswered(
        request="r-1",
        response=None,
        usage=Counted(input_tokens=3, output_tokens=2),
        cost=cost,
        served_model="m",
        as_pinned=True,
        redacted=False,
        latency_us=1,
        first_byte_us=1,
    )


ENDINGS: list[Ended] = [
    answered(),
    RequestFailed(request="r-1", status=502, code="upstream_error", error=None, cost=0),
    RequestAbandoned(request="r-1", reason="client-left"),
    RequestLost(request="r-1", process="p"),
]
COMMANDS: list[Command] = [
    accept(),
    *(EndRequest(ending=ending) for ending in ENDINGS),
    RetryDispatch(failed=AttemptFailed(request="r-1", dispatch=0, reason="stale-connection", worst_case=WORST)),
    IssueGatewayKey(identity="key-1", digest="b3:1"),
    RefuseRequest(refused=RequestRefused(request="r-2", route=serving.CHAT, identity="key-1", status=400, code="x")),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(len(COMMANDS)), 3)))
def test_a_repeated_command_appends_nothing(order: tuple[int, ...]) -> None:
    book = Book()
    book.do(accept())
    for at in order:
        book.do(COMMANDS[at])
        assert book.do(COMMANDS[at]) == ()


def test_an_acceptance_reserves_its_worst_case_before_anything_is_asked() -> None:
    book = Book()
    accepted, decided = book.do(accept())
    assert isinstance(accepted, RequestAccepted)
    assert isinstance(decided, RouteDecided)
    assert (book.state.reserved, book.state.settled, book.state.ambiguous) == (WORST, 0, 0)


@pytest.mark.parametrize(
    ("ending", "settled", "ambiguous"),
    [
        (answered(300), 300, 0),
        (answered(None), 0, WORST),
        (ENDINGS[1], 0, 0),
        (RequestFailed(request="r-1", status=504, code="upstream_timeout", error=None, cost=None), 0, WORST),
        (RequestAbandoned(request="r-1", reason="client-left", cost=120), 120, 0),
        (ENDINGS[2], 0, WORST),
        (ENDINGS[3], 0, WORST),
    ],
)
def test_an_ending_settles_the_reservation_by_what_is_known(ending: Ended, settled: int, ambiguous: int) -> None:
    book = Book()
    book.do(accept())
    book.do(EndRequest(ending=ending))
    state = book.state
    assert (state.reserved, state.settled, state.ambiguous) == (0, settled, ambiguous)
    assert not state.open


@pytest.mark.parametrize("pair", list(itertools.permutations(ENDINGS, 2)))
def test_a_request_ends_once(pair: tuple[Ended, Ended]) -> None:
    book = Book()
    book.do(accept())
    assert book.do(EndRequest(ending=pair[0])) == (pair[0],)
    assert book.do(EndRequest(ending=pair[1])) == ()


def test_a_request_that_was_never_accepted_does_not_end() -> None:
    assert Book().do(EndRequest(ending=answered())) == ()


def test_a_key_is_held_by_one_request_an_attempt() -> None:
    book = Book()
    book.do(accept("r-1", claim()))
    with pytest.raises(RequestAlreadyAccepted):
        book.do(accept("r-9", claim()))
    assert len(book.do(accept("r-9", claim(1)))) == 2


def test_a_failed_dispatch_stays_counted_while_the_next_one_is_reserved() -> None:
    book = Book()
    book.do(accept())
    book.do(COMMANDS[5])
    assert (book.state.reserved, book.state.ambiguous) == (WORST, WORST)
    book.do(EndRequest(ending=answered(300)))
    assert (book.state.reserved, book.state.settled, book.state.ambiguous) == (0, 300, WORST)


def test_an_unknown_price_is_counted_as_unpriced_and_never_as_nothing() -> None:
    book = Book()
    book.do(accept(worst=None))
    book.do(EndRequest(ending=answered(None)))
    assert book.state.unpriced == 1


def test_the_same_words_under_another_client_or_route_are_another_key() -> None:
    scopes = {
        serving.scope_of(identity, route, key)
        for identity, route, key in [
            ("a", "r", "k"),
            ("b", "r", "k"),
            ("a", "s", "k"),
            ("a", "r", "l"),
            ("a", "r\nk", ""),
        ]
    }
    assert len(scopes) == 5


def test_independent_requests_in_any_order_give_the_same_sums() -> None:
    one: list[Command] = [accept(), EndRequest(ending=answered())]
    lost = RequestLost(request="r-2", process="p")
    other: list[Command] = [accept("r-2"), EndRequest(ending=lost)]
    sums: set[tuple[Any, ...]] = set()
    for order in ([0, 1, 2, 3], [2, 0, 3, 1], [2, 3, 0, 1], [0, 2, 1, 3]):
        book = Book()
        for at in order:
            book.do([*one, *other][at])
        state = book.state
        sums.add((state.settled, state.reserved, state.ambiguous, state.aliases["plain"].answered))
    assert sums == {(300, 0, WORST, 1)}


@pytest.mark.parametrize(("cost", "settled", "ambiguous"), [(7, 7, 0), (0, 0, 0), (None, 0, WORST)])
def test_what_a_failed_dispatch_cost_is_settled_and_what_nobody_knows_is_ambiguous(
    cost: int | None, settled: int, ambiguous: int
) -> None:
    book = Book()
    book.do(accept())
    failed = AttemptFailed(request="r-1", dispatch=0, reason="x", worst_case=WORST, alias="plain", cost=cost)
    book.do(RetryDispatch(failed=failed))
    assert (book.state.settled, book.state.ambiguous, book.state.reserved) == (settled, ambiguous, WORST)
    assert book.state.aliases["plain"].cost == settled


def test_a_change_of_model_reserves_the_new_worst_case_instead_of_the_old_one() -> None:
    book = Book()
    book.do(accept())
    failed = AttemptFailed(request="r-1", dispatch=0, reason="x", worst_case=WORST, alias="plain", cost=0)
    rerouted = serving.RequestRerouted(
        request="r-1", dispatch=1, alias="other", reason="failover", api="x", base_url="x", sent="", worst_case=3
    )
    assert book.do(RetryDispatch(failed=failed, rerouted=rerouted)) == (failed, rerouted)
    assert book.do(RetryDispatch(failed=failed, rerouted=rerouted)) == ()
    assert book.state.reserved == 3
    assert (book.state.aliases["plain"].requests, book.state.aliases["other"].requests) == (0, 1)
    book.do(EndRequest(ending=answered(cost=2)))
    assert (book.state.reserved, book.state.settled, book.state.aliases["other"].cost) == (0, 2, 2)
