from __future__ import annotations

import json
import resource
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ledger.families import serving
from tests.commands.gateway.provider_double import Provider, http
from tests.commands.gateway.running import HELLO, Gateway, streamed
from tests.commands.gateway.test_life import run


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_request_is_a_line_without_content_or_key(root: Path, provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "access.jsonl"
    with Gateway(root, "--access-log", str(file)) as gateway:
        first = gateway.ask(key="k")
        gateway.ask(key="k")
        gateway.ask(streamed())
        provider.script = lambda *_: http(500, b'{"error":{"message":"secret words"}}')
        gateway.ask({**HELLO, "model": "other"})
        with gateway.client() as client:
            client.get(f"/v1/models/{gateway.key}")
            client.get("/v1/models", headers={"Authorization": "Bearer wrong-key-wrong-key"})
        assert gateway.stop() == 0
        plain, again, stream, failed, hidden, unknown = lines(file)
        identity = gateway.events(serving.GatewayKeyIssued)[0].identity
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert plain | {"at": 0, "duration_us": 0} == {
            "at": 0,
            "duration_us": 0,
            "method": "POST",
            "path": "/v1/chat/completions",
            "status": 200,
            "bytes": len(first.content),
            "request": first.headers["x-request-id"],
            "key": identity,
            "model": "plain",
            "alias": "plain",
        }
        assert abs(plain["at"] / 1e6 - time.time()) < 60
        assert 0 < plain["duration_us"] < 10_000_000
        assert (again["replayed"], again["request"]) == (True, plain["request"])
        assert stream["streamed"] is True
        assert stream["bytes"] > 100
        assert (failed["status"], failed["error"], failed["alias"]) == (502, "upstream_error", "other")
        assert (hidden["status"], hidden["error"]) == (404, "model_not_found")
        assert (unknown["status"], unknown["error"]) == (401, "invalid_api_key")
        assert "key" not in unknown
        text = file.read_text()
        for secret in (gateway.key, "wrong-key", "Say ready", "ready.", "secret words"):
            assert secret not in text


def test_lines_are_appended_and_a_loose_mode_is_tightened(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "access.jsonl"
    file.write_text('{"before": 1}\n')
    file.chmod(0o644)
    with Gateway(root, "--access-log", str(file)) as gateway:
        gateway.ask()
    assert [*lines(file)[0]] == ["before"]
    assert lines(file)[1]["status"] == 200
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_lines_may_be_printed_after_what_starting_prints(root: Path) -> None:
    with Gateway(root, "--access-log", "-") as gateway:
        gateway.ask()
        gateway.stop()
        assert gateway.process.stdout is not None
        (line,) = gateway.process.stdout.read().splitlines()
        assert json.loads(line)["status"] == 200


def test_a_log_that_cannot_be_written_is_named_before_anything_is_served(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for place in (tmp_path, tmp_path / "nowhere" / "log", tmp_path / "link", Path("/dev/null")):
        refused: subprocess.CompletedProcess[str] = run(root, "--access-log", str(place))
        assert refused.returncode == 225
        assert str(place) in refused.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_stops_no_request_and_is_said_once(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "access.jsonl"
    with Gateway(root, "--access-log", str(file)) as gateway:
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        with gateway.client() as client:
            assert [client.get("/v1/models").status_code for _ in range(2)] == [200, 200]
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        gateway.stop()
        assert gateway.process.stderr is not None
        assert gateway.process.stderr.read().count("access log") == 1


def test_answers_are_repeated_for_as_long_as_was_told(root: Path, provider: Provider) -> None:
    with Gateway(root, "--idempotency-retention", "1") as gateway:
        gateway.ask(key="k")
        accepted = gateway.events(serving.RequestAccepted)[0]
        assert accepted.claim.keep_until - accepted.when < 1_100_000
        assert "idempotent-replayed" in gateway.ask(key="k").headers
        time.sleep(1.1)
        assert "idempotent-replayed" not in gateway.ask(key="k").headers
    assert len(provider.asked) == 2


@pytest.mark.parametrize("body", [HELLO, streamed()], ids=["plain", "streamed"])
def test_draining_ends_within_the_time_that_it_was_given(root: Path, provider: Provider, body: dict[str, Any]) -> None:
    provider.script = lambda *_: [30.0]
    with Gateway(root, "--graceful-timeout", "3") as gateway, ThreadPoolExecutor(2) as pool:
        replies = [pool.submit(gateway.ask, body, key) for key in (None, "k")]
        provider.wait_for(2)
        begun = time.monotonic()
        assert gateway.stop() == 0
        took = time.monotonic() - begun
        assert 1.4 < took < 3
        assert all("gateway_stopping" in reply.result().text for reply in replies)
        assert {one.reason for one in gateway.events(serving.RequestAbandoned)} == {"stopped"}
        assert not gateway.state().open
