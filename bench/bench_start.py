"""Starts: from exec to the first answer of a node whose data directory has a chain already.

The baseline, measured in the same run, is an interpreter that imports asyncio and uvloop and listens: what any server
on this runtime needs.  Chains are synthetic, one transaction in each block.  FASTNODE_BENCH_START_BLOCKS is a list of
their lengths (default 100,10000); a chain of 100,000 blocks takes a quarter of an hour to make.
FASTNODE_BENCH_START_DIRECTORY keeps what was made for the next run.

The package is compiled, as pip leaves it: a first round is not counted.  Beside the time on the wall stands the time of
the processor until the answer, all threads together, which a busy machine disturbs less.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.chain_data import ChainData
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

BLOCKS = [int(text) for text in os.environ.get("FASTNODE_BENCH_START_BLOCKS", "100,10000").split(",")]
ROUNDS = 5
PATIENCE_S = 120.0

BODY = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}'
QUESTION = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
LISTENER = """
import asyncio, sys, uvloop
ANSWER = b'HTTP/1.1 200 OK\\r\\nContent-Length: 12\\r\\n\\r\\n{"result":0}'
class Answer(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(ANSWER)
async def main():
    await (await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", int(sys.argv[1]))).serve_forever()
uvloop.run(main())
"""


@pytest.fixture(scope="module", params=BLOCKS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a chain of so many blocks."""
    blocks: int = request.param
    kept = os.environ.get("FASTNODE_BENCH_START_DIRECTORY")
    folder = tmp_path_factory.mktemp("start") if kept is None else Path(kept)
    path = folder / str(blocks)
    if not path.exists():
        file = folder / f"{blocks}.jsonl.gz"
        write_synthetic_chain(file, ChainShape(blocks=blocks, txs=1))
        with ChainData.open(path) as data:
            adopt_chain_file(data.store, file)
            import_chain_file(data.open_ingestor(verify=False), file)
    return path


class Start(NamedTuple):
    wall_s: float
    cpu_s: float


def start_of(command: list[str], port: int) -> Start:
    """From exec to the first answer with a result; the process is ended then."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as node:
        try:
            while True:
                if b'"result"' in asked(port):
                    return Start(time.perf_counter() - begun, _cpu_s(node.pid))
                assert node.poll() is None, node.stderr and node.stderr.read().decode()
                assert time.perf_counter() - begun < PATIENCE_S
                time.sleep(0.001)
        finally:
            node.terminate()
            node.communicate(timeout=PATIENCE_S)


def _cpu_s(process: int) -> float:
    """What its threads have used so far."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def asked(port: int) -> bytes:
    """The beginning of the answer to one question; empty when nothing listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(QUESTION)
            return connection.recv(65_536)
    except OSError:
        return b""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(benchmark: BenchmarkFixture, start: Callable[[], Start]) -> None:
    starts: list[Start] = []
    benchmark.pedantic(lambda: starts.append(start()), rounds=ROUNDS, warmup_rounds=1)
    for name, values in (("wall", [start.wall_s for start in starts]), ("cpu", [start.cpu_s for start in starts])):
        benchmark.extra_info[f"{name}, ms"] = f"{1000 * statistics.median(values):.0f} (best {1000 * min(values):.0f})"


def test_baseline_a_listener(benchmark: BenchmarkFixture) -> None:
    def start() -> Start:
        port = free_port()
        return start_of([sys.executable, "-c", LISTENER, str(port)], port)

    measure(benchmark, start)


def test_a_node(benchmark: BenchmarkFixture, directory: Path) -> None:
    def start() -> Start:
        port = free_port()
        command = [sys.executable, "-m", "fastnode", "start", "--node", f"--port={port}", "--admin-port=0"]
        metrics = f"--metrics-port={free_port()}"
        return start_of([*command, metrics, "--data-directory", str(directory)], port)

    measure(benchmark, start)
