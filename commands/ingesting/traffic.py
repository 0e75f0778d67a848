"""Traffic: what the gateway answered, read from its own journal as conversations.

A request continues a conversation when its messages begin with an earlier request's and that one's answer. When two go
on from the same place, the second is a conversation of its own, which has what came before in its messages.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, cast

import msgspec

from commands.gateway.frames import DONE, BrokenStream, Splitter
from commands.ingesting.reading import Input, Reading
from ledger import digests, refusals
from ledger.errors import Refusal
from ledger.event import Event
from ledger.families.serving import (
    RequestAbandoned,
    RequestAccepted,
    RequestAnswered,
    RequestFailed,
    RequestLost,
)
from ledger.families.traces import Exclusion, Trace
from ledger.money import NANO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from commands.ingesting.reading import Found
    from ledger.journal import Journal
    from projections.normal_form.export import Totals
    from projections.normal_form.lines import Redact

NAME = "the gateway's requests"
FORMAT = "gateway"
LISTED = 1_000  # exclusions of one reason; the rest is counted
_ENDINGS: dict[type[Event], str] = {
    RequestFailed: "request-failed",
    RequestAbandoned: "request-abandoned",
    RequestLost: "request-lost",
}
_encode = msgspec.json.Encoder().encode


class NothingServed(Refusal, name="nothing-served", exit_code=99):
    """The gateway's requests were to be imported, and there are none."""

    def __init__(self) -> None:
        super().__init__(
            "the gateway has accepted no request; nothing was recorded",
            where="ledger.db",
            remedy="serve with `exp run PROJECT` first, or name files of traces",
        )


class Traffic:
    """The gateway's requests, as a reading. Those without an answer, or without content, are exclusions."""

    def __init__(self, journal: Journal, redact: Redact, advance: Callable[[int], None] = lambda _: None) -> None:
        self._journal = journal
        self._left: dict[str, list[Exclusion]] = {}
        self._counts: Counter[str] = Counter()
        self._requests: list[str] = []  # those that are read, a line each
        self._conversations: dict[bytes, str] = {}
        given = Input(NAME, lambda: cast("IO[bytes]", io.BufferedReader(_Lines(self._lines()))))
        self._reading = Reading([given], redact, source_name="chat-json", scratch=journal.path.parent, progress=advance)

    @property
    def found(self) -> Sequence[Found]:
        """The journal, as an input."""
        return [
            msgspec.structs.replace(one, source=FORMAT, why="it is this ledger's own journal")
            for one in self._reading.found
        ]

    @property
    def digest(self) -> str:
        """The digest of the conversations' lines."""
        return self._reading.digest

    @property
    def totals(self) -> Totals:
        """What became of every request."""
        totals, alone = self._reading.totals, self._counts.total()
        return msgspec.structs.replace(totals, units=totals.units + alone, excluded=totals.excluded + alone)

    def __iter__(self) -> Iterator[Trace | Exclusion]:
        """Read all requests; NothingServed when there are none."""
        for one in self._reading:
            yield one if isinstance(one, Trace) else self._placed(one)
        if not self._requests and not self._left:
            raise NothingServed
        for reason in sorted(self._left):
            yield from self._left[reason]
            if rest := self._counts[reason] - len(self._left[reason]):
                yield Exclusion(place="elsewhere", reason=reason, count=rest, units=rest)

    def _placed(self, exclusion: Exclusion) -> Exclusion:
        """Return an exclusion in the place that people know: the request."""
        line = exclusion.place.removeprefix("line ").partition(",")[0]
        if line.isdigit() and 0 < int(line) <= len(self._requests):
            return msgspec.structs.replace(exclusion, place=f"request {self._requests[int(line) - 1]}")
        return exclusion

    def _lines(self) -> Iterator[bytes]:
        """Yield a line for each request with its answer, in the order in which they were accepted."""
        for record in self._journal.events(RequestAccepted):
            accepted = record.event
            if not isinstance(accepted, RequestAccepted):
                continue
            found = self._exchange(accepted)
            if isinstance(found, str):
                self._counts[found] += 1
                left = self._left.setdefault(found, [])
                if len(left) < LISTED:
                    left.append(Exclusion(place=f"request {accepted.request}", reason=found, units=1))
            else:
                self._requests.append(accepted.request)
                yield _encode(found) + b"\n"

    def _exchange(self, accepted: RequestAccepted) -> dict[str, Any] | str:
        """Return a request with its answer, or why it is left out."""
        answered = self._journal.find(RequestAnswered, accepted.request)
        event = None if answered is None else answered.event
        if not isinstance(event, RequestAnswered):
            return self._unanswered(accepted.request)
        if accepted.body is None or event.response is None:
            return "content-not-kept"
        try:
            body = self._journal.blob(accepted.body.blob)
            content = self._journal.blob(event.response.blob)
        except refusals.ContentErased:
            return "content-erased"
        try:
            asked = json.loads(body)
            answer = chunks(content) if event.response.media == "text/event-stream" else json.loads(content)
        except (ValueError, RecursionError, BrokenStream):
            return "not-json"
        found = {"trace_id": self._conversation(accepted.request, asked, answer), "request": asked, "response": answer}
        return found if event.cost is None else {**found, "cost_usd": _dollars(event.cost)}

    def _unanswered(self, request: str) -> str:
        for kind, reason in _ENDINGS.items():
            if self._journal.find(kind, request) is not None:
                return reason
        return "request-open"

    def _conversation(self, request: str, asked: Any, answer: Any) -> str:  # noqa: ANN401 - any JSON value
        """Return the name of the conversation that a request continues, or of the one that it begins."""
        listed = asked.get("messages") if isinstance(asked, dict) else None
        told = [_told(message) for message in listed] if isinstance(listed, list) else []
        prefixes = [b""]
        for message in told:
            prefixes.append(_digest(prefixes[-1], message))
        name = f"{FORMAT}-{request}"
        for at in range(len(told) - 1, 0, -1):
            known = self._conversations.pop(prefixes[at], None)
            if known is not None:
                name = known
                break
        self._conversations[_digest(prefixes[-1], _told(_answer(answer)))] = name
        return name


