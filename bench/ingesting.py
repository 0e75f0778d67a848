"""What reading, pairing and recording exports take: the one at hand above start-up, and a large one a second."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from bench.measuring import EXP, Bar, Measured, measure

SESSION = 10  # spans
OPEN = 200  # sessions at once, so that a trace's spans are far apart
NANOSECONDS = 1_700_000_000 * 10**9
WORDS = 4_096
RUNS = 3


def spans(count: int) -> Iterator[bytes]:
    """Yield lines of OTLP JSON, some 1 KB each: sessions of model calls and tools' runs that go on side by side."""
    for number in range(count):
        block, rest = divmod(number, OPEN * SESSION)
        step, place = divmod(rest, OPEN)
        trace = hashlib.blake2b(f"{block}/{place}".encode(), digest_size=16).hexdigest()
        call = f"call_{trace[:8]}_{step // 2}"
        if step % 2:
            name = "execute_tool"
            told = {
                "gen_ai.tool.name": "bash",
                "gen_ai.tool.call.id": call,
                "gen_ai.tool.call.result": _text(trace, number, 80),
            }
        else:
            name = "chat"
            asked = [{"role": "user", "parts": [{"type": "text", "content": _text(trace, 0, 30)}]}]
            made = {"type": "tool_call", "id": call, "name": "bash", "arguments": {"command": _text(trace, number, 10)}}
            told = {
                "gen_ai.request.model": "a-model",
                "gen_ai.input.messages": json.dumps(asked),
                "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [made]}]),
            }
        start = NANOSECONDS + number * 10**6
        span = {
            "traceId": trace,
            "spanId": f"{number + 1:016x}",
            "name": name,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 10**5),
            "attributes": [
                {"key": key, "value": {"stringValue": value}}
                for key, value in {"gen_ai.operation.name": name, **told}.items()
            ],
            "status": {"code": 1},
        }
        yield json.dumps(span, separators=(",", ":")).encode() + b"\n"


def _text(trace: str, number: int, words: int) -> str:
    digits = hashlib.shake_128(f"{trace} {number}".encode()).digest(2 * words)
    return " ".join(f"word{int.from_bytes(digits[at : at + 2], 'big') % WORDS}" for at in range(0, len(digits), 2))


def run(folder: Path, traces: Path, count: int) -> list[Bar]:
    """Import the traces at hand and a synthetic export of so many spans; RuntimeError when one isn't imported."""
    start = _ingested(folder, "--help")
    again = (_ingested(folder, str(traces), "--root", str(folder / f"known-{number}")) for number in range(RUNS))
    known = min(again, key=lambda one: one.cpu)  # the first run may compile modules
    large = folder / "large.jsonl"
    with large.open("wb") as file:
        file.writelines(spans(count))
    many = _ingested(folder, str(large), "--root", str(folder / "many"))
    large.unlink()
    return [
        Bar("ingest the export, above start-up", known.cpu - start.cpu, 0.3, "CPU s", "3 to 4"),
        Bar(f"ingest {count:,} spans", count / (many.cpu - start.cpu), 20_000, "spans/CPU s", least=True),
        Bar(f"memory of ingesting {count:,} spans", many.megabytes, 300, "MB"),
    ]


def _ingested(folder: Path, *arguments: str) -> Measured:
    measured = measure([*EXP, "ingest", "files", *arguments], dict(os.environ), folder)
    if measured.status:
        raise RuntimeError(f"exp ingest ended with {measured.status}: {(folder / 'stderr').read_text('utf-8')}")
    return measured
