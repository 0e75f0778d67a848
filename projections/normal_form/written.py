"""The normal form as OTLP JSON: a span for the agent and one for each step, in the names of the GenAI conventions.

What has no name there is in attributes of our own (``exp.*``), so that reading it again gives the same trace, byte by
byte. Ids are derived from the trace; times are the numbers 1, 2, 3, since a trace keeps how long it took and not when.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ledger import canonical, digests
from ledger.episode import Turn
from ledger.families.traces import Annotation, Model, Trace, Usage
from projections.normal_form.spans import Span

SCOPE = {"name": "exp-ledger", "version": "1"}
_TRACE_ID = re.compile(r"(?!0+$)[0-9a-f]{32}")
_SPAN_DIGITS = 16
_INTERNAL, _OK, _ERROR = 1, 1, 2
_encode = msgspec.json.Encoder(order="sorted").encode


class _Rest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a trace has no name in the conventions."""

    name: str
    turns: int
    task: str
    final: str | None
    attributes: tuple[tuple[str, str], ...]
    task_id: str = ""
    conversation_id: str = ""
    system: str = ""
    models: tuple[Model, ...] = ()
    usage: Usage | None = None
    cost: int | None = None
    duration_us: int | None = None
    errors: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    reward: str = ""


class _RestTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a turn has no name in the conventions, and its number."""

    number: int
    tool: str
    error: bool
    call_id: str = ""
    said: str = ""
    paired: str = ""


_decode_rest = msgspec.json.Decoder(_Rest).decode
_decode_turn = msgspec.json.Decoder(_RestTurn).decode


def written(trace: Trace) -> dict[str, Any]:
    """Return a trace as an OTLP JSON envelope (``ExportTraceServiceRequest``): one line of an export."""
    identity = trace.name if _TRACE_ID.fullmatch(trace.name) else _digits(trace.name)[:32]
    root = _span_id(identity, 0)
    last = 2 * len(trace.turns) + 2
    spans = [
        {
            "traceId": identity,
            "spanId": root,
            "name": "invoke_agent",
            "kind": _INTERNAL,
            "startTimeUnixNano": "1",
            "endTimeUnixNano": str(last),
            "attributes": _listed(_of_trace(trace)),
            "status": {},
        }
    ]
    for number, turn in enumerate(trace.turns):
        spans.append(
            {
                "traceId": identity,
                "spanId": _span_id(identity, number + 1),
                "parentSpanId": root,
                "name": f"execute_tool {turn.tool}".rstrip(),
                "kind": _INTERNAL,
                "startTimeUnixNano": str(2 * number + 2),
                "endTimeUnixNano": str(2 * number + 3),
                "attributes": _listed(_of_turn(number, turn)),
                "status": {"code": _ERROR if turn.error else _OK},
            }
        )
    resource = {"attributes": _listed({"service.name": SCOPE["name"]})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": SCOPE, "spans": spans}]}]}


def _of_trace(trace: Trace) -> dict[str, Any]:
    rest = {name: getattr(trace, name) for name in _Rest.__struct_fields__ if name != "turns"}
    values: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "exp.source": trace.source,
        "exp.trace": _encode(_Rest(turns=len(trace.turns), **rest)).decode(),
    }
    if trace.task:
        values["gen_ai.input.messages"] = _message("user", trace.task)
    if trace.final:
        values["gen_ai.output.messages"] = _message("assistant", trace.final)
    if trace.system:
        values["gen_ai.system_instructions"] = _encode([{"type": "text", "content": trace.system}]).decode()
    if trace.conversation_id:
        values["gen_ai.conversation.id"] = trace.conversation_id
    if trace.models:
        model = trace.models[0]
        named = {
            "gen_ai.request.model": model.requested,
            "gen_ai.response.model": model.served,
            "gen_ai.provider.name": model.provider,
        }
        values |= {name: value for name, value in named.items() if value}
    if trace.usage is not None:
        counts = {
            "gen_ai.usage.input_tokens": trace.usage.input_tokens,
            "gen_ai.usage.output_tokens": trace.usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": trace.usage.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": trace.usage.reasoning_tokens,
        }
        values |= {name: value for name, value in counts.items() if value is not None}
    return dict(trace.attributes) | values


def _of_turn(number: int, turn: Turn) -> dict[str, Any]:
    rest = _RestTurn(
        number=number, tool=turn.tool, error=turn.error, call_id=turn.call_id, said=turn.said, paired=turn.paired
    )
    named = {"gen_ai.tool.call.id": turn.call_id, "gen_ai.tool.name": turn.tool}
    return {
        "gen_ai.operation.name": "execute_tool",
        **{name: value for name, value in named.items() if value},
        "gen_ai.tool.call.arguments": turn.arguments,
        "gen_ai.tool.call.result": turn.observation,
        "exp.turn": _encode(rest).decode(),
    }


def _message(role: str, text: str) -> str:
    return _encode([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()


def _listed(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}
        for name, value in values.items()
    ]


def _digits(*parts: object) -> str:
    return digests.content_digest(canonical.digest_input("written", *parts)).removeprefix(digests.PREFIX)


def _span_id(identity: str, number: int) -> str:
    return _digits(identity, number)[:_SPAN_DIGITS]


def read(spans: Sequence[Span], clean: Callable[[str], str]) -> Trace | None:
    """Return the trace that spans were written from, or None when they weren't, or aren't all there."""
    roots = [span for span in spans if "exp.source" in span.attributes]
    if len(roots) != 1:
        return None
    (root,) = roots
    try:
        rest = _decode_rest(root.attributes["exp.trace"])
        turns = sorted(_turn(span) for span in spans if span is not root)
    except (msgspec.DecodeError, TypeError, KeyError):
        return None
    source = root.attributes["exp.source"]
    if [number for number, _ in turns] != list(range(rest.turns)) or not isinstance(source, str):
        return None
    told = {name: getattr(rest, name) for name in rest.__struct_fields__ if name != "turns"}
    trace = Trace(source=source, turns=tuple(turn for _, turn in turns), **told)
    return _cleaned(trace, clean)


def _turn(span: Span) -> tuple[int, Turn]:
    rest = _decode_turn(span.attributes["exp.turn"])
    given, gave = span.attributes["gen_ai.tool.call.arguments"], span.attributes["gen_ai.tool.call.result"]
    if not isinstance(given, str) or not isinstance(gave, str):
        raise TypeError
    told = {name: getattr(rest, name) for name in rest.__struct_fields__ if name != "number"}
    return rest.number, Turn(arguments=given, observation=gave, **told)


def _cleaned(trace: Trace, clean: Callable[[str], str]) -> Trace | None:
    """Return a trace with all its texts cleaned; None when what is left is none, such as a number out of range."""

    def inside(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, dict):
            return {name: inside(item) for name, item in value.items()}
        return [inside(item) for item in value] if isinstance(value, list | tuple) else value

    plain = inside(msgspec.to_builtins(trace))
    try:
        canonical.encode(plain)
        return msgspec.convert(plain, Trace)
    except (msgspec.ValidationError, canonical.NotCanonical):
        return None
