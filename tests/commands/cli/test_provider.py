"""``exp provider serve`` as a process."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

EXP = (sys.executable, "-m", "commands.main", "provider", "serve")
KEYED = {"authorization": "Bearer k"}
ASKED = {"model": "a=b/c", "messages": [{"role": "user", "content": "Reply with the single word ready."}]}


@contextlib.contextmanager
def serving(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the command and yield the address that it prints."""
    with subprocess.Popen(
        [*EXP, "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        try:
            assert it.stdout is not None
            line = it.stdout.readline()
            found = re.search(r"on (http://\S+)", line)
            assert found, line
            assert "Stand-in" in line
            yield found.group(1), it
        finally:
            it.kill()


def refused(*options: str) -> tuple[int, str]:
    done = subprocess.run([*EXP, *options], capture_output=True, text=True, timeout=20, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_it_prints_its_address_serves_names_and_ends_quietly_when_told_to() -> None:
    with serving("--serves", "a=b/c", "--serves", "x/y=z=1") as (url, process):
        got = httpx.post(f"{url}/chat/completions", json={**ASKED, "model": "x/y"}, headers=KEYED).json()
        assert got["model"] == "z=1"
        assert got["choices"][0]["message"]["content"] == "ready"
        assert httpx.get(f"{url}/models/a").json()["id"] == "a"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_an_interrupt_ends_it_within_seconds_even_while_a_request_hangs() -> None:
    with serving("--fault", "hang") as (url, process), socket.socket() as waiting:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/chat/completions", json=ASKED, headers=KEYED, timeout=0.3)
        address = httpx.URL(url)
        body = json.dumps({"model": "m", "input": "hello"})
        head = "POST /responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
        waiting.connect((address.host, address.port))
        waiting.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        while httpx.get(f"{url.removesuffix('/v1')}/stand-in/requests").json()["POST"] < 2:
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_its_options_reach_the_stand_in() -> None:
    with serving("--fault", "429:first=1", "--turns", "1", "--latency-ms", "1", "--fresh-ids") as (url, _):
        got = [httpx.post(f"{url}/chat/completions", json=ASKED, headers=KEYED) for _ in range(3)]
        assert [one.status_code for one in got] == [429, 200, 200]
        assert got[1].json()["id"] != got[2].json()["id"]


def test_a_taken_port_is_a_named_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, text = refused("--port", port)
    assert code == 70
    assert port in text


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])  # noqa: S104 - must be refused
def test_an_address_that_others_could_reach_is_refused(host: str) -> None:
    code, text = refused("--port", "0", "--host", host)
    assert code == 71
    assert host in text


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--port", "70000"),
        ("--port", "0", "--serves", "name"),
        ("--port", "0", "--serves", "=id"),
        ("--port", "0", "--fault", "418"),
        ("--port", "0", "--fault", "500:every=0"),
        ("--port", "0", "--turns", "0"),
        ("--port", "0", "--ends", "never"),
    ],
)
def test_a_wrong_option_is_a_usage_error(options: tuple[str, ...]) -> None:
    code, _ = refused(*options)
    assert code == 2
