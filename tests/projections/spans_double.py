"""Spans as exporters write them, for tests of the normal form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ledger.redaction import redact_key_shapes
from projections.normal_form import Export, read_export

Span = dict[str, Any]


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def span(trace: str, number: int, values: dict[str, Any], *, error: bool = False, name: str = "span") -> Span:
    return {
        "traceId": trace,
        "spanId": f"{trace[-8:]}{number:08d}",
        "parentSpanId": "",
        "name": name,
        "startTimeUnixNano": number * 10,
        "endTimeUnixNano": number * 10 + 1,
        "status": {"code": "STATUS_CODE_ERROR" if error else "STATUS_CODE_OK"},
        "attributes": attributes(values),
    }


def session(
    trace: str, task: str, steps: Sequence[tuple[str, str]], *, errors: Iterable[int] = (), **declared: str
) -> list[Span]:
    """A trace in two spans a step: a chat that calls, a tool that gives back; the prompt on the first span alone."""
    spans = []
    wrong = set(errors)
    for number, (command, output) in enumerate(steps):
        first = {"gen_ai.prompt": task, "trace.metadata": json.dumps(declared)} if number == 0 else {}
        asked = {
            "gen_ai.operation.name": "chat",
            "gen_ai.tool.name": "bash",
            "gen_ai.tool.call.arguments": json.dumps({"command": command}),
            **first,
        }
        gave = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bash", "gen_ai.tool.message": output}
        spans += [span(trace, 2 * number, asked), span(trace, 2 * number + 1, gave, error=number in wrong)]
    return spans


def lines(spans: Iterable[Any]) -> list[bytes]:
    return [json.dumps(one).encode() + b"\n" for one in spans]


def read(given: Iterable[bytes | None], redact: Callable[[str], tuple[str, int]] = redact_key_shapes) -> Export:
    return read_export(given, redact)


def reasons(export: Export) -> list[str]:
    return [one.reason for one in export.exclusions]
