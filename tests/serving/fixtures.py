"""The sample chain, imported once, and ways to put questions to it: through an engine or over a socket."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest
import uvloop
from tests.clock import Clock
from tests.serving.sockets import SMALL, Connection, RunningServer
from tests.taking_node import taking

from fastnode.api.chain import METHODS
from fastnode.app.process.node import Node
from fastnode.chain_data import ChainData
from fastnode.config.allow_list import parse_allow_list
from fastnode.config.settings import Settings
from fastnode.http.limits import Limits
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import METHOD_SETS, Method, MethodSet, MethodTable
from fastnode.serving import server as server_module
from fastnode.sources.chain_file import bundled_chain
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.testing import RunningNetwork, local_network
from fastnode.view import View

T = TypeVar("T")

#: Calls of its token contract that the operator of the recorded network allowed before the fee is secured.
TOKEN_CLASS = "0x01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee"
RECORDED_ALLOW_LIST = f"C:{TOKEN_CLASS}:0xe7f045ff:os+cl=3,C:{TOKEN_CLASS}:0x8c9e5472:cl=5"


@pytest.fixture(scope="session")
def chain_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the sample chain; copy it to write to it."""
    path = tmp_path_factory.mktemp("chain")
    source = Path(str(bundled_chain()))
    with ChainData.open(path) as data:
        adopt_chain_file(data.store, source)
        import_chain_file(data.open_ingestor(verify=False), source)
    return path


@pytest.fixture(scope="session")
def view(chain_directory: Path) -> Iterator[View]:
    """The sample chain at its tip, without state."""
    with ExitStack() as stack:
        data = stack.enter_context(ChainData.open(chain_directory, create=False))
        chain = data.store.open_view()
        stack.callback(chain.close)
        yield View(chain)


@pytest.fixture(scope="module")
def session_network() -> Iterator[RunningNetwork]:
    """A local network that the tests of a module share."""
    with local_network("--seed=test", "--metrics-port=0", in_process=True) as running:
        yield running


@pytest.fixture
def network(session_network: RunningNetwork) -> Iterator[RunningNetwork]:
    """The network of the module, which is rolled back behind each test."""
    with session_network.rolled_back():
        yield session_network


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Client:
    """Puts calls to an engine and waits for threads."""

    def __init__(self, engine: Engine, runner: asyncio.Runner) -> None:
        self.engine = engine
        self._runner = runner

    def send(self, body: bytes) -> Reply:
        answer = self.engine.handle(body)
        # Not by ``run``: with the handler of Ctrl-C that it sets, asyncio writes out each result, megabytes at times.
        return answer if isinstance(answer, Reply) else self._runner.get_loop().run_until_complete(answer)

    def call(self, method: str, *params: Any) -> dict[str, Any]:
        """The whole answer object."""
        reply = self.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        assert reply.body is not None
        answer: dict[str, Any] = orjson.loads(reply.text)
        return answer

    def result(self, method: str, *params: Any) -> Any:
        answer = self.call(method, *params)
        assert "error" not in answer, answer["error"]
        return answer.get("result")

    def error(self, method: str, *params: Any) -> dict[str, Any]:
        answer = self.call(method, *params)
        error: dict[str, Any] = answer["error"]
        return error


class ServedSets:
    """A whole node for each method set, each on its own copy of the sample chain.

    The settings are the defaults but for ``settings``, the ports, and a key of the admin port.  ``as_followed``: as if
    transactions could go somewhere from them.
    """

    def __init__(
        self, chain: Path, copies: Path, runner: asyncio.Runner, *, as_followed: bool = False, **settings: Any
    ) -> None:
        self._runner = runner
        self._nodes: dict[str, Node] = {}
        for name in METHOD_SETS:
            shutil.copytree(chain, copies / name)
            every = Settings(
                data_directory=copies / name,
                port=0,
                admin_port=0,
                metrics_port=0,
                disable_admin_api_key=True,
                method_set=name,
                **settings,
            )
            with taking() if as_followed else nullcontext():
                self._nodes[name] = runner.run(Node.start(every))

    def client(self, method_set: str, *, is_admin: bool = False) -> Client:
        node = self._nodes[method_set]
        server = node.admin if is_admin else node.public
        return Client(server.engine, self._runner)

    def ports(self, method_set: str) -> tuple[int, int]:
        """The public and the admin port."""
        node = self._nodes[method_set]
        return node.public.port, node.admin.port

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop of the nodes."""
        return self._runner.run(coroutine)

    def stop(self) -> None:
        for node in self._nodes.values():
            self._runner.run(node.stop())


@pytest.fixture(scope="session")
def served(
    chain_directory: Path, tmp_path_factory: pytest.TempPathFactory, loop_runner: asyncio.Runner
) -> Iterator[ServedSets]:
    copies = tmp_path_factory.mktemp("sets")
    allow_list = parse_allow_list(RECORDED_ALLOW_LIST)
    sets = ServedSets(
        chain_directory, copies, loop_runner, as_followed=True, tx_public_setup_allow_list_extend=allow_list
    )
    try:
        yield sets
    finally:
        sets.stop()


@pytest.fixture(scope="session")
def loop_runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@pytest.fixture
def make_client(loop_runner: asyncio.Runner) -> Callable[..., Client]:
    """A client of an engine with the given methods, limits and view."""

    def make(
        methods: list[Method], *, method_set: MethodSet = "both", view: View | None = None, limits: Limits | None = None
    ) -> Client:
        return Client(Engine(MethodTable(methods, method_set), lambda: view, limits=limits), loop_runner)

    return make


@pytest.fixture(scope="session")
def clients(view: View, loop_runner: asyncio.Runner) -> dict[str, Client]:
    """A client of the sample chain for each method set."""
    return {name: Client(Engine(MethodTable(METHODS, name), lambda: view), loop_runner) for name in METHOD_SETS}


# ---- over sockets ----------------------------------------------------------------------------


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningServer]]:
    monkeypatch.setattr(server_module, "SWEEP_INTERVAL_S", 0.05)
    monkeypatch.setattr("fastnode.http.patience.LINGER_S", 0.5)
    monkeypatch.setattr("fastnode.http.patience.IDLE_SLACK_S", 0.3)
    with ExitStack() as stack:

        def start(limits: Limits = SMALL, **options: Any) -> RunningServer:
            running = RunningServer(limits, **options)
            stack.callback(running.stop)
            return running

        yield start


@pytest.fixture
def running(serve: Callable[..., RunningServer]) -> RunningServer:
    return serve()


@pytest.fixture
def connection(running: RunningServer) -> Iterator[Connection]:
    with running.connect() as connected:
        yield connected
