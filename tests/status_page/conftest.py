"""A node with a short chain and a key, on the loop that the tests of the status page run on."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import orjson
import pytest
import uvloop
from tests.ports import free_port
from tests.status_page.chromium import VARIABLE, Chromium, find_chromium, start_chromium
from tests.status_page.long_chain import write_long_chain

from fastnode.app.process.node import Node
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.config.settings import Settings
from fastnode.view import View

T = TypeVar("T")

KEY = "a-key-that-an-operator-made"
LAST_BLOCK = 16
LONG_CHAIN_BLOCKS = 100_000
PATIENCE_S = 60.0
#: Names of the files that a page had asked for when its first numbers were shown.
ASKED_BEFORE = (
    "performance.getEntriesByType('resource')"
    ".filter((entry) => entry.startTime < performance.getEntriesByName('shown')[0].startTime)"
    ".map((entry) => entry.name.split('/').at(-1)).sort()"
)


class Site:
    """A running node and questions to its admin port."""

    def __init__(self, runner: asyncio.Runner, node: Node) -> None:
        self._runner = runner
        self.node = node

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.node.admin.port}/"

    def show(self, view: View | None) -> None:
        """Answer from another view, until the next commit."""
        self.node.core.views.replace(view)

    @property
    def public_url(self) -> str:
        return f"http://127.0.0.1:{self.node.public.port}/"

    async def fetch(self, path: str, *, key: str | None = KEY, method: str = "GET") -> tuple[int, Any, bytes]:
        """Status, headers and body."""
        headers = {} if key is None else {"x-api-key": key}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, headers=headers) as answer,
        ):
            return answer.status, answer.headers, await answer.read()

    def get(self, path: str, *, key: str | None = KEY, method: str = "GET") -> tuple[int, Any, bytes]:
        return self.run(self.fetch(path, key=key, method=method))

    def json(self, path: str) -> Any:
        status, _, body = self.get(path)
        assert status == 200, body
        return orjson.loads(body)

    async def ask(self, method: str, *params: object, size: int = 1) -> Any:
        """Calls on the public port, ``size`` of them in a batch; the result of the last one."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with aiohttp.ClientSession() as session, session.post(self.public_url, json=[call] * size) as answer:
            return (await answer.json())[-1].get("result")

    def find(self, text: str) -> dict[str, Any]:
        """The explorer's answer."""
        answer: dict[str, Any] = self.json(f"status-page/find?q={quote(text)}")
        return answer


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """The loop of nodes and browser; whatever happens on it logs as a node that was started with defaults."""
    logging.getLogger("fastnode").setLevel(logging.INFO)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner
    logging.getLogger("fastnode").setLevel(logging.NOTSET)


@pytest.fixture(scope="module")
def start_site(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Site]]:
    """Starts nodes with some settings; they are stopped at the end of the module."""
    with ExitStack() as stack:

        def start(chain: Path | None, **settings: Any) -> Site:
            # The metrics' port switches the meters on.
            common: dict[str, Any] = {"port": 0, "admin_port": 0, "metrics_port": free_port(), "chain_file": chain}
            directory = tmp_path_factory.mktemp("node")
            node = runner.run(Node.start(Settings(data_directory=directory, **(common | settings))))
            stack.callback(lambda: runner.run(node.stop()))
            site = Site(runner, node)
            site.run(_until_loaded(node, 1 if settings.get("local_network") else LAST_BLOCK))
            return site

        yield start


async def _until_loaded(node: Node, tip: int) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    condition = node.core.condition
    while condition.is_importing or node.view is None or node.view.chain.tip_number < tip or node.view.state is None:
        assert asyncio.get_running_loop().time() < deadline, "the chain is not loaded"
        await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def site(start_site: Callable[..., Site], short_chain: Path) -> Site:
    """A node that asks for KEY."""
    return start_site(short_chain, admin_api_key_hash=hashlib.sha256(KEY.encode()).hexdigest())


@pytest.fixture(scope="module")
def open_site(start_site: Callable[..., Site], short_chain: Path) -> Site:
    """A node that asks for no key."""
    return start_site(short_chain, disable_admin_api_key=True)


@pytest.fixture(scope="session")
def long_chain(tmp_path_factory: pytest.TempPathFactory, short_chain: Path) -> Iterator[ChainView]:
    """A chain of 100,000 blocks."""
    with ArchiverStore.open(tmp_path_factory.mktemp("long")) as store:
        write_long_chain(store, short_chain, LONG_CHAIN_BLOCKS)
        with store.open_view() as view:
            yield view


@pytest.fixture
def long_site(open_site: Site, long_chain: ChainView) -> Iterator[Site]:
    """The node without a key, while it serves the long chain."""
    own = open_site.node.view
    open_site.node.core.views.replace(View(long_chain))
    yield open_site
    open_site.node.core.views.replace(own)


@pytest.fixture(scope="session")
def browser(runner: asyncio.Runner) -> Iterator[Chromium]:
    """A browser for all tests that need one; they are skipped where there is none."""
    path = find_chromium()
    if path is None:
        pytest.skip(f"no Chromium on this machine; install one, or name it with {VARIABLE}")
    manager = start_chromium(path)
    yield runner.run(manager.__aenter__())
    runner.run(manager.__aexit__(None, None, None))
