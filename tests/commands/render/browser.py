"""A headless Chromium, driven through its debugging protocol: how a page looks, and what following a link does."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


def chromium() -> str | None:
    """Return where a Chromium is; None when there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A page in a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.requested: list[str] = []
        self.said: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=30)
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(message["error"])
                answer: dict[str, Any] = message["result"]
                return answer
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        if message["method"] == "Network.requestWillBeSent":
            self.requested.append(message["params"]["request"]["url"])
        elif message["method"] == "Log.entryAdded":
            self.said.append(message["params"]["entry"]["text"])

    async def show(self, path: Path, width: int, *, dark: bool = False, height: int = 900) -> None:
        for domain in ("Network", "Log", "Page"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=path.as_uri())
        while await self.value("document.readyState") != "complete":  # noqa: ASYNC110 - only the browser knows
            await asyncio.sleep(0.05)

    async def value(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def picture(self) -> bytes:
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Page]:
    """Start a browser with a profile of its own, and open an empty page in it."""
    where = chromium()
    if where is None:
        raise FileNotFoundError(NAMES)
    process = await asyncio.create_subprocess_exec(
        where, *QUIET, f"--user-data-dir={folder}", "about:blank", stderr=asyncio.subprocess.PIPE
    )
    try:
        address = await asyncio.wait_for(_address(process), 60)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{address}/json/list") as response:
                targets = await response.json()
            url = next(one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page")
            async with session.ws_connect(url, max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        process.terminate()
        await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    if process.stderr is None:
        raise RuntimeError(process)
    while line := await process.stderr.readline():
        found = re.search(rb"ws://([^/]+)/", line)
        if found:
            return found[1].decode()
    raise RuntimeError("the browser says no address")
