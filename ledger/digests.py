"""Digests: BLAKE3 with the domain prefixes of docs/format.md, written as ``b3:`` and 64 hexadecimal digits."""

from __future__ import annotations

from blake3 import blake3

PREFIX = "b3:"
LEAF = b"\x00"
NODE = b"\x01"
CHAIN = b"\x02"


def event_id(stored: bytes) -> bytes:
    """Return the 32-byte id of an event: blake3(00 || stored bytes), also its Merkle leaf (RFC 6962 shape)."""
    return blake3(LEAF + stored).digest()


def chained(previous_head: bytes, identifier: bytes) -> bytes:
    """Return the 32-byte chain head after an event: blake3(02 || previous head || id)."""
    return blake3(CHAIN + previous_head + identifier).digest()


def content_digest(content: bytes) -> str:
    """Return ``b3:<hex>`` of plain bytes: how blobs and questions are addressed."""
    return PREFIX + blake3(content).hexdigest()


def raw(digest: str) -> bytes:
    """Return the 32 bytes that a ``b3:<hex>`` digest names; ValueError for any other form."""
    if not digest.startswith(PREFIX) or len(digest) != len(PREFIX) + 64:
        raise ValueError(digest)
    return bytes.fromhex(digest[len(PREFIX) :])


def named(digest: bytes) -> str:
    """Return ``b3:<hex>`` for 32 raw bytes."""
    return PREFIX + digest.hex()
