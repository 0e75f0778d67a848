"""Embedded: models of provider ``embedded`` answer in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from commands.gateway import upstream
from commands.gateway.dialects import Outgoing
from ledger.redaction import Redactor

OK = 200


async def whole(outgoing: Outgoing) -> bytes:
    """Return the stand-in's answer; an UpstreamProblem when it refuses."""
    return msgspec.json.encode(await _answer(outgoing))


async def frames(outgoing: Outgoing) -> list[bytes]:
    """Return the stand-in's answer as the frames of a stream, with usage whether the client asked for it or not."""
    from commands.embedded.streaming import chat_frames  # noqa: PLC0415 - only where a stand-in is served

    return list(chat_frames(await _answer(outgoing), include_usage=True))


async def _answer(outgoing: Outgoing) -> dict[str, Any]:
    from commands.embedded.answer import answer  # noqa: PLC0415 - only where a stand-in is served

    status, body = await asyncio.to_thread(answer, outgoing.api, msgspec.json.decode(outgoing.body))
    if status != OK:
        raise upstream.refused(status, msgspec.json.encode(body), {}, Redactor())
    return body
