"""Error envelopes: what a refused request is told, in the words and the shape of the services stood in for."""

from __future__ import annotations

from typing import Any

INVALID = "invalid_request_error"


class Rejected(Exception):
    """A request that the service refuses; ``status`` and ``body`` are what goes back."""

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400, kind: str = INVALID
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, param=param, code=code, kind=kind)


def error_body(
    message: str, *, param: str | None = None, code: str | None = None, kind: str = INVALID
) -> dict[str, Any]:
    """Return the JSON body of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def wrong_type(param: str, expected: str, value: object) -> Rejected:
    """Say that a value isn't of the type that a parameter takes."""
    return Rejected(
        f"Invalid type for '{param}': expected {expected}, but got {kind_of(value)} instead.",
        param=param,
        code="invalid_type",
    )


def wrong_value(param: str, value: object, supported: tuple[str, ...]) -> Rejected:
    """Say which values a parameter takes."""
    names = ", ".join(f"'{name}'" for name in supported)
    return Rejected(f"Invalid value: '{value}'. Supported values are: {names}.", param=param, code="invalid_value")


def missing(param: str) -> Rejected:
    """Say that a required parameter isn't there."""
    return Rejected(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def unknown(param: str) -> Rejected:
    """Say that no parameter has this name."""
    return Rejected(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")


def kind_of(value: object) -> str:
    """Return the name of a JSON value's type with its article."""
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return "null"


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a decimal"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
)
