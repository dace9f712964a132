"""A headless Chromium, driven over its DevTools protocol: just what the tests of the status page need."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

#: Path of the browser, if it has none of the usual names.
VARIABLE = "FASTNODE_CHROMIUM"
NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE_S = 30.0

#: The sandbox needs privileges that containers lack; what is opened here is the node's own page.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--remote-debugging-port=0",
)

KEYS = {"Enter": 13, "Tab": 9, "Escape": 27, "/": 191}


def find_chromium() -> str | None:
    """The path of a Chromium, None if this machine has none."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Page:
    """One tab.  ``errors`` collects what its console calls an error, exceptions and broken policies included."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._count = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.errors: list[str] = []
        self.requested: list[str] = []
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            event = message.json()
            if "id" in event:
                self._answers.pop(event["id"]).set_result(event)
            else:
                self._on_event(event["method"], event["params"])

    def _on_event(self, name: str, params: dict[str, Any]) -> None:
        if name == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif name == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif name == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
        elif name == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._count, "method": method, "params": params})
        event = await asyncio.wait_for(answer, PATIENCE_S)
        assert "error" not in event, event
        result: dict[str, Any] = event["result"]
        return result

    async def close(self) -> None:
        await self._socket.close()
        await self._reader

    # ---- what a person does ----------------------------------------------------------------------

    async def open(self, url: str) -> None:
        """A fresh load, also of the address that is open already."""
        await self.send("Page.navigate", url="about:blank")
        await self.send("Page.navigate", url=url)
        await self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def evaluate(self, expression: str) -> Any:
        result = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def wait(self, expression: str) -> None:
        """Until an expression is true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while not await self.evaluate(expression):
            assert loop.time() < deadline, f"never true: {expression}; errors: {self.errors}"
            await asyncio.sleep(0.02)

    async def text(self, selector: str) -> str:
        """Text that a person reads there; empty if nothing is shown."""
        shown = f"((item) => item?.checkVisibility() ? item.innerText : '')(document.querySelector({selector!r}))"
        return str(await self.evaluate(shown))

    async def type(self, text: str) -> None:
        await self.send("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        common = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        await self.send("Input.dispatchKeyEvent", type="keyDown", text="\r" if key == "Enter" else "", **common)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    async def click(self, selector: str) -> None:
        await self.evaluate(f"document.querySelector({selector!r}).click()")

    async def resize(self, width: int, height: int, *, is_phone: bool = False, scale: float = 1) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_phone
        )

    async def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, file: Path) -> None:
        picture = await self.send("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(picture["data"]))


class Chromium:
    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address  # host:port

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        async with self._session.put(f"http://{self._address}/json/new?about:blank") as response:
            target = await response.json(content_type=None)
        socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=64 << 20)
        page = Page(socket)
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.send(f"{domain}.enable")
            yield page
            await page.send("Page.close")
        finally:
            await page.close()


@asynccontextmanager
async def start_chromium(path: str) -> AsyncIterator[Chromium]:
    """A browser with a profile of its own, gone at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            path,
            *FLAGS,
            f"--user-data-dir={profile}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            address = await _wait_for_address(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                yield Chromium(session, address)
        finally:
            if process.returncode is None:
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), PATIENCE_S)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _wait_for_address(file: Path, process: asyncio.subprocess.Process) -> str:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while loop.time() < deadline:
        assert process.returncode is None, f"Chromium ended with {process.returncode}"
        # The browser writes the port, and then the rest.
        if file.exists() and len(lines := file.read_text().splitlines()) == 2:
            return f"127.0.0.1:{lines[0]}"
        await asyncio.sleep(0.05)
    raise AssertionError("Chromium does not say where it listens")
