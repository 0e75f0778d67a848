"""LangSmith: runs, as the client posts and patches them, as the API lists them, and as trees with their child runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.families.traces import Exclusion
from projections.normal_form.sources import Row, Source, chats
from projections.normal_form.sources.measures import annotation, nano_usd, nanoseconds, usage
from projections.normal_form.sources.nodes import (
    CHAT,
    OTHER,
    TOOL,
    Node,
    derived,
    excerpt,
    first,
    folded,
    identifier,
    objects,
    opened,
    spans,
    stated,
    text,
)
from projections.normal_form.spans import Span

_KINDS = {"llm": CHAT, "tool": TOOL}
_OF_RUNS = ("run_type", "dotted_order", "parent_run_id", "child_runs", "parent_run_ids", "session_name")
_PARTS = ("post", "patch", "runs", "traces", "data", "results")
_MARKS = frozenset({"outputs", "end_time", "error", "events", "extra", "tags", "feedback_stats"})


def recognises(document: Any) -> str:  # noqa: ANN401 - any JSON value
    """Say why a document is LangSmith's."""
    if isinstance(document, list):
        return next((why for one in document[:10] if (why := recognises(one))), "")
    if not isinstance(document, dict):
        return ""
    if isinstance(document.get("post"), list) or isinstance(document.get("patch"), list):
        return "lists of runs to post and to patch"
    for name in _PARTS[2:]:
        if any(map(_is_run, objects(document.get(name))[:10])):
            return f"an object with a list of runs, under {name}"
    if isinstance(run := document.get("run"), dict) and _is_run(run):
        return "an object with a run"
    return "a run: it has a run type, and inputs or outputs" if _is_run(document) else ""


def _is_run(value: dict[str, Any]) -> bool:
    held = "inputs" in value or "outputs" in value
    if "run_type" in value and (held or "dotted_order" in value):
        return True
    return (
        "dotted_order" in value
        and ("trace_id" in value or "id" in value or "run_id" in value)
        and bool(_MARKS & set(value))
    )


def rows(document: Any, place: str) -> Iterator[Row | Exclusion]:  # noqa: ANN401 - any JSON value
    """Yield a row for each run, those within runs included; a patch is a row of its own."""
    if isinstance(document, list):
        for index, one in enumerate(document, 1):
            yield from rows(one, f"{place}, run {index}")
    elif not isinstance(document, dict):
        yield Exclusion(place=place, reason="not-a-run", units=1, detail=excerpt(document))
    elif not _is_run(document) and any(isinstance(document.get(part), list) for part in _PARTS):
        for part in _PARTS:
            listed = document.get(part)
            for index, one in enumerate(listed if isinstance(listed, list) else (), 1):
                named = one if part != "patch" or not isinstance(one, dict) else {**one, "is": "patch"}
                yield from rows(named, f"{place}, {part} {index}")
    elif isinstance(run := document.get("run"), dict) and not _is_run(document):
        yield from rows(run, place)
    elif _is_run(document) or document.get("is") == "patch":
        yield from _run(document, place, "", "")
    else:
        yield Exclusion(place=place, reason="not-a-run", units=1, detail=excerpt(document))


def _run(run: dict[str, Any], place: str, trace: str, parent: str) -> Iterator[Row | Exclusion]:
    """Yield a run and the runs within it."""
    identity = _identity(run)
    name = trace or _trace(run)
    if not name:
        yield Exclusion(place=place, reason="row-without-trace", units=1, detail=excerpt(run))
        return
    children = run.get("child_runs")
    own = {key: value for key, value in run.items() if key != "child_runs"}
    if parent and not own.get("parent_run_id"):
        own["parent_run_id"] = parent
    yield Row(name, own, place)
    for index, child in enumerate(children if isinstance(children, list) else (), 1):
        where = f"{place}, child {index}"
        if isinstance(child, dict):
            yield from _run(child, where, name, identity or derived(own))
        else:
            yield Exclusion(place=where, reason="not-a-run", units=1, detail=excerpt(child))


def _identity(run: dict[str, Any]) -> str:
    return identifier(first(run, "id", "run_id"))


def _trace(run: dict[str, Any]) -> str:
    """Return the trace of a run: as it says, or the root in its dotted order, or itself."""
    named = identifier(run.get("trace_id"))
    if named:
        return named
    root = text(run.get("dotted_order")).split(".")[0]
    if "Z" in root:
        return root.partition("Z")[2]
    parents = run.get("parent_run_ids")
    if isinstance(parents, list) and parents and identifier(parents[0]):
        return identifier(parents[0])
    if run.get("parent_run_id"):
        return ""
    return _identity(run) or derived(run)


def read(rows: Sequence[Row]) -> Iterator[Span | Exclusion]:
    """Yield one span a run: what was posted of it and what was patched are one."""
    nodes = [_node(identity, alike) for identity, alike in folded(rows, _identity).items()]
    yield from spans(nodes)


