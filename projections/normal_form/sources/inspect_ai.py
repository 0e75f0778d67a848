"""Inspect: logs of evaluations as JSON. A sample is a task, an epoch of it a rollout, and its scores annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.sources import Row, Source, chats
from projections.normal_form.sources.measures import annotation, count, later, nanoseconds, usage
from projections.normal_form.sources.nodes import (
    CHAT,
    Node,
    derived,
    excerpt,
    first,
    identifier,
    objects,
    opened,
    spans,
    stated,
    text,
)
from projections.normal_form.spans import Span

_GRADES = {"C": "1", "P": "0.5", "I": "0", "N": "0"}  # correct, partial, incorrect, no answer: as Inspect counts them
_ATTACHMENT = "attachment://"
_DEPTH = 64


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is Inspect's."""
    if isinstance(document, list):
        return next((why for one in document[:10] if (why := recognises(one))), "")
    if not isinstance(document, dict):
        return ""
    evaluation = document.get("eval")
    if isinstance(evaluation, dict) and "task" in evaluation and ("samples" in document or "plan" in document):
        return "the log of an evaluation: its task, and samples"
    return "a sample of an evaluation: it has an epoch, a target and messages" if _is_sample(document) else ""


def _is_sample(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict) or "id" not in value or "epoch" not in value:
        return False
    return "target" in value and ("messages" in value or "output" in value)


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each sample."""
    if isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, item {index}")
    elif _is_sample(document):
        yield _row(document, {}, place)
    elif isinstance(document, dict) and isinstance(document.get("eval"), dict):
        listed = document.get("samples")
        if not isinstance(listed, list) or not listed:
            yield Exclusion(
                place=place, reason="log-without-samples", units=1, detail=excerpt(document["eval"].get("task"))
            )
            return
        for index, one in enumerate(listed, 1):
            where = f"{place}, sample {index}"
            if isinstance(one, dict):
                yield _row(one, document["eval"], where)
            else:
                yield Exclusion(place=where, reason="not-a-sample", units=1, detail=excerpt(one))
    else:
        yield Exclusion(place=place, reason="not-a-sample", units=1, detail=excerpt(document))


def _row(sample: dict[str, Any], evaluation: dict[str, Any], place: str) -> Row:
    """Return a sample with what its evaluation says of it."""
    kept = {key: evaluation[key] for key in ("task", "eval_id", "run_id", "model") if key in evaluation}
    where = [identifier(kept.get("eval_id")), identifier(sample.get("id")), identifier(sample.get("epoch"))]
    name = identifier(sample.get("uuid")) or (":".join(where) if all(where) else derived([kept, sample]))
    return Row(name, {**sample, "eval": kept}, place)


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield one span a sample. Where a sample is found again with other content, each is read."""
    yield from spans(map(_node, rows))


def _node(row: Row) -> Node:
    """Return a sample as the one call that closed it, which was given all that was said before."""
    sample = row.value
    evaluation, held = opened(sample.get("eval")), opened(sample.get("attachments"))
    messages = _attached(sample.get("messages"), held)
    output = opened(_attached(sample.get("output"), held))
    given = messages if isinstance(messages, list) and messages else [*_asked(_attached(sample.get("input"), held))]
    said = chats.conversation(given, "user")
    if not any(message["role"] == "assistant" for message in said):
        said += chats.conversation(output, "assistant")
    asked, answer = chats.answered(said)
    events = objects(sample.get("events"))
    start = nanoseconds(sample.get("started_at")) or min(filter(None, map(_at, events)), default=0)
    return Node(
        row=row,
        span=derived(sample),
        kind=CHAT,
        name=text(evaluation.get("task")),
        given=asked,
        back=answer,
        start=start,
        end=nanoseconds(sample.get("completed_at")) or later(start, sample.get("total_time")),
        error=sample.get("error") or output.get("error"),
        attributes=_attributes(sample, evaluation, output),
    )


def _at(event: dict[str, Any]) -> int:
    return nanoseconds(event.get("timestamp"))


def _asked(given: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _attached(value: Any, held: dict[str, Any], depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value with the attachments that it names."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return held.get(value.removeprefix(_ATTACHMENT), value)
    if depth == _DEPTH:
        return value
    if isinstance(value, list):
        return [_attached(one, held, depth + 1) for one in value]
    if isinstance(value, dict):
        return {name: _attached(one, held, depth + 1) for name, one in value.items()}
    return value


def _attributes(sample: dict[str, Any], evaluation: dict[str, Any], output: dict[str, Any]) -> dict[str, Any]:
    task, identity, target = text(evaluation.get("task")), identifier(sample.get("id")), sample.get("target")
    limit = opened(sample.get("limit"))
    return stated(
        gen_ai__request__model=text(evaluation.get("model")),
        gen_ai__response__model=text(output.get("model")),
        exp__task__id=f"{task}/{identity}" if task and identity else identity,
        exp__annotations=[*_annotations(sample)],
        inspect__task=task,
        inspect__epoch=identifier(sample.get("epoch")),
        inspect__target=target if isinstance(target, str) else excerpt(target) if target else "",
        inspect__limit=text(limit.get("type")),
        **_usage(sample, output),
    )


def _usage(sample: dict[str, Any], output: dict[str, Any]) -> dict[str, int]:
    """Return the tokens of a sample over all its models."""
    total: dict[str, int] = {}
    for one in opened(sample.get("model_usage")).values():
        for name, tokens in usage(one).items():
            total[name] = total.get(name, 0) + tokens
    return {name: it for name, it in total.items() if count(it) is not None} or usage(output.get("usage"))


def _annotations(sample: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what each scorer said; a score of several values is one annotation a value."""
    scores = opened(sample.get("scores"))
    if not scores and isinstance(sample.get("score"), dict):
        scores = {"score": sample["score"]}
    for scorer, score in sorted(scores.items()):
        held = score if isinstance(score, dict) else {"value": score}
        value = held.get("value")
        if isinstance(value, dict):
            named = [(f"{scorer}.{name}", one) for name, one in sorted(value.items())]
        elif isinstance(value, list):
            named = [(f"{scorer}.{index}", one) for index, one in enumerate(value)]
        else:
            named = [(scorer, value)]
        for name, one in named:
            if one is not None:
                yield _graded(name, one, _origin(scorer, held), first(held, "explanation", "answer"))


def _graded(name: str, value: Any, origin: str, comment: Any) -> dict[str, str]:  # noqa: ANN401 - any JSON values
    noted = annotation(name, value, origin, comment=comment)
    return noted | {"value": _GRADES[value]} if isinstance(value, str) and value in _GRADES else noted


def _origin(scorer: str, score: dict[str, Any]) -> str:
    """Return who scored: a person who edited the score, a model where the scorer is graded by one, else code."""
    edited = [opened(one.get("provenance")).get("author") for one in objects(score.get("history"))]
    if any(edited):
        return "human"
    return "model" if scorer.startswith("model_graded") else "human" if scorer.startswith("human") else "code"


SOURCE = Source("inspect", recognises, rows, read)
