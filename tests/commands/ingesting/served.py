"""A journal of a gateway, made of events alone: requests with the ways in which they can end."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger.event import Blobs, Step
from ledger.families import ingests, providers, serving, traces
from ledger.families.serving import AcceptRequest, EndRequest, RequestAccepted, RequestAnswered, RouteDecided
from ledger.journal import Journal

FAMILIES = (serving.FAMILY, ingests.FAMILY, providers.FAMILY, traces.FAMILY)
MODEL = "m"


def opened(root: Path) -> Journal:
    ticks = itertools.count(1)
    return Journal.open(root, FAMILIES, actor="test", clock=lambda: next(ticks), create=True)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "refusal": None}


def called(name: str, arguments: str, identity: str) -> dict[str, Any]:
    call = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def gave(text: str, identity: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": text}


def completion(message: dict[str, Any]) -> bytes:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    body = {"id": "c", "created": 1, "model": MODEL, "choices": [{"index": 0, "message": message}], "usage": usage}
    return json.dumps(body).encode()


def streamed(*deltas: dict[str, Any]) -> bytes:
    frames = [{"model": MODEL, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"


class Served:
    """Records requests one after another."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def accept(self, request: str, messages: Sequence[dict[str, Any]] | None, body: bytes | None = None) -> None:
        blobs = Blobs()
        content = json.dumps({"model": "router", "messages": messages}).encode() if body is None else body
        accepted = RequestAccepted(
            request=request,
            route=serving.CHAT,
            identity="someone",
            model="router",
            alias="plain",
            streamed=False,
            ghost=messages is None and body is None,
            process="p",
            worst_case=10,
            body=None if messages is None and body is None else blobs.put(content, "application/json"),
        )
        decided = RouteDecided(request=request, alias="plain", reason="r", api="chat", base_url="http://x", sent="")
        step = Step(serving.FAMILY, AcceptRequest(accepted=accepted, decided=decided))
        self.journal.submit(step, blobs=blobs).result()

    def answer(self, request: str, response: bytes | None, media: str = "application/json") -> None:
        blobs = Blobs()
        ending = RequestAnswered(
            request=request,
            response=None if response is None else blobs.put(response, media),
            usage=serving.Counted(),
            cost=1_500,
            served_model=MODEL,
            as_pinned=True,
            redacted=False,
            latency_us=1,
            first_byte_us=1,
        )
        self.end(ending, blobs)

    def end(self, ending: serving.Ended, blobs: Blobs | None = None) -> None:
        self.journal.submit(Step(serving.FAMILY, EndRequest(ending=ending)), blobs=blobs or Blobs()).result()

    def exchange(self, request: str, messages: Sequence[dict[str, Any]], message: dict[str, Any]) -> None:
        self.accept(request, messages)
        self.answer(request, completion(message))
