"""The registry of kinds, and contents that travel with the events naming them."""

from __future__ import annotations

import pytest

from ledger import digests
from ledger.errors import REFUSALS, Refusal
from ledger.event import KINDS, Blobs, Event, event


def test_a_kind_is_registered_once() -> None:
    kind = "thing-tested@1"
    try:

        @event(kind)
        class ThingTested(Event):
            pass

        assert KINDS[kind] is ThingTested
        assert ThingTested.kind == kind
        with pytest.raises(TypeError, match=kind):
            event(kind)(ThingTested)
    finally:
        KINDS.pop(kind, None)


def test_an_event_without_a_stream_of_its_own_has_none_and_no_key() -> None:
    plain = Event()
    assert plain.key is None
    with pytest.raises(NotImplementedError):
        _ = plain.stream


def test_contents_are_held_by_digest_and_text_is_utf8() -> None:
    blobs = Blobs()
    reference = blobs.put("é")
    assert (reference.blob, reference.size, reference.media) == (digests.content_digest("é".encode()), 2, "text/plain")
    assert blobs.put(b"\x00", "application/octet-stream").size == 1
    assert blobs.contents[reference.blob] == "é".encode()


def test_an_exit_code_and_a_name_are_never_reused() -> None:
    from ledger.families import providers  # noqa: F401, PLC0415 - registers refusals

    taken_name, taken = next(iter(REFUSALS.items()))
    with pytest.raises(TypeError, match="taken"):
        type("Again", (Refusal,), {}, name=taken_name, exit_code=99)
    with pytest.raises(TypeError, match="taken"):
        type("Again", (Refusal,), {}, name="unheard-of", exit_code=taken.exit_code)
    assert "unheard-of" not in REFUSALS
