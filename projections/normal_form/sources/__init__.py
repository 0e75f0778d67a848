"""Sources: who writes exports, each with how its documents are recognised, and how they become rows and then spans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from ledger.errors import Refusal
from ledger.families.traces import Exclusion
from projections.normal_form.spans import Span

_ONE_EACH = ("langfuse", "langsmith", "braintrust", "posthog", "mastra", "langwatch", "inspect", "chat-json")
_OF_OTLP = ("otel-genai", "openinference", "phoenix", "traceloop")
DETECTED = ("otlp", *_ONE_EACH)
NAMES = ("otlp", *_OF_OTLP, *_ONE_EACH)
_MODULES = {"inspect": "inspect_ai", "chat-json": "chat_json"} | dict.fromkeys(_OF_OTLP, "otlp")


class Row(msgspec.Struct, array_like=True):
    """One unit of an input before it is a span. All rows of one trace carry the same ``trace``.

    ``place`` is unique within its document; spans made of a row, and exclusions of it, carry its place. Whoever read
    the document says whether it was ``clean``: whether none of its texts needs another look.
    """

    trace: str
    value: Any
    place: str
    clean: bool = False


class Source(NamedTuple):
    """A producer of exports.

    ``recognises`` says why a document's structure fits, or nothing. ``rows`` takes a document and its place.
    ``spans`` takes all rows of one trace, in any order, and merges those that belong together. Whatever is in no span
    is an exclusion with the place of its row.
    """

    name: str
    recognises: Callable[[Any], str]
    rows: Callable[[Any, str], Iterable[Row | Exclusion]]
    spans: Callable[[Sequence[Row]], Iterator[Span | Exclusion]]


class NothingRecognised(Refusal, name="source-not-recognised", exit_code=92):
    """No source's structure fits the input."""

    def __init__(self, where: str) -> None:
        super().__init__(
            "the input has the structure of no known source; nothing was recorded",
            where=where,
            remedy=f"name its source with --source: one of {', '.join(NAMES)}",
        )


class SeveralRecognised(Refusal, name="source-ambiguous", exit_code=93):
    """The structure of more than one source fits."""

    def __init__(self, where: str, reasons: Iterable[tuple[str, str]]) -> None:
        listed = list(reasons)
        super().__init__(
            f"the input can be read as {' or as '.join(name for name, _ in listed)}; nothing was recorded",
            where=f"{where}: " + "; ".join(f"{name}: {why}" for name, why in listed),
            remedy="name the one that wrote it with --source",
        )


def _module(name: str) -> str:
    return f"{__name__}.{_MODULES.get(name, name)}"


@cache
def source(name: str) -> Source:
    """Return a source by its name; its module is loaded when it is first asked for."""
    module = import_module(_module(name))
    found: Source = module.SOURCES[name] if name in _OF_OTLP else module.SOURCE
    return found


def detect(documents: Iterable[Any], where: str = "the input") -> tuple[str, str]:
    """Return the one source whose structure the documents have, and why it is that one.

    Each document may speak for a source; one that none recognises says nothing. NothingRecognised, SeveralRecognised.
    """
    found: dict[str, str] = {}
    for document in documents:
        for name in DETECTED:
            if name not in found and (why := source(name).recognises(document)):
                found[name] = why
    if not found:
        raise NothingRecognised(where)
    if len(found) > 1:
        raise SeveralRecognised(where, found.items())
    return next(iter(found.items()))
