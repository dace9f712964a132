"""JSON-RPC: through the engine alone, and over a socket with the server's processor time per request.

Baselines of the same run: for the engine, the record without an envelope; for the socket, a bare
uvloop protocol that answers every request with the same number of bytes it has ready.

The server runs in a process of its own (this file as a script), one keep-alive connection, requests
one after another or a hundred at a time.  ``server_cpu_us`` in the extra columns is what a request
costs the server alone; wall times include the client.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path

import pytest
import uvloop
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.api.chain import METHODS
from fastnode.archiver import forms
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.store import ArchiverStore
from fastnode.http.meters import CallMeters
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import MethodTable
from fastnode.serving.server import RpcServer
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View

CHAIN_FILE = Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))
#: One ordinary transaction, 2 kB of JSON.
BLOCK = 29

CALLS = {
    "scalar": b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}',
    "header": b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockHeader","params":[%d]}' % BLOCK,
    "block": b'{"jsonrpc":"2.0","id":1,"method":"node_getBlock","params":[%d]}' % BLOCK,
}
BATCH_OF_100 = b"[" + b",".join([CALLS["scalar"]] * 100) + b"]"
REQUESTS_PER_ROUND = 2_000
PIPELINED = 100
ROUNDS = 7


def load_chain(directory: Path) -> None:
    with ArchiverStore.open(directory) as store:
        adopt_chain_file(store, CHAIN_FILE)
        ingestor = Ingestor(store, verification=Verification.NONE)
        import_chain_file(ingestor, CHAIN_FILE)
        ingestor.close()


@pytest.fixture(scope="module")
def chain_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chain")
    load_chain(directory)
    return directory


# ---- the engine alone --------------------------------------------------------------------------


@pytest.fixture
def view(chain_directory: Path) -> Iterator[View]:
    with ArchiverStore.open(chain_directory) as store, store.open_view() as chain:
        yield View(chain)


@pytest.fixture
def engine(view: View) -> Engine:
    return Engine(MethodTable(METHODS), lambda: view)


@pytest.mark.parametrize("call", CALLS)
def test_engine(benchmark: BenchmarkFixture, engine: Engine, call: str) -> None:
    reply = benchmark(engine.handle, CALLS[call])
    assert b'"result":' in b"".join(reply.body or ())


def test_engine_batch_of_100_scalars(benchmark: BenchmarkFixture, engine: Engine) -> None:
    reply = benchmark(engine.handle, BATCH_OF_100)
    assert isinstance(reply, Reply)
    assert b"".join(reply.body or ()).count(b'"result":106') == 100


def test_baseline_block_record_without_envelope(benchmark: BenchmarkFixture, view: View) -> None:
    assert benchmark(view.chain.blocks.text, forms.JOINT_BLOCK, BLOCK).startswith(b"{")


# ---- over a socket -----------------------------------------------------------------------------


class ServerProcess:
    """This file as a script: it says its port, and its processor time for every line it reads."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, __file__, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def processor_seconds(self, mode: str = "") -> float:
        """So far; from here on the server is ``metered`` or ``bare``, or stays what it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(mode + "\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        self._process.communicate()  # the end of its input ends it


@pytest.fixture(scope="module")
def fastnode_server(chain_directory: Path) -> Iterator[ServerProcess]:
    server = ServerProcess("fastnode", str(chain_directory))
    yield server
    server.close()


def post(body: bytes) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


class Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def answer_length(self, request: bytes) -> int:
        """Length of an answer with its head."""
        self._socket.sendall(request)
        received = self._socket.recv(1 << 20)
        head, _, _ = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        [length] = [line[16:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")]
        total = len(head) + 4 + int(length)
        self._receive(total - len(received))
        return total

    def ask(self, requests: bytes, answer_bytes: int, repetitions: int) -> None:
        for _ in range(repetitions):
            self._socket.sendall(requests)
            self._receive(answer_bytes)

    def _receive(self, count: int) -> None:
        while count > 0:
            count -= len(self._socket.recv(1 << 20))
        assert count == 0

    def close(self) -> None:
        self._socket.close()


def measure(benchmark: BenchmarkFixture, server: ServerProcess, request: bytes, pipelined: int) -> None:
    with ExitStack() as stack:
        client = Client(server.port)
        stack.callback(client.close)
        answer = client.answer_length(request)
        repetitions = REQUESTS_PER_ROUND // pipelined
        used: list[float] = []

        def run() -> None:
            before = server.processor_seconds()
            client.ask(request * pipelined, answer * pipelined, repetitions)
            used.append(server.processor_seconds() - before)

        benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info["server_cpu_us"] = round(min(used) / REQUESTS_PER_ROUND * 1e6, 2)
    benchmark.extra_info["answer_bytes"] = answer


@pytest.mark.parametrize("pipelined", [1, PIPELINED])
@pytest.mark.parametrize("call", CALLS)
def test_socket(benchmark: BenchmarkFixture, fastnode_server: ServerProcess, call: str, pipelined: int) -> None:
    measure(benchmark, fastnode_server, post(CALLS[call]), pipelined)


@pytest.mark.parametrize("pipelined", [1, PIPELINED])
@pytest.mark.parametrize("call", CALLS)
def test_baseline_socket_canned(
    benchmark: BenchmarkFixture, fastnode_server: ServerProcess, call: str, pipelined: int
) -> None:
    client = Client(fastnode_server.port)
    answer_bytes = client.answer_length(post(CALLS[call]))
    client.close()
    server = ServerProcess("canned", str(answer_bytes))
    try:
        measure(benchmark, server, post(CALLS[call]), pipelined)
    finally:
        server.close()


# ---- what metrics cost -------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
def test_socket_with_metrics(benchmark: BenchmarkFixture, fastnode_server: ServerProcess, call: str) -> None:
    """``metrics_cost_percent``: processor time of the server with meters over that without, turn by turn."""
    used: dict[str, list[float]] = {"metered": [], "bare": []}
    request = post(CALLS[call])
    client = Client(fastnode_server.port)
    answer = client.answer_length(request)

    def run() -> None:
        for mode, seconds in used.items():
            before = fastnode_server.processor_seconds(mode)
            client.ask(request, answer, REQUESTS_PER_ROUND)
            seconds.append(fastnode_server.processor_seconds() - before)

    benchmark.pedantic(run, rounds=3 * ROUNDS, warmup_rounds=1)
    fastnode_server.processor_seconds("bare")
    client.close()
    on, off = (min(seconds) / REQUESTS_PER_ROUND * 1e6 for seconds in used.values())
    benchmark.extra_info["server_cpu_us"] = round(on, 2)
    benchmark.extra_info["metrics_cost_percent"] = round((on / off - 1) * 100, 1)


# ---- the server process ------------------------------------------------------------------------


class CannedProtocol(asyncio.Protocol):
    """Answers every blank line it sees with bytes it has ready."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._write: Callable[[bytes], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._write(self._answer * data.count(b"\r\n\r\n"))


def canned_answer(length: int) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %7d\r\n\r\n"
    body_length = length - len(head % 0)
    return head % body_length + b"x" * body_length


async def serve(kind: str, argument: str) -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        if kind == "canned":
            answer = canned_answer(int(argument))
            listener = await loop.create_server(lambda: CannedProtocol(answer), "127.0.0.1", 0)
            port = listener.sockets[0].getsockname()[1]
        else:
            store = stack.enter_context(ArchiverStore.open(Path(argument), create=False))
            view = View(stack.enter_context(store.open_view()))
            table = MethodTable(METHODS)
            meters = CallMeters(method.name for method in table)
            server = RpcServer(Engine(table, lambda: view), host="127.0.0.1", port=0)
            await server.start()
            port = server.port
        print(port, flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            if kind != "canned" and line.strip():
                server.engine.meters = meters if line.strip() == "metered" else None
            print(time.process_time(), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(*sys.argv[1:]))
