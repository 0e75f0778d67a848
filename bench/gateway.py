"""The gateway: CPU a request and requests a second, with clients that wait for each answer."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.measuring import EXP, Bar, cpu_of
from bench.path import PROJECT, Course, Sizes, StandIn

BODY = json.dumps({"model": PROJECT, "messages": [{"role": "user", "content": "Print the date. " * 90}]})


def run(folder: Path, traces: Path, requests: int) -> list[Bar]:
    """Serve a small router and return the figures."""
    path = Course(folder, traces, Sizes(fit=3, held_out=2))
    bars = []
    with StandIn() as provider:
        path.prepare(provider.url)
        path.optimize("optimize")
        words = [*EXP, "run", PROJECT, "--port", "0", "--root", str(path.root)]
        server = subprocess.Popen(words, env=path.environment, stdout=subprocess.PIPE, text=True)
        try:
            key, address = _listening(server)
            for clients in (1, 16):
                bars += _load(server.pid, address, key, clients, requests)
        finally:
            server.terminate()
            server.wait(30)
    return bars


def _listening(server: subprocess.Popen[str]) -> tuple[str, str]:
    key = ""
    for line in server.stdout or ():
        if line.startswith("Gateway key file: "):
            key = Path(line.split(": ", 1)[1].strip()).read_text("utf-8").strip()
        elif line.startswith("Uvicorn running on "):
            return key, urlsplit(line.split()[3]).netloc
    raise RuntimeError("the gateway ended before it listened")


def _load(pid: int, address: str, key: str, clients: int, requests: int) -> list[Bar]:
    failed: list[int] = []

    def ask() -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        for _ in range(requests // clients):
            connection.request("POST", "/v1/chat/completions", BODY, headers)
            response = connection.getresponse()
            response.read()
            if response.status != http.HTTPStatus.OK:
                failed.append(response.status)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    before, started = cpu_of(pid), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, after = time.monotonic() - started, cpu_of(pid)
    if failed:
        raise RuntimeError(f"{len(failed)} requests failed, the first with {failed[0]}")
    done = requests // clients * clients
    bars = [Bar(f"gateway, {clients} clients", done / wall, None, "requests/s", "105")]
    if before is not None and after is not None:
        bars.append(Bar(f"gateway, {clients} clients", 1000 * (after - before) / done, None, "CPU ms", "8.6"))
    return bars
