from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands.gateway.frames import LONGEST, BrokenStream, ChatStream, Splitter
from commands.gateway.responses import ResponsesStream
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


def test_an_event_without_an_end_is_given_up() -> None:
    splitter = Splitter()
    line = b"data: " + b"x" * 2**20 + b"\n"
    for _ in range(LONGEST // 2**20):
        splitter.feed(line)
    with pytest.raises(BrokenStream, match="without an end"):
        splitter.feed(line)


def test_what_ended_does_not_count_towards_the_longest_event() -> None:
    splitter = Splitter()
    event = b"data: " + b"x" * 2**22 + b"\n\n"
    for _ in range(2 * LONGEST // 2**22):
        assert len(splitter.feed(event)) == 1


def test_a_long_line_in_small_parts_is_read_in_time_that_grows_with_its_length() -> None:
    splitter = Splitter()
    began = time.process_time()
    for _ in range(2**16):
        splitter.feed(b"x" * 64)
    assert splitter.feed(b"\n") == []
    assert time.process_time() - began < 3


def test_a_byte_order_mark_before_the_first_event_is_no_part_of_it() -> None:
    splitter = Splitter()
    assert splitter.feed(b"\xef\xbb\xbfdata: a\n\n") == [(b"", b"a")]
    assert splitter.feed(b"data: \xef\xbb\xbfb\n\n") == [(b"", b"\xef\xbb\xbfb")]


def test_bytes_that_are_no_characters_are_replaced_before_they_reach_a_client() -> None:
    assert Splitter().feed(b'data: {"a": "\xff\xc3\xa9"}\n\n') == [(b"", '{"a": "\ufffd\xe9"}'.encode())]


@pytest.mark.parametrize("make", [ChatStream, ResponsesStream])
def test_halves_of_characters_in_a_stream_are_replaced(make: type[ChatStream | ResponsesStream]) -> None:
    half = chunk({"content": "HALF"}) if make is ChatStream else b""
    half = half or b'data: {"type": "response.output_text.delta", "delta": "HALF"}\n\n'
    passed = make(wants_usage=False, fallback_id="x").take(b"", half[6:-2].replace(b"HALF", b"a\\ud83d"))
    (choice,) = json.loads(passed[6:])["choices"]
    assert choice["delta"] == {"content": "a\ufffd"}


def test_only_the_first_line_may_begin_with_a_byte_order_mark() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [(b"", b"a")]


def test_many_events_at_once_are_none_without_an_end() -> None:
    event = b"data: " + b"x" * 2**22 + b"\n\n"
    assert len(Splitter().feed(event * (LONGEST // 2**22 + 2))) == LONGEST // 2**22 + 2
