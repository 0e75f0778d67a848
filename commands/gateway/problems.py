"""Problems: what a client is told when there is no answer, in the error envelope that OpenAI's clients read."""

from __future__ import annotations

import re
from typing import Any

import msgspec

INVALID = "invalid_request_error"
UPSTREAM = "upstream_error"
INTERNAL = "api_error"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Problem(Exception):
    """A reply that isn't an answer: status, envelope, and the headers that belong to it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.headers = headers or {}
        self.resets: str | None = None

    def envelope(self) -> bytes:
        """Return the JSON that the client gets."""
        said = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return envelope(said if self.resets is None else {**said, "resets_at": self.resets})


def name_of(problem: Problem) -> str:
    """Return what a failure is called in its event: a provider's own code only where it is a name and not a text."""
    return next((name for name in (problem.code, problem.kind) if name and _NAME.fullmatch(name)), UPSTREAM)


def envelope(error: dict[str, Any]) -> bytes:
    """Return an error as OpenAI's services write it."""
    return msgspec.json.encode({"error": error})


def unauthorized(*, as_password: bool = False) -> Problem:
    """Say that the bearer key is missing or isn't ours."""
    return Problem(
        401,
        "a valid gateway key is required: send `Authorization: Bearer KEY`",
        code="invalid_api_key",
        headers={"WWW-Authenticate": 'Basic realm="the gateway key as the password"' if as_password else "Bearer"},
    )


def not_found(path: str) -> Problem:
    """Nothing is served there."""
    return Problem(404, f"nothing is served at {path[:200]!r}", code="unknown_url")


def wrong_method(allowed: str) -> Problem:
    """Say that the path is served, with another method."""
    return Problem(405, f"use {allowed} here", code="method_not_allowed", headers={"Allow": allowed})


def unknown_model(model: str, known: tuple[str, ...]) -> Problem:
    """Say that the model is neither the project nor a configured alias."""
    return Problem(
        404,
        f"the model {model[:200]!r} does not exist; there is {', '.join(known)}",
        code="model_not_found",
        param="model",
    )


def none_allowed(name: str) -> Problem:
    """Say that the request's own list of models leaves none that could answer."""
    return Problem(
        400,
        f"x-exp-allowed-models leaves no model that could answer for {name[:200]!r}",
        code="model_not_allowed",
        param="x-exp-allowed-models",
    )


def other_interface(model: str, path: str) -> Problem:
    """Say that a model is asked elsewhere."""
    return Problem(400, f"the model {model!r} is served at {path} only", code="model_not_supported", param="model")


def unreadable(message: str, param: str | None = None) -> Problem:
    """Say that the body isn't a request."""
    return Problem(400, message, code="invalid_body", param=param)


def no_http() -> Problem:
    """Say that what came can't be read as a request, not even its head."""
    return Problem(400, "this can't be read as an HTTP/1.1 request", code="invalid_http")


def head_too_large() -> Problem:
    """Say that a request's head has no end in sight."""
    return Problem(431, "the request's head is too large", code="head_too_large")


def too_slow() -> Problem:
    """Say that a request wasn't there whole in time."""
    return Problem(408, "the rest of the request didn't come", code="request_timeout")


def too_large(limit: int) -> Problem:
    """Say that the body is above the limit."""
    return Problem(413, f"the body is larger than {limit} bytes", code="body_too_large")


def unsupported_encoding(encoding: str) -> Problem:
    """Say that the body is compressed."""
    return Problem(415, f"content encoding {encoding[:40]!r} is not read here", code="unsupported_encoding")


def key_mismatch() -> Problem:
    """Say that the idempotency key was used for another body. Clients would retry a 409 unless told not to."""
    return Problem(
        409,
        "this Idempotency-Key was used with another body",
        code="idempotency_key_reused",
        headers={"x-should-retry": "false"},
    )


def journal_unavailable() -> Problem:
    """Nothing can be recorded, so nothing is asked."""
    return Problem(
        503,
        "the request can't be recorded now, and nothing is served unrecorded",
        kind=INTERNAL,
        code="journal_unavailable",
        headers={"Retry-After": "1"},
    )


def stopping() -> Problem:
    """Say that the gateway was told to stop before the call was over."""
    return Problem(503, "the gateway is stopping", kind=INTERNAL, code="gateway_stopping", headers={"Retry-After": "1"})


def unforeseen() -> Problem:
    """Say that it is a bug of the gateway's."""
    return Problem(500, "the gateway failed in an unforeseen way", kind=INTERNAL, code="internal_error")


def upstream(status: int, message: str, code: str, headers: dict[str, str] | None = None) -> Problem:
    """Say that the provider didn't answer as it should."""
    return Problem(status, message, kind=UPSTREAM, code=code, headers=headers)