def _merged(alike: Sequence[Row]) -> dict[str, Any]:
    """Return a run of its rows: what is patched, or ended, adds to what was posted, and empties nothing."""
    merged: dict[str, Any] = {}
    for row in sorted(alike, key=lambda row: (row.value.get("is") == "patch", bool(row.value.get("end_time")))):
        merged |= {name: value for name, value in row.value.items() if value not in (None, "", {}, [])}
    merged.pop("is", None)
    return merged


def _node(identity: str, alike: Sequence[Row]) -> Node:
    run = _merged(alike)
    extra = opened(run.get("extra"))
    metadata, asked = opened(extra.get("metadata")), opened(extra.get("invocation_params"))
    inputs, outputs = opened(run.get("inputs")), opened(run.get("outputs"))
    kind = _KINDS.get(text(run.get("run_type")), OTHER)
    tokens = _usage(outputs, metadata, run) if kind == CHAT else {}
    return Node(
        row=Row(alike[0].trace, run, alike[0].place),
        span=identity,
        parent=identifier(run.get("parent_run_id")),
        kind=kind,
        name=text(run.get("name")),
        given=_given(inputs or run.get("inputs"), kind),
        back=_back(outputs or run.get("outputs"), run, kind),
        start=nanoseconds(run.get("start_time")),
        end=nanoseconds(run.get("end_time")),
        error=run.get("error"),
        call=identifier(first(inputs, "tool_call_id") or extra.get("tool_call_id") or metadata.get("tool_call_id")),
        attributes=stated(
            gen_ai__request__model=text(first(metadata, "ls_model_name") or first(asked, "model", "model_name"))
            or text(inputs.get("model")),
            gen_ai__response__model=_served(outputs),
            gen_ai__provider__name=text(metadata.get("ls_provider")),
            gen_ai__conversation__id=identifier(first(metadata, "session_id", "thread_id", "conversation_id")),
            gen_ai__tool__definitions=chats.definitions(first(asked, "tools", "functions") or inputs.get("tools")),
            exp__cost__nano_usd=nano_usd(run.get("total_cost")) or None,
            exp__task__id=identifier(run.get("reference_example_id")),
            exp__annotations=[*_feedback(run)],
            **tokens,
        ),
        merged=tuple(row.place for row in alike[1:]),
    )


def _given(inputs: Any, kind: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return what went in; a tool's arguments are often one text or object among the inputs."""
    if kind == TOOL and isinstance(inputs, dict):
        held = {name: value for name, value in inputs.items() if name not in ("tool_call_id", "config", "runtime")}
        if set(held) == {"input"}:
            inner = chats.decoded(held["input"])
            return inner if isinstance(inner, dict) else held["input"]
        return held
    return inputs


def _back(outputs: Any, run: dict[str, Any], kind: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return what came out; where only the tokens of a stream are kept, what they make together."""
    if kind == CHAT and not outputs:
        return _streamed(objects(run.get("events")))
    if kind == TOOL and isinstance(outputs, dict) and set(outputs) == {"output"}:
        return outputs["output"]
    return outputs


def _streamed(events: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the message that the tokens of a stream make, None without any."""
    tokens = [opened(event.get("kwargs")).get("token") for event in events if event.get("name") == "new_token"]
    deltas: list[Any] = []
    for token in tokens:
        deltas += (
            [token]
            if isinstance(token, str)
            else [one.get("delta") for one in objects(opened(token).get("choices"))[:1]]
        )
    return chats.assembled(deltas)


def _usage(outputs: dict[str, Any], metadata: dict[str, Any], run: dict[str, Any]) -> dict[str, int]:
    inner = opened(outputs.get("llm_output"))
    said = _generation(outputs)
    return usage(
        opened(outputs.get("usage_metadata")),
        opened(metadata.get("usage_metadata")),
        opened(said.get("usage_metadata")),
        opened(outputs.get("usage")),
        opened(first(inner, "token_usage", "usage")),
        run,
    )


def _generation(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return what the message of a generation was made with."""
    listed = outputs.get("generations")
    while isinstance(listed, list) and listed:
        listed = listed[0]
    message = opened(opened(listed).get("message") or outputs.get("message"))
    return opened(message.get("kwargs")) or message


def _served(outputs: dict[str, Any]) -> str:
    said = opened(_generation(outputs).get("response_metadata"))
    inner = opened(outputs.get("llm_output"))
    return text(outputs.get("model")) or text(first(said, "model_name", "model")) or text(inner.get("model_name"))


def _feedback(run: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what was said of a run: single feedback where it is listed, else the means of its statistics."""
    listed = objects(run.get("feedback"))
    for one in sorted(listed, key=lambda one: excerpt(one.get("id"))):
        source = text(opened(first(one, "feedback_source", "source")).get("type"))
        origin = {"app": "human", "model": "model", "api": "code", "auto_eval": "model"}.get(source, "unknown")
        score = one.get("score")
        label = one.get("value")
        yield annotation(
            one.get("key"), label if score is None else score, origin, label=label, comment=one.get("comment")
        )
    if not listed:
        for name, stats in sorted(opened(run.get("feedback_stats")).items()):
            if isinstance(stats, dict) and stats.get("avg") is not None:
                yield annotation(name, stats["avg"], "unknown")


SOURCE = Source("langsmith", recognises, rows, read)
