"""Dialects of OpenTelemetry: what instrumentors call things, said in the names of the current GenAI conventions.

A dialect is recognised by the names of a span's attributes, and a span may mix several. Translating takes away the
names that it understands, so that content doesn't remain among the short texts that a trace declares.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from projections.normal_form.dialects import openinference, pydantic_ai, traceloop, vercel

Attributes = dict[str, Any]


class Dialect(NamedTuple):
    """A way to name things: the beginnings of names that tell it, and how it is translated."""

    name: str
    marks: tuple[str, ...]
    translated: Callable[[Attributes], Attributes]


DIALECTS = (
    Dialect("openinference", openinference.MARKS, openinference.translated),
    Dialect("traceloop", traceloop.MARKS, traceloop.translated),
    Dialect("pydantic-ai", pydantic_ai.MARKS, pydantic_ai.translated),
    Dialect("vercel", vercel.MARKS, vercel.translated),
)
NAMES = 4_096  # that aren't looked at again
CURRENT = "otel-genai"
_ALL = tuple(mark for dialect in DIALECTS for mark in dialect.marks)


@lru_cache(NAMES)
def _marked(name: str) -> bool:
    return name.startswith(_ALL)


@lru_cache(NAMES)
def _current(name: str) -> bool:
    return name.startswith("gen_ai.")


def translated(attributes: Attributes) -> tuple[Attributes, str]:
    """Return attributes in the names of the GenAI conventions, and the dialect that they were in, or nothing."""
    if not any(map(_marked, attributes)):
        return attributes, CURRENT if any(map(_current, attributes)) else ""
    marked = [name for name in attributes if _marked(name)]
    spoken = ""
    for dialect in DIALECTS:
        if any(name.startswith(dialect.marks) for name in marked):
            attributes = dialect.translated(dict(attributes))
            spoken = spoken or dialect.name
    return attributes, spoken
