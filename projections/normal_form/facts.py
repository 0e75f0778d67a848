"""What spans say about their trace beside its steps: models, tokens, cost, time, errors, annotations, belonging."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec

from ledger import canonical
from ledger.families.traces import Annotation, Model, Usage
from projections.normal_form.messages import opened, written
from projections.normal_form.spans import REAL_TIME, Span

MOST_ATTRIBUTES = 32
NAMES = 4_096  # of attributes, that aren't looked at again
ATTRIBUTE_LENGTH = 80
NANO = Decimal(10) ** 9
_CONTENT = ("gen_ai.", "input.", "output.", "error.", "exp.")
_DECLARED = frozenset({"gen_ai.request.model", "gen_ai.provider.name", "gen_ai.system", "gen_ai.agent.name"})
_MODEL = (("gen_ai.request.model",), ("gen_ai.response.model",), ("gen_ai.provider.name", "gen_ai.system"))
_TOKENS = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cached_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.cached_tokens",
        "gen_ai.usage.input_tokens.cached",
    ),
    "reasoning_tokens": (
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.output_tokens.reasoning",
    ),
}
_COSTS = ("gen_ai.usage.cost", "gen_ai.usage.total_cost", "gen_ai.cost.total_cost", "gen_ai.usage.cost.total")
_TOKEN_NAMES = frozenset(name for names in _TOKENS.values() for name in names)
_COST_NAMES = frozenset(("exp.cost.nano_usd", *_COSTS))
_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "gen_ai.session.id", "gen_ai.thread.id")
_TASKS = ("exp.task.id", "gen_ai.task.id", "task.id", "task_id")
_TASK = re.compile(r"(?:.*[._])?(?:task|example|sample)[._]?id", re.IGNORECASE)
_OPENING = ("{", "[", '"', " ", "\n", "\t", "\r")
_ORIGINS = frozenset({"human", "model", "code", "unknown"})
_MOST_DIGITS = 30


class Facts(msgspec.Struct):
    """The parts of a trace that aren't its steps."""

    task_id: str = ""
    conversation_id: str = ""
    models: tuple[Model, ...] = ()
    usage: Usage | None = None
    cost: int | None = None
    duration_us: int | None = None
    errors: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    reward: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    places: set[str] = msgspec.field(default_factory=set)  # of spans that say any of these


def facts(spans: Sequence[Span], asked: Sequence[Span], clean: Callable[[str], str]) -> Facts:
    """Return what spans say, of which ``asked`` are the calls of models, without any that holds others."""
    found = Facts()
    said = set[str]().union(*[span.attributes for span in spans])
    found.models = tuple(sorted(set(_models(asked or spans, found.places, clean)), key=msgspec.structs.astuple))
    if not said.isdisjoint(_TOKEN_NAMES):
        found.usage = _usage(asked, found.places)
    if not said.isdisjoint(_COST_NAMES):
        found.cost = _cost(asked, found.places)
    found.duration_us = _duration(spans)
    failed = [span for span in asked if span.error]
    found.errors = tuple(sorted({clean(_error(span)) for span in failed}))
    found.places.update(span.place for span in failed)
    if "exp.annotations" in said or any([span.events for span in spans]):  # noqa: C419 - faster than a generator
        found.annotations = _annotations(spans, found.places, clean)
    if "exp.reward" in said:
        found.reward = _agreed(_decimals(spans, "exp.reward", found.places))
    if not said.isdisjoint(_CONVERSATIONS):
        found.conversation_id = clean(_agreed(_named(spans, _CONVERSATIONS, found.places)))
    declared_ = [(clean(name), clean(value)) for name, value in declared(spans)]
    found.attributes = tuple(declared_)
    if not said.isdisjoint(_TASKS):
        found.task_id = clean(_agreed(_named(spans, _TASKS, found.places)))
    if not found.task_id:
        found.task_id = _agreed(value for name, value in declared_ if _TASK.fullmatch(name))
    return found


def _models(spans: Iterable[Span], places: set[str], clean: Callable[[str], str]) -> Iterator[Model]:
    for span in spans:
        words = [_first_text(span.attributes, names) for names in _MODEL]
        if words[0] or words[1]:
            places.add(span.place)
            requested, served, provider = map(clean, words)
            yield Model(requested=requested, served=served, provider=provider)


def _first_text(attributes: dict[str, Any], names: Iterable[str]) -> str:
    for name in names:
        if isinstance(value := attributes.get(name), str) and value:
            return value
    return ""


def _usage(asked: Iterable[Span], places: set[str]) -> Usage | None:
    """Add tokens up. What an answered call doesn't say makes the sum unknown; only details may be left out."""
    totals: dict[str, int] = {}
    unknown: set[str] = set()
    for span in asked:
        for kind, names in _TOKENS.items():
            count = next((n for name in names if (n := _count(span.attributes.get(name))) is not None), None)
            if count is not None:
                totals[kind] = totals.get(kind, 0) + count
                places.add(span.place)
            elif not span.error and kind in ("input_tokens", "output_tokens"):
                unknown.add(kind)
    known = {kind: total for kind, total in totals.items() if kind not in unknown}
    return Usage(**{kind: min(total, canonical.GREATEST_INTEGER) for kind, total in known.items()}) if known else None


