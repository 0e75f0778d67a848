"""A tiny provider on loopback for the length of a test: it answers what it is told to, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from ledger.families.providers import Capabilities, Connection, Endpoint, Model

PRICED = Capabilities(
    supports_completions=True,
    supports_tools=True,
    supports_structured_output=True,
    supports_temperature=True,
    maximum_output_tokens=16_000,
    input_price=1_000_000_000,
    output_price=2_000_000_000,
)
EMBEDS = Capabilities(supports_embeddings=True, input_price=1_000_000_000)


def endpoint(
    base_url: str = "http://provider.invalid",
    *,
    alias: str = "m",
    able: Capabilities = PRICED,
    provider: Any = "openai-compatible",
    key: str | None = None,
    served: str | None = None,
) -> Endpoint:
    return Endpoint(
        model=Model(alias=alias, connection="c", model="model", served_model_id=served, capabilities=able),
        connection=Connection(name="c", provider=provider, base_url=base_url, api_key_env=key),
    )


def chat(
    text: str | None = "hello", *, model: str = "model", read: int = 10, written: int = 5, **more: Any
) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text, **more}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": written},
    }


def chat_bytes(text: str | None = "hello", **more: Any) -> bytes:
    return json.dumps(chat(text, **more)).encode()


class Request:
    def __init__(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def response(status: int, body: bytes | dict[str, Any], **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", "content-type: application/json", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Provider:
    """``script(request, n)`` returns the bytes of the n-th response; None cuts the connection, "hang" says nothing."""

    def __init__(self, script: Callable[[Request, int], bytes | str | None]) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.base_url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(first.split(" ")[1], headers, body)
                self.requests.append(request)
                answer = self.script(request, len(self.requests))
                if answer == "hang":
                    await asyncio.sleep(3600)
                if answer is None or isinstance(answer, str):
                    break
                writer.write(answer)
                await writer.drain()
                if b"connection: close" in answer:
                    break
        writer.close()


@contextlib.asynccontextmanager
async def serving(script: Callable[[Request, int], bytes | str | None]) -> AsyncIterator[Provider]:
    provider = Provider(script)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
