from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands.gateway.frames import LONGEST, BrokenStream, ChatStream, Splitter
from tests.commands.gateway.provider_double import DONE, USAGE, chunk

WORDS = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)


def _split(stream: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted({min(place, len(stream)) for place in places} | {0, len(stream)})
    return [stream[one:other] for one, other in itertools.pairwise(cuts)]


@given(words=st.lists(WORDS, max_size=6), places=st.lists(st.integers(0, 2000), max_size=20), crlf=st.booleans())
def test_events_are_the_same_wherever_the_reads_are_split(words: list[str], places: list[int], crlf: bool) -> None:  # noqa: FBT001
    sent = [chunk({"content": word}) for word in words]
    noise = [b": ping\n\n", b"retry: 1\n\n", b"data:\n\n"]
    stream = b"".join(one + noise[at % 3] for at, one in enumerate(sent)) + DONE
    if crlf:
        stream = stream.replace(b"\n", b"\r\n")
    splitter = Splitter()
    events = [event for part in _split(stream, places) for event in splitter.feed(part)]
    assert [data for _, data in events] == [one[6:-2] for one in sent] + [b"[DONE]"]


@given(words=st.lists(WORDS, min_size=1, max_size=6), wants=st.booleans())
def test_what_is_passed_on_is_what_came_but_for_usage(words: list[str], wants: bool) -> None:  # noqa: FBT001
    sent = [*(chunk({"content": word}) for word in words), chunk({}, "stop")]
    stream = ChatStream(wants_usage=wants, fallback_id="x")
    passed = b"".join(stream.take(b"", one[6:-2]) for one in [*sent, USAGE, DONE])
    assert passed == b"".join(sent)
    assert stream.ended
    assert (b'"total_tokens": 15' in stream.end()) is wants


def test_an_event_of_several_data_lines_stays_one_event() -> None:
    splitter = Splitter()
    (event,) = splitter.feed(b'data: {"choices":\ndata: []}\n\n')
    assert event == (b"", b'{"choices":\n[]}')


def test_a_line_without_an_end_is_given_up() -> None:
    splitter = Splitter()
    splitter.feed(b"x" * LONGEST)
    with pytest.raises(BrokenStream, match="without an end"):
        splitter.feed(b"x")