def _count(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= canonical.GREATEST_INTEGER else None


def _cost(asked: Sequence[Span], places: set[str]) -> int | None:
    """Add costs up in nano-dollars; None when an answered call doesn't say."""
    total, known = 0, False
    for span in asked:
        cost = _count(span.attributes.get("exp.cost.nano_usd"))
        if cost is None:
            dollars = next((d for name in _COSTS if (d := decimal(span.attributes.get(name))) is not None), None)
            cost = None if dollars is None else _count(int((dollars * NANO).to_integral_value()))
        if cost is not None:
            total, known = total + cost, True
            places.add(span.place)
        elif not span.error:
            return None
    return total if known and total <= canonical.GREATEST_INTEGER else None


def decimal(value: Any) -> Decimal | None:  # noqa: ANN401 - any JSON value
    """Return a number of ordinary size as the decimal that its shortest text says."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > _MOST_DIGITS:
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and number.adjusted() < _MOST_DIGITS else None


def decimal_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a number as plain decimal text, or nothing when it is none."""
    number = decimal(value)
    if number is None:
        return ""
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _duration(spans: Iterable[Span]) -> int | None:
    timed = [span for span in spans if span.start >= REAL_TIME and span.end >= span.start]
    if not timed:
        return None
    lasted = (max(span.end for span in timed) - min(span.start for span in timed)) // 1000
    return lasted if lasted <= canonical.GREATEST_INTEGER else None


def _error(span: Span) -> str:
    named = [span.attributes.get("error.type")]
    named += [attributes.get("exception.type") for name, attributes in span.events if name == "exception"]
    return next((one[:ATTRIBUTE_LENGTH] for one in named if isinstance(one, str) and one), "error")


def _annotations(spans: Iterable[Span], places: set[str], clean: Callable[[str], str]) -> tuple[Annotation, ...]:
    found: set[Annotation] = set()
    for span in spans:
        noted = opened(span.attributes.get("exp.annotations"))
        listed = [one for one in noted if isinstance(one, dict)] if isinstance(noted, list) else []
        for name, attributes in span.events:
            if name == "gen_ai.evaluation.result":
                listed.append(_evaluation(attributes))
        for one in listed:
            if name := written(one.get("name")):
                origin = one.get("origin")
                places.add(span.place)
                found.add(
                    Annotation(
                        name=clean(name),
                        value=decimal_text(one.get("value")),
                        label=clean(written(one.get("label"))),
                        origin=origin if isinstance(origin, str) and origin in _ORIGINS else "unknown",
                        comment=clean(written(one.get("comment"))),
                    )
                )
    return tuple(sorted(found, key=msgspec.structs.astuple))


def _evaluation(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation in the GenAI conventions as an annotation."""
    start = "gen_ai.evaluation."
    return {
        "name": attributes.get(f"{start}name"),
        "value": attributes.get(f"{start}score.value"),
        "label": attributes.get(f"{start}score.label"),
        "comment": attributes.get(f"{start}explanation"),
    }


def _decimals(spans: Iterable[Span], name: str, places: set[str]) -> Iterator[str]:
    for span in spans:
        if text := decimal_text(span.attributes.get(name)):
            places.add(span.place)
            yield text


def _named(spans: Iterable[Span], names: Sequence[str], places: set[str]) -> Iterator[str]:
    for span in spans:
        for name in names:
            value = span.attributes.get(name)
            if value not in (None, "", False, True) and isinstance(value, str | int):
                places.add(span.place)
                yield str(value)[:ATTRIBUTE_LENGTH]
                break


def _agreed(values: Iterable[str]) -> str:
    """Return the one value that is said, or nothing when several are."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def declared(spans: Iterable[Span]) -> tuple[tuple[str, str], ...]:
    """Return the short texts that spans declare about their trace, also inside JSON objects, where they agree."""
    values: dict[str, set[str]] = {}
    before: dict[str, Any] = {}
    for span in spans:
        sources = [span.attributes]
        if span.resource is not before and span.resource != before:
            before = span.resource
            sources.append(span.resource)
        for attributes in sources:
            for name, value in attributes.items():
                if not _holds_content(name):
                    for told, text in _texts(name, value):
                        values.setdefault(told, set()).add(text)
    agreed = sorted((name, *texts) for name, texts in values.items() if len(texts) == 1)
    return tuple((name, text) for name, text in agreed[:MOST_ATTRIBUTES])


@lru_cache(NAMES)
def _holds_content(name: str) -> bool:
    return name.startswith(_CONTENT) and name not in _DECLARED


def _texts(name: str, value: Any) -> Sequence[tuple[str, str]]:  # noqa: ANN401 - any JSON value
    if not isinstance(value, str) or value[:1] in _OPENING:
        inner = opened(value)
        if isinstance(inner, dict):
            return [(f"{name}.{key}", text) for key, text in inner.items() if _short(text)]
    return ((name, value),) if _short(value) else ()


def _short(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(value, str) and 0 < len(value) <= ATTRIBUTE_LENGTH
