"""Usage and budgets on a long journal: how soon a gateway that starts on it listens, and how soon it answers."""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import time
from pathlib import Path

import msgspec

from bench.gateway import _configure, _listening
from bench.measuring import EXP, Bar
from bench.starting import GATEWAY, a_request, fill, opened
from commands.gateway.keys import digest_of
from commands.opening import now_us
from ledger.allowances import DAY, Limits
from ledger.event import Event, Step
from ledger.families import providers, serving
from ledger.families.providers import Capabilities, ConfigureProviders, Connection, Model

KEYS, MODELS, DAYS = 5, 4, 31
SPENT = "exp-the-key-that-has-spent-its-budget"
ROUNDS = 21
MILLI = 1000
REFUSED = 429


def run(folder: Path, requests: int) -> list[Bar]:
    """Return the figures."""
    root = folder / "root"
    _configure(root, "http://127.0.0.1:9/v1")
    with opened(root, providers.FAMILY) as journal:
        connection = Connection(name="priced", provider="openai-compatible", base_url="http://127.0.0.1:9/v1")
        able = Capabilities(supports_completions=True, maximum_output_tokens=9, input_price=9, output_price=9)
        priced = Model(alias="priced", connection="priced", model="m", capabilities=able)
        command = ConfigureProviders(connections=(connection,), models=(priced,), roles={})
        journal.submit(Step(providers.FAMILY, command)).result()
    today, each = now_us() // DAY, max(1, requests // (KEYS * MODELS * DAYS))
    for day in range(today - DAYS + 1, today + 1):
        for number in range(KEYS * MODELS):
            client, model = divmod(number, MODELS)
            fill(root, _of(f"key-{client}", f"model-{model}", day), each)
    issue = serving.IssueGatewayKey(identity="spent", digest=digest_of(SPENT), limits=Limits(budget_per_day=0))
    with opened(root, *GATEWAY, process="folding") as journal:
        journal.submit(Step(serving.FAMILY, issue)).result()
    written = KEYS * MODELS * DAYS * each
    started = time.monotonic()
    server = subprocess.Popen([*EXP, "run", "--port", "0", "--root", str(root)], stdout=subprocess.PIPE, text=True)
    try:
        key, port = _listening(server)
        bars = [Bar(f"a gateway on {written:,} requests listens", time.monotonic() - started, 2.0, "s")]
        bars += _answers(port, key, written)
    finally:
        server.terminate()
        server.wait(30)
    return bars


def _of(key: str, model: str, day: int) -> tuple[Event, ...]:
    """Return one request's events: of a key, to a model, on a day."""
    accepted, decided, answered = a_request()
    name = f"{key}-{model}-{day}-{getattr(accepted, 'request', '')}"
    more = {"identity": key, "alias": model, "model": model, "when": day * DAY + DAY // 2, "tokens": 4_000}
    return (
        msgspec.structs.replace(accepted, request=name, **more),
        msgspec.structs.replace(decided, request=name, alias=model),
        msgspec.structs.replace(answered, request=name),
    )


def _answers(port: int, key: str, requests: int) -> list[Bar]:
    body = json.dumps({"model": "priced", "messages": [{"role": "user", "content": "hi"}]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    bars = []
    for what, method, path, shown in (
        ("usage as JSON", "GET", "/v1/usage", key),
        ("usage as a page", "GET", "/usage", key),
        ("a spent budget is told", "POST", "/v1/chat/completions", SPENT),
    ):
        took = []
        for _ in range(ROUNDS):
            began = time.monotonic()
            headers = {"Authorization": f"Bearer {shown}", "Content-Type": "application/json"}
            connection.request(method, path, body if method == "POST" else None, headers)
            reply = connection.getresponse()
            content = reply.read()
            took.append((time.monotonic() - began) * MILLI)
            if reply.status != (REFUSED if method == "POST" else 200):
                raise AssertionError(content)
        if path == "/v1/usage" and (counted := json.loads(content)["total"]["requests"]) != requests:
            message = f"{counted} isn't what was asked"
            raise AssertionError(message)
        bars.append(Bar(f"{what}, {requests:,} requests: median", statistics.median(took), 50.0, "ms"))
    connection.close()
    return bars
