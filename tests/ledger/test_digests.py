"""Digests carry their algorithm, and each use of the hash has a domain of its own."""

from __future__ import annotations

import pytest
from blake3 import blake3

from ledger import digests


def test_an_event_id_a_chain_head_and_a_content_digest_have_domains_of_their_own() -> None:
    content = b"x" * 64
    assert digests.event_id(content) == blake3(b"\x00" + content).digest()
    assert digests.chained(content[:32], content[32:]) == blake3(b"\x02" + content).digest()
    assert digests.content_digest(content) == "b3:" + blake3(content).hexdigest()


def test_a_digest_is_named_and_read_back() -> None:
    name = digests.content_digest(b"fact")
    assert digests.named(digests.raw(name)) == name


@pytest.mark.parametrize("text", ["", "b3:", "b3:" + "0" * 63, "xx:" + "0" * 64, "b3:" + "g" * 64, "0" * 64])
def test_what_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        digests.raw(text)
