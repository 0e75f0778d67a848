"""Faults on request: ways in which a real service goes wrong, each at chosen requests, so that tests can meet them.

A fault is written ``KIND[:every=N][:first=N][:after=N][:role=ROLE]``: every N-th request, the first N, those after
the N-th; without any, all. ROLE is world-model, judge, candidate or embedder. Counting is per fault and in order
of arrival.
"""

from __future__ import annotations

from typing import Any

import msgspec

from commands.embedded.envelope import error_body

STATUSES = {
    "400": ("The stand-in was told to refuse this request.", "invalid_request_error", None),
    "401": ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    "403": (
        "The stand-in was told to deny this request.",
        "invalid_request_error",
        "unsupported_country_region_territory",
    ),
    "404": ("The model does not exist or you do not have access to it.", "invalid_request_error", "model_not_found"),
    "408": ("The stand-in was told to time out.", "server_error", None),
    "429": ("Rate limit reached.", "requests", "rate_limit_exceeded"),
    "500": ("The server had an error while processing your request.", "server_error", None),
    "502": ("Bad gateway.", "server_error", None),
    "503": ("The engine is currently overloaded, please try again later.", "server_error", None),
    "529": ("The stand-in was told to be overloaded.", "server_error", None),
}
IN_ANSWER = ("malformed", "empty", "out-of-range", "truncated", "wrong-model", "wrong-shape", "no-usage")
ON_THE_WIRE = ("hang", "cut-stream", "not-json", "html", "stall")
KINDS = (*IN_ANSWER, *ON_THE_WIRE, *STATUSES)
ROLES = ("world-model", "judge", "candidate", "embedder")
OTHER_MODEL = "some-other-model"
_RETRY_AFTER = "1"
_MALFORMED = '{"observation": "this never ends'


class Fault(msgspec.Struct, frozen=True):
    """One kind of fault and the requests that it strikes; ``retry_after`` is what a 429 advises, in seconds."""

    kind: str
    every: int = 1
    first: int | None = None
    after: int = 0
    role: str | None = None
    retry_after: str = _RETRY_AFTER

    def strikes(self, number: int) -> bool:
        """Tell whether the ``number``-th request (from 1) that it concerns is struck."""
        counted = number - self.after
        return counted > 0 and counted % self.every == 0 and (self.first is None or counted <= self.first)


def parse(written: str) -> Fault:
    """Read a fault as it is written on the command line; ValueError says what is wrong with it."""
    kind, *settings = written.split(":")
    if kind not in KINDS:
        raise ValueError(f"no fault is called {kind!r}; there are {', '.join(KINDS)}")
    fields: dict[str, Any] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name in {"every", "first", "after"}:
            fields[name] = _whole(name, value)
        elif name == "role" and value in ROLES:
            fields[name] = value
        elif name == "retry-after" and value:
            fields["retry_after"] = value
        else:
            raise ValueError(f"{setting!r} is no setting of a fault; they are every=N, first=N, after=N, role=ROLE")
    return Fault(kind, **fields)


def _whole(name: str, value: str) -> int:
    least = 0 if name == "after" else 1
    if not value.isascii() or not value.isdigit() or int(value) < least:
        raise ValueError(f"{name} takes a whole number from {least}, not {value!r}")
    return int(value)


class Faults:
    """The faults of one server, and how many requests each has seen."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self._faults = faults
        self._seen = [0] * len(faults)

    def struck(self, role: str) -> Fault | None:
        """Count a request and return the first fault that strikes it."""
        found = None
        for at, fault in enumerate(self._faults):
            if fault.role is not None and fault.role != role:
                continue
            self._seen[at] += 1
            if found is None and fault.strikes(self._seen[at]):
                found = fault
        return found


def status_of(fault: Fault) -> tuple[int, dict[str, Any], list[tuple[bytes, bytes]]]:
    """Return status, body and headers of a fault that is a refusal."""
    message, kind, code = STATUSES[fault.kind]
    headers = [(b"retry-after", fault.retry_after.encode())] if fault.kind in {"429", "503"} else []
    return int(fault.kind), error_body(message, kind=kind, code=code), headers


def spoiled(fault: Fault, body: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with the fault in it."""
    if fault.kind == "wrong-model":
        return {**body, "model": OTHER_MODEL}
    if fault.kind == "no-usage":
        return {key: value for key, value in body.items() if key != "usage"}
    if fault.kind == "wrong-shape":
        return {key: value for key, value in body.items() if key not in {"choices", "output", "data"}}
    if body["object"] == "list":
        return _spoiled_vectors(fault, body)
    return _spoiled_text(fault, body)


def _spoiled_vectors(fault: Fault, body: dict[str, Any]) -> dict[str, Any]:
    rows = body["data"]
    if fault.kind == "empty":
        rows = []
    elif fault.kind == "truncated":
        rows = rows[:-1]
    elif fault.kind == "malformed":
        rows = [{**row, "embedding": "not a vector"} for row in rows]
    else:
        rows = [{**row, "index": row["index"] + len(rows)} for row in rows]
    return {**body, "data": rows}


def _spoiled_text(fault: Fault, body: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    if body["object"] == "response":
        _spoil_items(fault.kind, changed)
    else:
        for choice in changed["choices"]:
            _spoil_choice(fault.kind, choice)
    return changed


def _spoil_items(kind: str, body: dict[str, Any]) -> None:
    for item in body["output"]:
        if item["type"] == "message":
            item["content"][0]["text"] = _spoil(kind, item["content"][0]["text"])
        elif item["type"] == "function_call":
            item["arguments"] = _spoil(kind, item["arguments"])
    if kind == "empty":
        body["output"] = []
    if kind == "truncated":
        body.update(status="incomplete", incomplete_details={"reason": "max_output_tokens"})


def _spoil_choice(kind: str, choice: dict[str, Any]) -> None:
    message = choice["message"]
    for call in message.get("tool_calls") or ():
        call["function"]["arguments"] = _spoil(kind, call["function"]["arguments"])
    if kind == "empty":
        message.pop("tool_calls", None)
        message["content"], choice["finish_reason"] = "", "stop"
    elif message["content"] is not None:
        message["content"] = _spoil(kind, message["content"])
    if kind == "truncated":
        choice["finish_reason"] = "length"


def _spoil(kind: str, text: str) -> str:
    if kind == "malformed":
        return _MALFORMED
    if kind == "truncated":
        return text[: len(text) // 2]
    if kind == "empty":
        return ""
    return _out_of_range(text)


def _out_of_range(text: str) -> str:
    """Return a judgment with scores beyond any axis, a simulation with an error flag that isn't one; else the text."""
    try:
        said = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if isinstance(said, dict) and isinstance(said.get("axes"), dict):
        for axis in said["axes"].values():
            axis["score"] = 1_000_000
    elif isinstance(said, dict) and "observation" in said:
        said["error"] = 7
    return msgspec.json.encode(said).decode()
