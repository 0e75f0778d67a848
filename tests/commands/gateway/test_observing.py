"""Spans, as a collector gets them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from commands.gateway.tracing import TracingMissing, tracer
from tests.commands.gateway.provider_double import Provider, completion, http
from tests.commands.gateway.running import HELLO, SECRET, Gateway, streamed

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector:
    """An OTLP collector on loopback that keeps what it gets."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.kinds: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.kinds.append(f"{self.path} {self.headers['content-type']}")
                for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                    outer.resources.append(values(one.resource.attributes))
                    outer.spans += [span for scope in one.scope_spans for span in scope.spans]
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def of(self, kind: Span.SpanKind.ValueType) -> list[Span]:
        return [span for span in self.spans if span.kind == kind]


def values(attributes: Any) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        read[one.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return read


@pytest.fixture
def collector() -> Iterator[Collector]:
    double = Collector()
    yield double
    double.close()


def environment(collector: Collector, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "NO_PROXY": "127.0.0.1", **more}


def test_a_request_is_a_span_in_its_clients_trace_and_its_dispatch_one_in_it(
    root: Path, provider: Provider, collector: Collector
) -> None:
    with Gateway(root, env=environment(collector)) as gateway:
        reply = gateway.ask(
            {**HELLO, "temperature": 0.5, "max_completion_tokens": 7}, traceparent=f"00-{TRACE}-{PARENT}-01"
        )
        assert gateway.stop() == 0
    assert collector.kinds[0] == "/v1/traces application/x-protobuf"
    assert collector.resources[0]["service.name"] == "exp-gateway"
    (server,) = collector.of(Span.SPAN_KIND_SERVER)
    (client,) = collector.of(Span.SPAN_KIND_CLIENT)
    assert server.trace_id.hex() == client.trace_id.hex() == TRACE
    assert server.parent_span_id.hex() == PARENT
    assert client.parent_span_id == server.span_id
    assert provider.asked[0].headers["traceparent"] == f"00-{TRACE}-{client.span_id.hex()}-01"
    assert server.name == "POST /v1/chat/completions"
    assert client.name == "chat m"
    said = values(server.attributes)
    assert said["http.response.status_code"] == 200
    assert said["exp.request"] == reply.headers["x-request-id"]
    assert (said["exp.model"], said["exp.alias"], said["exp.replayed"]) == ("plain", "plain", False)
    said = values(client.attributes)
    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.provider.name"] == "openai-compatible"
    assert (said["gen_ai.request.model"], said["gen_ai.response.model"]) == ("m", "m")
    assert (said["gen_ai.request.temperature"], said["gen_ai.request.max_tokens"]) == (0.5, 7)
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (10, 5)
    assert said["gen_ai.response.finish_reasons"] == ["stop"]
    assert said["gen_ai.response.id"] == "chatcmpl-1"
    assert said["server.address"] == "127.0.0.1"
    everything = str(collector.spans)
    for secret in (gateway.key, SECRET, "Say ready", '"ready'):
        assert secret not in everything


def test_content_is_in_a_span_only_where_that_is_asked_for_and_without_credentials(
    root: Path, provider: Provider, collector: Collector
) -> None:
    provider.script = lambda *_: http(200, completion(f"the secret is {SECRET}"))
    asked = environment(collector, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true", OTEL_SERVICE_NAME="mine")
    with Gateway(root, env=asked) as gateway:
        gateway.ask()
        gateway.stop()
    (client,) = collector.of(Span.SPAN_KIND_CLIENT)
    said = values(client.attributes)
    assert json.loads(said["gen_ai.input.messages"]) == HELLO["messages"]
    assert "the secret is" in said["gen_ai.output.messages"]
    assert SECRET not in str(collector.spans)
    assert collector.resources[0]["service.name"] == "mine"
    collector.spans.clear()
    with Gateway(root, "--ghost", env=asked) as gateway:
        gateway.ask()
        gateway.stop()
    assert "Say ready" not in str(collector.spans)
    assert collector.spans


def test_each_dispatch_is_a_span_and_failures_are_named_without_their_words(
    root: Path, provider: Provider, collector: Collector
) -> None:
    def script(asked: Any, count: int) -> Any:
        return http(503, b'{"error":{"message":"secret words"}}')

    provider.script = script
    with Gateway(root, "--retries", "1", env=environment(collector)) as gateway:
        assert gateway.ask().status_code == 503
        gateway.stop()
    (server,) = collector.of(Span.SPAN_KIND_SERVER)
    clients = collector.of(Span.SPAN_KIND_CLIENT)
    assert [values(one.attributes)["exp.dispatch"] for one in clients] == [0, 1]
    assert {one.status.code for one in (server, *clients)} == {Status.STATUS_CODE_ERROR}
    assert all(values(one.attributes)["error.type"] for one in (server, *clients))
    assert len({one.headers["traceparent"] for one in provider.asked}) == 2
    assert "secret words" not in str(collector.spans)


def test_a_stream_and_an_embedding_are_spans_too_and_health_is_none(root: Path, collector: Collector) -> None:
    with Gateway(root, env=environment(collector)) as gateway:
        gateway.ask(streamed())
        with gateway.client() as client:
            assert client.post("/v1/embeddings", json={"model": "embed", "input": "a"}).status_code == 200
            client.get("/health/ready")
            client.get("/v1/models/nothing")
        gateway.stop()
    assert [one.name for one in collector.of(Span.SPAN_KIND_CLIENT)] == ["chat m", "embeddings embedded-embedder"]
    said = values(collector.of(Span.SPAN_KIND_CLIENT)[0].attributes)
    assert (said["gen_ai.usage.output_tokens"], said["gen_ai.response.id"]) == (5, "chatcmpl-1")
    names = [one.name for one in collector.of(Span.SPAN_KIND_SERVER)]
    assert names == ["POST /v1/chat/completions", "POST /v1/embeddings", "GET /v1/models/{model}"]
    unknown = collector.of(Span.SPAN_KIND_SERVER)[2]
    assert values(unknown.attributes)["error.type"] == "model_not_found"
    assert unknown.status.code == Status.STATUS_CODE_UNSET


def test_a_collector_that_is_gone_holds_nothing_up_and_is_said_once(root: Path, provider: Provider) -> None:
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with Gateway(root, env=nowhere) as gateway:
        for _ in range(3):
            assert gateway.ask().status_code == 200
            time.sleep(0.2)
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < 3
        assert gateway.process.stderr is not None
        said = gateway.process.stderr.read()
        assert "Traceback" not in said
        assert said.count("\n") <= 1


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_loaded_unless_the_environment_asks_for_spans(asked: dict[str, str]) -> None:
    code = (
        "import sys; from commands.gateway import server; from commands.gateway.tracing import tracer\n"
        f"assert tracer({asked!r}, str, ghost=False) is None\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_spans_that_cannot_be_made_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "commands.gateway.observing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TracingMissing) as refused:
        tracer({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}, str, ghost=False)
    assert "exp-ledger[otel]" in refused.value.remedy
