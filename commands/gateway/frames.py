"""Frames: a provider's server-sent events, read incrementally and passed on one by one.

A frame leaves as the provider spelled it, except where that would break a promise: one id and one creation time in a
stream, usage in one final chunk and only for a client that asked, no end without a finish reason.
"""

from __future__ import annotations

import msgspec

DONE = b"[DONE]"
TERMINAL = b"data: [DONE]\n\n"
LONGEST = 32 * 1024 * 1024


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
        self._rest = b""
        self._data: list[bytes] = []
        self._name = b""

    def feed(self, received: bytes) -> list[tuple[bytes, bytes]]:
        """Return (event name, data) of every event that is complete by now."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > LONGEST:
            raise BrokenStream("upstream_unreadable", "the provider sent a line without an end")
        found: list[tuple[bytes, bytes]] = []
        for line in lines:
            self._line(line.removesuffix(b"\r"), found)
        return found

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Return the last event of a stream that ended properly but without its blank line."""
        found: list[tuple[bytes, bytes]] = []
        self._line(self._rest.removesuffix(b"\r"), found)
        self._line(b"", found)
        self._rest = b""
        return found

    def _line(self, line: bytes, found: list[tuple[bytes, bytes]]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()
        elif not line:
            data = b"\n".join(self._data)
            if data.strip():
                found.append((self._name, data))
            self._data.clear()
            self._name = b""


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
