"""Refusals: what the product declines to do, each with a name, an exit code of its own, and a remedy."""

from __future__ import annotations

from typing import ClassVar

REFUSALS: dict[str, type[Refusal]] = {}


class Refusal(Exception):
    """A named error: what happened, in which input, and what to do.

    Subclasses give ``name`` (kebab case, unique) and ``exit_code`` (10 and up, never reused) and take facts, not text.
    """

    name: ClassVar[str]
    exit_code: ClassVar[int]

    def __init_subclass__(cls, *, name: str, exit_code: int) -> None:
        super().__init_subclass__()
        if name in REFUSALS or any(other.exit_code == exit_code for other in REFUSALS.values()):
            message = f"refusal {name} or exit code {exit_code} is taken"
            raise TypeError(message)
        cls.name = name
        cls.exit_code = exit_code
        REFUSALS[name] = cls

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy
