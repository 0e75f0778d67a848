from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from ledger.families import serving
from tests.commands.gateway.provider_double import Provider, chunk, chunked, completion, http, ordinary, said
from tests.commands.gateway.running import HELLO, SECRET, Gateway, streamed


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "commands.main", "run", *arguments, "--root", str(root), "--port", "0"]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def test_starting_prints_the_key_file_then_the_address_and_asks_nobody(gateway: Gateway, provider: Provider) -> None:
    assert gateway.printed[0] == f"Gateway key file: {gateway.root / 'gateway' / 'key'}"
    assert gateway.printed[1] == f"Uvicorn running on http://127.0.0.1:{gateway.port}"
    assert not provider.asked
    assert not provider.connections


def test_the_key_is_readable_by_its_owner_only_kept_over_restarts_and_not_in_the_journal(gateway: Gateway) -> None:
    key = gateway.key
    assert stat.S_IMODE(gateway.key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(gateway.key_file.parent.stat().st_mode) == 0o700
    gateway.restart()
    assert gateway.key == key
    gateway.stop()
    (issued,) = gateway.events(serving.GatewayKeyIssued)
    assert key not in repr(issued)
    assert key.encode() not in (gateway.root / "ledger.db").read_bytes()


def test_a_key_file_with_a_loose_mode_is_tightened(root: Path) -> None:
    with Gateway(root) as gateway:
        gateway.stop()
        gateway.key_file.chmod(0o644)
        gateway.restart()
        assert stat.S_IMODE(gateway.key_file.stat().st_mode) == 0o600


def test_an_unusable_key_file_is_named(root: Path) -> None:
    (root / "gateway").mkdir()
    (root / "gateway" / "key").write_text("short\n")
    refused = run(root)
    assert refused.returncode == 74
    assert "gateway/key" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("link", [False, True])
def test_a_file_in_place_of_the_keys_folder_is_named_and_not_the_key(root: Path, link: bool) -> None:  # noqa: FBT001
    if link:
        (root / "gateway").symlink_to("nowhere")
    else:
        (root / "gateway").write_text("mine\n")
    refused = run(root)
    assert refused.returncode == 74
    assert str(root / "gateway") in refused.stderr
    assert "gateway/key" not in refused.stderr
    assert "delete" not in refused.stderr


def test_a_folder_in_place_of_the_key_file_is_named_as_one(root: Path) -> None:
    (root / "gateway" / "key").mkdir(parents=True)
    refused = run(root)
    assert refused.returncode == 74
    assert "a folder is in the place of its file" in refused.stderr
    assert "delete the file" not in refused.stderr


@pytest.mark.parametrize("option", ["--graceful-timeout", "--upstream-timeout"])
@pytest.mark.parametrize("seconds", ["nan", "-nan", "inf", "-inf", "1e308", "86401", "-1", "soon"])
def test_a_time_that_no_timer_can_be_set_to_is_a_usage_error(root: Path, option: str, seconds: str) -> None:
    refused = run(root, f"{option}={seconds}")
    assert refused.returncode == 2
    assert option in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_longest_times_that_are_accepted_serve_and_stop(root: Path) -> None:
    with Gateway(root, "--graceful-timeout", "86400", "--upstream-timeout", "86400") as gateway:
        assert gateway.ask().status_code == 200
        assert gateway.stop() == 0
        assert gateway.process.stderr is not None
        assert not gateway.process.stderr.read()


def test_a_port_that_is_taken_is_named(root: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "commands.main", "run", "--root", str(root), "--port", str(port)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert refused.returncode == 75
    assert str(port) in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_project_without_a_policy_is_refused_by_name(root: Path) -> None:
    refused = run(root, "nothing-yet")
    assert refused.returncode == 68
    assert "optimize router nothing-yet" in refused.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_with_0_when_asked_and_says_nothing(gateway: Gateway, how: signal.Signals) -> None:
    gateway.ask()
    assert gateway.stop(how) == 0
    assert gateway.process.stderr is not None
    assert gateway.process.stderr.read() == ""
    assert not list((gateway.root / "locks").iterdir())


@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_what_is_in_flight_is_finished_before_it_stops(
    gateway: Gateway, provider: Provider, body: dict[str, object]
) -> None:
    provider.script = lambda asked, count: (
        [0.5, *http(200, completion())] if "stream" not in asked.json else chunked(*said("a"), 0.5, chunk({}, "stop"))
    )
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(gateway.ask, body)
        provider.wait_for(1)
        assert gateway.stop() == 0
        assert response.result().status_code == 200
    assert len(gateway.events(serving.RequestAnswered)) == 1


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_what_takes_longer_than_it_may_is_cut_and_recorded(
    root: Path, provider: Provider, body: dict[str, object], key: str | None
) -> None:
    provider.script = lambda asked, count: [30.0] if "stream" not in asked.json else chunked(*said("a"), 30.0)
    with Gateway(root, "--graceful-timeout", "0.3") as gateway, ThreadPoolExecutor(1) as pool:
        response = pool.submit(gateway.ask, body, key)
        provider.wait_for(1)
        time.sleep(0.1)
        begun = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - begun < 3
        assert "gateway_stopping" in response.result().text
        (abandoned,) = gateway.events(serving.RequestAbandoned)
        assert abandoned.reason == "stopped"
        assert not gateway.state().open
        assert gateway.state().ambiguous > 0


def test_a_second_signal_is_immediate_and_leaves_only_recorded_ambiguity(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: [30.0]
    with Gateway(root, "--graceful-timeout", "60") as gateway, ThreadPoolExecutor(1) as pool:
        response = pool.submit(gateway.ask)
        provider.wait_for(1)
        gateway.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert gateway.process.poll() is None
        begun = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - begun < 3
        with contextlib.suppress(httpx.TransportError):
            assert response.result().status_code == 503
        assert not gateway.state().open


@pytest.mark.parametrize("shape", ["plain", "before the first token", "in mid-stream"])
def test_a_client_that_leaves_without_a_key_ends_its_call_within_a_second(
    gateway: Gateway, provider: Provider, shape: str
) -> None:
    provider.script = lambda asked, count: chunked(*said("a"), 30.0) if shape == "in mid-stream" else [30.0]
    body = HELLO if shape == "plain" else streamed()
    with gateway.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json=body, timeout=0.3)
    deadline = time.monotonic() + 1
    while not provider.left and time.monotonic() < deadline:
        time.sleep(0.01)
    assert provider.left == 1
    assert gateway.ask({**HELLO, "model": "small"}).status_code == 200
    (abandoned,) = gateway.events(serving.RequestAbandoned)
    assert abandoned.reason == "client-left"
    assert abandoned.cost is None
    if shape == "in mid-stream":
        assert b'"a"' in gateway.blob(abandoned.partial.blob)


def test_a_gateway_that_was_killed_settles_its_requests_when_it_starts_again(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = lambda asked, count: [30.0]
    threads = [threading.Thread(target=_ask_in_vain, args=(gateway,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    provider.wait_for(3)
    gateway.process.kill()
    gateway.process.wait()
    for thread in threads:
        thread.join()
    assert len(gateway.state().open) == 3
    gateway.restart()
    gateway.stop()
    assert len(gateway.events(serving.RequestLost)) == 3
    state = gateway.state()
    assert (len(state.open), state.reserved) == (0, 0)
    assert state.ambiguous == sum(event.worst_case for event in gateway.events(serving.RequestAccepted))


def _ask_in_vain(gateway: Gateway) -> None:
    try:
        gateway.ask()
    except httpx.TransportError:
        return


def test_requests_of_a_living_process_are_left_alone_by_another_that_starts(root: Path, provider: Provider) -> None:
    provider.script = lambda asked, count: [1.0, *http(200, completion())]
    with Gateway(root) as one, ThreadPoolExecutor(1) as pool:
        response = pool.submit(one.ask)
        provider.wait_for(1)
        with Gateway(root) as other:
            other.stop()
        assert response.result().status_code == 200
        assert not one.events(serving.RequestLost)


@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_without_content_only_spend_is_kept(root: Path, provider: Provider, body: dict[str, object]) -> None:
    words = "a sentence that nobody else says"
    provider.script = lambda asked, count: (
        http(200, completion(words)) if "stream" not in asked.json else chunked(*said(words), chunk({}, "stop"))
    )
    asked = {**body, "messages": [{"role": "user", "content": "a question that nobody else asks"}]}
    with Gateway(root, "--ghost") as gateway:
        response = gateway.ask(asked)
        assert response.status_code == 200
        assert words in response.text
        provider.script = lambda asked, count: http(400, b'{"error":{"message":"a question that nobody else asks"}}')
        assert gateway.ask(asked).status_code == 400
        gateway.stop()
        accepted = gateway.events(serving.RequestAccepted)
        assert all(event.ghost and event.body is None and event.worst_case for event in accepted)
        assert {event.sent for event in gateway.events(serving.RouteDecided)} == {""}
        (answered,) = gateway.events(serving.RequestAnswered)
        assert answered.response is None
        (failed,) = gateway.events(serving.RequestFailed)
        assert failed.error is None
        stored = (root / "ledger.db").read_bytes()
        assert b"nobody else" not in stored
        blobs = {event.body for event in accepted}
        assert blobs == {None}
        if body is HELLO:
            assert gateway.state().settled == answered.cost == 10 * 1000 + 5 * 2000


def test_without_content_an_idempotency_key_is_refused(root: Path, provider: Provider) -> None:
    with Gateway(root, "--ghost") as gateway:
        response = gateway.ask(HELLO, "k")
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "idempotency_unavailable"
        assert not provider.asked


def test_health_says_that_it_lives_and_is_ready(gateway: Gateway) -> None:
    with gateway.client() as client:
        assert client.get("/health/live").json() == {"status": "live"}
        assert client.get("/health/ready").json() == {"status": "ready"}
        assert client.head("/health/live").status_code == 200


def test_a_journal_that_cannot_be_written_is_a_prompt_503_and_nothing_is_asked(root: Path, provider: Provider) -> None:
    import fcntl  # noqa: PLC0415

    with Gateway(root) as gateway, (root / "ledger.lock").open("r+") as lock:
        assert gateway.ask(HELLO, "before").status_code == 200
        fcntl.flock(lock, fcntl.LOCK_EX)
        begun = time.monotonic()
        response = gateway.ask()
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "journal_unavailable"
        assert time.monotonic() - begun < 8
        assert gateway.ask(HELLO, "before").status_code == 200, "a replay only reads"
        with gateway.client() as client:
            assert client.get("/health/ready").status_code == 503
        assert len(provider.asked) == 1
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert gateway.ask().status_code == 200
        with gateway.client() as client:
            assert client.get("/health/ready").status_code == 200
        gateway.stop()
        assert not gateway.state().open
        assert len(provider.asked) == 2


def test_a_full_disk_is_a_prompt_503_and_what_it_left_owing_is_recorded_when_there_is_room(
    gateway: Gateway, provider: Provider
) -> None:
    import resource  # noqa: PLC0415

    def room(size: int) -> None:
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    assert gateway.ask().status_code == 200
    room(4096)
    for body in (HELLO, streamed(), {**HELLO, "model": "none"}):
        begun = time.monotonic()
        response = gateway.ask(body, "k")
        assert (response.status_code, response.json()["error"]["code"]) == (503, "journal_unavailable")
        assert time.monotonic() - begun < 5
    assert len(provider.asked) == 1, "nothing is asked that can't be recorded"
    room(resource.RLIM_INFINITY)
    assert gateway.ask(HELLO, "k").status_code == 200

    provider.script = lambda asked, count: [0.8, *ordinary(asked, count)]
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(gateway.ask, HELLO, "full meanwhile")
        provider.wait_for(3)
        room(4096)
        assert answer.result().status_code == 503
        room(resource.RLIM_INFINITY)
    deadline = time.monotonic() + 10
    while gateway.state().open and time.monotonic() < deadline:
        time.sleep(0.1)
    again = gateway.ask(HELLO, "full meanwhile")
    assert again.status_code == 200
    assert again.headers["idempotent-replayed"] == "true"
    assert len(provider.asked) == 3


def test_credentials_come_from_the_environment_of_the_call_and_are_nowhere_in_the_root(gateway: Gateway) -> None:
    gateway.ask()
    gateway.stop()
    for folder, _, names in os.walk(gateway.root):
        for name in names:
            assert SECRET.encode() not in (Path(folder) / name).read_bytes()


@pytest.mark.parametrize(("host", "reached"), [("127.0.0.2", "127.0.0.2"), ("localhost", "localhost")])
def test_another_address_is_listened_on_only_when_it_is_asked_for(root: Path, host: str, reached: str) -> None:
    with Gateway(root, "--host", host) as gateway:
        assert gateway.url == f"http://{host}:{gateway.port}"
        with socket.create_connection((reached, gateway.port), timeout=5):
            pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "x" * 300])
def test_an_address_that_is_not_this_machines_is_refused_by_name(root: Path, host: str) -> None:
    refused = run(root, "--host", host)
    assert refused.returncode == 75
    assert host[:20] in refused.stderr
    assert "--host" in refused.stderr
    assert "Traceback" not in refused.stderr
