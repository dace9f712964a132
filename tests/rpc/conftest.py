"""The sample chain, imported once, and ways to put questions to it: through an engine or over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop

from fastnode.archiver.chain_import import adopt_chain_file, import_chain_file
from fastnode.chain_data import ChainData
from fastnode.node import sample_chain
from fastnode.rpc.chain_methods import METHODS
from fastnode.rpc.engine import Engine, Reply
from fastnode.rpc.limits import Limits
from fastnode.rpc.methods import Method, MethodSet, MethodTable
from fastnode.rpc.view import View


@pytest.fixture(scope="session")
def chain_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the sample chain; copy it to write to it."""
    path = tmp_path_factory.mktemp("chain")
    source = Path(str(sample_chain()))
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


class Client:
    """Puts calls to an engine and waits for threads."""

    def __init__(self, engine: Engine, runner: asyncio.Runner) -> None:
        self.engine = engine
        self._runner = runner

    def send(self, body: bytes) -> Reply:
        answer = self.engine.handle(body)
        return answer if isinstance(answer, Reply) else self._runner.run(answer)

    def call(self, method: str, *params: Any) -> dict[str, Any]:
        """The whole answer object."""
        reply = self.send(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        assert reply.body is not None
        answer: dict[str, Any] = orjson.loads(reply.body)
        return answer

    def result(self, method: str, *params: Any) -> Any:
        answer = self.call(method, *params)
        assert "error" not in answer, answer["error"]
        return answer.get("result")

    def error(self, method: str, *params: Any) -> dict[str, Any]:
        answer = self.call(method, *params)
        error: dict[str, Any] = answer["error"]
        return error


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
    sets: tuple[MethodSet, ...] = ("both", "release", "development")
    return {name: Client(Engine(MethodTable(METHODS, name), lambda: view), loop_runner) for name in sets}
