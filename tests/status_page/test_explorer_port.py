"""The explorer on a port of its own: the chain for everybody, and nothing of the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from tests.status_page.chromium import Chromium
from tests.status_page.conftest import ASKED_BEFORE, LAST_BLOCK, Site

from fastnode.config.settings import Settings


@pytest.fixture(scope="module")
def shown(start_site: Callable[..., Site], short_chain: Path) -> Site:
    """A node with a key for its admin port and an explorer without one."""
    return start_site(short_chain, explorer_port=0, admin_api_key_hash="5e" * 32)


def url_of(site: Site) -> str:
    assert site.node.explorer is not None
    return f"http://127.0.0.1:{site.node.explorer.port}/"


async def request(site: Site, path: str, method: str = "GET", body: bytes = b"") -> tuple[int, Any, bytes]:
    async with aiohttp.ClientSession() as session, session.request(method, url_of(site) + path, data=body) as answer:
        return answer.status, answer.headers, await answer.read()


def test_there_is_no_such_port_unless_it_is_asked_for(site: Site) -> None:
    assert Settings().explorer_port is None
    assert site.node.explorer is None


def test_everybody_may_look_at_the_chain(shown: Site) -> None:
    status, headers, page = shown.run(request(shown, ""))
    assert status == HTTPStatus.OK
    assert b'data-shows="chain"' in page
    assert b'data-sign-in="no"' in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, _, body = shown.run(request(shown, "status-page/find?q=7"))
    assert (status, orjson.loads(body)["found"][0]["title"]) == (HTTPStatus.OK, "Block 7")
    status, _, body = shown.run(request(shown, "status-page/block?number=3"))
    assert orjson.loads(body) == shown.run(shown.ask("node_getBlock", 3))


@pytest.mark.parametrize("path", ["status-page/overview", "status", "metrics", "openrpc.json", "nothing"])
def test_nothing_of_the_node_is_there(shown: Site, path: str) -> None:
    assert shown.run(request(shown, path))[0] == HTTPStatus.NOT_FOUND


def test_nothing_can_be_called_or_changed(shown: Site) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"nodeAdmin_pauseSync","params":[]}'
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        status, headers, _ = shown.run(request(shown, "", method, call))
        assert (status, headers["Allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, "GET, HEAD")


def test_a_browser_shows_the_newest_blocks_and_asks_for_nothing_else(
    shown: Site, browser: Chromium, runner: asyncio.Runner
) -> None:
    async def scenario() -> None:
        async with browser.page() as page:
            await page.resize(1200, 1000)
            await page.open(url_of(shown))
            await page.wait("performance.getEntriesByName('shown').length")
            assert await page.text("#result-title") == "Found for newest"
            found = await page.text("#result")
            assert "Newest blocks" in found
            assert str(LAST_BLOCK) in found
            assert not await page.evaluate("document.querySelector('#node').checkVisibility()")
            assert not any("overview" in url or "find" in url for url in page.requested)
            assert await page.evaluate(ASKED_BEFORE) == ["elements.js", "explorer.js", "page.css", "page.js"]
            assert await page.evaluate("document.querySelectorAll('#result tbody tr').length") > 0
            assert page.errors == []

    runner.run(scenario())
