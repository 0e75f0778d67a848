"""Frames: a provider's server-sent events, read incrementally and passed on one by one.

A frame leaves as the provider spelled it, except where that would break a promise: one id and one creation time in a
stream, usage in one final chunk and only for a client that asked, no end without a finish reason.
"""

from __future__ import annotations

import json
import re

import msgspec

DONE = b"[DONE]"
TERMINAL = b"data: [DONE]\n\n"
LONGEST = 32 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SURROGATES = re.compile("[\ud800-\udfff]")


class BrokenStream(Exception):
    """The provider's stream can't be passed on; code and words say why. A provider's own error travels with it."""

    def __init__(self, code: str, message: str, error: bytes | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.error = error


class Splitter:
    """Splits bytes into the data of complete events. Lines end at a line feed: U+2028 and U+0085 are content."""

    def __init__(self) -> None:
        self._line_so_far: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0
        self._name = b""
        self._first = True

    def feed(self, received: bytes) -> list[tuple[bytes, bytes]]:
        """Return (event name, data) of every event that is complete by now."""
        found: list[tuple[bytes, bytes]] = []
        end = received.rfind(b"\n")
        if end >= 0:
            lines = b"".join((*self._line_so_far, received[:end])).split(b"\n")
            self._line_so_far.clear()
            self._held = sum(map(len, self._data))
            for line in lines:
                self._line(line.removesuffix(b"\r"), found)
        self._hold(received[end + 1 :], self._line_so_far)
        return found

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Return the last event of a stream that ended properly but without its blank line."""
        found: list[tuple[bytes, bytes]] = []
        self._line(b"".join(self._line_so_far).removesuffix(b"\r"), found)
        self._line(b"", found)
        self._line_so_far.clear()
        return found

    def _hold(self, part: bytes, where: list[bytes]) -> None:
        self._held += len(part)
        if self._held > LONGEST:
            raise BrokenStream("upstream_unreadable", "the provider sent an event without an end")
        if part:
            where.append(part)

    def _line(self, line: bytes, found: list[tuple[bytes, bytes]]) -> None:
        if self._first:
            line = line.removeprefix(BYTE_ORDER_MARK)
            self._first = False
        if line.startswith(b"data:"):
            self._hold(line[6:] if line.startswith(b"data: ") else line[5:], self._data)
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()
        elif not line:
            data = b"\n".join(self._data)
            if data.strip():
                found.append((self._name, whole_characters(data)))
            self._data.clear()
            self._held = 0
            self._name = b""


def whole_characters(data: bytes) -> bytes:
    """Return bytes as UTF-8, with U+FFFD for what isn't."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


def without_lone_surrogates(raw: bytes) -> bytes | None:
    """Return the same JSON with U+FFFD for halves of characters, which strict readers refuse; None if it isn't JSON."""
    if b"\\u" not in raw:
        return None
    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False, allow_nan=False)
        return _SURROGATES.sub("\ufffd", text).encode()
    except (ValueError, RecursionError):
        return None


class ChunkChoice(msgspec.Struct):
    """The part of a chunk's choice that tells when it is over."""

    index: int = 0
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    """The part of a chunk that the gateway reads."""

    id: str | None = None
    created: int | float | None = None
    model: str | None = None
    choices: list[ChunkChoice] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


_chunk = msgspec.json.Decoder(Chunk)
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = b"null"


class ChatStream:
    """Passes a chat completion's chunks on, and remembers what its end needs."""

    def __init__(self, *, wants_usage: bool, fallback_id: str) -> None:
        self.id: str | None = None
        self.model: str | None = None
        self.usage: bytes | None = None
        self.ended = False
        self._wants_usage = wants_usage
        self._fallback_id = fallback_id
        self._created: int | float | None = None
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._final: bytes | None = None

    def take(self, name: bytes, data: bytes) -> bytes:
        """Return what of one event goes on to the client: a frame, or nothing."""
        if self.ended:
            return b""
        if data.strip() == DONE:
            self.ended = True
            return b""
        try:
            chunk = _chunk.decode(data)
        except (ValueError, RecursionError) as error:
            repaired = without_lone_surrogates(data)
            if repaired is not None and repaired != data:
                return self.take(name, repaired)
            raise BrokenStream("upstream_unreadable", "the provider sent a chunk that isn't JSON") from error
        if name == b"error" or bytes(chunk.error) != _NULL:
            raise BrokenStream("upstream_error", "the provider reported an error", data)
        rewrite = self._follow(chunk)
        usage = bytes(chunk.usage)
        if usage != _NULL:
            self.usage = usage
            if not chunk.choices:
                self._final = data
                return b""
            rewrite = True
        if rewrite:
            data = self._rewritten(data)
        return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"

    def end(self) -> bytes:
        """Return the frames before the terminal one; BrokenStream when a choice never finished."""
        if not self._seen or self._seen - self._finished:
            raise BrokenStream("upstream_cut", "the provider's stream ended without a finish reason")
        self.ended = True
        if not self._wants_usage or self.usage is None:
            return b""
        return b"data: " + self._usage_chunk(self.usage) + b"\n\n"

    def _follow(self, chunk: Chunk) -> bool:
        """Remember what the chunk says; tell whether its identity must be written anew."""
        if self.id is None:
            self.id = chunk.id or self._fallback_id
            self._created = chunk.created
        if self.model is None:
            self.model = chunk.model
        for choice in chunk.choices or ():
            self._seen.add(choice.index)
            if choice.finish_reason is not None:
                self._finished.add(choice.index)
        return chunk.id != self.id or chunk.created != self._created

    def _rewritten(self, data: bytes) -> bytes:
        parts = _parts.decode(data)
        rest = {name: value for name, value in parts.items() if name not in {"id", "created", "usage"}}
        identity: dict[str, object] = {"id": self.id}
        if self._created is not None:
            identity["created"] = self._created
        return msgspec.json.encode(identity | rest)

    def _usage_chunk(self, usage: bytes) -> bytes:
        parts: dict[str, object] = {"object": "chat.completion.chunk", "model": self.model}
        if self._final is not None:
            parts = dict(_parts.decode(self._final))
        identity = {"id": self.id, "created": self._created}
        whole = identity | {name: value for name, value in parts.items() if name not in identity}
        return msgspec.json.encode(whole | {"choices": [], "usage": msgspec.Raw(usage)})