class _Lines(io.RawIOBase):
    """Lines, to be read by who wants a file."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # narrower than the base's
        if not self._rest:
            self._rest = memoryview(next(self._lines, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def chunks(stream: bytes) -> list[Any]:
    """Return the chunks of a recorded stream; ValueError for one that is no JSON."""
    splitter = Splitter()
    events = splitter.feed(stream) + splitter.finish()
    return [json.loads(data) for _, data in events if data.strip() != DONE]


def _digest(before: bytes, message: object) -> bytes:
    return digests.raw(digests.content_digest(before + _encode(message)))


def _told(message: Any) -> tuple[object, ...]:  # noqa: ANN401 - any JSON value
    """Return what of a message whoever continues a conversation repeats, however it is written."""
    if not isinstance(message, dict):
        return ("", str(message))
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str)) if all(texts) else _encode(content).decode()
    calls = message.get("tool_calls")
    return (
        str(message.get("role")),
        content if isinstance(content, str) else "",
        [_called(call) for call in calls] if isinstance(calls, list) else [],
        str(message.get("tool_call_id") or ""),
    )


def _called(call: Any) -> tuple[str, str, str]:  # noqa: ANN401 - any JSON value
    call = call if isinstance(call, dict) else {}
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return str(call.get("id")), str(function.get("name")), _spelled_alike(str(function.get("arguments")))


def _spelled_alike(arguments: str) -> str:
    """Return a call's arguments as clients that read and wrote them would, too."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _answer(answer: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """Return the message of an answer, or the one that a stream's chunks make."""
    if not isinstance(answer, list):
        choices = answer.get("choices") if isinstance(answer, dict) else None
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        return message if isinstance(message, dict) else {}
    words: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    for delta in map(_delta, answer):
        words.append(delta["content"] if isinstance(delta.get("content"), str) else "")
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, dict) and isinstance(piece.get("index"), int):
                _join(calls.setdefault(piece["index"], {"id": "", "function": {"name": "", "arguments": ""}}), piece)
    return {"role": "assistant", "content": "".join(words), "tool_calls": [calls[index] for index in sorted(calls)]}


def _delta(chunk: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    delta = first.get("delta") if isinstance(first, dict) else None
    return delta if isinstance(delta, dict) else {}


def _join(call: dict[str, Any], piece: dict[str, Any]) -> None:
    call["id"] = call["id"] or str(piece.get("id") or "")
    function = piece.get("function")
    for name in ("name", "arguments"):
        if isinstance(function, dict) and isinstance(function.get(name), str):
            call["function"][name] += function[name]


def _dollars(nano: int) -> str:
    whole, rest = divmod(nano, NANO)
    return f"{whole}.{rest:09d}"
